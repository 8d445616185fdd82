"""The page's parts but for cells and manifest, in the order a reader wants them: verdict, doubts, times, waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from storagelab.findings import CellSummary, Estimate, Findings, Sample
from storagelab.report import numbers, palette, wait_words, wording
from storagelab.report.arrange import ends, notable_cells
from storagelab.report.cell_sections import cell_anchor, cells_shown, top_wait
from storagelab.report.charts import Drawn, time_domain
from storagelab.report.figure_data import Figure
from storagelab.report.figures import block, effect_columns, effect_row, plural, swatch
from storagelab.report.markup import Child, Column, Markup, fold, table, tag

MAX_ROWS_OPEN = 40
MAX_ROWS = 1_000
MAX_EFFECT_ROWS = 200
_NAMES_SHOWN = 4
MAX_CHANGES = 10

# ---------------------------------------------------------------------------------------------------------------------
# The verdict
# ---------------------------------------------------------------------------------------------------------------------


def masthead(findings: Findings, facts: Sequence[str]) -> Markup:
    """Title, question, provenance."""
    provenance = findings.provenance or "nothing measured yet"
    badges = [tag("span", provenance, class_=f"badge {findings.provenance or 'none'}")]
    badges += [tag("span", fact, class_="badge plain") for fact in facts if fact]
    return tag(
        "header",
        tag("h1", findings.experiment),
        tag("p", findings.question, class_="question") if findings.question else None,
        tag("p", badges, class_="badges"),
    )


def verdict(findings: Findings) -> Markup:
    """The headline, the figures to remember, and what follows."""
    points = [tag("li", numbers.keep_together(sentence)) for sentence in wording.sentences(findings)]
    return Markup(
        tag("p", numbers.keep_together(wording.headline(findings)), class_="headline")
        + _tiles(findings)
        + (tag("ul", points, class_="findings") if points else "")
    )


def _tiles(findings: Findings) -> Markup:
    """The fastest and the slowest cell side by side."""
    against_best = [comparison for comparison in findings.comparisons if comparison.best_cell_id in findings.best[:1]]
    told = {comparison.cell_id for comparison in against_best if comparison.distinguishable}
    fastest, slowest = ends(findings)
    per_row = findings.compared == "time-per-row"
    tiles = []
    if fastest is not None:
        title = "fastest" if findings.verdict == "winner" else "most rows/s" if per_row else "shortest mean time"
        kind = "best" if findings.verdict in ("winner", "best-set") else ""
        tiles.append(_tile(title, findings.cell(fastest), kind))
    if slowest is not None:
        title = "slowest" if slowest in told else "fewest rows/s" if per_row else "longest mean time"
        tiles.append(_tile(title, findings.cell(slowest), "worst" if slowest in told else ""))
    return tag("dl", tiles, class_="tiles") if tiles else Markup("")


def _tile(title: str, cell: CellSummary, kind: str) -> Markup:
    rate = numbers.rows_per_s(cell.rows_per_s.mean.value) if cell.rows_per_s else ""
    wait = top_wait(cell)
    mean = cell.elapsed_s.mean if cell.elapsed_s else None
    waited = f"top wait {wait[0]}, {numbers.percent(wait[1])} of connection time" if wait else ""
    facts = [numbers.seconds_interval(mean), rate, waited]
    return tag(
        "div",
        tag("dt", title),
        tag("dd", numbers.keep_together(numbers.seconds(mean.value if mean else None)), class_="figure"),
        tag("dd", wording.cell_text(cell.levels), class_="what"),
        [tag("dd", numbers.keep_together(fact), class_="quiet") for fact in facts if fact],
        class_=kind or None,
    )


def cautions(findings: Findings) -> Markup:
    """Doubts about the measurement, the grave ones first."""
    if not findings.cautions:
        return tag("p", "Nothing in these runs gave cause for doubt.")
    ordered = sorted(findings.cautions, key=lambda caution: caution.severity != "caution")
    items = [
        tag("li", tag("span", caution.severity, class_=f"severity {caution.severity}"),
            " ", numbers.keep_together(wording.caution_sentence(caution, findings)))
        for caution in ordered
    ]  # fmt: skip
    return tag("ul", items, class_="cautions")


# ---------------------------------------------------------------------------------------------------------------------
# Times
# ---------------------------------------------------------------------------------------------------------------------


def completion_time(findings: Findings, drawn: Mapping[str, Drawn]) -> Markup:
    """The chart, and every cell in a table."""
    chart = drawn.get("completion-time")
    return Markup((block(chart, findings, _time_caption(chart.data)) if chart else "") + _results(findings))


def _time_caption(data: Figure) -> str:
    domain, from_zero = time_domain(data)
    parts = ["Mean with its 95 % interval; small marks are single runs."]
    if data.hidden_points:
        parts = [f"Mean with its 95 % interval; {numbers.count(data.hidden_points)} single runs are too many to draw."]
    if not from_zero:
        parts.append(f"The axis starts at {domain[0]:g} s, not at zero.")
    if data.panels[1:]:
        parts.append("All panels have the same axes.")
    if data.hidden_lines:
        parts.append(f"{plural(data.hidden_lines, 'more line is', 'more lines are')} not drawn.")
    return " ".join([*parts, *_hidden_panels(data)])


def _hidden_panels(data: Figure) -> list[str]:
    left = data.hidden_panels
    return (
        [f"{plural(left, 'more panel is', 'more panels are')} not drawn; the download has all cells."] if left else []
    )


def _results(findings: Findings) -> Markup:
    """Every cell; of very many the first part open and the rest to be opened."""
    cells = findings.cells[:MAX_ROWS]
    columns, rows = _result_rows(findings, cells)
    best = findings.best if findings.verdict in ("winner", "best-set") else ()
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
    columns += [Column("mean, s"), Column("95 % interval, s"), Column("mean, drawn", "text"),
                Column("against the best", "text"), Column("rows/s"), Column("95 % interval"), Column("median, s"),
                Column("spread", title="standard deviation as a share of the mean"), Column("runs")]  # fmt: skip
    measured = [cell.elapsed_s for cell in cells if cell.elapsed_s is not None]
    decimals = max((numbers.decimals_for([sample.mean.value], _half(sample.mean)) for sample in measured), default=2)
    span = _span(measured)
    linked = {cell.cell_id for cell in cells_shown(findings)}
    rows: list[list[Child]] = []
    for cell in cells:
        names: list[Child] = [wording.value_text(cell.levels[f.name]) if f.name in cell.levels else "" for f in factors]
        names = names or [wording.cell_text(cell.levels)]
        if cell.cell_id in linked:
            names[0] = tag("a", names[0], href=f"#{cell_anchor(cell)}")
        mean, of_runs = _times(cell.elapsed_s, decimals, span)
        rows.append([*names, *mean, _against(findings, cell), *_rates(cell.rows_per_s), *of_runs, _runs(cell)])
    return columns, rows


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


def effects(findings: Findings, drawn: Mapping[str, Drawn]) -> Markup:
    """What each level does against its factor's baseline: all else the same, then at single levels of others."""
    chart = drawn.get("effects")
    words = (
        "Each level against the first of its factor, all else the same. Points left of the dashed line are faster; an "
        "interval that crosses it leaves the direction open."
    )
    parts = [block(chart, findings, words)] if chart else []
    at = [effect for effect in findings.effects if effect.at]
    if at:
        shown = at[:MAX_EFFECT_ROWS]
        rest = f", the first {MAX_EFFECT_ROWS} of {numbers.count(len(at))}" if len(at) > MAX_EFFECT_ROWS else ""
        caption = f"Each level against the first, at single levels of the other factors ({findings.provenance}){rest}"
        content = table(caption, effect_columns(), [effect_row(effect) for effect in shown])
        parts.append(fold(f"At single levels of the other factors: {plural(len(at), 'comparison')}", content))
    return Markup("".join(parts))


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


# ---------------------------------------------------------------------------------------------------------------------
# Waits and time series
# ---------------------------------------------------------------------------------------------------------------------


def waits(findings: Findings, drawn: Mapping[str, Drawn]) -> Markup:
    """The stacked chart, and what changed between best and worst."""
    chart = drawn.get("waits")
    if chart is None:
        return tag("p", wait_words.no_waits_anywhere_sentence(findings) or "The connections waited for nothing.")
    words = [
        "Each bar is one cell's mean run: all the time its connections had, connections × elapsed, by what they spent",
        "it on. The wait that moves most stands at the bottom; hues are wait categories, the same all over this page.",
        *_hidden_panels(chart.data),
    ]
    return Markup(block(chart, findings, " ".join(words)) + _changes(findings, chart.data.colours))


def _changes(findings: Findings, colours: Mapping[str, str]) -> Markup:
    fastest, slowest = (findings.cell(cell_id) if cell_id else None for cell_id in ends(findings))
    if not findings.wait_changes or fastest is None or slowest is None:
        return Markup("")
    # Of several engines waits are joined by what is waited for: then the engines' own names tell what stands behind it.
    names = findings.wait_names
    columns = [Column("Waiting for" if names else "WaitType", "text"),
               Column("The engines' names" if names else "In SQL Server", "text"), Column("fastest"), Column("share"),
               Column("slowest"), Column("share"), Column("more in the slowest")]  # fmt: skip
    rows: list[list[Child]] = [
        [
            [swatch(colours.get(item.wait_type, palette.CATEGORY[item.category])), item.wait_type],
            ", ".join(names[item.wait_type][:_NAMES_SHOWN]) if item.wait_type in names else item.analogue,
            numbers.seconds(item.best_s), numbers.percent(item.best_share),
            numbers.seconds(item.worst_s), numbers.percent(item.worst_share),
            numbers.seconds(item.worst_s - item.best_s),
        ]
        for item in findings.wait_changes[:MAX_CHANGES]
    ]  # fmt: skip
    caption = (
        f"The waits that differ most: {wording.cell_text(fastest.levels)}, of the shortest mean time, against "
        f"{wording.cell_text(slowest.levels)}, of the longest; seconds over all connections of the mean run"
    )
    return table(caption, columns, rows)


def over_time(findings: Findings, drawn: Mapping[str, Drawn]) -> Markup:
    """Throughput and volume I/O of median runs."""
    parts = []
    for name in ("rows-over-time", "io-over-time"):
        if name in drawn:
            left = drawn[name].data.hidden_panels
            words = "The median run of each cell, about once a second; all panels have the same axes."
            words += f" {plural(left, 'more cell is', 'more cells are')} in the download." if left else ""
            parts.append(tag("h3", drawn[name].title) + block(drawn[name], findings, words))
    return Markup("".join(parts))
