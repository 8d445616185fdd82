"""Completion times on the page: their chart, every cell in a table, what drives wrote meanwhile, the final checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from storagelab.findings.model import CellSummary, Estimate, Findings, Sample
from storagelab.report.charts import best_case as best_case_data
from storagelab.report.charts import raw_io as raw_io_data
from storagelab.report.charts import speed_ups as comparison_data
from storagelab.report.charts.all_charts import Drawn, time_domain
from storagelab.report.charts.figure_data import Figure
from storagelab.report.drawing.arrange import notable_cells
from storagelab.report.page.cells import cell_anchor, cells_shown
from storagelab.report.page.figures import block, plural
from storagelab.report.page.markup import Child, Column, Markup, fold, table, tag, text
from storagelab.report.words import compared, numbers
from storagelab.report.words import sentences as wording

MAX_ROWS_OPEN = 40
MAX_ROWS = 1_000


def completion_time(findings: Findings, drawn: Mapping[str, Drawn]) -> Markup:
    """The chart, and every cell in a table."""
    chart = drawn.get("completion-time")
    parts: list[Child] = [block(chart, findings, _time_caption(chart.data)) if chart else None]
    best = drawn.get(best_case_data.NAME)
    if best is not None:
        parts += [tag("h3", best.title), block(best, findings, best_case_data.caption(best.data))]
    for rate in (drawn[rate.name] for rate in raw_io_data.RATES if rate.name in drawn):
        parts += [tag("h3", rate.title), block(rate, findings, "Mean with its 95 % interval.")]
    parts.append(_results(findings))
    state = drawn.get("write-amplification")
    if state is not None:
        words = (
            "Flash pages that the drive wrote for each page it was given, in the places of the completion times above: where "
            "both rise together, the drive's state may explain the time."
        )
        parts += [tag("h3", state.title), block(state, findings, words)]
    return text(parts)


def _time_caption(data: Figure) -> str:
    domain, from_zero = time_domain(data)
    parts = ["Mean with its 95 % interval; small marks are single runs."]
    if data.hidden_points:
        parts = [f"Mean with its 95 % interval; {numbers.count(data.hidden_points)} single runs are too many to draw."]
    if not from_zero:
        parts.append(f"The axis starts at {domain[0]:g} s, not at zero.")
    if data.arrangement.doubles:
        parts.append(f"Each step of the axis doubles the {data.arrangement.x_title}.")
    if data.panels[1:]:
        parts.append("All panels have the same axes.")
    if data.hidden_lines:
        parts.append(f"{plural(data.hidden_lines, 'more line is', 'more lines are')} not drawn.")
    return " ".join([*parts, *hidden_panels(data)])


def hidden_panels(data: Figure) -> list[str]:
    """How many panels there was no room for, in a sentence."""
    left = data.hidden_panels
    return (
        [f"{plural(left, 'more panel is', 'more panels are')} not drawn; the raw data have all cells."] if left else []
    )


def _results(findings: Findings) -> Markup:
    """Every cell; of very many the first part open and the rest to be opened."""
    cells = findings.cells[:MAX_ROWS]
    columns, rows = _result_rows(findings, cells)
    verdicts = findings.loads or (findings,)
    best = {cell_id for one in verdicts if one.verdict in ("winner", "best-set") for cell_id in one.best}
    classes = ["best" if cell.cell_id in best else "" for cell in cells]
    caption = f"Every cell ({findings.provenance or 'nothing measured yet'})"
    if len(findings.cells) > MAX_ROWS:
        caption += f", the first {numbers.count(MAX_ROWS)} of {numbers.count(len(findings.cells))}"
    if len(rows) <= MAX_ROWS_OPEN:
        return table(caption, columns, rows, row_classes=classes)
    kept = {cell.cell_id for cell in notable_cells(findings, 12)}
    some = [index for index, cell in enumerate(cells) if cell.cell_id in kept]
    return Markup(
        table("The fastest, the slowest and the ends of each factor", columns, [rows[index] for index in some],
              row_classes=[classes[index] for index in some])
        + fold(f"All {numbers.count(len(findings.cells))} cells", table(caption, columns, rows, row_classes=classes))
    )  # fmt: skip


def _result_rows(findings: Findings, cells: Sequence[CellSummary]) -> tuple[list[Column], list[list[Child]]]:
    factors = sorted(findings.factors, key=lambda factor: factor.name != wording.first_factor(findings))
    columns = [Column(wording.factor_text(f.name), "number" if _numeric(f.levels) else "text") for f in factors]
    columns = columns or [Column("cell", "prose")]
    columns += _raw_io_columns() if compared.of_raw_io(findings) else _time_columns()
    drives = comparison_data.drives(findings)
    for drive in drives:
        of_drive = f" of {drive}" if len(drives) > 1 else ""
        columns += [Column(f"write amplification{of_drive}"), Column(f"utilisation{of_drive}")]
    measured = [sample for cell in cells if (sample := compared.figure(findings, cell)) is not None]
    decimals = max((numbers.decimals_for([sample.mean.value], _half(sample.mean)) for sample in measured), default=2)
    span = _span(measured)
    linked = {cell.cell_id for cell in cells_shown(findings)}
    rows: list[list[Child]] = []
    for cell in cells:
        names: list[Child] = [wording.value_text(cell.levels[f.name]) if f.name in cell.levels else "" for f in factors]
        names = names or [wording.cell_text(cell.levels)]
        if cell.cell_id in linked:
            names[0] = tag("a", names[0], href=f"#{cell_anchor(cell)}")
        mean, of_runs = _times(compared.figure(findings, cell), decimals, span)
        states = [
            _state(cell, drive, quantity) for drive in drives for quantity in ("write_amplification", "utilisation")
        ]
        beside = [*_rates(cell.rows_per_s), *of_runs]
        if compared.of_raw_io(findings):
            beside = [compared.raw_io_text(cell, counter).split(" (")[0] for counter in compared.RAW_IO_COLUMNS]
        rows.append([*names, *mean, _against(findings, cell), *beside, _runs(cell), *states])
    return columns, rows


def _raw_io_columns() -> list[Column]:
    rate = [Column("IO/s"), Column("95 % interval"), Column("mean, drawn", "text"), Column("against the best", "text")]
    return [*rate, *(Column(name) for name in compared.RAW_IO_COLUMNS.values()), Column("runs")]


def _time_columns() -> list[Column]:
    return [Column("mean, s"), Column("95 % interval, s"), Column("mean, drawn", "text"),
            Column("against the best", "text"), Column("rows/s"), Column("95 % interval"), Column("median, s"),
            Column("spread", title="standard deviation as a share of the mean"), Column("runs")]  # fmt: skip


def _numeric(levels: Sequence[object]) -> bool:
    values = [getattr(level, "value", None) for level in levels]
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _half(estimate: Estimate) -> float | None:
    return None if estimate.low is None or estimate.high is None else (estimate.high - estimate.low) / 2


def _interval(estimate: Estimate, decimals: int) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.low:,.{decimals}f} to {estimate.high:,.{decimals}f}"


def _times(sample: Sample | None, decimals: int, span: tuple[float, float]) -> tuple[list[Child], list[Child]]:
    """The mean with its interval, and what else there is to say of the runs."""
    if sample is None:
        return ["", "", ""], ["", ""]
    spread = numbers.percent(sample.sd / sample.mean.value, 1) if sample.sd is not None and sample.mean.value else ""
    mean = numbers.seconds_number(sample.mean.value, decimals)
    drawn: list[Child] = [mean, _interval(sample.mean, decimals), _bar(sample.mean, span)]
    return drawn, [numbers.seconds_number(sample.median, decimals), spread]


def _span(samples: Sequence[Sample]) -> tuple[float, float]:
    means = [sample.mean for sample in samples]
    values = [value for mean in means for value in (mean.low, mean.value, mean.high) if value is not None]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _bar(mean: Estimate, span: tuple[float, float]) -> Markup:
    """The interval as a line, the mean as a dot, on the scale of the whole column; the numbers stand beside it."""
    low, high = span
    width = (high - low) or 1.0

    def at(value: float) -> str:
        return f"{3 + 94 * (value - low) / width:.1f}"

    line = None
    if mean.low is not None and mean.high is not None:
        line = tag("line", x1=at(mean.low), x2=at(mean.high), y1=6, y2=6)
    dot = tag("circle", cx=at(mean.value), cy=6, r=3)
    return tag("svg", line, dot, class_="bar", viewBox="0 0 100 12", aria_hidden="true", focusable="false")


def _rates(sample: Sample | None) -> list[Child]:
    if sample is None:
        return ["", ""]
    low, high = sample.mean.low, sample.mean.high
    interval = "" if low is None or high is None else f"{numbers.significant(low)} to {numbers.significant(high)}"
    return [numbers.significant(sample.mean.value), interval]


def _state(cell: CellSummary, drive: str, quantity: str) -> str:
    """What a drive did in the runs of a cell, "" where it is not told."""
    found = comparison_data.state_of(cell, drive, quantity)
    if found is None:
        return ""
    return numbers.percent(found.mean.value) if quantity == "utilisation" else f"{found.mean.value:.2f}"


def _runs(cell: CellSummary) -> str:
    usable = cell.runs_ok + cell.runs_unverified
    text = str(usable) if usable == cell.runs_planned else f"{usable} of {cell.runs_planned}"
    wrong = [(cell.runs_failed, "failed"), (cell.runs_unverified, "unverified")]
    return ", ".join([text, *(f"{number} {what}" for number, what in wrong if number)])


def _against(findings: Findings, cell: CellSummary) -> Child:
    mark = wording.verdict_mark(findings, cell.cell_id)
    found = next((item for item in findings.comparisons if item.cell_id == cell.cell_id), None)
    badge = tag("span", mark, class_=f"mark {mark.split(' ')[0]}") if mark else ""
    if found is None or found.ratio.low is None or found.ratio.high is None:
        return badge
    low, high = numbers.signed_percent(found.ratio.low), numbers.signed_percent(found.ratio.high)
    return [badge, " ", tag("span", f"{low} to {high}", class_="quiet")]


def checkpoint(findings: Findings) -> Markup:
    """The checkpoint after each run, timed apart: work that the load left behind."""
    cells = [cell for cell in findings.cells if cell.checkpoint_s is not None and cell.elapsed_s is not None]
    if not cells:
        return Markup("")
    shown = cells if len(cells) <= MAX_ROWS_OPEN else [cell for cell in notable_cells(findings, 12) if cell in cells]
    columns = [Column("cell", "prose"), Column("load, mean s"), Column("checkpoint, mean s"),
               Column("95 % interval, s"), Column("both together, s")]  # fmt: skip
    samples = [sample for cell in shown for sample in (cell.elapsed_s, cell.checkpoint_s) if sample is not None]
    decimals = min(3, max(numbers.decimals_for([sample.mean.value], _half(sample.mean)) for sample in samples))
    rows = [_checkpoint_row(cell, decimals) for cell in shown]
    rest = f"; {numbers.count(len(shown))} of {numbers.count(len(cells))} cells" if len(shown) < len(cells) else ""
    words = (
        "A load leaves dirty pages behind. The checkpoint that writes them is timed apart and is no part of the "
        "completion time."
    )
    caption = f"Time of the final checkpoint ({findings.provenance}){rest}"
    return Markup(tag("p", words) + table(caption, columns, rows))


def _checkpoint_row(cell: CellSummary, decimals: int) -> list[Child]:
    assert cell.checkpoint_s is not None
    assert cell.elapsed_s is not None
    load, after = cell.elapsed_s.mean, cell.checkpoint_s.mean
    figures = (load.value, after.value, load.value + after.value)
    load_s, after_s, both_s = (numbers.seconds_number(value, decimals) for value in figures)
    return [wording.cell_text(cell.levels), load_s, after_s, _interval(after, decimals), both_s]
