"""Makes parts that several charts share: means with their intervals, rows with names, legends, and axes. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from storagelab.report.drawing import palette
from storagelab.report.drawing.chart import STAR, Figure, Row
from storagelab.report.drawing.vega import (
    AXIS_PX,
    BOLD,
    FONT_PX,
    LETTER_PX,
    NARROW,
    WIDER,
    Form,
    Sheet,
    Spec,
    figure,
    finished,
    in_lines,
    quoted,
    wrapped,
)
from storagelab.words.numbers import round_figure, round_figures

FIELDS = ("mean", "low", "high")
"""The columns of a row that hold a mean and the ends of its interval."""
TIP: Spec = {"description": {"field": "tip", "type": "nominal"}}
RULE: Spec = {"type": "rule", "strokeWidth": 2.5}
DOT: Spec = {"type": "point", "size": 66, "filled": True, "opacity": 1}
STARRED: Spec = DOT | {
    "size": 260, "stroke": palette.INK, "strokeWidth": 1,
    "shape": "M0,-1L.23,-.31L.95,-.31L.36,.12L.59,.81L0,.38L-.59,.81L-.36,.12L-.95,-.31L-.23,-.31Z",
}  # fmt: skip
"""The mark of a recommended layout."""
_FAR, _APART, _TOO_FAR = 6.0, 3.0, 15.0
"""Limits for axes, as ratios of figures. Panels are apart if the least figure of one is at least `_APART` times the
largest of another, and the largest figure of all is at least `_FAR` times the least. Panels that are apart share a
logarithmic axis. If the largest figure is even `_TOO_FAR` times the least, each panel has its own axis. An axis is also
logarithmic if its largest figure is at least `_FAR` times the median.
"""
_ROOM = 1.15
_BEYOND = 2.0
"""An interval is cut at the largest mean times this factor, and at the smallest mean divided by it."""
_LINE_PX = FONT_PX + 2
_LONGER = 1.3


def readable_domain(values: Sequence[float]) -> tuple[list[float], bool]:
    """Returns the domain of an axis for `values`, and whether it starts at zero. It starts at zero unless the values
    would then be too close together to be readable.
    """
    low, high = max(0.0, min(values)), max(values)
    margin = 0.05 * high or 1.0 if math.isclose(low, high) else 0.08 * (high - low)
    if low < 0.5 * high or low <= margin:
        return [0.0, high + margin], True
    return [float(f"{low - margin:.2g}") if float(f"{low - margin:.2g}") <= low else low - margin, high + margin], False


class Axis(NamedTuple):
    """How figures are drawn along an axis. `says`: a sentence that explains the axis; "" for a linear axis from zero.
    `apart`: whether each panel has its own axis.
    """

    channel: Spec
    says: str = ""
    apart: bool = False


def cut(rows: Sequence[Row], zero: float = 0.0, limits: Sequence[float] = ()) -> list[Row]:
    """Returns the rows of a chart with intervals cut at `limits`, by default where very wide ones would compress the
    others. `below` and `above` are true if an interval was cut at that end. `zero` is the figure that stands for a
    ratio of 0.
    """
    means = [float(mean) - zero for row in rows if (mean := row.get("mean")) is not None] or [0.0]
    if min(means) < 0:
        return list(rows)
    least, most = limits or (zero + min(means) / _BEYOND, zero + max(means) * _BEYOND)
    made = []
    for row in rows:
        low, high = row.get("low"), row.get("high")
        ends: Row = {}
        if low is not None and high is not None:
            low, high = float(low), float(high)
            ends = {"low": max(least, low), "high": min(most, high), "below": low < least, "above": high > most}
        made.append(row | ends)
    return made


def on_axis(rows: Sequence[Row], axis: Axis) -> list[Row]:
    """Returns the rows with intervals cut at the ends of the axis. Only those that go beyond it have arrowheads."""
    return cut(rows, limits=axis.channel["scale"].get("domain", ()))


def says_cut(rows: Iterable[Row]) -> str:
    """Explains the arrowheads of intervals that were cut; "" if there are none."""
    return "Arrowheads: the interval goes on." * any(row.get("below") or row.get("above") for row in rows)


def axis_of(data: Figure, unit: str = "", *also: float) -> Axis:
    """Returns the axis for the figures of a chart, and for the values in `also`. Very wide intervals are cut."""
    axis = _axis_of([*cut(data.rows), *data.points], unit, *also)
    return axis._replace(says=f"{axis.says} {says_cut(on_axis(data.rows, axis))}".strip())


def _axis_of(rows: Sequence[Row], unit: str, *also: float) -> Axis:
    """Returns the axis. If a few large figures would compress the others, it is logarithmic. If the panels' figures are
    too far apart even for that, each panel has its own axis. If all figures are close, it does not start at zero.
    """
    of_panels: dict[str, list[float]] = {}
    for row in rows:
        of_panels.setdefault(str(row.get("panel", "")), []).extend(
            float(value) for name in (*FIELDS, "value") if (value := row.get(name)) is not None
        )
    ranges = [(min(values), max(values)) for values in of_panels.values() if values]
    low, high = min([*also, *(least for least, _ in ranges)]), max([*also, *(most for _, most in ranges)])
    is_apart = max(least for least, _ in ranges) >= _APART * min(most for _, most in ranges) and high >= _FAR * low
    if low > 0 and is_apart and high >= _TOO_FAR * low:
        zero = any(math.isclose(least, most) for least, most in ranges)  # an axis of one figure needs another end
        says = f"Each panel has its own axis{'' if zero else ', which need not start at zero'}."
        return Axis({"scale": {"zero": zero}}, says, apart=True)
    middle = statistics.median(value for values in of_panels.values() for value in values)
    if low > 0 and (is_apart or high >= _FAR * middle):
        ends = [low / _ROOM, high * _ROOM]
        scale = {"type": "log", "domain": ends, "nice": False}
        return Axis(
            {"scale": scale, "axis": {"values": round_figures(ends[0], ends[1]), "format": ","}},
            "Equal steps are equal ratios.",
        )
    domain, from_zero = readable_domain([low, high])
    says = "" if from_zero else f"The axis starts at {round_figure(domain[0])}{unit and f' {unit}'}, not at zero."
    return Axis({"scale": {"domain": domain, "zero": from_zero, "nice": False}}, says)


def means_with_intervals(data: Figure, sheet: Sheet, title: str, axis: Axis, *, at: float | None = None) -> Spec:
    """Returns a whole chart of means with their intervals, and of single runs if there are any.

    Levels that are amounts are side by side, and a line joins them. Other levels are below each other, so that their
    names are readable. `at`: the figure at which a dashed line is drawn.
    """
    upright = data.arrangement.is_ordered
    value, place, offset = ("y", "x", "xOffset") if upright else ("x", "y", "yOffset")
    levels = _levels(data, sheet.form, upright=upright)
    shared: Spec = {place: levels.channel}
    colour: Spec = {"color": palette.LINES[0]}
    if len(data.lines) > 1:
        key = {"title": f"{data.legend or data.arrangement.line_title} ({sheet.where})", "symbolOpacity": 1}
        shared |= told_apart(data, sheet.form, key, shape=palette.SHAPES)
        shared[offset] = {"field": "line", "sort": data.lines, "scale": {"domain": data.lines, "paddingOuter": 0.5}}
        colour = {}
    plain = {name: one for name, one in shared.items() if name != "shape"}

    ticks = {} if upright else across(sheet.form, len(data.panels))
    values = axis.channel | {"axis": ticks | axis.channel.get("axis", {})}

    def layer(rows: str, mark: Spec, encoding: Spec, field: str) -> Spec:
        return only(rows, colour | mark, encoding | {value: figure(field, f"{title} ({sheet.where})", **values)})

    line = {"type": "line", "strokeWidth": 1.5, "opacity": 0.7, "aria": False}
    run = DOT | {"size": 16, "opacity": 0.5, "shape": "square"}  # a square needs few letters, and runs may be many
    mean = {value: figure("mean", f"{title} ({sheet.where})", **values)}
    layers = [
        *([dashed(value, at)] if at is not None else []),
        *([layer("isValid(datum.mean)", line, plain, "mean")] if upright else []),
        *intervals("true", value, colour, plain | TIP | mean),
        *means("isValid(datum.mean) && !datum.pick", colour | DOT, shared | TIP | mean),
        *means("isValid(datum.mean) && datum.pick", colour | STARRED, plain | TIP | mean),
        # Runs are drawn above the means, because a click on a run selects it.
        *([layer("isValid(datum.value)", run, plain | TIP, "value")] if data.points else []),
    ]
    height_px = None if upright else max(levels.height_px, 14 * len(data.lines) + 10) * len(data.x_levels)
    apart = value if axis.apart else ""
    rows, panels = [*on_axis(data.rows, axis), *data.points], data.starred(data.panels)
    return finished(sheet, layers, rows, panels, height_px, apart=apart, axis_px=levels.names_px)


def ratios(data: Figure, sheet: Sheet, title: str) -> Spec:
    """Returns a whole chart of ratios, with a dashed line at 1."""
    return means_with_intervals(data, sheet, title, axis_of(data, "", 1.0), at=1.0)


def dashed(channel: str, *at: float) -> Spec:
    """Returns a layer of dashed lines across a chart, at these values of the channel."""
    return {
        "data": {"values": [{"at": one} for one in at]},
        "mark": {"type": "rule", "color": palette.INK, "opacity": 0.6, "strokeDash": [4, 3]},
        "encoding": {channel: {"field": "at", "type": "quantitative"}},
    }


def _levels(data: Figure, form: Form, *, upright: bool) -> Rows:
    """Returns the axis of levels. Levels are evenly spaced, whatever their values are."""
    scale = {"domain": data.x_levels, "paddingInner": 0.12, "paddingOuter": 0.06}
    if not upright:
        letters = 18 if form is NARROW or len(data.panels) > 1 else 40
        rows = named_rows("x", {text: text for text in data.x_levels}, letters)
        return rows._replace(channel=rows.channel | {"scale": scale})
    space_px = form.panel_width_px(len(data.panels)) / max(1, len(data.x_levels))
    angle = 0 if space_px > LETTER_PX * (1 + max(map(len, data.x_levels))) else -50
    axis = {"labelAngle": angle, "labelLimit": 0, "labelOverlap": False}
    title = data.arrangement.x_title or None
    ordinal = {"field": "x", "type": "ordinal", "sort": data.x_levels, "scale": scale, "title": title, "axis": axis}
    return Rows(ordinal, 0, AXIS_PX)


class Rows(NamedTuple):
    """A vertical axis of rows with names: its channel, the height of a row, and the width of the names."""

    channel: Spec
    height_px: int
    names_px: int


def named_rows(field: str, labels: Mapping[str, str], letters: int) -> Rows:
    """Returns rows named by `labels`. Labels are broken into lines of about `letters` letters. Words that are a little
    longer stay whole. Labels with a star are bold.
    """
    words = (len(word) for label in labels.values() for word in label.split())
    letters = max([letters, *(length for length in words if length <= _LONGER * letters)])
    lines = {name: wrapped(label, letters) for name, label in labels.items()}
    starred = [name for name, label in labels.items() if label.startswith(STAR)]
    counts = [*map(len, lines.values())]
    near = max([counts[0], *map(sum, itertools.pairwise(counts))]) / 2
    offsets = [
        {"test": _among(name for name in lines if len(lines[name]) == number), "value": (1 - number) * _LINE_PX / 2}
        for number in range(2, max(counts) + 1)
    ]
    longest = max(len(line) * (BOLD if name in starred else 1) for name in lines for line in lines[name])
    names_px = int(LETTER_PX * longest) + 12
    axis = {
        "labelExpr": in_lines(lines), "labelLimit": 0, "labelOpacity": 1, "labelLineHeight": _LINE_PX,
        "labelFontWeight": {"condition": {"test": _among(starred), "value": "bold"}, "value": "normal"},
        "labelOffset": {"condition": offsets, "value": 0} if offsets else 0, "minExtent": names_px,
    }  # fmt: skip
    channel = {"field": field, "type": "nominal", "sort": list(labels), "title": None, "axis": axis,
               "scale": {"domain": list(labels)}}  # fmt: skip
    return Rows(channel, int(_LINE_PX * near) + 10, names_px)


def across(form: Form, panels: int = 1) -> Spec:
    """Returns a horizontal axis of figures under rows. It has a grid, and as many ticks as fit."""
    return {"grid": True, "tickCount": max(3, form.panel_width_px(panels) // 90)}


def _among(names: Iterable[str]) -> str:
    return f"indexof([{', '.join(map(quoted, names))}], datum.value) >= 0"


def told_apart(data: Figure, form: Form, legend: Spec, **marks: Sequence[object]) -> Spec:
    """Returns the channels that distinguish lines: the colour, and the channels in `marks`. One legend explains all."""
    key = {"field": "line", "type": "nominal", "sort": data.lines}
    legend = {**legend, **legend_layout(data.starred(data.lines), form)}
    return {
        channel: key | {"scale": {"domain": data.lines, "range": list(some)[: len(data.lines)]}, "legend": legend}
        for channel, some in {"color": palette.LINES, **marks}.items()
    }


def only(rows: str, mark: Spec, encoding: Spec) -> Spec:
    """Returns a layer of the rows that satisfy the expression `rows`."""
    return {"transform": [{"filter": rows}], "mark": mark, "encoding": encoding}


def means(rows: str, mark: Spec, encoding: Spec) -> list[Spec]:
    """Returns layers of the means that satisfy the expression `rows`. A mean without an interval is an outline in its
    colour. An outlined star is filled with the background's colour.
    """
    outline = {key: value for key, value in mark.items() if key != "stroke"} | {"filled": False, "strokeWidth": 1.8}
    outline |= {"fill": palette.GROUND} if "stroke" in mark else {}
    return [only(f"{rows} && !datum.hollow", mark, encoding), only(f"{rows} && datum.hollow", outline, encoding)]


def intervals(rows: str, along: str, mark: Spec, encoding: Spec) -> list[Spec]:
    """Returns layers of the intervals of the rows that satisfy the expression `rows`. Ends that were cut have
    arrowheads. `along`: the channel of the means.
    """
    low, high = (encoding | {along: encoding[along] | {"field": end}} for end in ("low", "high"))
    head = {"type": "point", "size": 50, "filled": True, "opacity": 1} | mark
    below, above = ({"shape": f"triangle-{way}"} for way in (("down", "up") if along == "y" else ("left", "right")))
    return [
        only(f"{rows} && isValid(datum.low)", RULE | mark, low | {f"{along}2": {"field": "high"}}),
        only(f"{rows} && datum.below", head | below, low),
        only(f"{rows} && datum.above", head | above, high),
    ]


def legend_layout(labels: Mapping[str, str], form: Form, axis_px: int = 70) -> Spec:
    """Returns the layout of a legend. It has as many columns as fit beside a vertical axis, each as wide as the longest
    label. A label that is too long is broken into lines, never cut.
    """
    longest, width_px = max(map(len, labels.values()), default=1), form.width_px - axis_px
    columns = max(1, min(5, len(labels), int(width_px // (WIDER * LETTER_PX * longest + 34))))
    letters = max(8, int((width_px // columns - 24) / (WIDER * LETTER_PX)))
    return {
        "columns": columns,
        "labelLimit": 0,
        "labelExpr": in_lines({name: wrapped(text, letters) for name, text in labels.items()}),
        "columnPadding": 14 + int((WIDER - 1) * LETTER_PX * min(longest, letters)),
    }
