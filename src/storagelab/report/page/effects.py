"""What each factor does, on the page: effects, speed-ups along the axis, and the best levels of one at each of another."""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.findings.model import Dependence, Findings
from storagelab.report.charts import figure_data
from storagelab.report.charts import speed_ups as comparison_data
from storagelab.report.charts.all_charts import Drawn
from storagelab.report.page.figures import block, effect_columns, effect_row, plural
from storagelab.report.page.markup import Column, Markup, fold, table, tag
from storagelab.report.words import numbers
from storagelab.report.words import sentences as wording

MAX_EFFECT_ROWS = 200


def effects(findings: Findings, drawn: Mapping[str, Drawn]) -> Markup:
    """What each level does against its factor's baseline: all else the same, then at single levels of others."""
    chart = drawn.get("effects")
    words = (
        f"Each level against the first of its factor{_baselines(findings)}, all else the same. Points left of the dashed "
        "line are faster; an interval that crosses it leaves the direction open."
    )
    if chart and chart.data.hidden_lines:
        words += (
            f" {plural(chart.data.hidden_lines, 'more comparison is', 'more comparisons are')} in the raw data alone."
        )
    parts = [block(chart, findings, words)] if chart else []
    parts += _speed_ups(findings, drawn)
    parts += [_best_levels(findings, found) for found in findings.dependences if found.best]
    at = [effect for effect in findings.effects if effect.at]
    if at:
        shown = at[:MAX_EFFECT_ROWS]
        rest = f", the first {MAX_EFFECT_ROWS} of {numbers.count(len(at))}" if len(at) > MAX_EFFECT_ROWS else ""
        caption = f"Each level against the first, at single levels of the other factors ({findings.provenance}){rest}"
        content = table(caption, effect_columns(), [effect_row(effect) for effect in shown])
        parts.append(fold(f"At single levels of the other factors: {plural(len(at), 'comparison')}", content))
    return Markup("".join(parts))


def _baselines(findings: Findings) -> str:
    """What levels are held against, where their own names leave no room for it in the chart."""
    first = {effect.factor: effect.baseline for effect in findings.effects if not effect.at}
    if all(len(figure_data.effect_text(effect)) <= figure_data.LONGEST_EFFECT for effect in findings.effects):
        return ""
    return f" ({'; '.join(wording.level_text({name: level}) for name, level in first.items())})"


def _best_levels(findings: Findings, found: Dependence) -> Markup:
    """The best case at each level of another factor."""
    noun, within = wording.factor_noun(found.factor), wording.factor_text(found.within)
    averaged = f"; averaged over {wording.listed([wording.factor_text(name) for name in found.averaged])}" * bool(
        found.averaged
    )
    columns = [Column(within, "text"), Column(f"best {noun}", "text"), Column("not told apart from it", "text")]
    rows = [
        [
            wording.value_text(row.at),
            wording.value_text(row.levels[0]),
            ", ".join(map(wording.value_text, row.levels[1:])),
        ]
        for row in found.best
    ]
    caption = f"The best {noun} at each level of {within} ({findings.provenance}){averaged}"
    return fold(f"The best {noun} by {within}", table(caption, columns, rows))


def _speed_ups(findings: Findings, drawn: Mapping[str, Drawn]) -> list[Markup]:
    """How many times as fast each level is as its factor's first, along the axis."""
    parts = []
    for number, factor in enumerate(comparison_data.compared_factors(findings), 1):
        chart = drawn.get(f"speed-up-{number}")
        if chart is None:
            continue
        averaged, hidden, lines = comparison_data.averaged(findings, factor), chart.data.hidden_lines, chart.data.lines
        tested = not any(effect.across_blocks for effect in findings.speed_ups if effect.factor == factor)
        words = [
            f"Of {lines[0]}: time" if len(lines) == 1 and lines[0] else "Time",
            "of the level named above over that of another; above the dashed line is faster.",
            "Intervals hold together at 95 %."
            if tested
            else "Not tested: these levels were run in blocks, one after the other.",
            f"Averaged over {averaged}." if averaged else "",
            f"{plural(hidden, 'level differs', 'levels differ')} less and have no line." if hidden else "",
        ]
        parts += [tag("h3", chart.title), block(chart, findings, " ".join(word for word in words if word))]
    return parts
