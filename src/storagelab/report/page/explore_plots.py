"""The three interactive charts of the page, as Vega-Lite that the browser draws: all cells, and the waits and series
of two.

They are sent without rows: the page's script fills them with the cells that its filters show and the two that the user
selected. The choices for axis, colour and panels are Vega-Lite's own parameters, bound to lists.
"""

from __future__ import annotations

import textwrap

from storagelab.findings.model import Findings
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import arrange
from storagelab.report.drawing.layers import TIP, only
from storagelab.report.drawing.vega import WIDE, Spec, config, in_lines
from storagelab.report.words import compared
from storagelab.words.names import title_of, value_text

VERDICT, NO_PANELS = "verdict", "none"
LETTERS_OF_A_LABEL = 18
MAX_RUNS = 600
"""The most runs that are drawn one by one: more would be unreadable and slow."""
PIN_COLOURS = (palette.LINES[0], palette.LINES[1])
_RANK: Spec = {
    "window": [{"op": "dense_rank", "as": "rank"}],
    "sort": [{"field": "colour_text_place"}, {"field": "mean"}, {"field": "id"}],
    "groupby": ["x", "panel"],
}
_PINS: list[Spec] = [
    {"filter": "datum.kind === 'cell' && indexof(pinned, datum.id) >= 0"},
    {"calculate": "datum.id !== pinned[0] ? 'B' : pinned[0] === pinned[1] ? 'A B' : 'A'", "as": "pin"},
]


def plots(findings: Findings) -> dict[str, Spec]:
    where = findings.provenance or "nothing measured yet"
    return {"all": _all_cells(findings, where), "waits": _waits(where), "series": _series(where)}


def _sheet(spec: Spec, rows: str) -> Spec:
    look = config(WIDE)
    for part in ("axis", "legend", "header"):
        look[part] = look[part] | {"aria": False}  # the figure has a name, and so have its marks
    shown = {"background": None, "padding": 4, "config": look}
    return shown | {"data": {"name": rows}} | spec


def _all_cells(findings: Findings, where: str) -> Spec:
    """Every cell in its place; those at the same place side by side, from the shortest to the longest."""
    names = [factor.name for factor in findings.factors]
    fields = {name: f"f{place}" for place, name in enumerate(names)}
    titles = {factor.name: title_of(factor) for factor in findings.factors}
    places = arrange(findings)
    x = fields.get(places.x.name, "") if places.x is not None else ""
    axis = _choice("axis", "Axis", titles, fields, x or "f0")
    # At first the colours are those of the factor that charts draw as lines, else of the verdicts.
    first = next((fields[factor.name] for factor in places.lines), VERDICT)
    colour = _choice("colour", "Colour", titles, fields, first, {VERDICT: "verdict"})
    panels = _choice("panels", "Panels", titles, fields, NO_PANELS, {NO_PANELS: "none"})
    placed = [
        {"calculate": f"datum[{param}{place}]", "as": f"{name}{suffix}"}
        for param, name in (("axis", "x"), ("colour", "colour_text"), ("panels", "panel"))
        for place, suffix in (("", ""), (" + '_place'", "_place"))
    ]
    key = {"field": "colour_text", "type": "nominal", "sort": {"field": "colour_text_place", "op": "min"},
           "legend": {"title": where}}  # fmt: skip
    unit = compared.figure_unit(findings)
    y = {"type": "quantitative", "scale": {"zero": False, "nice": True}}
    y_title = f"{compared.figure_name(findings)}, {unit} ({where})"
    shared = {
        "x": {"field": "x", "type": "ordinal", "sort": {"field": "x_place", "op": "min"}, "title": None,
              "axis": _level_labels(findings)},
        "xOffset": {"field": "rank", "type": "ordinal"},
    }  # fmt: skip
    # Only the means have colours and shapes: since both use the same rows, they share a legend.
    kinds = {
        "color": key | {"scale": {"range": list(palette.LINES)}},
        "shape": key | {"scale": {"range": list(palette.SHAPES)}},
    }
    grey = {"color": palette.NEUTRAL, "aria": False}
    dot = {"type": "point", "filled": True, "size": 14, "opacity": 0.7, "color": palette.NEUTRAL, "cursor": "pointer"}
    pinned = {"condition": {"test": "indexof(pinned, datum.id) >= 0", "value": 190}, "value": 48}
    layers = [
        only("datum.kind === 'run'", dot, shared | TIP | {"y": y | {"field": "value", "title": y_title}}),
        only("datum.kind === 'cell'", {"type": "rule", "strokeWidth": 1.6} | grey,
             shared | {"y": y | {"field": "low"}, "y2": {"field": "high"}}),
        only("datum.kind === 'cell'", {"type": "point", "filled": True, "opacity": 1, "cursor": "pointer"},
             shared | kinds | TIP | {"y": y | {"field": "mean"}, "size": pinned}),
        {"transform": _PINS,
         "mark": {"type": "text", "dy": -13, "fontWeight": 700, "fontSize": 12, "color": palette.INK, "aria": False},
         "encoding": shared | {"y": y | {"field": "mean"}, "text": {"field": "pin"}}},
    ]  # fmt: skip
    facet = {"field": "panel", "type": "nominal", "sort": {"field": "panel_place", "op": "min"}, "title": None}
    return _sheet(
        {
            "params": [axis, colour, panels, {"name": "pinned", "value": []}, {"name": "upright", "value": False}],
            "transform": [*placed, _RANK],
            "facet": facet, "columns": 3, "spec": {"width": 800, "height": 260, "layer": layers},
        },
        "cells",
    )  # fmt: skip


def _level_labels(findings: Findings) -> Spec:
    """Labels of levels, long ones in lines; the page's script turns them where they have no space side by side."""
    levels = [value_text(level.value) for factor in findings.factors for level in factor.levels]
    long = [text for text in levels if len(text) > LETTERS_OF_A_LABEL]
    lines = {text: textwrap.wrap(text, LETTERS_OF_A_LABEL) or [text] for text in long}
    return {
        "labelExpr": in_lines(lines), "labelLimit": 0, "labelOverlap": False,
        "labelAngle": {"expr": "upright ? -90 : 0"}, "labelAlign": {"expr": "upright ? 'right' : 'center'"},
        "labelBaseline": {"expr": "upright ? 'middle' : 'top'"},
    }  # fmt: skip


def _choice(
    name: str,
    label: str,
    titles: dict[str, str],
    fields: dict[str, str],
    value: str,
    more: dict[str, str] | None = None,
) -> Spec:
    """A parameter that a list chooses: one of the factors by its title, or one of `more`."""
    options = {**(more or {}), **{fields[factor]: title for factor, title in titles.items()}}
    bind = {"input": "select", "options": list(options), "labels": list(options.values()), "name": label,
            "element": "#explore-choices"}  # fmt: skip
    return {"name": name, "value": value, "bind": bind}


def _waits(where: str) -> Spec:
    """The waits of two cells side by side; the paler part is signal time."""
    pins = {"domain": ["A", "B"], "range": list(PIN_COLOURS)}
    return _sheet(
        {
            "width": 560, "height": {"step": 13}, "mark": {"type": "bar", "stroke": palette.GROUND, "strokeWidth": 0.5},
            "encoding": TIP | {
                "y": {"field": "wait", "type": "nominal", "sort": {"field": "place", "op": "min"}, "title": None,
                      "axis": {"labelLimit": 230, "labelColor": palette.INK, "minExtent": 150},
                      "scale": {"paddingInner": 0.3}},
                "yOffset": {"field": "pin", "type": "nominal", "sort": ["A", "B"], "scale": {"domain": ["A", "B"]}},
                "x": {"field": "seconds", "type": "quantitative", "title": f"seconds per session ({where})"},
                "color": {"field": "pin", "type": "nominal", "scale": pins, "legend": {"title": None}},
                "opacity": {"field": "opacity", "type": "quantitative", "scale": None},
                "order": {"field": "part_place"},
            },
        },
        "waits",
    )  # fmt: skip


def _series(where: str) -> Spec:
    """One quantity of two cells over time: means of stretches, and the range of each from least to most. An
    invisible rule at each moment says what both cells did then.
    """
    pins = {"domain": ["A", "B"], "range": list(PIN_COLOURS)}
    dashes = {"range": [[1, 0], [6, 2], [2, 2], [8, 2, 2, 2]]}
    x = {"field": "at_s", "type": "quantitative", "title": f"seconds since the start ({where})"}
    shared = {
        "x": x, "color": {"field": "pin", "type": "nominal", "scale": pins,
                            "legend": {"title": None, "symbolOpacity": 1}},
        "strokeDash": {"field": "line", "type": "nominal", "scale": dashes, "legend": {"title": None, "columns": 3}},
        "detail": [{"field": "pin"}, {"field": "line"}],
    }  # fmt: skip
    plain = {name: value for name, value in shared.items() if name != "strokeDash"}
    y = {"type": "quantitative", "title": None}
    hover = {"type": "rule", "opacity": 0, "strokeWidth": {"expr": "width / 40"}}
    return _sheet(
        {
            "width": 780, "height": 200,
            "layer": [
                only("datum.kind === 'line'", {"type": "area", "opacity": 0.18, "aria": False},
                     plain | {"y": y | {"field": "least"}, "y2": {"field": "most"}}),
                only("datum.kind === 'line'", {"type": "line", "strokeWidth": 1.6, "aria": False},
                     shared | {"y": y | {"field": "mean"}}),
                only("datum.kind === 'moment'", hover, TIP | {"x": x}),
            ],
        },
        "series",
    )  # fmt: skip
