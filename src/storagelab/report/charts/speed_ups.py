"""Speed-ups: how many times as fast each level of a factor is as its first, along the axis. A panel for each level."""

from __future__ import annotations

import math
from collections.abc import Sequence

from storagelab.findings.model import Effect, Findings
from storagelab.model.measurement import Run
from storagelab.report.charts.effects import UNTESTED, judged
from storagelab.report.document import Heading, Table, bare
from storagelab.report.drawing.arrange import MAX_PANELS, Arrangement, arrange
from storagelab.report.drawing.chart import Chart, Figure, Row, scaled
from storagelab.report.drawing.layers import FIELDS, axis_of, means_with_intervals
from storagelab.words import numbers
from storagelab.words.names import factor_text, level_alone, phrase, value_text


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """Rows `mean`, `low`, `high` per level of a factor and level of the axis: time of the factor's first level over
    time of this one, so that 2 is twice as fast. Those that differ most come first.
    """
    places = arrange(findings)
    size: dict[str, float] = {}
    for effect in findings.speed_ups:
        panel = _panel(effect)
        size[panel] = max(size.get(panel, 0.0), abs(math.log(effect.ratio.value)))
    panels = sorted(size, key=lambda panel: -size[panel])
    shown, left = panels[:MAX_PANELS], len(panels) - MAX_PANELS
    rows = [
        _row(effect, places)
        for panel in shown for effect in findings.speed_ups if _panel(effect) == panel
    ]  # fmt: skip
    return Figure(
        rows=rows,
        arrangement=Arrangement(x=places.x, lines=(), panels=()),
        x_levels=places.x_levels(findings.cells),
        panels=shown,
        hidden=f"{numbers.plural(left, 'level differs', 'levels differ')} less and have no panel." if left > 0 else "",
    )


def _panel(effect: Effect) -> str:
    return f"{level_alone(effect.factor, effect.level)} against {value_text(effect.baseline)}"


def _row(effect: Effect, places: Arrangement) -> Row:
    assert places.x is not None
    level = effect.at[places.x.name]
    ratio, verdict = effect.ratio.inverse, judged(effect, "faster", "slower")
    interval = numbers.ends_in_brackets(ratio, "{:.2f}".format, "joint 95 % CI ")
    what = f"{_panel(effect)} with {phrase(places.x.name, [level])}"
    return scaled(ratio) | {
        "x": value_text(level), "panel": _panel(effect), "what": what, "judged": verdict,
        "tip": f"{what}: {ratio.value:.2f} times as fast{interval}; {verdict}",
    }  # fmt: skip


def _finding(data: Figure, _findings: Findings) -> str:
    """The largest of those that are told apart."""
    told = [row for row in data.rows if row["judged"] in ("faster", "slower")]
    most = max(told, key=lambda row: abs(math.log(float(row["mean"] or 1))), default=None)
    if most is None:
        tested = any(row["judged"] != UNTESTED for row in data.rows)
        return "No level is told apart from the first." if tested else "None is tested."
    return f"Most apart: {most['tip']}."


def _marks(data: Figure, findings: Findings) -> str:
    effects = findings.speed_ups
    if any(effect.across_blocks for effect in effects):
        sure = "Levels that were run one after the other are not tested."
    elif all(effect.tested for effect in effects):
        sure = "The intervals hold together at 95 %."
    else:
        sure = "A point without an interval is not tested: there are too few runs."
    axis = f"along {factor_text(data.arrangement.x.name)}, averaged over all else" if data.arrangement.x else ""
    words = [f"Time of the first level over that of another, {axis}; above the dashed line is faster.", sure,
             axis_of(data, "", 1.0).says]  # fmt: skip
    return " ".join(filter(None, words))


def _table(data: Figure, _findings: Findings) -> Table:
    headings = [Heading("comparison", "prose"), Heading("times as fast"), Heading("95 % from"), Heading("to"),
                Heading("verdict", "text")]  # fmt: skip
    rows = [[str(row["what"]), *(bare(row[name]) for name in FIELDS), str(row["judged"])] for row in data.rows]
    return Table(headings, rows)


CHART = Chart(
    "speed-ups",
    "effects",
    "Speed-up of each level against the first",
    _rows,
    draw=lambda data, sheet: means_with_intervals(data, sheet, "times as fast", axis_of(data, "", 1.0), at=1.0),
    finding=_finding,
    marks=_marks,
    table=_table,
    place=1,
)
