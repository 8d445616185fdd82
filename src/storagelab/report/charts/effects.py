"""Effects: how each level of a factor changes the completion time, all else the same."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from storagelab.findings.model import Effect, Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, Table
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import arrange
from storagelab.report.drawing.chart import Chart, Figure, Row
from storagelab.report.drawing.layers import TIP
from storagelab.report.drawing.vega import NARROW, WIDE, Form, Sheet, Spec, finished, in_lines
from storagelab.report.words import compared
from storagelab.report.words.compared import effect_change
from storagelab.words import numbers
from storagelab.words.names import factor_text, level_text, value_text

MAX_EFFECTS = 32
LONGEST_EFFECT = 60
"""The most characters of a comparison. If one is longer, no label names its baseline, and the chart names it once
instead.
"""
FASTER, SLOWER, UNDECIDED, UNTESTED = "less time", "more time", "can't be told apart", "not tested"
_CHARACTERS_OF_A_NARROW_LABEL = 26


def effect_text(effect: Effect) -> str:
    """ "data files: 4 against 1"."""
    where = f" ({level_text(effect.at)})" if effect.at else ""
    return f"{factor_text(effect.factor)}: {value_text(effect.level)} against {value_text(effect.baseline)}{where}"


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """One row per level against its factor's baseline, over all cells: its change in per cent."""
    overall = [effect for effect in findings.effects if not effect.at]
    shown = overall[:MAX_EFFECTS]
    short = any(len(effect_text(effect)) > LONGEST_EFFECT for effect in shown)
    rows: list[Row] = [
        {
            "effect": f"{factor_text(effect.factor)}: {value_text(effect.level)}" if short else effect_text(effect),
            "change_percent": 100 * (effect.ratio.value - 1),
            "low_percent": None if effect.ratio.low is None else 100 * (effect.ratio.low - 1),
            "high_percent": None if effect.ratio.high is None else 100 * (effect.ratio.high - 1),
            "judged": judged(effect),
            "tip": f"{effect_text(effect)}: {effect_change(findings, effect)}"
            f"{f'; {judged(effect)}' if effect.tested else ''}",
        }
        for effect in shown
    ]
    return Figure(
        rows=rows,
        arrangement=arrange(findings),
        legend=compared.quantity(findings),
        hidden_lines=len(overall) - len(shown),
    )


def judged(effect: Effect, faster: str = FASTER, slower: str = SLOWER) -> str:
    if not effect.tested:
        return UNTESTED
    if not effect.distinguishable:
        return UNDECIDED
    return faster if effect.ratio.value < 1 else slower


def _draw(data: Figure, sheet: Sheet) -> Spec:
    form, where = sheet.form, sheet.where
    names = [str(row["effect"]) for row in data.rows]
    lines = {name: _effect_lines(name, form) for name in names}
    label_px = min(form.width_px * 45 // 100, 8 * max(len(line) for of_name in lines.values() for line in of_name))
    axis: Spec = {"labelLimit": label_px, "minExtent": label_px, "labelColor": palette.INK, "grid": True}
    if form is NARROW:
        axis["labelExpr"] = in_lines(lines)
    y = {"field": "effect", "type": "nominal", "sort": names, "title": None, "axis": axis}
    kinds = {FASTER: palette.FASTER, SLOWER: palette.SLOWER, UNDECIDED: palette.NEUTRAL}
    if any(row["judged"] == UNTESTED for row in data.rows):
        kinds[UNTESTED] = palette.MUTED
    legend = {"title": f"95 % interval against no change ({where})", "columns": 3 if form is WIDE else 1}
    colour = {"field": "judged", "type": "nominal", "scale": {"domain": list(kinds), "range": list(kinds.values())},
              "legend": legend}  # fmt: skip
    x = {
        "type": "quantitative",
        "title": f"change of the {data.legend}, % ({where})",
        "axis": {"tickCount": 8 if form is WIDE else 4},
    }
    layers: list[Spec] = [
        {"data": {"values": [{"zero": 0}]}, "mark": {"type": "rule", "color": palette.MUTED, "strokeDash": [4, 3]},
         "encoding": {"x": {"field": "zero", "type": "quantitative"}}},
        {"mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round"},
         "encoding": TIP | {"y": y, "x": x | {"field": "low_percent"}, "x2": {"field": "high_percent"},
                             "color": colour}},
        {"mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
         "encoding": TIP | {"y": y, "x": x | {"field": "change_percent"}, "color": colour}},
    ]  # fmt: skip
    height_px = (30 if form is WIDE else 10 + 14 * max(map(len, lines.values()))) * len(names)
    spec = finished(sheet, "; left of the dashed line is faster", layers, data.rows, [], height_px)
    return spec | {"width": form.width_px - label_px - 30}


def _effect_lines(name: str, form: Form) -> list[str]:
    """The lines of a comparison's label: one if there is space, else the factor's name with its levels below."""
    if form is WIDE:
        return [name]
    return [line for part in name.split(": ") for line in textwrap.wrap(part, _CHARACTERS_OF_A_NARROW_LABEL) or [""]]


def _caption(data: Figure, findings: Findings) -> str:
    words = (
        f"Each level against the first of its factor{_baselines(findings)}, all else the same. Points left of the "
        "dashed line are faster; an interval that crosses it leaves the direction open."
    )
    hidden = data.hidden_lines
    more = f" {numbers.plural(hidden, 'more comparison is', 'more comparisons are')} in the raw data alone."
    return words + more if hidden else words


def _baselines(findings: Findings) -> str:
    """The baselines of the levels, if the chart has no space for them in each label."""
    first = {effect.factor: effect.baseline for effect in findings.effects if not effect.at}
    if all(len(effect_text(effect)) <= LONGEST_EFFECT for effect in findings.effects):
        return ""
    return f" ({'; '.join(level_text({name: level}) for name, level in first.items())})"


def effect_table(effects: Iterable[Effect]) -> Table:
    """Effects with their intervals."""
    headings = [Heading("comparison", "prose"), Heading("change of time"), Heading("95 % interval", "text"),
                Heading("pairs"), Heading("verdict", "text")]  # fmt: skip
    rows = []
    for effect in effects:
        change, *ends = map(numbers.signed_percent, (effect.ratio.value, effect.ratio.low, effect.ratio.high))
        interval = " to ".join(ends) if all(ends) else ""
        rows.append([effect_text(effect), change, interval, numbers.count(effect.pairs), judged(effect)])
    return Table(headings, rows)


CHART = Chart(
    name="effects",
    part="effects",
    title="What each factor does",
    rows=_rows,
    draw=_draw,
    caption=_caption,
    table=lambda _data, findings: effect_table(effect for effect in findings.effects if not effect.at),
    words=lambda data, _findings: "; ".join(str(row["tip"]) for row in data.rows) + ".",
    is_headed=False,
)
