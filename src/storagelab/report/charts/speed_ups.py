"""Speed-ups: how many times as fast each level of a factor is as its first, along the axis."""

from __future__ import annotations

import math

from storagelab.findings.model import Effect, Findings
from storagelab.report.charts.effects import judged
from storagelab.report.document import Heading, Table, bare
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import MAX_LINES, Arrangement, arrange, choose
from storagelab.report.drawing.chart import Chart, Figure, Row
from storagelab.report.drawing.layers import FIELDS, means_with_intervals
from storagelab.report.drawing.vega import Sheet, Spec
from storagelab.words import numbers
from storagelab.words.names import factor_text, listed, phrase, value_text

MAX_SPEED_UPS = 6
_NO_CHANGE: Spec = {
    "data": {"values": [{"at": 1.0}]},
    "mark": {"type": "rule", "color": palette.MUTED, "strokeDash": [4, 3]},
    "encoding": {"y": {"field": "at", "type": "quantitative"}},
}


def compared_factors(findings: Findings) -> list[str]:
    """The factors with a chart of speed-ups, the largest effects first."""
    size: dict[str, float] = {}
    for effect in findings.speed_ups:
        size[effect.factor] = max(size.get(effect.factor, 0.0), abs(math.log(effect.ratio.value)))
    return sorted(size, key=lambda name: -size[name])[:MAX_SPEED_UPS]


def _figure(findings: Findings, factor: str) -> Figure:
    """Rows `mean`, `low`, `high` per level of `factor` and level of the axis: time of the first level over time
    of this one, so that 2 is twice as fast. Each level is a line; if there are many, those that differ most.
    """
    places = arrange(findings)
    effects = [effect for effect in findings.speed_ups if effect.factor == factor]
    moves: dict[str, float] = {}
    for effect in effects:
        line = value_text(effect.level)
        moves[line] = max(moves.get(line, 0.0), abs(math.log(effect.ratio.value)))
    lines = choose(list(moves), sorted(moves, key=lambda line: -moves[line])[:MAX_LINES], MAX_LINES)
    of_factor = next(one for one in findings.factors if one.name == factor)
    axis = places.x.name if places.x else ""
    return Figure(
        rows=[_speed_up(effect, axis) for effect in effects if value_text(effect.level) in lines],
        arrangement=Arrangement(x=places.x, lines=(of_factor,), panels=()),
        x_levels=places.x_levels(findings.cells),
        lines=lines,
        panels=[""],
        colours=dict(zip(lines, palette.LINES, strict=False)),
        hidden_lines=len(moves) - len(lines),
    )


def _speed_up(effect: Effect, axis: str) -> Row:
    ratio = effect.ratio.inverse
    where = phrase(axis, [effect.at[axis]])
    what = f"{value_text(effect.level)} against {value_text(effect.baseline)} with {where}"
    verdict = judged(effect, "faster", "slower")
    return {
        "x": value_text(effect.at[axis]), "line": value_text(effect.level), "panel": "",
        "mean": ratio.value, "low": ratio.low, "high": ratio.high, "what": what,
        "judged": verdict, "tip": f"{what}: {speed_up_text(effect)}; {verdict}",
    }  # fmt: skip


def speed_up_text(effect: Effect) -> str:
    """ "2.4 times as fast (joint 95 % CI 2.2 to 2.6)"."""
    ratio = effect.ratio.inverse
    interval = numbers.ends_in_brackets(ratio, "{:.2f}".format, "joint 95 % CI ")
    return f"{ratio.value:.2f} times as fast{interval}"


def _title(findings: Findings, factor: str) -> str:
    """ "Speed-up against storage = scsi"."""
    baseline = next(one for one in findings.factors if one.name == factor).levels[0].value
    return f"Speed-up against {phrase(factor, [baseline])}"


def _averaged(findings: Findings, factor: str) -> str:
    """The factors over which a chart of speed-ups averages, in words; "" for none."""
    axis = arrange(findings).x
    left = [
        one.name for one in findings.factors if len(one.levels) > 1 and one.name not in (factor, axis and axis.name)
    ]
    return listed([factor_text(name) for name in left])


def _draw(data: Figure, sheet: Sheet) -> Spec:
    of = f"; {data.lines[0]}" if len(data.lines) == 1 else ""
    return means_with_intervals(
        data, sheet, "times as fast", also=1.0, note=f"{of}; above the dashed line is faster",
        height=sheet.form.height_px * 3 // 4, below=[_NO_CHANGE],
    )  # fmt: skip


def _caption(data: Figure, findings: Findings, factor: str) -> str:
    averaged, hidden, lines = _averaged(findings, factor), data.hidden_lines, data.lines
    shown = [effect for effect in findings.speed_ups if effect.factor == factor]
    if any(effect.across_blocks for effect in shown):
        sure = "Not tested: these levels were run one after the other."
    elif all(effect.tested for effect in shown):
        sure = "The intervals hold together at 95 %."
    else:
        sure = "A point without an interval is not tested: there are too few runs."
    words = [
        f"Of {lines[0]}: time" if len(lines) == 1 and lines[0] else "Time",
        "of the level named above over that of another; above the dashed line is faster.",
        sure,
        f"Averaged over {averaged}." if averaged else "",
        f"{numbers.plural(hidden, 'level differs', 'levels differ')} less and have no line." if hidden else "",
    ]
    return " ".join(word for word in words if word)


def _table(data: Figure, _findings: Findings) -> Table:
    headings = [Heading("comparison", "prose"), Heading("times as fast"), Heading("95 % from"), Heading("to"),
                Heading("verdict", "text")]  # fmt: skip
    rows = [[str(row["what"]), *(bare(row[name]) for name in FIELDS), str(row["judged"])] for row in data.rows]
    return Table(headings, rows)


def _chart(place: int) -> Chart:
    """The chart of the factor with this rank by effect, counted from 0."""

    def factor(findings: Findings) -> str:
        return compared_factors(findings)[place]

    def rows(findings: Findings, _runs: object) -> Figure:
        known = place < len(compared_factors(findings))
        return _figure(findings, factor(findings)) if known else Figure(rows=[], arrangement=arrange(findings))

    return Chart(
        name=f"speed-up-{place + 1}",
        part="effects",
        place=1,
        title=lambda findings: _title(findings, factor(findings)),
        rows=rows,
        draw=_draw,
        caption=lambda data, findings: _caption(data, findings, factor(findings)),
        table=_table,
    )


CHARTS = tuple(map(_chart, range(MAX_SPEED_UPS)))
