"""The three interactive charts of the page, as Vega-Lite that the browser draws: all cells, and the waits and series
of two.

They stand in templates/explore-plots.json, with $names for what depends on the experiment, and are sent without rows:
the page's script fills them with the cells that its filters show and the two that the user selected. The choices for
axis, colour and panels are Vega-Lite's own parameters, bound to lists.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from importlib import resources
from typing import Any

from storagelab.findings.model import Findings
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import arrange
from storagelab.report.drawing.layers import TIP
from storagelab.report.drawing.vega import WIDE, Spec, config, figure, in_lines
from storagelab.report.words import compared
from storagelab.words.names import title_of, value_text

LETTERS_OF_A_LABEL = 18
MAX_RUNS = 600
"""The most runs that are drawn one by one: more would be unreadable and slow."""
_PLOTS = resources.files(__package__).joinpath("templates", "explore-plots.json")


def plots(findings: Findings) -> dict[str, Spec]:
    where = findings.provenance or "nothing measured yet"
    name = "mean rate" if compared.by_rate(findings) else compared.quantity(findings)
    places = arrange(findings)
    fields = {factor.name: f"f{place}" for place, factor in enumerate(findings.factors)}
    titles = {fields[factor.name]: title_of(factor) for factor in findings.factors}
    axis = fields.get(places.x.name, "f0") if places.x is not None else "f0"
    # At first the colours are those of the factor that charts draw as lines, else of the verdicts.
    colour = next((fields[factor.name] for factor in places.lines), "verdict")
    given: dict[str, Any] = {
        "lines": palette.LINES, "shapes": palette.SHAPES, "pins": palette.LINES[:2], "ink": palette.INK,
        "ground": palette.GROUND, "neutral": palette.NEUTRAL, "tip": TIP["description"], "where": where,
        "axis": _choice("axis", "Axis", titles, axis),
        "colour": _choice("colour", "Colour", {"verdict": "verdict"} | titles, colour),
        "panels": _choice("panels", "Panels", {"none": "none"} | titles, "none"),
        "level": _level(findings), "moment": figure("at_s", f"seconds since the start ({where})"),
        "figure": f"{name}, {compared.unit(findings)} ({where})",
        "seconds": f"seconds per session ({where})",
    }  # fmt: skip
    text = re.sub(r'"\$(\w+)"', lambda found: json.dumps(given[found[1]]), _PLOTS.read_text("utf-8"))
    shown = {"background": None, "padding": 4, "config": config(WIDE)}
    return {name: shown | spec for name, spec in json.loads(text).items()}


def _level(findings: Findings) -> Spec:
    """The axis of levels, long ones in lines; the page's script turns them where they have no space side by side."""
    levels = [value_text(level.value) for factor in findings.factors for level in factor.levels]
    long = [text for text in levels if len(text) > LETTERS_OF_A_LABEL]
    lines = {text: textwrap.wrap(text, LETTERS_OF_A_LABEL) or [text] for text in long}
    axis = {
        "labelExpr": in_lines(lines), "labelLimit": 0, "labelOverlap": False,
        "labelAngle": {"expr": "upright ? -90 : 0"}, "labelAlign": {"expr": "upright ? 'right' : 'center'"},
        "labelBaseline": {"expr": "upright ? 'middle' : 'top'"},
    }  # fmt: skip
    return {"field": "x", "type": "ordinal", "sort": {"field": "x_place", "op": "min"}, "title": None, "axis": axis}


def _choice(name: str, label: str, options: Mapping[str, str], value: str) -> Spec:
    """A parameter that a list chooses."""
    bind = {"input": "select", "options": list(options), "labels": list(options.values()), "name": label,
            "element": "#explore-choices"}  # fmt: skip
    return {"name": name, "value": value, "bind": bind}
