"""Pieces that several charts share: means with their intervals along the axis, legends, axes. Pure."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from storagelab.report.drawing import palette
from storagelab.report.drawing.chart import Figure
from storagelab.report.drawing.vega import Form, Sheet, Spec, finished, in_lines
from storagelab.words.numbers import round_figure

_FAR, _APART = 6.0, 3.0
"""A chart hides its small figures if the largest is so many times the median, or the panels are so many times apart."""
_ROOM = 1.15
_MOST_TICKS = 9
TIP: Spec = {"description": {"field": "tip", "type": "nominal"}}


FIELDS = ("mean", "low", "high")
"""A mean and the ends of its interval, as rows name them."""


def domain(data: Figure, also: float) -> list[float]:
    """The range of everything drawn, extended by a margin; it includes `also`."""
    values = [also, *(float(value) for row in data.rows for name in FIELDS if (value := row[name]) is not None)]
    margin = 0.06 * (max(values) - min(values)) or 0.05 * also
    return [min(values) - margin, max(values) + margin]


def readable_domain(values: Sequence[float]) -> tuple[list[float], bool]:
    """An axis of `values`, and whether it starts at zero: it does, unless that would put them too close together to
    read.
    """
    low, high = max(0.0, min(values)), max(values)
    margin = 0.08 * (high - low) or 0.05 * high or 1.0
    if low < 0.5 * high or low <= margin:
        return [0.0, high + margin], True
    return [float(f"{low - margin:.2g}") if float(f"{low - margin:.2g}") <= low else low - margin, high + margin], False


class Axis(NamedTuple):
    """How figures are drawn along an axis. `says`: what readers must know, in a sentence; "" for even steps from zero.
    `apart`: each panel has an axis of its own.
    """

    scale: Spec
    ticks: Spec
    says: str
    apart: bool = False

    @property
    def note(self) -> str:
        """`says` as the end of a subtitle."""
        return f"; {self.says[:1].lower()}{self.says[1:].removesuffix('.')}" if self.says else ""


def axis_of(data: Figure, unit: str = "", *, always_zero: bool = False) -> Axis:
    """The axis of the figures of a chart. Where a few large ones would press the rest together, panels get axes of
    their own if the large ones fill a panel; else equal steps are equal ratios. Where all are close, it does not start
    at zero unless `always_zero`.
    """
    of_panels: dict[str, list[float]] = {}
    for row in (*data.rows, *data.points):
        of_panels.setdefault(str(row.get("panel", "")), []).extend(
            float(value) for name in (*FIELDS, "elapsed_s") if (value := row.get(name)) is not None
        )
    ranges = [(min(values), max(values)) for values in of_panels.values() if values]
    low, high = min(least for least, _ in ranges), max(most for _, most in ranges)
    if low > 0 and max(least for least, _ in ranges) >= _APART * min(most for _, most in ranges) and high >= _FAR * low:
        return Axis({"zero": always_zero}, {}, "Each panel has its own axis, which need not start at zero.", apart=True)
    if low > 0 and high >= _FAR * statistics.median(value for values in of_panels.values() for value in values):
        ends = [low / _ROOM, high * _ROOM]
        scale = {"type": "log", "domain": ends, "nice": False}
        return Axis(scale, {"axis": {"values": _round_figures(*ends), "format": ","}}, "Equal steps are equal ratios.")
    domain, from_zero = ([0.0, 1.06 * high or 1.0], True) if always_zero else readable_domain([low, high])
    says = "" if from_zero else f"The axis starts at {round_figure(domain[0])}{unit and f' {unit}'}, not at zero."
    return Axis({"domain": domain, "zero": from_zero, "nice": False}, {}, says)


def _round_figures(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... within a range, or 1, 10, 100, ... if these are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    found = [value for value in found if low <= value <= high]
    return found if len(found) <= _MOST_TICKS else [value for value in found if f"{value:e}".startswith("1.0")]


def means_with_intervals(
    data: Figure,
    sheet: Sheet,
    y_title: str,
    *,
    axis: Axis | None = None,
    also: float = 0.0,
    note: str = "",
    height: int | None = None,
    below: Sequence[Spec] = (),
) -> Spec:
    """A whole chart of means along `axis`, else along one that includes the value `also`; the layers `below` are drawn
    first.
    """
    axis = axis or Axis({"domain": domain(data, also), "zero": not also}, {}, "")
    y = {"type": "quantitative", "scale": axis.scale, **axis.ticks}
    layers = [*below, *means(data, sheet, y, f"{y_title} ({sheet.where})")]
    note, height = note + axis.note, height or sheet.form.height_of(len(data.panels))
    return in_panels(finished(sheet, note, layers, dodged_rows(data), data.panels, height), apart=axis.apart)


def in_panels(spec: Spec, *, apart: bool) -> Spec:
    """A chart whose panels have their own axes if they are `apart`."""
    return spec | {"resolve": {"scale": {"y": "independent"}}} if apart and "facet" in spec else spec


def means(data: Figure, sheet: Sheet, y: Spec, y_title: str) -> list[Spec]:
    """Layers of means with their intervals along the axis, a line through them if the axis has an order, and single
    runs if there are any.
    """
    mean_y = y | {"field": "mean", "title": y_title}
    shared = _dodged(data, sheet)
    plain = {key: value for key, value in shared.items() if key != "shape"}
    colour: Spec = {} if len(data.lines) > 1 else {"color": palette.LINES[0]}

    def layer(kind: str, mark: Spec, encoding: Spec) -> Spec:
        return only(f"datum.kind === '{kind}'", colour | mark, encoding)

    line = layer("mean", {"type": "line", "strokeWidth": 1.5, "opacity": 0.55, "aria": False}, plain | {"y": mean_y})
    layers = [
        *([line] if data.arrangement.is_ordered else []),
        layer("interval", {"type": "rule", "strokeWidth": 2.5, "strokeCap": "round"},
              plain | TIP | {"y": y | {"field": "low"}, "y2": {"field": "high"}}),
        layer("mean", {"type": "point", "size": 66, "filled": True, "opacity": 1}, shared | TIP | {"y": mean_y}),
    ]  # fmt: skip
    if data.points:
        small = {"type": "point", "size": 20, "filled": True, "opacity": 0.45}
        layers.insert(len(layers) - 2, layer("run", small, shared | TIP | {"y": y | {"field": "elapsed_s"}}))
    return layers


def dodged_rows(data: Figure) -> list[Mapping[str, object]]:
    """Means, intervals and runs in one list, distinguished by `kind`, because panels can split only one list. A line
    has two slots side by side: its runs, then its mean.
    """
    rows: list[Mapping[str, object]] = []
    for row in data.rows:
        place: Mapping[str, object] = {"slot": f"{data.lines.index(str(row['line']))} mean"}
        rows.append({**place, "kind": "mean", **row})
        if row["low"] is not None:
            rows.append({**place, "kind": "interval", **row})
    rows += [{"slot": f"{data.lines.index(str(row['line']))} run", "kind": "run", **row} for row in data.points]
    return rows


def _dodged(data: Figure, sheet: Sheet) -> Spec:
    """Places along the axis and, if there are several lines, what distinguishes the lines."""
    x = level_axis(data, sheet.form)
    kinds = ("run", "mean") if data.points else ("mean",)
    slots = [f"{index} {kind}" for index in range(len(data.lines)) for kind in kinds]
    padding = {1: 6.0, 2: 2.4, 3: 1.4, 4: 1.2}.get(len(data.lines), 0.5)
    places: Spec = {
        "x": x | {"scale": x["scale"] | {"paddingInner": 0.12, "paddingOuter": 0.06}},
        "xOffset": {
            "field": "slot",
            "type": "nominal",
            "sort": slots,
            "scale": {"domain": slots, "paddingOuter": padding},
        },
    }
    if len(data.lines) < 2:
        return places
    title = f"{data.legend or data.arrangement.line_title} ({sheet.where})"
    return places | told_apart(data, sheet.form, {"title": title, "symbolOpacity": 1}, shape=palette.SHAPES)


def told_apart(data: Figure, form: Form, legend: Spec, **marks: Sequence[object]) -> Spec:
    """What distinguishes lines: their colours, and channels of other `marks`, explained in one legend."""
    key = {"field": "line", "type": "nominal", "sort": data.lines}
    legend = {**legend, **legend_layout(data.lines, form)}
    return {
        channel: key | {"scale": {"domain": data.lines, "range": list(some)[: len(data.lines)]}, "legend": legend}
        for channel, some in {"color": data.colours.values(), **marks}.items()
    }


def only(rows: str, mark: Spec, encoding: Spec) -> Spec:
    """A layer of the rows that satisfy an expression."""
    return {"transform": [{"filter": rows}], "mark": mark, "encoding": encoding}


def level_axis(data: Figure, form: Form) -> Spec:
    """The axis of levels, evenly spaced whatever their values. Long labels are broken into lines, and slanted if that
    is not enough; none is cut.
    """
    letters = int(form.panel_width_px(len(data.panels)) / max(1, len(data.x_levels)) / _LETTER_PX)
    fits = all(len(word) <= letters for text in data.x_levels for word in text.split())
    fits = fits and all(len(textwrap.wrap(text, letters)) <= _LABEL_LINES for text in data.x_levels)
    lines = {text: textwrap.wrap(text, letters if fits else _SLANTED_LETTERS) or [text] for text in data.x_levels}
    angle = 0 if fits else -35 if all(len(of) == 1 for of in lines.values()) else -60
    axis = {"labelAngle": angle, "labelLimit": 0, "labelExpr": in_lines(lines)}
    return {
        "field": "x", "type": "ordinal", "sort": data.x_levels, "scale": {"domain": data.x_levels},
        "title": data.arrangement.x_title or None, "axis": axis,
    }  # fmt: skip


def legend_layout(labels: Sequence[str], form: Form) -> Spec:
    """As many columns as fit with the longest label. A label too long for its column is broken into lines; none is
    cut.
    """
    longest, width_px = max(map(len, labels), default=1), form.panel_width_px(1)
    columns = max(1, min(form.legend_columns, len(labels), int(width_px // (_LETTER_PX * longest + 34))))
    letters = int((width_px // columns - 24) / (_WIDER * _LETTER_PX))
    return {
        "columns": columns,
        "labelLimit": 0,
        "labelExpr": in_lines({text: textwrap.wrap(text, letters) or [text] for text in labels}),
        "columnPadding": 14 + int((_WIDER - 1) * _LETTER_PX * min(longest, letters)),
    }


_LETTER_PX = 6.4
_LABEL_LINES = 4
_SLANTED_LETTERS = 26
_WIDER = 1.2
"""A browser may draw text wider than it was measured, by this factor at most, as fonts differ."""
