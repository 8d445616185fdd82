"""Findings and runs -> Vega-Lite specs, as plain dicts; the page and the PNG and SVG files draw the same ones.

    specs(findings, runs)["completion-time"] -> to_png(...)

Nothing is computed here: `figure_data` has the numbers, `vega` the look.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from storagelab.findings.model import Findings
from storagelab.model.measurement import Run
from storagelab.report.charts import best_case as best_case_data
from storagelab.report.charts import figure_data
from storagelab.report.charts import over_time as series_data
from storagelab.report.charts import raw_io as raw_io_data
from storagelab.report.charts import speed_ups as comparison_data
from storagelab.report.charts.figure_data import Figure
from storagelab.report.drawing import palette
from storagelab.report.drawing.vega import NARROW, WIDE, Form, Spec, finished, in_lines, to_png, to_svg

__all__ = ["Drawn", "figures", "specs", "to_png", "to_svg"]

_TIP = {"description": {"field": "tip", "type": "nominal"}}
_FEW_PX_PER_LABEL = 36
_CHARACTERS_OF_A_NARROW_LABEL = 26
_DASHES = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2])
"""A line over time is known by its dashes as well as by its colour."""
MANY_PANELS = 9
_ROOM = 1.03
"""How far axes of time series go beyond their last and largest points, so that these are drawn whole."""
_Maker = Callable[[Figure, str, str, str, Form], Spec]


@dataclass(frozen=True)
class Drawn:
    """One chart in both widths, with the data it shows."""

    name: str
    title: str
    data: Figure
    wide: Spec
    narrow: Spec


def specs(findings: Findings, runs: Sequence[Run]) -> dict[str, Spec]:
    """Chart name -> Vega-Lite spec, for files. A chart without data is left out."""
    return {drawn.name: drawn.wide for drawn in figures(findings, runs)}


def figures(findings: Findings, runs: Sequence[Run]) -> list[Drawn]:
    """All charts that there is data for, in reading order."""
    where = findings.provenance or "nothing measured yet"
    makers: tuple[tuple[str, str, Figure, _Maker], ...] = (
        ("completion-time", "Completion time", figure_data.completion_time(findings), _completion_time),
        (
            best_case_data.NAME,
            best_case_data.title(findings),
            best_case_data.best_case(findings),
            _best_case,
        ),
        *((rate.name, rate.title, raw_io_data.rates(findings, rate), _rates(rate.unit)) for rate in raw_io_data.RATES),
        (
            "write-amplification",
            "What the drive wrote",
            comparison_data.write_amplification(findings),
            _write_amplification,
        ),
        ("effects", "What each factor does", figure_data.effects(findings), _effects),
        *(
            (
                f"speed-up-{number}",
                comparison_data.speed_up_title(findings, factor),
                comparison_data.speed_ups(findings, factor),
                _speed_ups,
            )
            for number, factor in enumerate(comparison_data.compared_factors(findings), 1)
        ),
        ("waits", "Where the connections' time goes", figure_data.waits(findings), _waits),
        *(
            (quantity.name, quantity.title, series_data.over_time(findings, runs, quantity), _over_time(quantity.unit))
            for quantity in series_data.QUANTITIES
        ),
    )
    drawn = []
    for name, title, data, make in makers:
        if data.rows:
            subtitle = f"{findings.experiment} · {where}"
            wide, narrow = (make(data, where, title, subtitle, form) for form in (WIDE, NARROW))
            drawn.append(Drawn(name=name, title=title, data=data, wide=wide, narrow=narrow))
    return drawn


# ---------------------------------------------------------------------------------------------------------------------
# The charts
# ---------------------------------------------------------------------------------------------------------------------


def _completion_time(data: Figure, where: str, title: str, subtitle: str, form: Form) -> Spec:
    domain, from_zero = time_domain(data)
    y = {"type": "quantitative", "scale": {"domain": domain, "zero": from_zero, "nice": False}}
    fields = ("mean_s", "low_s", "high_s")
    layers = _means(data, where, form, fields, y, f"completion time, s ({where})", "elapsed_s")
    note = "mean with 95 % interval, and every run" if data.points else "mean with 95 % interval"
    note += "" if from_zero else f"; the axis starts at {domain[0]:g} s"
    rows, height_px = _dodged_rows(data, fields), _height_px(data, form)
    return finished(title, f"{subtitle}; {note}", layers, rows, data.panels, form, height_px)


def _best_case(data: Figure, where: str, title: str, subtitle: str, form: Form) -> Spec:
    fields = ("mean_s", "low_s", "high_s")
    y = {"type": "quantitative", "scale": {"domain": _domain(data, fields, 0.0), "zero": True}}
    layers = _means(data, where, form, fields, y, f"completion time, s ({where})")
    rows = _dodged_rows(data, fields)
    return finished(title, subtitle, layers, rows, data.panels, form, form.height_px * 3 // 4)


def _rates(unit: str) -> _Maker:
    def make(data: Figure, where: str, title: str, subtitle: str, form: Form) -> Spec:
        fields = ("mean", "low", "high")
        y = {"type": "quantitative", "scale": {"domain": _domain(data, fields, 0.0), "zero": True}}
        layers = _means(data, where, form, fields, y, f"{unit} ({where})")
        note = f"{subtitle}; mean with 95 % interval"
        return finished(title, note, layers, _dodged_rows(data, fields), data.panels, form, _height_px(data, form))

    return make


def _speed_ups(data: Figure, where: str, title: str, subtitle: str, form: Form) -> Spec:
    y = {"type": "quantitative", "scale": {"domain": _domain(data, ("speed_up", "low", "high"), 1.0), "zero": False}}
    fields = ("speed_up", "low", "high")
    layers = [_rule_at(1.0), *_means(data, where, form, fields, y, f"times as fast ({where})")]
    of = f"; {data.lines[0]}" if len(data.lines) == 1 else ""
    note = f"{subtitle}{of}; above the dashed line is faster"
    height_px = form.height_px * 3 // 4 if len(data.panels) < 2 else _height_px(data, form)
    return finished(title, note, layers, _dodged_rows(data, fields), data.panels, form, height_px)


def _write_amplification(data: Figure, where: str, title: str, subtitle: str, form: Form) -> Spec:
    y = {"type": "quantitative", "scale": {"domain": _domain(data, ("mean", "low", "high"), 1.0), "zero": False}}
    fields = ("mean", "low", "high")
    layers = _means(data, where, form, fields, y, f"write amplification ({where})")
    note = f"{subtitle}; drive {data.rows[0]['drive']}, mean with 95 % interval"
    return finished(title, note, layers, _dodged_rows(data, fields), data.panels, form, _height_px(data, form))


def _height_px(data: Figure, form: Form) -> int:
    """Of one panel: lower where there are more than three rows of them."""
    height_px = form.height_of(len(data.panels))
    return height_px if len(data.panels) <= MANY_PANELS else height_px * 3 // 5


def _domain(data: Figure, fields: Sequence[str], also: float) -> list[float]:
    """From the least to the most of what is drawn, `also` within it, with some room."""
    values = [also, *(float(value) for row in data.rows for name in fields if (value := row[name]) is not None)]
    room = 0.06 * (max(values) - min(values)) or 0.05 * also
    return [min(values) - room, max(values) + room]


def _rule_at(value: float) -> Spec:
    encoding = {"y": {"field": "at", "type": "quantitative"}}
    mark = {"type": "rule", "color": palette.MUTED, "strokeDash": [4, 3]}
    return {"data": {"values": [{"at": value}]}, "mark": mark, "encoding": encoding}


def _means(data: Figure, where: str, form: Form, fields: tuple[str, str, str], y: Spec, y_title: str,
           run_field: str = "") -> list[Spec]:  # fmt: skip
    """Layers of means with their intervals along the axis, a line through them, and single runs where they are told."""
    mean, low, high = fields
    mean_y = y | {"field": mean, "title": y_title}
    shared = _dodged(data, where, form)
    plain = {key: value for key, value in shared.items() if key != "shape"}
    colour: Spec = {} if len(data.lines) > 1 else {"color": palette.LINES[0]}

    def layer(kind: str, mark: Spec, encoding: Spec) -> Spec:
        return _only(f"datum.kind === '{kind}'", colour | mark, encoding)

    layers = [
        layer("mean", {"type": "line", "strokeWidth": 1.5, "opacity": 0.55, "aria": False}, plain | {"y": mean_y}),
        layer("interval", {"type": "rule", "strokeWidth": 2.5, "strokeCap": "round"},
              plain | _TIP | {"y": y | {"field": low}, "y2": {"field": high}}),
        layer("mean", {"type": "point", "size": 66, "filled": True, "opacity": 1}, shared | _TIP | {"y": mean_y}),
    ]  # fmt: skip
    if run_field:
        small = {"type": "point", "size": 20, "filled": True, "opacity": 0.45}
        layers.insert(1, layer("run", small, shared | _TIP | {"y": y | {"field": run_field}}))
    return layers


def _dodged_rows(data: Figure, fields: tuple[str, str, str]) -> list[Mapping[str, object]]:
    """Means, intervals and runs in one list, told apart by `kind`, as panels can split one list only. A line has two
    slots side by side: its runs, then its mean."""
    rows: list[Mapping[str, object]] = []
    for row in data.rows:
        place: Mapping[str, object] = {"slot": f"{data.lines.index(str(row['line']))} mean"}
        rows.append({**place, "kind": "mean", **row})
        if row[fields[1]] is not None:
            rows.append({**place, "kind": "interval", **row})
    rows += [{"slot": f"{data.lines.index(str(row['line']))} run", "kind": "run", **row} for row in data.points]
    return rows


def _dodged(data: Figure, where: str, form: Form) -> Spec:
    """Places along the axis, and what tells the lines apart where there are several."""
    x = _x(data, form)
    kinds = ("run", "mean") if data.points else ("mean",)
    slots = [f"{index} {kind}" for index in range(len(data.lines)) for kind in kinds]
    room = {1: 6.0, 2: 2.4, 3: 1.4, 4: 1.2}.get(len(data.lines), 0.5)
    places: Spec = {
        "x": x | {"scale": x["scale"] | {"paddingInner": 0.12, "paddingOuter": 0.06}},
        "xOffset": {
            "field": "slot",
            "type": "nominal",
            "sort": slots,
            "scale": {"domain": slots, "paddingOuter": room},
        },
    }
    if len(data.lines) < 2:
        return places
    key = {"field": "line", "type": "nominal", "sort": data.lines}
    columns = _legend_columns(data.lines, form)
    legend = {"title": f"{data.legend or data.arrangement.line_title} ({where})", "columns": columns, "symbolOpacity": 1,
              "labelLimit": _label_limit(columns, form)}  # fmt: skip
    colours, shapes = list(data.colours.values()), list(palette.SHAPES[: len(data.lines)])
    return places | {
        "color": key | {"scale": {"domain": data.lines, "range": colours}, "legend": legend},
        "shape": key | {"scale": {"domain": data.lines, "range": shapes}, "legend": legend},
    }


def time_domain(data: Figure) -> tuple[list[float], bool]:
    """The axis and whether it starts at zero: it does unless the times are so close that nothing could be read."""
    values = [
        float(row[key] or 0) for row in data.rows for key in ("mean_s", "low_s", "high_s") if row[key] is not None
    ]
    values += [float(row["elapsed_s"] or 0) for row in data.points]
    low, high = max(0.0, min(values)), max(values)
    room = 0.08 * (high - low) or 0.05 * high or 1.0
    if low < 0.5 * high or low <= room:
        return [0.0, high + room], True
    return [float(f"{low - room:.2g}") if float(f"{low - room:.2g}") <= low else low - room, high + room], False


def _waits(data: Figure, where: str, title: str, subtitle: str, form: Form) -> Spec:
    top = max(1.0, *(float(row["high"] or 0) for row in data.rows))
    low_panels = len(data.panels) > MANY_PANELS
    share = "share of time" if low_panels else "share of connections × elapsed"
    y = {
        "type": "quantitative",
        "scale": {"domain": [0, top]},
        "axis": {"labelExpr": "format(100 * datum.value, '.0f') + ' %'"},
    }
    columns = _legend_columns(data.lines, form)
    legend = {"title": f"from the bottom up ({where})", "columns": columns, "symbolType": "square",
              "symbolSize": 90, "labelLimit": _label_limit(columns, form)}  # fmt: skip
    colour = {"field": "part", "type": "nominal", "sort": data.lines, "legend": legend,
              "scale": {"domain": data.lines, "range": list(data.colours.values())}}  # fmt: skip
    x = _x(data, form)
    bars = {
        "mark": {"type": "bar", "stroke": palette.GROUND, "strokeWidth": 1},
        "encoding": _TIP | {
            "x": x | {"scale": x["scale"] | {"paddingInner": 0.22, "paddingOuter": 0.12}},
            "y": y | {"field": "low", "title": f"{share} ({where})"},
            "y2": {"field": "high"},
            "color": colour,
        },
    }  # fmt: skip
    layers: list[Spec] = [{"transform": [{"filter": "datum.share > 0"}]} | bars]
    if form.panel_width_px(len(data.panels)) / max(1, len(data.x_levels)) >= _FEW_PX_PER_LABEL:
        text = {"x": x, "y": y | {"field": "middle"}, "text": {"field": "label"},
                "color": {"field": "ink", "type": "nominal", "scale": None}}  # fmt: skip
        mark = {"type": "text", "fontSize": form.font_px - 2, "aria": False}
        tall = "datum.share >= 0.1" if low_panels else "datum.label !== ''"
        layers.append({"transform": [{"filter": tall}], "mark": mark, "encoding": text})
    height_px = max(form.height_of(len(data.panels)), 250)
    if low_panels:
        height_px = height_px * 3 // 5
    return finished(title, subtitle, layers, data.rows, data.panels, form, height_px)


def _effects(data: Figure, where: str, title: str, subtitle: str, form: Form) -> Spec:
    names = [str(row["effect"]) for row in data.rows]
    lines = {name: _effect_lines(name, form) for name in names}
    label_px = min(form.width_px * 45 // 100, 8 * max(len(line) for of_name in lines.values() for line in of_name))
    axis: Spec = {"labelLimit": label_px, "minExtent": label_px, "labelColor": palette.INK, "grid": True}
    if form is NARROW:
        axis["labelExpr"] = in_lines(lines)
    y = {"field": "effect", "type": "nominal", "sort": names, "title": None, "axis": axis}
    kinds = {
        figure_data.FASTER: palette.FASTER,
        figure_data.SLOWER: palette.SLOWER,
        figure_data.UNDECIDED: palette.NEUTRAL,
    }
    legend = {"title": f"95 % interval against no change ({where})", "columns": 3 if form is WIDE else 1}
    colour = {"field": "judged", "type": "nominal", "scale": {"domain": list(kinds), "range": list(kinds.values())},
              "legend": legend}  # fmt: skip
    x = {
        "type": "quantitative",
        "title": f"change of time, % ({where})",
        "axis": {"tickCount": 8 if form is WIDE else 4},
    }
    layers: list[Spec] = [
        {"data": {"values": [{"zero": 0}]}, "mark": {"type": "rule", "color": palette.MUTED, "strokeDash": [4, 3]},
         "encoding": {"x": {"field": "zero", "type": "quantitative"}}},
        {"mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round"},
         "encoding": _TIP | {"y": y, "x": x | {"field": "low_percent"}, "x2": {"field": "high_percent"},
                             "color": colour}},
        {"mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
         "encoding": _TIP | {"y": y, "x": x | {"field": "change_percent"}, "color": colour}},
    ]  # fmt: skip
    height_px = (30 if form is WIDE else 10 + 14 * max(map(len, lines.values()))) * len(names)
    spec = finished(title, f"{subtitle}; left of the dashed line is faster", layers, data.rows, [], form, height_px)
    return spec | {"width": form.width_px - label_px - 30}


def _effect_lines(name: str, form: Form) -> list[str]:
    """A comparison as the lines of its label: one where there is room, else the factor's name and its levels below it."""
    if form is WIDE:
        return [name]
    return [line for part in name.split(": ") for line in textwrap.wrap(part, _CHARACTERS_OF_A_NARROW_LABEL) or [""]]


def _over_time(unit: str) -> _Maker:
    """A chart of lines over a run's seconds, in `unit`."""

    def make(data: Figure, where: str, title: str, subtitle: str, form: Form) -> Spec:
        key = {"field": "line", "type": "nominal", "sort": data.lines}
        columns = _legend_columns(data.lines, form)
        end_s, top = (max(float(row[name] or 0) for row in data.rows) or 1.0 for name in ("at_s", "value"))
        legend = {"title": where, "columns": columns, "symbolType": "stroke", "symbolSize": 200,
                  "labelLimit": _label_limit(columns, form)}  # fmt: skip
        encoding: Spec = {
            "x": {
                "field": "at_s",
                "type": "quantitative",
                "title": f"seconds since the start ({where})",
                "scale": {"domain": [0, end_s * _ROOM], "nice": False},
                "axis": {"tickMinStep": 1, "tickCount": 6},
            },
            "y": {
                "field": "value",
                "type": "quantitative",
                "title": unit,
                "scale": {"domain": [0, _round_end(top * _ROOM)], "nice": False},
            },
        }
        colour: Spec = {"color": palette.LINES[0]}
        if len(data.lines) > 1:
            dashes = [_DASHES[place % len(_DASHES)] for place in range(len(data.lines))]
            encoding["color"] = key | {
                "scale": {"domain": data.lines, "range": list(data.colours.values())}, "legend": legend,
            }  # fmt: skip
            encoding["strokeDash"] = key | {"scale": {"domain": data.lines, "range": dashes}, "legend": legend}
            colour = {}
        # What the page's script adds to a line's words is the point that is pointed at.
        of_run = encoding | {"detail": {"field": "series", "type": "nominal"}, "description": {"field": "run"}}
        layers = [
            _only("!datum.median", {"type": "line", "strokeWidth": 0.8, "opacity": 0.65} | colour, of_run),
            _only("datum.median", {"type": "line", "strokeWidth": 1.5} | colour, of_run),
            _only(
                "datum.dotted", {"type": "point", "size": 14, "filled": True, "opacity": 1} | colour, encoding | _TIP
            ),
        ]
        height_px = form.height_px * 2 // 3 if len(data.panels) < 2 else 100
        # A single line has no legend to name it in.
        of = f"; {data.lines[0]}" if len(data.lines) == 1 else ""
        note = f"{subtitle}; thick: the run of median time, thin: the others{of}"
        return finished(title, note, layers, data.rows, data.panels, form, height_px)

    return make


def _round_end(value: float) -> float:
    """The first round number from `value` on, so that an axis of five steps or so ends with one of them."""
    power = 10.0 ** math.floor(math.log10(value / 5))
    step = next(factor for factor in (1, 2, 5, 10) if value / 5 <= factor * math.sqrt(2) * power) * power
    return math.ceil(value / step) * step


def _only(rows: str, mark: Spec, encoding: Spec) -> Spec:
    """A layer of the rows for which an expression holds."""
    return {"transform": [{"filter": rows}], "mark": mark, "encoding": encoding}


# ---------------------------------------------------------------------------------------------------------------------
# Shared pieces
# ---------------------------------------------------------------------------------------------------------------------


def _x(data: Figure, form: Form) -> Spec:
    """The axis of levels, evenly spaced whatever their values; long labels are slanted."""
    per_label_px = form.panel_width_px(len(data.panels)) / max(1, len(data.x_levels))
    crowded = 6.5 * max(map(len, data.x_levels)) > per_label_px and max(map(len, data.x_levels)) > 3
    axis = {"labelAngle": -35 if crowded else 0, "labelLimit": 150}
    return {
        "field": "x", "type": "ordinal", "sort": data.x_levels, "scale": {"domain": data.x_levels},
        "title": data.arrangement.x_title or None, "axis": axis,
    }  # fmt: skip


def _legend_columns(labels: Sequence[str], form: Form) -> int:
    """As many columns as the longest label leaves room for."""
    longest_px = 6.4 * max(map(len, labels), default=1) + 34
    return max(1, min(form.legend_columns, len(labels), int((form.width_px - 10) // longest_px)))


def _label_limit(columns: int, form: Form) -> int:
    return (form.width_px - 10) // columns - 24
