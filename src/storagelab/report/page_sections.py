"""The page's first and its last parts: verdict, doubts, waits, what happened over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from storagelab.findings.caution_kinds import OddRun
from storagelab.findings.model import CellSummary, Findings
from storagelab.report import arrange, compared, numbers, palette, series_data, wait_words, wording
from storagelab.report.arrange import ends
from storagelab.report.cell_sections import top_wait
from storagelab.report.charts import Drawn
from storagelab.report.figures import block, plural, swatch
from storagelab.report.load_words import load_noun
from storagelab.report.markup import Child, Column, Markup, table, tag
from storagelab.report.time_sections import hidden_panels

MAX_CHANGES = 10
_NAMES_SHOWN = 4

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
    fastest, slowest = ends(findings)
    told = {item.cell_id for item in findings.comparisons if item.best_cell_id == fastest and item.distinguishable}
    judged = findings.load_of(fastest or "") or findings
    where, there = (", where layouts differ most", " there") if findings.verdict == "by-load" else ("", "")
    per_row, unit = compared.by_rate(findings), compared.rate_unit(findings)
    tiles = []
    if fastest is not None:
        title = "fastest" if judged.verdict == "winner" else f"most {unit}" if per_row else "shortest mean time"
        kind = "best" if judged.verdict in ("winner", "best-set") else ""
        tiles.append(_tile(title + where, findings, findings.cell(fastest), kind))
    if slowest is not None:
        title = "slowest" if slowest in told else f"fewest {unit}" if per_row else "longest mean time"
        tiles.append(_tile(title + there, findings, findings.cell(slowest), "worst" if slowest in told else ""))
    return tag("dl", tiles, class_="tiles") if tiles else Markup("")


def _tile(title: str, findings: Findings, cell: CellSummary, kind: str) -> Markup:
    rate = numbers.rows_per_s(cell.rows_per_s.mean.value, compared.rate_unit(findings)) if cell.rows_per_s else ""
    wait = top_wait(cell)
    mean = cell.elapsed_s.mean if cell.elapsed_s else None
    waited = f"top wait {wait[0]}, {numbers.percent(wait[1])} of connection time" if wait else ""
    time = numbers.seconds(mean.value if mean else None)
    facts = [numbers.seconds_interval(mean), rate, waited]
    if compared.of_raw_io(findings):
        latency = compared.raw_io_text(cell, "latency_mean_s")
        time, facts = rate, [f"{compared.raw_io_text(cell, 'bytes_per_s')} MB/s", f"{latency} ms a request"]
    return tag(
        "div",
        tag("dt", title),
        tag("dd", numbers.keep_together(time), class_="figure"),
        tag("dd", wording.cell_text(cell.levels), class_="what"),
        tag("dd", tag("span", odd, class_="severity caution")) if (odd := _odd_runs(findings, cell)) else None,
        [tag("dd", numbers.keep_together(fact), class_="quiet") for fact in facts if fact],
        class_=kind or None,
    )


def _odd_runs(findings: Findings, cell: CellSummary) -> str:
    """What to say beside a mean that runs unlike the others have made; "" where there are none."""
    found = (one for one in findings.cautions if isinstance(one, OddRun))
    odd = next((one for one in found if cell.cell_id in (one.cells or (cell.cell_id,))), None)
    if odd is None or cell.elapsed_s is None or compared.of_raw_io(findings):
        return ""
    took, median = numbers.seconds(odd.elapsed_s), numbers.seconds(cell.elapsed_s.median)
    which = f"{plural(odd.runs, 'run')} of {len(cell.elapsed_s.points)} stand{'s' * (odd.runs == 1)} apart"
    return f"{which}: repetition {odd.repetition} took {took}; median {median}"


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
        "Waits of different engines are joined by what is waited for; each cell's own table has their names."
        if findings.wait_names else "",
        *hidden_panels(chart.data),
    ]  # fmt: skip
    return Markup(block(chart, findings, " ".join(filter(None, words))) + _changes(findings, chart.data.colours))


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
    under = f" under the {load_noun(findings)} where layouts differ most" if findings.verdict == "by-load" else ""
    caption = (
        f"The waits that differ most: {wording.cell_text(fastest.levels)}, of the shortest mean time{under}, against "
        f"{wording.cell_text(slowest.levels)}, of the longest; seconds over all connections of the mean run"
    )
    return table(caption, columns, rows)


def over_time(findings: Findings, drawn: Mapping[str, Drawn]) -> Markup:
    """Small multiples of the chosen cells, one chart for each quantity that the runs tell."""
    shown = [drawn[name] for name in series_data.BY_NAME if name in drawn]
    if not shown:
        return Markup("")
    left = shown[0].data.hidden_panels
    shared = arrange.shared_levels(arrange.chosen_cells(findings))
    words = [
        "One panel for each cell, all with the same axes. The thick line is the run of median completion time, with",
        f"a point about every {series_data.steps_text(shown[0].data)}, the thin ones are the other repetitions.",
        f"In all of them {shared}." if shared else "",
        f"{plural(left, 'more cell is', 'more cells are')} in the raw data." if left else "",
    ]
    parts = [tag("p", " ".join(word for word in words if word))]
    for chart in shown:
        quantity = series_data.BY_NAME[chart.name]
        of = "" if chart.data.lines == ["rows"] else f"; {chart.data.lines[0]}" if len(chart.data.lines) == 1 else ""
        meaning = f": {quantity.meaning}" if quantity.meaning else ""
        caption = f"{quantity.unit[0].upper()}{quantity.unit[1:]}{meaning}{of if 'volume' in of else ''}."
        parts += [tag("h3", chart.title), block(chart, findings, caption)]
    return Markup("".join(parts))
