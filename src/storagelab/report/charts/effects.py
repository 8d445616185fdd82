"""Two charts. The effects show how each level of a factor changes the compared figure while all other factors stay the
same. The speed-ups show along the axis how many times as fast each level is as the first. Each level has a panel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial

from storagelab.findings.model import Effect, Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, Table
from storagelab.report.drawing import layers, palette
from storagelab.report.drawing.arrange import MAX_PANELS, Arrangement, arrange
from storagelab.report.drawing.chart import ENDS, Chart, Figure, Row, scaled, table_of
from storagelab.report.drawing.vega import NARROW, Sheet, Spec, figure, finished
from storagelab.report.words import compared
from storagelab.report.words.compared import effect_change, largest_text, of_choices
from storagelab.report.words.sentences import wider_text
from storagelab.words import numbers
from storagelab.words.names import factor_text, level_alone, level_text, phrase, value_text

MAX_EFFECTS = 24
_NO_TIME = -100.0
"""The change, in per cent, of a time that becomes zero."""
FASTER, SLOWER, UNDECIDED, UNTESTED = "less time", "more time", "can't be told apart", "not tested"
_COLOURS = {
    FASTER: palette.FASTER, SLOWER: palette.SLOWER, UNDECIDED: palette.NEUTRAL, UNTESTED: palette.CATEGORY["other"],
}  # fmt: skip


def effect_text(effect: Effect) -> str:
    """Names an effect: "data files: 4 against 1"."""
    where = f" ({level_text(effect.at)})" if effect.at else ""
    return f"{factor_text(effect.factor)}: {value_text(effect.level)} against {value_text(effect.baseline)}{where}"


def judged(effect: Effect, faster: str = FASTER, slower: str = SLOWER) -> str:
    if not effect.distinguishable:
        return UNDECIDED if effect.tested else UNTESTED
    return faster if effect.ratio.value < 1 else slower


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """Returns a row for each level, with its change in per cent against the factor's baseline."""
    overall = of_choices(findings, findings.effects, at=False)
    left = len(overall) - MAX_EFFECTS
    rows: list[Row] = [
        {
            **scaled(effect.ratio, 100, _NO_TIME), "effect": effect_text(effect), "judged": judged(effect),
            "tip": f"{effect_text(effect)}: {effect_change(findings, effect)}{f'; {judged(effect)}' * effect.tested}",
        }
        for effect in overall[:MAX_EFFECTS]
    ]  # fmt: skip
    more = f"{numbers.plural(left, 'more comparison is', 'more comparisons are')} only in the raw data."
    return Figure(rows=rows, legend=compared.quantity(findings), hidden=more if left > 0 else "")


def _draw(data: Figure, sheet: Sheet) -> Spec:
    y, row_px, _ = layers.named_rows(
        "effect", {str(row["effect"]): str(row["effect"]) for row in data.rows}, sheet.form.letters(0.4)
    )
    met = [kind for kind in _COLOURS if any(row["judged"] == kind for row in data.rows)]
    scale = {"domain": met, "range": [_COLOURS[kind] for kind in met]}
    legend = {"title": f"95 % interval ({sheet.where})", "columns": 1 if sheet.form is NARROW else 4}
    ends = {"domain": _ends(data), "nice": False}
    x = figure("mean", f"change of the {data.legend}, % ({sheet.where})", axis=layers.across(sheet.form), scale=ends)
    colour = {"field": "judged", "type": "nominal", "scale": scale, "legend": legend}
    place = layers.TIP | {"y": y, "x": x, "color": colour}
    means = layers.means("isValid(datum.mean)", layers.DOT, place)
    drawn = [layers.dashed("x", 0), *layers.intervals("true", "x", {}, place), *means]
    return finished(sheet, drawn, layers.cut(data.rows, _NO_TIME, _ends(data)), height_px=row_px * len(data.rows))


def _ends(data: Figure) -> list[float]:
    """Returns the ends of the axis of changes, in per cent. Very wide intervals go beyond them."""
    rows = layers.cut(data.rows, _NO_TIME)
    values = [0.0, *(float(end) for row in rows for name in layers.FIELDS if (end := row[name]) is not None)]
    margin = 0.04 * (max(values) - min(values)) or 1.0
    return [min(values) - margin, max(values) + margin]


def effect_table(effects: Iterable[Effect]) -> Table:
    """Returns a table of effects with their intervals."""
    headings = [Heading("comparison", "prose"), Heading("change of time (joint 95 % CI)", "text"), Heading("pairs"),
                Heading("verdict", "text")]  # fmt: skip
    rows = [
        [effect_text(one), numbers.signed_estimate(one.ratio), numbers.count(one.pairs), judged(one)] for one in effects
    ]
    return Table(headings, rows)


_EFFECTS = Chart(
    "effects", "effects", "What each factor does", _rows, _draw,
    finding=lambda _data, findings: largest_text(findings, of_choices(findings, findings.effects, at=False)),
    marks=lambda data, findings: (
        "Each level is compared with the first; all else is the same. Points left of the dashed line are faster. If "
        "an interval crosses the line, the direction is unknown. "
        f"{layers.says_cut(layers.cut(data.rows, _NO_TIME, _ends(data)))}"
        f"{wider_text(findings, of_choices(findings, findings.effects, at=False))}"
    ).strip(),
    table=lambda _data, findings: effect_table(of_choices(findings, findings.effects, at=False)),
    is_headed=False,
)  # fmt: skip


# --- speed-ups --------------------------------------------------------------------------------------------------------


def _speed_ups(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """Returns a row with `mean`, `low`, `high` for each level of a factor at each level of the axis. The figure is the
    time at the factor's first level divided by the time at this level, so 2 means twice as fast. The panels with the
    largest differences come first.
    """
    places = arrange(findings)
    size: dict[str, float] = {}
    effects = of_choices(findings, findings.speed_ups, at=True)
    for effect in effects:
        panel = _panel(effect)
        size[panel] = max(size.get(panel, 0.0), abs(math.log(effect.ratio.value)))
    panels = sorted(size, key=lambda panel: -size[panel])
    shown, left = panels[:MAX_PANELS], len(panels) - MAX_PANELS
    rows = [_speed_up(one, places) for panel in shown for one in effects if _panel(one) == panel]
    drawn = {row["x"] for row in rows}
    return Figure(
        rows=rows,
        arrangement=Arrangement(x=places.x, lines=(), panels=()),
        x_levels=places.x_levels(cell for cell in findings.cells if places.x_of(cell) in drawn),
        panels=shown,
        hidden=f"{numbers.plural(left, 'level differs', 'levels differ')} less and have no panel." if left > 0 else "",
    )


def _panel(effect: Effect) -> str:
    return f"{level_alone(effect.factor, effect.level)} against {value_text(effect.baseline)}"


def _speed_up(effect: Effect, places: Arrangement) -> Row:
    assert places.x is not None
    level = effect.at[places.x.name]
    ratio, verdict = effect.ratio.inverse, judged(effect, "faster", "slower")
    interval = numbers.ends_in_brackets(ratio, "{:.2f}".format, "joint 95 % CI ")
    what = f"{_panel(effect)} with {phrase(places.x.name, [level])}"
    return scaled(ratio) | {
        "x": value_text(level), "panel": _panel(effect), "what": what, "judged": verdict,
        "tip": f"{what}: {ratio.value:.2f} times as fast{interval}; {verdict}",
    }  # fmt: skip


def _marks(data: Figure, _findings: Findings) -> str:
    along = f"along {factor_text(data.arrangement.x.name)}, averaged over all else" if data.arrangement.x else ""
    return (
        f"Time of the first level divided by that of another, {along}. Points above the dashed line are faster. "
        f"Joint 95 % intervals. {layers.axis_of(data, '', 1.0).says}"
    ).strip()


_SPEED_UPS = Chart(
    "speed-ups", "effects", "Speed-up of each level against the first", _speed_ups,
    draw=partial(layers.ratios, title="times as fast"), place=1,
    finding=lambda _data, findings: largest_text(findings, of_choices(findings, findings.speed_ups, at=True)),
    marks=_marks,
    table=lambda data, _findings: table_of(data, {
        "what": Heading("comparison", "prose"), "mean": Heading("times as fast"), **ENDS,
        "judged": Heading("verdict", "text"),
    }),
)  # fmt: skip
CHARTS = (_EFFECTS, _SPEED_UPS)
