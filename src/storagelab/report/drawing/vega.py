"""What all charts share: their appearance, their two widths, panels, and Vega-Lite drawn without a browser."""

from __future__ import annotations

import re
import resource
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from storagelab.errors import StoragelabError
from storagelab.report.drawing import palette
from storagelab.spec.foreign import escaped
from storagelab.words.numbers import bytes_

Spec = dict[str, Any]
"""A Vega-Lite v5 specification as a plain dict."""

FONT = "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', system-ui, sans-serif"
"""Fonts with equal widths on every system, because the space for labels is computed here, not by the browser."""
VEGA_LITE = "5.21"
VEGA_LITE_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_AXIS_WIDTH_PX = 58
_GAP_PX = 18
_IN_EXPRESSION = re.compile(r"\bdatum\.(\w+)")
_ID = re.compile(r'(?<=\sid=")(?=[^"]+")|(?<=url\(#)(?=[^)]+\))')
_SVG_OPENING = re.compile(r"<svg\b[^>]*>", re.DOTALL)
_VIEW_BOX = re.compile(r'viewBox="0 0 (?P<width>[\d.]+) (?P<height>[\d.]+)"')


@dataclass(frozen=True)
class Form:
    """The width of a chart: `WIDE` for pages and files, `NARROW` for phones."""

    width_px: int
    height_px: int
    panel_height_px: int
    max_columns: int
    legend_columns: int
    font_px: int

    def columns(self, panels: int) -> int:
        return max(1, min(self.max_columns, panels)) if panels != 4 else min(2, self.max_columns)

    def panel_width_px(self, panels: int) -> int:
        columns = self.columns(panels)
        return (self.width_px - _AXIS_WIDTH_PX - (columns - 1) * _GAP_PX - 6) // columns

    def height_of(self, panels: int) -> int:
        return self.height_px if panels < 2 else self.panel_height_px


WIDE = Form(width_px=900, height_px=340, panel_height_px=220, max_columns=3, legend_columns=5, font_px=13)
NARROW = Form(width_px=336, height_px=270, panel_height_px=190, max_columns=1, legend_columns=2, font_px=12)


def config(form: Form) -> Spec:
    """The appearance: no frame, faint grid, one font family."""
    text = {"labelColor": palette.MUTED, "titleColor": palette.INK, "labelFontSize": form.font_px - 1,
            "titleFontSize": form.font_px - 1, "titleFontWeight": 500}  # fmt: skip
    return {
        "font": FONT,
        "view": {"stroke": None},
        "axis": text | {"gridColor": palette.GRID, "domainColor": palette.MUTED, "tickColor": palette.MUTED,
                        "labelPadding": 5, "titlePadding": 9, "tickSize": 4},
        "axisY": {"domain": False, "ticks": False, "tickCount": 5},
        "axisX": {"grid": False},
        "legend": text | {"orient": "top", "labelLimit": form.width_px // 2 - 40, "symbolStrokeWidth": 1.5,
                          "titleLimit": form.width_px, "columnPadding": 14, "rowPadding": 3},
        "header": {"title": None, "labelColor": palette.INK, "labelFontSize": form.font_px - 1, "labelFontWeight": 600,
                   "labelAnchor": "start", "labelPadding": 6, "labelLimit": form.width_px},
        "title": {"anchor": "start", "color": palette.INK, "subtitleColor": palette.MUTED, "fontSize": 15,
                  "subtitleFontSize": 12, "subtitlePadding": 5, "offset": 14, "frame": "group"},
        "facet": {"spacing": _GAP_PX},
    }  # fmt: skip


def figure(field: str, title: str, **more: object) -> Spec:
    """A channel of figures, with the title of their axis."""
    return {"field": field, "type": "quantitative", "title": title, **more}


class Sheet(NamedTuple):
    """The form and title of a chart; `where` is its provenance."""

    form: Form
    title: str
    subtitle: str
    where: str


def finished(sheet: Sheet, note: str, layers: Sequence[Spec], rows: Sequence[Mapping[str, object]],
             panels: Sequence[str], height_px: int | None = None) -> Spec:  # fmt: skip
    """One chart of `layers` over `rows`, split into panels by the rows' `panel` if there are several.

    `note` continues its subtitle. Only columns that are drawn are included; the others are for tables and words.
    """
    form, count = sheet.form, len(panels)
    size = {"width": form.panel_width_px(count), "height": height_px or form.height_of(count)}
    spec: Spec = {
        "$schema": VEGA_LITE_SCHEMA,
        "title": {"text": sheet.title, "subtitle": f"{sheet.subtitle}{note}"},
        "background": palette.GROUND,
        "padding": 4,
        "config": config(form),
        "data": {"values": []},
    }
    drawn: Spec = size | {"layer": list(layers)}
    if count > 1:
        letters = max(12, int(size["width"] / (6.2 * form.font_px / 12)))
        labels = in_lines({text: textwrap.wrap(text, letters) or [text] for text in panels})
        header: Spec = {"field": "panel", "type": "nominal", "sort": list(panels), "title": None}
        header["header"] = {"labelExpr": labels}
        drawn = {"facet": header, "columns": form.columns(count), "spec": drawn}
    finished: Spec = _drawable(_with_rows(spec | drawn, rows))
    return finished


def _drawable(part: Any) -> Any:
    """A spec, or a part of one, with its texts escaped: a control character in a label, as in old stores, would crash
    the drawing process.
    """
    if isinstance(part, str):
        return escaped(part)
    if isinstance(part, dict):
        return {escaped(name): _drawable(inner) for name, inner in part.items()}
    return [_drawable(inner) for inner in part] if isinstance(part, list | tuple) else part


def _with_rows(spec: Spec, rows: Sequence[Mapping[str, object]]) -> Spec:
    drawn = set(_columns(spec))
    return spec | {"data": {"values": [{name: row[name] for name in row if name in drawn} for row in rows]}}


def _columns(part: object) -> Iterator[str]:
    """The columns of its rows that a spec names: as the field of a channel, or as `datum.NAME` in an expression."""
    if isinstance(part, str):
        yield from _IN_EXPRESSION.findall(part)
    elif isinstance(part, Mapping):
        if isinstance(field := part.get("field"), str):
            yield field
        for inner in part.values():
            yield from _columns(inner)
    elif isinstance(part, Sequence):
        for inner in part:
            yield from _columns(inner)


def in_lines(wrapped: Mapping[str, Sequence[str]]) -> str:
    """A Vega expression that shows a label as its lines; the texts are quoted as data."""
    if all(len(lines) == 1 for lines in wrapped.values()):
        return "datum.value"
    cases = "".join(
        f"datum.value === {quoted(text)} ? [{', '.join(map(quoted, lines))}] : " for text, lines in wrapped.items()
    )
    return f"{cases}datum.value"


def quoted(text: str) -> str:
    """`text` as a literal of Vega's expression language."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return "'" + plain.replace("\\", "\\\\").replace("'", "\\'") + "'"


_RESERVED_BYTES = 68 * 2**30
"""The addresses that the library reserves as it begins, measured and rounded up; it takes little memory there."""


def drawer() -> Any:
    """The library that draws. Raises StoragelabError if it can't begin here, which would end this process by a
    signal.
    """
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit_bytes != resource.RLIM_INFINITY and limit_bytes < _RESERVED_BYTES:
        raise StoragelabError(
            f"charts can't be drawn: a limit lets this process have {bytes_(limit_bytes)} of addresses, and their "
            "library "
            f"reserves {bytes_(_RESERVED_BYTES)}\n  lift it (ulimit -v unlimited), or write the report as text: "
            "--format md"
        )
    import vl_convert  # here, since it loads slowly and most verbs don't need it

    return vl_convert


def to_png(spec: Spec, scale: float = 2.0) -> bytes:
    """The chart as a PNG with `scale` pixels per unit."""
    return bytes(drawer().vegalite_to_png(spec, vl_version=VEGA_LITE, scale=scale, allowed_base_urls=[]))


def to_svg(spec: Spec) -> str:
    """The chart as an SVG document. Each mark with a `tip` has it as its aria-label."""
    return str(drawer().vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[]))


def framed(svgs: Mapping[str, str]) -> dict[str, str]:
    """Drawings as a page embeds them; each chart has "NAME-wide" and "NAME-narrow"."""
    return {name: _framed(name, svg) for name, svg in svgs.items()}


def _framed(name: str, svg: str) -> str:
    """A drawing that fills the available width, but no more than its own width; its ids are unique on the page."""
    form = name.rpartition("-")[2]
    box = _VIEW_BOX.search(svg)
    width, height = (box["width"], box["height"]) if box else ("800", "400")
    most = float(width) * (1.4 if form == "narrow" else 1.0)
    size = f'viewBox="0 0 {width} {height}" style="max-width:{most:.0f}px"'
    opening = f'<svg class="{form}" {size} aria-hidden="true" focusable="false">'
    return _ID.sub(f"{name}-", _SVG_OPENING.sub(opening, svg, count=1))
