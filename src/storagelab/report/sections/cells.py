"""Every cell in a table, the fastest first; and the final checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from storagelab.findings.cautions.unverified import Refused
from storagelab.findings.model import CellSummary, Estimate, Findings, Sample
from storagelab.model.measurement import Run
from storagelab.model.plan import Factor
from storagelab.report.charts.write_amplification import drives as drives_of
from storagelab.report.charts.write_amplification import state_of
from storagelab.report.document import Bar, Content, Heading, Link, Mark, Part, Table
from storagelab.report.drawing.arrange import notable_cells
from storagelab.report.sections.waits import cell_anchor, cells_with_parts, top_wait
from storagelab.report.words import compared
from storagelab.report.words.ladder import apart_by_blocks, comparison_of, ratio_decimals, ratio_of, verdict_of
from storagelab.report.words.short import Names
from storagelab.spec.naming import in_order as levels_in_order
from storagelab.words import numbers
from storagelab.words.names import DATA_FILES, cell_entry, is_number, value_text

MAX_ROWS = 1_000
_CHECKPOINTS = 40
RATIO = "time / fastest (joint 95 % CI)"
"""The heading of the column of comparisons."""
Key = float | str | None
"""The sort key of a column; None goes last."""


@dataclass(frozen=True)
class Column:
    """A column: what it shows of a cell, and its sort key. `rank`: narrow terminals drop the highest first."""

    heading: Heading
    content: Callable[[CellSummary], Content]
    key: Callable[[CellSummary], Key]
    rank: int = 0


@dataclass(frozen=True)
class CellsTable:
    """Every cell, with the sort keys of its columns for the page's script."""

    cells: Sequence[CellSummary]
    table: Table
    keys: Sequence[Sequence[Key]]


def cells_table(findings: Findings, runs: Sequence[Run]) -> CellsTable:
    """Every cell as a row: its levels, its mean and interval, its verdict, and related figures."""
    cells = in_order(findings)[:MAX_ROWS]
    columns = _columns(findings, cells, runs)
    caption = f"Every cell, the fastest first ({findings.provenance or 'nothing measured yet'})"
    if len(findings.cells) > MAX_ROWS:
        caption += f", the first {numbers.count(MAX_ROWS)} of {numbers.count(len(findings.cells))}"
    table = Table(
        [column.heading for column in columns],
        [[column.content(cell) for column in columns] for cell in cells],
        caption,
        {column.heading.text: column.rank for column in columns if column.rank},
        [verdict_of(findings, cell.cell_id).kind for cell in cells],
        name="cells-table",
    )
    return CellsTable(cells, table, [[column.key(cell) for column in columns] for cell in cells])


def in_order(findings: Findings) -> list[CellSummary]:
    """The cells by load and block, then the fastest first; those without a figure come last."""
    loads = {cell_id: place for place, load in enumerate(findings.by_load) for cell_id in load.cells}
    speed, blocks = -1 if compared.by_rate(findings) else 1, apart_by_blocks(findings)

    def place(cell: CellSummary) -> tuple[int, int, float, float]:
        sample, ratio = compared.judged(findings, cell), ratio_of(findings, cell.cell_id)
        figure = float("inf") if sample is None else speed * sample.mean.value
        block = cell.stretch if blocks else 0
        return loads.get(cell.cell_id, 0), block, float("inf") if ratio is None else ratio.value, figure

    return sorted(findings.cells, key=place)


def _columns(findings: Findings, cells: Sequence[CellSummary], runs: Sequence[Run]) -> list[Column]:
    raw_io = compared.of_raw_io(findings)
    times = not (compared.set_time(findings) or raw_io)
    return [
        _id_column(findings),
        *_factor_columns(findings),
        *_provenance_column(findings),
        *_figure_columns(findings, cells),
        Column(
            Heading("verdict", "text"),
            lambda cell: Mark(*verdict_of(findings, cell.cell_id)),
            lambda cell: verdict_of(findings, cell.cell_id).text or None,
        ),
        Column(Heading(RATIO, "text"), partial(_ratio, findings), partial(_ratio_key, findings), rank=6),
        *([] if raw_io else [_top_wait_column()]),
        *_capacity_columns(runs),
        *(_named(compared.raw_io_columns(cells), compared.raw_io_text, _raw_io_key) if raw_io else []),
        *_named(compared.latency_columns(cells), compared.latency_text, _latency_key),
        *_refused_column(findings),
        *(_run_columns(findings, compared.decimals(_known(findings, cells))) if times else []),
        Column(Heading("runs"), _runs, lambda cell: cell.runs_ok + cell.runs_unverified, rank=1),
        *_drive_columns(findings),
    ]


def _id_column(findings: Findings) -> Column:
    """The ids by which verbs take cells; each links to the cell's own fold, if it has one."""
    linked = {cell.cell_id for cell in cells_with_parts(findings)}

    def content(cell: CellSummary) -> Content:
        return Link(cell.cell_id, cell_anchor(cell)) if cell.cell_id in linked else cell.cell_id

    return Column(Heading("cell", "text"), content, lambda cell: cell.cell_id)


def _factor_columns(findings: Findings) -> Iterator[Column]:
    """A column for each factor, data files first."""
    names = Names(findings)
    for factor in sorted(findings.factors, key=lambda factor: factor.name != DATA_FILES):
        numeric = all(is_number(level.value) for level in factor.levels)
        order = {repr(value): rank for rank, value in enumerate(levels_in_order(factor))}
        key = partial(lambda name, order, cell: order.get(repr(cell.levels.get(name))), factor.name, order)
        yield Column(Heading(names.heading(factor.name), "number" if numeric else "text"), partial(_level, factor), key)


def _level(factor: Factor, cell: CellSummary) -> str:
    return value_text(cell.levels[factor.name]) if factor.name in cell.levels else ""


def _provenance_column(findings: Findings) -> list[Column]:
    """Only if measured and simulated cells are in one table."""

    def text(cell: CellSummary) -> str:
        return cell.provenance or ""

    return [Column(Heading("provenance", "text"), text, text)] if compared.of_both_kinds(findings) else []


def _figure_columns(findings: Findings, cells: Sequence[CellSummary]) -> list[Column]:
    """The mean by which cells are compared, its interval, and both drawn on one scale."""
    known = _known(findings, cells)
    rate = compared.by_rate(findings)
    unit = compared.rate_unit(findings) if rate else f"mean {compared.quantity(findings)}, s".replace("completion ", "")
    decimals, span = compared.decimals(known), _span(known)

    def number(value: float) -> str:
        return numbers.significant(value) if rate else numbers.seconds_number(value, decimals)

    def of(show: Callable[[Estimate], Content]) -> Callable[[CellSummary], Content]:
        return lambda cell: show(sample.mean) if (sample := compared.judged(findings, cell)) is not None else ""

    def key(cell: CellSummary) -> Key:
        sample = compared.judged(findings, cell)
        return None if sample is None else sample.mean.value

    def interval(mean: Estimate) -> str:
        return "" if mean.low is None or mean.high is None else f"{number(mean.low)} to {number(mean.high)}"

    return [
        Column(Heading(unit), of(lambda mean: number(mean.value)), key),
        Column(Heading("95 % CI"), of(interval), key, rank=2),
        *([Column(Heading("mean, drawn", "text"), of(lambda mean: _bar(mean, span)), key)] if known else []),
    ]


def _known(findings: Findings, cells: Sequence[CellSummary]) -> list[Sample]:
    return [sample for cell in cells if (sample := compared.judged(findings, cell)) is not None]


def _span(samples: Sequence[Sample]) -> tuple[float, float]:
    means = [sample.mean for sample in samples]
    values = [value for mean in means for value in (mean.low, mean.value, mean.high) if value is not None]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _bar(mean: Estimate, span: tuple[float, float]) -> Bar:
    """The mean and its interval on the scale of the whole column."""
    low, high = span

    def at(value: float) -> float:
        return round(3 + 94 * (value - low) / ((high - low) or 1.0), 1)

    ends = (None if end is None else at(end) for end in (mean.low, mean.high))
    return Bar(at(mean.value), *ends)


def _ratio(findings: Findings, cell: CellSummary) -> str:
    ratio, found = ratio_of(findings, cell.cell_id), comparison_of(findings, cell.cell_id)
    if ratio is None or (found is None and not verdict_of(findings, cell.cell_id).text):
        return ""
    is_tested = found is None or found.tested or (found.across_blocks and apart_by_blocks(findings))
    return numbers.ratio_estimate(ratio, ratio_decimals(findings)) + ("" if is_tested else " (not tested)")


def _ratio_key(findings: Findings, cell: CellSummary) -> Key:
    ratio = ratio_of(findings, cell.cell_id)
    return None if ratio is None else ratio.value


def _top_wait_column() -> Column:
    def text(cell: CellSummary) -> str:
        wait = top_wait(cell)
        return "" if wait is None else f"{wait[0]} {numbers.percent(wait[1])}"

    meaning = "the largest wait, and its share of session time (connections × elapsed)"
    return Column(Heading("top wait", "text", meaning), text, lambda cell: text(cell) or None, rank=7)


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
               partial(lambda sizes, cell: sizes.get(cell.cell_id), sizes), rank=8)
        for name, sizes in differing.items()
    ]  # fmt: skip


def _refused_column(findings: Findings) -> Iterator[Column]:
    """The share of transactions that were refused or made again, where that is a caution."""
    for one in findings.cautions:
        if isinstance(one, Refused):
            shares = one.shares
            yield Column(
                Heading("refused"),
                partial(lambda shares, cell: numbers.percent(shares.get(cell.cell_id)), shares),
                partial(lambda shares, cell: shares.get(cell.cell_id), shares),
            )


def _run_columns(findings: Findings, decimals: int) -> list[Column]:
    """The rate, and how the runs scatter about the mean."""
    rate = Column(
        Heading(compared.rate_unit(findings)),
        lambda cell: numbers.significant(cell.work_per_s.mean.value) if cell.work_per_s else "",
        lambda cell: cell.work_per_s.mean.value if cell.work_per_s else None,
        rank=3,
    )
    return [
        *([] if compared.by_rate(findings) else [rate]),
        Column(Heading("median, s"),
               lambda cell: numbers.seconds_number(cell.elapsed_s.median, decimals) if cell.elapsed_s else "",
               lambda cell: cell.elapsed_s.median if cell.elapsed_s else None, rank=4),
        Column(Heading("sd", meaning="standard deviation over the runs, as a share of the mean"),
               lambda cell: numbers.percent(compared.spread(cell.elapsed_s), 1),
               lambda cell: compared.spread(cell.elapsed_s), rank=5),
    ]  # fmt: skip


def _named(
    headings: Mapping[str, str], text: Callable[[CellSummary, str], str], key: Callable[[CellSummary, str], Key]
) -> Iterator[Column]:
    """A column for each figure: its `text` without the interval."""
    for name, heading in headings.items():
        yield Column(
            Heading(heading), partial(lambda name, cell: text(cell, name).split(" (")[0], name),
            partial(lambda name, cell: key(cell, name), name), rank=0 if heading.startswith("p99 ") else 3,
        )  # fmt: skip


def _raw_io_key(cell: CellSummary, counter: str) -> Key:
    return cell.raw_io[counter].mean.value if counter in cell.raw_io else None


def _latency_key(cell: CellSummary, name: str) -> Key:
    return cell.latency[name].value if name in cell.latency else None


def _drive_columns(findings: Findings) -> list[Column]:
    drives = drives_of(findings)
    return [
        Column(Heading(f"{quantity.replace('_', ' ')}{f' of {drive}' if len(drives) > 1 else ''}"),
               partial(_state, drive, quantity), partial(_state_value, drive, quantity), rank=9)
        for drive in drives for quantity in ("write_amplification", "utilisation")
    ]  # fmt: skip


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


# --- the final checkpoint ---------------------------------------------------------------------------------------------


def checkpoint_parts(findings: Findings) -> list[Part]:
    """The checkpoint after each run, timed separately: work that the load left behind."""
    cells = [cell for cell in in_order(findings) if cell.checkpoint_s is not None and cell.elapsed_s is not None]
    if not cells:
        return []
    shown = cells if len(cells) <= _CHECKPOINTS else [cell for cell in notable_cells(findings, 12) if cell in cells]
    # Where the spec says how long loads last, their time tells nothing.
    of_load, both = ([], []) if findings.set_time else ([Heading("load, mean s")], [Heading("both together, s")])
    columns = [Heading("cell", "prose"), *of_load, Heading("checkpoint, mean s"), Heading("95 % CI, s"), *both]
    samples = [sample for cell in shown for sample in (cell.elapsed_s, cell.checkpoint_s) if sample is not None]
    decimals = min(3, compared.decimals(samples))
    rows = [_checkpoint_row(cell, decimals, timed=not findings.set_time) for cell in shown]
    rest = f"; {numbers.count(len(shown))} of {numbers.count(len(cells))} cells" if len(shown) < len(cells) else ""
    words = (
        "A load leaves dirty pages behind. The checkpoint that writes them is timed separately and is not part "
        "of the completion time."
    )
    return [words, Table(columns, rows, f"Time of the final checkpoint ({findings.provenance}){rest}")]


def _checkpoint_row(cell: CellSummary, decimals: int, *, timed: bool) -> list[Content]:
    assert cell.checkpoint_s is not None
    assert cell.elapsed_s is not None
    load, after = cell.elapsed_s.mean, cell.checkpoint_s.mean
    load_s, after_s, both_s = (
        numbers.seconds_number(value, decimals) for value in (load.value, after.value, load.value + after.value)
    )
    ends = "" if after.low is None or after.high is None else f"{after.low:,.{decimals}f} to {after.high:,.{decimals}f}"
    return [cell_entry(cell.cell_id, cell.text), *([load_s, after_s, ends, both_s] if timed else [after_s, ends])]
