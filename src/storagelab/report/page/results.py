"""Completion times on the page: every cell in a table, its drives' state beside it; and the final checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.findings.model import CellSummary, Estimate, Findings, Sample
from storagelab.report.charts.write_amplification import drives as drives_of
from storagelab.report.charts.write_amplification import state_of
from storagelab.report.drawing.arrange import notable_cells
from storagelab.report.page.cells import cell_anchor, cells_with_parts
from storagelab.report.page.pieces import Bar, Content, Link, Mark, PageChart, PageTable, View, view
from storagelab.report.words import compared, numbers
from storagelab.report.words.headline import first_factor, verdict_mark
from storagelab.report.words.names import cell_entry, cell_text, factor_text, value_text
from storagelab.report.words.table import Heading

MAX_ROWS_OPEN = 40
MAX_ROWS = 1_000


def times_view(findings: Findings, charts: list[PageChart], drives: list[PageChart]) -> View:
    """The charts of all cells, the cells in a table, and what their drives did meanwhile."""
    return {"charts": charts, "tables": _results(findings), "drives": drives}


def _results(findings: Findings) -> list[PageTable]:
    """Every cell; with very many, only the first part is open."""
    cells = findings.cells[:MAX_ROWS]
    columns, rows = _result_rows(findings, cells)
    verdicts = findings.loads or (findings,)
    best = {cell_id for one in verdicts if one.verdict in ("winner", "best-set") for cell_id in one.best}
    classes = ["best" if cell.cell_id in best else "" for cell in cells]
    caption = f"Every cell ({findings.provenance or 'nothing measured yet'})"
    if len(findings.cells) > MAX_ROWS:
        caption += f", the first {numbers.count(MAX_ROWS)} of {numbers.count(len(findings.cells))}"
    if len(rows) <= MAX_ROWS_OPEN:
        return [PageTable(caption, columns, rows, classes)]
    kept = {cell.cell_id for cell in notable_cells(findings, 12)}
    some = [index for index, cell in enumerate(cells) if cell.cell_id in kept]
    return [
        PageTable(
            "The fastest, the slowest and the ends of each factor", columns, [rows[index] for index in some],
            [classes[index] for index in some],
        ),
        PageTable(caption, columns, rows, classes, folded=f"All {numbers.count(len(findings.cells))} cells"),
    ]  # fmt: skip


def _result_rows(findings: Findings, cells: Sequence[CellSummary]) -> tuple[list[Heading], list[list[Content]]]:
    factors = sorted(findings.factors, key=lambda factor: factor.name != first_factor(findings))
    columns = [Heading(factor_text(f.name), "number" if _numeric(f.levels) else "text") for f in factors]
    columns = [Heading("cell", "text"), *columns]
    columns += _raw_io_columns() if compared.of_raw_io(findings) else _time_columns()
    drives = drives_of(findings)
    for drive in drives:
        of_drive = f" of {drive}" if len(drives) > 1 else ""
        columns += [Heading(f"write amplification{of_drive}"), Heading(f"utilisation{of_drive}")]
    measured = [sample for cell in cells if (sample := compared.figure(findings, cell)) is not None]
    decimals = max((numbers.decimals_for([sample.mean.value], _half(sample.mean)) for sample in measured), default=2)
    span = _span(measured)
    linked = {cell.cell_id for cell in cells_with_parts(findings)}
    rows: list[list[Content]] = []
    for cell in cells:
        names: list[Content] = [value_text(cell.levels[f.name]) if f.name in cell.levels else "" for f in factors]
        names = [Link(cell.cell_id, cell_anchor(cell)) if cell.cell_id in linked else cell.cell_id, *names]
        mean, of_runs = _times(compared.figure(findings, cell), decimals, span)
        states = [
            _state(cell, drive, quantity) for drive in drives for quantity in ("write_amplification", "utilisation")
        ]
        beside = [*_rates(cell.rows_per_s), *of_runs]
        if compared.of_raw_io(findings):
            beside = [compared.raw_io_text(cell, counter).split(" (")[0] for counter in compared.RAW_IO_COLUMNS]
        rows.append([*names, *mean, _against(findings, cell), *beside, _runs(cell), *states])
    return columns, rows


def _raw_io_columns() -> list[Heading]:
    rate = [
        Heading("IO/s"),
        Heading("95 % interval"),
        Heading("mean, drawn", "text"),
        Heading("against the best", "text"),
    ]
    return [*rate, *(Heading(name) for name in compared.RAW_IO_COLUMNS.values()), Heading("runs")]


def _time_columns() -> list[Heading]:
    return [Heading("mean, s"), Heading("95 % interval, s"), Heading("mean, drawn", "text"),
            Heading("against the best", "text"), Heading("rows/s"), Heading("95 % interval"), Heading("median, s"),
            Heading("spread", meaning="standard deviation as a share of the mean"), Heading("runs")]  # fmt: skip


def _numeric(levels: Sequence[object]) -> bool:
    values = [getattr(level, "value", None) for level in levels]
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _half(estimate: Estimate) -> float | None:
    return None if estimate.low is None or estimate.high is None else (estimate.high - estimate.low) / 2


def _interval(estimate: Estimate, decimals: int) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.low:,.{decimals}f} to {estimate.high:,.{decimals}f}"


def _times(sample: Sample | None, decimals: int, span: tuple[float, float]) -> tuple[list[Content], list[Content]]:
    """The mean with its interval, and notes on the runs."""
    if sample is None:
        return ["", "", ""], ["", ""]
    spread = numbers.percent(sample.sd / sample.mean.value, 1) if sample.sd is not None and sample.mean.value else ""
    mean = numbers.seconds_number(sample.mean.value, decimals)
    drawn: list[Content] = [mean, _interval(sample.mean, decimals), _bar(sample.mean, span)]
    return drawn, [numbers.seconds_number(sample.median, decimals), spread]


def _span(samples: Sequence[Sample]) -> tuple[float, float]:
    means = [sample.mean for sample in samples]
    values = [value for mean in means for value in (mean.low, mean.value, mean.high) if value is not None]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _bar(mean: Estimate, span: tuple[float, float]) -> Bar:
    """The mean and its interval on the scale of the whole column; the numbers stand beside it."""
    low, high = span
    width = (high - low) or 1.0

    def at(value: float | None) -> str:
        return "" if value is None else f"{3 + 94 * (value - low) / width:.1f}"

    return Bar(at(mean.value), at(mean.low), at(mean.high))


def _rates(sample: Sample | None) -> list[Content]:
    if sample is None:
        return ["", ""]
    low, high = sample.mean.low, sample.mean.high
    interval = "" if low is None or high is None else f"{numbers.significant(low)} to {numbers.significant(high)}"
    return [numbers.significant(sample.mean.value), interval]


def _state(cell: CellSummary, drive: str, quantity: str) -> str:
    """What a drive did in the runs of a cell, "" if unknown."""
    found = state_of(cell, drive, quantity)
    if found is None:
        return ""
    return numbers.percent(found.mean.value) if quantity == "utilisation" else f"{found.mean.value:.2f}"


def _runs(cell: CellSummary) -> str:
    usable = cell.runs_ok + cell.runs_unverified
    text = str(usable) if usable == cell.runs_planned else f"{usable} of {cell.runs_planned}"
    wrong = [(cell.runs_failed, "failed"), (cell.runs_unverified, "unverified")]
    return ", ".join([text, *(f"{number} {what}" for number, what in wrong if number)])


def _against(findings: Findings, cell: CellSummary) -> Content:
    mark = verdict_mark(findings, cell.cell_id)
    found = next((item for item in findings.comparisons if item.cell_id == cell.cell_id), None)
    if found is None or found.ratio.low is None or found.ratio.high is None:
        return Mark(mark)
    return Mark(mark, f"{numbers.signed_percent(found.ratio.low)} to {numbers.signed_percent(found.ratio.high)}")


def checkpoint_view(findings: Findings) -> View | None:
    """The checkpoint after each run, timed apart: work that the load left behind."""
    cells = [cell for cell in findings.cells if cell.checkpoint_s is not None and cell.elapsed_s is not None]
    if not cells:
        return None
    shown = cells if len(cells) <= MAX_ROWS_OPEN else [cell for cell in notable_cells(findings, 12) if cell in cells]
    columns = [Heading("cell", "prose"), Heading("load, mean s"), Heading("checkpoint, mean s"),
               Heading("95 % interval, s"), Heading("both together, s")]  # fmt: skip
    samples = [sample for cell in shown for sample in (cell.elapsed_s, cell.checkpoint_s) if sample is not None]
    decimals = min(3, max(numbers.decimals_for([sample.mean.value], _half(sample.mean)) for sample in samples))
    rows = [_checkpoint_row(cell, decimals) for cell in shown]
    rest = f"; {numbers.count(len(shown))} of {numbers.count(len(cells))} cells" if len(shown) < len(cells) else ""
    words = (
        "A load leaves dirty pages behind. The checkpoint that writes them is timed separately and is not part "
        "of the completion time."
    )
    caption = f"Time of the final checkpoint ({findings.provenance}){rest}"
    return view(words, tables=[PageTable(caption, columns, rows)])


def _checkpoint_row(cell: CellSummary, decimals: int) -> list[Content]:
    assert cell.checkpoint_s is not None
    assert cell.elapsed_s is not None
    load, after = cell.elapsed_s.mean, cell.checkpoint_s.mean
    figures = (load.value, after.value, load.value + after.value)
    load_s, after_s, both_s = (numbers.seconds_number(value, decimals) for value in figures)
    return [cell_entry(cell.cell_id, cell_text(cell.levels)), load_s, after_s, _interval(after, decimals), both_s]
