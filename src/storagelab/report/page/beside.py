"""The page of a measured campaign beside a prediction: its tables and their chart."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from markupsafe import Markup

from storagelab.findings.beside import Beside
from storagelab.report.drawing import palette
from storagelab.report.drawing.layers import TIP
from storagelab.report.drawing.vega import NARROW, WIDE, Form, Sheet, Spec, finished, framed, in_lines, to_svg
from storagelab.report.page.html import page_of
from storagelab.report.words.beside import beside_words, times_text
from storagelab.report.words.table import Paper


def beside_page(paper: Paper, found: Beside, names: Mapping[str, str]) -> str:
    """The page as text. It has no script and needs no network."""
    svgs = {f"beside-{form}": to_svg(spec) for form, spec in beside_specs(found, names).items()}
    drawings = [Markup(svg) for svg in framed(svgs).values()]  # noqa: S704 - drawn by us
    return page_of(paper, drawings, beside_words(found, names), palette.dark_style(()), TITLE)


# --- the chart of predicted beside measured ---------------------------------------------------------------------------

TITLE = "Predicted beside measured"
_KINDS = ("measured", "predicted")
_LABEL_CHARACTERS = 28


def beside_specs(found: Beside, names: Mapping[str, str]) -> dict[str, Spec]:
    """The chart in both widths."""
    return {
        name: _spec(found, names, Sheet(form, "", "", "measured and predicted"))
        for name, form in (("wide", WIDE), ("narrow", NARROW))
    }


def _spec(found: Beside, names: Mapping[str, str], sheet: Sheet) -> Spec:
    rows = [
        {
            "name": names[row.name], "kind": kind, "times": one.value, "low": one.low or one.value,
            "high": one.high or one.value, "tip": f"{names[row.name]}, {kind}: {times_text(one)}",
        }
        for row in found.rows
        for kind, one in zip(_KINDS, (row.measured, row.predicted), strict=True)
    ]  # fmt: skip
    order = list(dict.fromkeys(str(row["name"]) for row in rows))
    lines = {name: textwrap.wrap(name, _LABEL_CHARACTERS)[:3] or [name] for name in order}
    y = {"field": "name", "type": "nominal", "sort": order, "title": None,
         "axis": {"labelLimit": _label_px(sheet.form), "labelColor": palette.INK,
         "labelExpr": in_lines(lines)}}  # fmt: skip
    x = {"type": "quantitative", "title": f"times the speed of {names[found.base]}", "scale": {"zero": True}}
    colour = {"field": "kind", "type": "nominal", "title": None,
              "scale": {"domain": list(_KINDS), "range": list(palette.LINES[:2])}}  # fmt: skip
    offset = {"field": "kind", "type": "nominal", "sort": list(_KINDS)}
    shared = {"y": y, "yOffset": offset, "color": colour}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "strokeWidth": 2, "aria": False},
         "encoding": shared | {"x": x | {"field": "low"}, "x2": {"field": "high"}}},
        {"mark": {"type": "point", "filled": True, "size": 70},
         "encoding": TIP | shared | {"x": x | {"field": "times"},
                                     "shape": {"field": "kind", "type": "nominal", "title": None,
                                               "scale": {"domain": list(_KINDS), "range": list(palette.SHAPES[:2])}}}},
    ]  # fmt: skip
    spec = finished(sheet, "", layers, rows, [], 60 + 46 * len(order))
    return spec | {"width": sheet.form.width_px - _label_px(sheet.form) - 60}


def _label_px(form: Form) -> int:
    return form.width_px * 2 // 5 if form is NARROW else 240
