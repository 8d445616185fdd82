"""Completion times on the page: every cell in a table, with the state of its drives; and the final checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from storagelab.findings.model import CellSummary, Estimate, Findings, Sample
from storagelab.model.measurement import Run
from storagelab.model.plan import Factor
from storagelab.report.charts.write_amplification import drives as drives_of
from storagelab.report.charts.write_amplification import state_of
from storagelab.report.drawing.arrange import notable_cells
from storagelab.report.drawing.chart import Drawn
from storagelab.report.page.cells import cell_anchor, cells_with_parts
from storagelab.report.page.opening import top_wait
from storagelab.report.page.pieces import Bar, Content, Link, Mark, PageChart, PageTable, View, view
from storagelab.report.words import compared
from storagelab.report.words.marks import difference_text, first_factor, verdict_mark
from storagelab.report.words.table import Heading
from storagelab.spec.naming import in_order as levels_in_order
from storagelab.words import numbers
from storagelab.words.names import cell_entry, is_number, title_of, value_text

MAX_ROWS_OPEN = 40
MAX_ROWS = 1_000
Key = float | str | None
"""The sort key of a column; None goes last."""


@dataclass(frozen=True)
class Column:
    """A column of the table of all cells: what it shows of a cell, and the key for sorting by it."""

    heading: Heading
    content: Callable[[CellSummary], Content]
    key: Callable[[CellSummary], Key]


@dataclass(frozen=True)
class CellsTable:
    """Every cell, with the sort keys of its columns for the page's script."""

    cells: Sequence[CellSummary]
    table: PageTable
    keys: Sequence[Sequence[Key]]


def picture_view(first: PageChart | None, drawn: Mapping[str, Drawn], verdict: View) -> View | None:
    """The one chart beside the answer, under the section's heading, and the main figures under it. A chart of one panel
    has room beside the text.
    """
    if first is None:
        return None
    return {
        "chart": replace(first, heading=""),
        "tiles": verdict["tiles"],
        "is_narrow": len(drawn[first.name].data.panels) < 2,
    }


def cells_table(findings: Findings, runs: Sequence[Run]) -> CellsTable:
    """Every cell as a row: its levels, its time and interval, its verdict, and related figures."""
    cells = findings.cells[:MAX_ROWS]
    columns = _columns(findings, cells, runs)
    verdicts = findings.loads or (findings,)
    best = {cell_id for one in verdicts if one.verdict in ("winner", "best-set") for cell_id in one.best}
    caption = f"Every cell ({findings.provenance or 'nothing measured yet'})"
    if len(findings.cells) > MAX_ROWS:
        caption += f", the first {numbers.count(MAX_ROWS)} of {numbers.count(len(findings.cells))}"
    table = PageTable(
        caption,
        [column.heading for column in columns],
        [[column.content(cell) for column in columns] for cell in cells],
        ["best" if cell.cell_id in best else "" for cell in cells],
        name="cells-table",
    )
    return CellsTable(cells, table, [[column.key(cell) for column in columns] for cell in cells])


def _columns(findings: Findings, cells: Sequence[CellSummary], runs: Sequence[Run]) -> list[Column]:
    raw_io = compared.of_raw_io(findings)
    return [
        _id_column(findings),
        *_factor_columns(findings),
        *_provenance_column(findings),
        *_time_columns(findings, cells),
        Column(Heading("the best against it", "text"), partial(_against, findings), partial(_ratio, findings)),
        *([] if raw_io else [_top_wait_column()]),
        *_capacity_columns(runs),
        *(_figure_columns(compared.raw_io_columns(cells), compared.raw_io_text, _raw_io_key) if raw_io else []),
        *_figure_columns(compared.latency_columns(cells), compared.latency_text, _latency_key),
        *([] if compared.set_time(findings) else _run_columns(findings, compared.decimals(_known(findings, cells)))),
        Column(Heading("runs"), _runs, lambda cell: cell.runs_ok + cell.runs_unverified),
        *_drive_columns(findings),
    ]


def _id_column(findings: Findings) -> Column:
    """The ids by which verbs take cells; each links to the cell's own section, if it has one."""
    linked = {cell.cell_id for cell in cells_with_parts(findings)}

    def content(cell: CellSummary) -> Content:
        return Link(cell.cell_id, cell_anchor(cell)) if cell.cell_id in linked else cell.cell_id

    return Column(Heading("cell", "text"), content, lambda cell: cell.cell_id)


def _factor_columns(findings: Findings) -> Iterator[Column]:
    """A column for each factor, the first one first."""
    for factor in sorted(findings.factors, key=lambda factor: factor.name != first_factor(findings)):
        numeric = all(is_number(level.value) for level in factor.levels)
        heading = Heading(title_of(factor), "number" if numeric else "text")
        order = {repr(value): rank for rank, value in enumerate(levels_in_order(factor))}
        key = partial(lambda name, order, cell: order.get(repr(cell.levels.get(name))), factor.name, order)
        yield Column(heading, partial(_level, factor), key)


def _level(factor: Factor, cell: CellSummary) -> str:
    return value_text(cell.levels[factor.name]) if factor.name in cell.levels else ""


def _time_columns(findings: Findings, cells: Sequence[CellSummary]) -> list[Column]:
    """The mean by which cells are compared, its interval, and both drawn on one scale."""
    known = _known(findings, cells)
    decimals, span = compared.decimals(known), _span(known)
    unit, what = compared.figure_unit(findings), compared.figure_name(findings)
    names = ["mean, s" if what == "completion time" else f"{what}, s", "95 % interval, s"]
    names = [unit, "95 % interval"] if compared.set_time(findings) else names

    def of(show: Callable[[Estimate], Content]) -> Callable[[CellSummary], Content]:
        return lambda cell: show(sample.mean) if (sample := compared.figure(findings, cell)) is not None else ""

    def key(cell: CellSummary) -> Key:
        sample = compared.figure(findings, cell)
        return None if sample is None else sample.mean.value

    return [
        Column(Heading(names[0]), of(lambda mean: numbers.seconds_number(mean.value, decimals)), key),
        Column(Heading(names[1]), of(lambda mean: _interval(mean, decimals)), key),
        Column(Heading("mean, drawn", "text"), of(lambda mean: _bar(mean, span)), key),
    ]


def _known(findings: Findings, cells: Sequence[CellSummary]) -> list[Sample]:
    return [sample for cell in cells if (sample := compared.figure(findings, cell)) is not None]


def _top_wait_column() -> Column:
    def text(cell: CellSummary) -> str:
        wait = top_wait(cell)
        return "" if wait is None else f"{wait[0]} {numbers.percent(wait[1])}"

    return Column(Heading("top wait", "text", "the largest wait, and its share of connections × elapsed"), text,
                  lambda cell: text(cell) or None)  # fmt: skip


def _capacity_columns(runs: Sequence[Run]) -> list[Column]:
    """The capacity that a drive's format leaves, if the runs say so and cells differ in it."""
    usable: dict[str, dict[str, float]] = {}
    for run in runs:
        drives = run.measurement.environment.get("drives") if run.measurement is not None else None
        for name, drive in drives.items() if isinstance(drives, Mapping) else ():
            size = drive.get("usable_bytes") if isinstance(drive, Mapping) else None
            if isinstance(size, int | float):
                usable.setdefault(str(name), {})[run.cell_id] = size
    differing = {name: sizes for name, sizes in usable.items() if len(set(sizes.values())) > 1}
    return [
        Column(Heading(f"usable of drive {name}" if len(differing) > 1 else "usable"),
               partial(lambda sizes, cell: numbers.capacity(sizes.get(cell.cell_id)), sizes),
               partial(lambda sizes, cell: sizes.get(cell.cell_id), sizes))
        for name, sizes in differing.items()
    ]  # fmt: skip


def _run_columns(findings: Findings, decimals: int) -> list[Column]:
    """The rate, and how the runs scatter about the mean."""
    return [
        Column(Heading(compared.rate_unit(findings)),
               lambda cell: numbers.significant(cell.work_per_s.mean.value) if cell.work_per_s else "",
               lambda cell: cell.work_per_s.mean.value if cell.work_per_s else None),
        Column(Heading("median, s"),
               lambda cell: numbers.seconds_number(cell.elapsed_s.median, decimals) if cell.elapsed_s else "",
               lambda cell: cell.elapsed_s.median if cell.elapsed_s else None),
        Column(Heading("spread", meaning="standard deviation as a share of the mean"),
               lambda cell: numbers.percent(compared.spread(cell.elapsed_s), 1),
               lambda cell: compared.spread(cell.elapsed_s)),
    ]  # fmt: skip


def _provenance_column(findings: Findings) -> list[Column]:
    """Only if measured and simulated cells are in one table."""

    def text(cell: CellSummary) -> str:
        return cell.provenance or ""

    return [Column(Heading("provenance", "text"), text, text)] if compared.of_both_kinds(findings) else []


def _figure_columns(
    headings: Mapping[str, str], text: Callable[[CellSummary, str], str], key: Callable[[CellSummary, str], Key]
) -> Iterator[Column]:
    """A column for each figure: its `text` without the interval."""
    for name, heading in headings.items():
        yield Column(
            Heading(heading), partial(lambda name, cell: text(cell, name).split(" (")[0], name),
            partial(lambda name, cell: key(cell, name), name),
        )  # fmt: skip


def _raw_io_key(cell: CellSummary, counter: str) -> Key:
    return cell.raw_io[counter].mean.value if counter in cell.raw_io else None


def _latency_key(cell: CellSummary, name: str) -> Key:
    return cell.latency[name].value if name in cell.latency else None


def _drive_columns(findings: Findings) -> list[Column]:
    drives = drives_of(findings)
    return [
        Column(Heading(f"{quantity.replace('_', ' ')}{f' of {drive}' if len(drives) > 1 else ''}"),
               partial(_state, drive, quantity), partial(_state_value, drive, quantity))
        for drive in drives for quantity in ("write_amplification", "utilisation")
    ]  # fmt: skip


def _interval(estimate: Estimate, decimals: int) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.low:,.{decimals}f} to {estimate.high:,.{decimals}f}"


def _span(samples: Sequence[Sample]) -> tuple[float, float]:
    means = [sample.mean for sample in samples]
    values = [value for mean in means for value in (mean.low, mean.value, mean.high) if value is not None]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _bar(mean: Estimate, span: tuple[float, float]) -> Bar:
    """The mean and its interval on the scale of the whole column, beside the numbers."""
    low, high = span
    width = (high - low) or 1.0

    def at(value: float | None) -> str:
        return "" if value is None else f"{3 + 94 * (value - low) / width:.1f}"

    return Bar(at(mean.value), at(mean.low), at(mean.high))


def _state_value(drive: str, quantity: str, cell: CellSummary) -> float | None:
    found = state_of(cell, drive, quantity)
    return None if found is None else found.mean.value


def _state(drive: str, quantity: str, cell: CellSummary) -> str:
    """What a drive did in the runs of a cell, "" if unknown."""
    value = _state_value(drive, quantity, cell)
    if value is None:
        return ""
    return numbers.percent(value) if quantity == "utilisation" else f"{value:.2f}"


def _runs(cell: CellSummary) -> str:
    usable = cell.runs_ok + cell.runs_unverified
    text = str(usable) if usable == cell.runs_planned else f"{usable} of {cell.runs_planned}"
    wrong = [(cell.runs_failed, "failed"), (cell.runs_unverified, "unverified")]
    return ", ".join([text, *(f"{number} {what}" for number, what in wrong if number)])


def _ratio(findings: Findings, cell: CellSummary) -> Key:
    found = next((item for item in findings.comparisons if item.cell_id == cell.cell_id), None)
    return found.ratio.value if found is not None else 1.0 if verdict_mark(findings, cell.cell_id) else None


def _against(findings: Findings, cell: CellSummary) -> Content:
    return Mark(verdict_mark(findings, cell.cell_id), difference_text(findings, cell.cell_id))


def checkpoint_view(findings: Findings) -> View | None:
    """The checkpoint after each run, timed separately: work that the load left behind."""
    cells = [cell for cell in findings.cells if cell.checkpoint_s is not None and cell.elapsed_s is not None]
    if not cells:
        return None
    shown = cells if len(cells) <= MAX_ROWS_OPEN else [cell for cell in notable_cells(findings, 12) if cell in cells]
    # Where the spec says how long loads last, their time tells nothing.
    of_load, both = ([], []) if findings.set_time else ([Heading("load, mean s")], [Heading("both together, s")])
    columns = [Heading("cell", "prose"), *of_load, Heading("checkpoint, mean s"), Heading("95 % interval, s"), *both]
    samples = [sample for cell in shown for sample in (cell.elapsed_s, cell.checkpoint_s) if sample is not None]
    decimals = min(3, compared.decimals(samples))
    rows = [_checkpoint_row(cell, decimals, timed=not findings.set_time) for cell in shown]
    rest = f"; {numbers.count(len(shown))} of {numbers.count(len(cells))} cells" if len(shown) < len(cells) else ""
    words = (
        "A load leaves dirty pages behind. The checkpoint that writes them is timed separately and is not part "
        "of the completion time."
    )
    caption = f"Time of the final checkpoint ({findings.provenance}){rest}"
    return view(words, tables=[PageTable(caption, columns, rows)])


def _checkpoint_row(cell: CellSummary, decimals: int, *, timed: bool) -> list[Content]:
    assert cell.checkpoint_s is not None
    assert cell.elapsed_s is not None
    load, after = cell.elapsed_s.mean, cell.checkpoint_s.mean
    figures = (load.value, after.value, load.value + after.value)
    load_s, after_s, both_s = (numbers.seconds_number(value, decimals) for value in figures)
    own = [after_s, _interval(after, decimals)]
    return [cell_entry(cell.cell_id, cell.text), *([load_s, *own, both_s] if timed else own)]
