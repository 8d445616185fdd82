"""Draws charts with Vega-Lite: appearance, two widths, panels, and drawing without a browser.

A page contains drawings as SVG. The same drawing serves on screen, in dark mode and on paper:

* Text, axes and grids are drawn in `currentColor`, the colour of the surrounding text: light in dark mode, dark on
  paper, black in files. All other colours are visible on a light and on a dark background (`palette`).
* A drawing has no ids, because it needs no clipping and no gradients. So two drawings on a page can't interfere.
* The class of the element around a drawing states its width. `page.css` shows the widest drawing that fits, at its own
  size. So text is never smaller than `FONT_PX`.

An image could have neither tooltips nor the page's text colour.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import importlib.util
import json
import os
import re
import resource
import sys
import textwrap
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from storagelab.errors import StoragelabError, escaped
from storagelab.report.drawing import palette
from storagelab.words.numbers import bytes_

Spec = dict[str, Any]
"""A Vega-Lite specification as a plain dict."""

FONT = "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', system-ui, sans-serif"
"""Fonts with about the same letter widths on every system. This module computes the space for labels from these widths.
"""
FONT_PX = 12
"""The size of the smallest text in a chart."""
LETTER_PX = 6.6
"""An estimate of a letter's mean width. It is slightly too wide, so that labels fit."""
WIDER, BOLD = 1.1, 1.12
"""Factors for text widths: `WIDER` for a browser whose font is wider than assumed, `BOLD` for bold text."""
VEGA_LITE = "6.4"
VEGA_LITE_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
AXIS_PX = 74
"""The width of a vertical axis of figures with its title."""
_GAP_PX = 26
_SHORT = "(domain('y')[1] || domain('child_y')[1]) < 1e5 ? datum.label : format(datum.value, '~s')"
"""Labels of an axis: all as 80k if its end is large. The scale is `child_y` if each panel has its own axis."""


@dataclass(frozen=True)
class Form:
    """A chart's sizes in pixels, and the most panels in a row. `WIDE` is for files and pages, `NARROW` for phones."""

    width_px: int
    height_px: int
    panel_height_px: int
    most_columns: int

    def columns(self, panels: int) -> int:
        return min(self.most_columns, 2 if panels == 4 else max(1, panels))

    def panel_width_px(self, panels: int, axes_px: int = AXIS_PX) -> int:
        """Returns the width of each panel's plot if there are `panels` panels. `axes_px` is the width of all vertical
        axes in a row of panels.
        """
        columns = self.columns(panels)
        return (self.width_px - axes_px - (columns - 1) * _GAP_PX - 8) // columns

    def letters(self, share: float = 1.0) -> int:
        """Returns how many letters fit side by side into a fraction (`share`) of the width."""
        return max(8, int(share * self.width_px / LETTER_PX))


WIDE = Form(width_px=900, height_px=320, panel_height_px=170, most_columns=3)
NARROW = Form(width_px=336, height_px=270, panel_height_px=170, most_columns=1)
FORMS = {"wide": WIDE, "narrow": NARROW}
"""Maps the class of a drawing's element to its form. `page.css` also has the width and font size of the wide form."""


def config(form: Form) -> Spec:
    """Returns the appearance of charts: no frame, a faint grid, one font family. Charts and marks have ARIA labels;
    axes have none.
    """
    text = {"labelColor": palette.INK, "titleColor": palette.INK, "labelOpacity": 0.85, "labelFontSize": FONT_PX,
            "titleFontSize": FONT_PX, "titleFontWeight": 500, "aria": False}  # fmt: skip
    return {
        "font": FONT,
        "view": {"stroke": None},
        "axis": text | {"gridColor": palette.INK, "gridOpacity": 0.13, "domainColor": palette.INK,
                        "domainOpacity": 0.5, "tickColor": palette.INK, "tickOpacity": 0.5, "labelPadding": 5,
                        "titlePadding": 9, "tickSize": 4},
        "axisY": {"domain": False, "ticks": False, "tickCount": 5},
        "axisYQuantitative": {"labelExpr": _SHORT},
        "axisX": {"grid": False, "titleAnchor": "end"},
        "axisXQuantitative": {"labelFlush": False, "labelSeparation": 8},
        "legend": text | {"orient": "top", "symbolStrokeWidth": 1.5, "titleLimit": form.width_px, "rowPadding": 3},
        "header": {"title": None, "aria": False, "labelColor": palette.INK, "labelFontSize": FONT_PX,
                   "labelFontWeight": 600, "labelAnchor": "start", "labelPadding": 6, "labelLimit": form.width_px},
        "title": {"anchor": "start", "color": palette.INK, "subtitleColor": palette.INK, "fontSize": 15,
                  "subtitleFontSize": FONT_PX + 1, "subtitlePadding": 5, "subtitleLineHeight": 17, "offset": 14,
                  "frame": "bounds"},
        "text": {"fontSize": FONT_PX, "color": palette.INK},
        "facet": {"spacing": _GAP_PX},
    }  # fmt: skip


def figure(field: str, title: str | Sequence[str], **more: object) -> Spec:
    """Returns a channel of figures. `title` is the title of its axis."""
    return {"field": field, "type": "quantitative", "title": title, **more}


class Sheet(NamedTuple):
    """The form of a chart, its title, the lines below the title (`subtitle`), and its provenance (`where`)."""

    form: Form
    title: str
    subtitle: Sequence[str]
    where: str


def finished(
    sheet: Sheet,
    layers: Sequence[Spec],
    rows: Sequence[Mapping[str, object]],
    panels: Mapping[str, str] | None = None,
    height_px: float | None = None,
    *,
    apart: str = "",
    axis_px: int = AXIS_PX,
) -> Spec:
    """Returns one chart of `layers` with the data `rows`, as wide as its form.

    `panels` maps the values of the rows' column `panel` to titles. If there are several, each has its own panel.
    `apart`: the channel for which each panel has its own axis. `axis_px`: the width of a panel's vertical axis with its
    labels. The chart contains only the columns of `rows` that it draws; the others are for tables and text.
    """
    form, count = sheet.form, len(panels or {})
    # A line with a star is drawn in a wider font, because the usual fonts lack the star.
    shares = {text: 1.0 if text[:1].isascii() else 0.75 for text in sheet.subtitle}
    spec: Spec = {
        "$schema": VEGA_LITE_SCHEMA,
        "title": {
            "text": textwrap.wrap(sheet.title, form.letters(0.75)),
            "subtitle": [line for text in sheet.subtitle for line in textwrap.wrap(text, form.letters(shares[text]))],
        },
        "background": palette.GROUND,
        "padding": 4,
        "config": config(form),
    }
    drawn: Spec = {"layer": list(layers)}
    if count > 1:
        assert panels is not None
        height_px = height_px or (form.panel_height_px if count < 7 else 120)
        axis_px += (_titles_in_lines(layers, int(height_px / LETTER_PX)) - 1) * (FONT_PX + 2)
        width = form.panel_width_px(count, axis_px * (form.columns(count) if apart == "y" else 1))
        most = int(width / (WIDER * BOLD * LETTER_PX))
        titles = in_lines({name: wrapped(text, most) for name, text in panels.items()})
        header = {"field": "panel", "type": "nominal", "sort": list(panels), "header": {"labelExpr": titles}}
        inner = drawn | {"width": width, "height": height_px}
        # If the last row of panels is not full, shared axes would be drawn where a panel is missing.
        resolve = {"axis": {"x": "independent"}} if count % form.columns(count) else {}
        resolve |= {"scale": {apart: "independent"}} if apart else {}
        drawn = {"facet": header | {"title": None}, "columns": form.columns(count), "spec": inner, "resolve": resolve}
    else:
        drawn |= {"width": form.width_px, "height": height_px or form.height_px}
        drawn["autosize"] = {"type": "fit-x", "contains": "padding"}
    finished: Spec = _drawable(_with_rows(spec | drawn, rows))
    return finished


def _titles_in_lines(layers: Sequence[Spec], letters: int) -> int:
    """Breaks the titles of vertical axes into lines of `letters` letters. Returns the largest number of lines."""
    most = 1
    for layer in layers:
        axis = layer.get("encoding", {}).get("y", {})
        if isinstance(axis.get("title"), str):
            axis["title"] = textwrap.wrap(axis["title"], letters)
            most = max(most, len(axis["title"]))
    return most


def _drawable(part: Any) -> Any:
    """Returns a spec, or a part of it, with its texts escaped. Labels from old stores may contain control characters,
    which would crash the process.
    """
    if isinstance(part, str):
        return escaped(part)
    if isinstance(part, dict):
        return {escaped(name): _drawable(inner) for name, inner in part.items()}
    return [_drawable(inner) for inner in part] if isinstance(part, list | tuple) else part


def _with_rows(spec: Spec, rows: Sequence[Mapping[str, object]]) -> Spec:
    """Returns the spec with the rows as its data. Only the columns that the spec uses in a channel or in an expression
    are included.
    """
    named, columns = json.dumps(spec), dict.fromkeys(name for row in rows for name in row)
    drawn = [name for name in columns if f'"field": "{name}"' in named or f"datum.{name}" in named]
    return spec | {"data": {"values": [{name: row[name] for name in drawn if name in row} for row in rows]}}


def wrapped(text: str, letters: int) -> list[str]:
    """Breaks `text` into lines of at most `letters` letters. A comma or bracket that would begin a line ends the line
    before it instead.
    """
    return re.sub(r"\n([,;:.)]+) ?", r"\1\n", "\n".join(textwrap.wrap(text, letters))).rstrip("\n").split("\n")


def in_lines(lines_of: Mapping[str, Sequence[str]]) -> str:
    """Returns a Vega expression that maps each label to its lines. All texts are quoted, so none is run as code."""
    cases = "".join(
        f"datum.value === {quoted(text)} ? [{', '.join(map(quoted, lines))}] : "
        for text, lines in lines_of.items()
        if [text] != list(lines)
    )
    return f"{cases}datum.value"


def quoted(text: str) -> str:
    """Returns `text` as a string literal of Vega's expression language."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return "'" + plain.replace("\\", "\\\\").replace("'", "\\'") + "'"


_IN_TEXT = bytes.maketrans(b"<>&(", b",./[")


def letters(data: bytes) -> str:
    """Encodes bytes as text for a page. Base 85 is 6 % shorter than base64. Its letters are replaced where they have a
    meaning in HTML.
    """
    return base64.b85encode(data).translate(_IN_TEXT).decode()


_RESERVED_BYTES = 68 * 2**30
"""The address space that the drawing library reserves when it starts, rounded up. It uses little of this memory."""


def drawer() -> Any:
    """Returns the drawing library. Raises StoragelabError if a limit on memory would not let it start, because the
    library would then end this process by a signal.
    """
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit_bytes != resource.RLIM_INFINITY and limit_bytes < _RESERVED_BYTES:
        raise StoragelabError(
            f"charts can't be drawn: this process may have only {bytes_(limit_bytes)} of addresses, and the chart "
            "library "
            f"reserves {bytes_(_RESERVED_BYTES)}\n  lift the limit (ulimit -v unlimited), or write the report as text: "
            "--format md"
        )
    import vl_convert  # here, because it loads slowly and most verbs don't need it

    return vl_convert


def to_png(spec: Spec, scale: float = 2.0) -> bytes:
    """Draws the chart as a PNG with `scale` pixels per unit."""
    return bytes(drawer().vegalite_to_png(spec, vl_version=VEGA_LITE, scale=scale, allowed_base_urls=[]))


def to_svg(spec: Spec) -> str:
    """Draws the chart as an SVG document. If a mark has a `tip`, this text is its aria-label."""
    return str(drawer().vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[]))


# --- Vega-Lite's own runtime for a page, so that its charts work interactively without a network ----------------------
#
# The library contains the runtime and takes seconds to build it. So the runtime is stored beside this module's bytecode
# and used again until a version changes. If that folder can't be written, the runtime is built each time.

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


class Runtime(NamedTuple):
    """The script, compressed and encoded as letters, and its hash, by which a page's content policy allows it."""

    packed: str
    sha256: str


def runtime() -> Runtime:
    """Returns Vega, Vega-Lite and vega-embed as one script. The script sets `window.vegaEmbed`."""
    kept = _kept_in()
    with contextlib.suppress(OSError, EOFError, zlib.error):
        return _of(kept.read_bytes())
    packed = gzip.compress(_made(), 9, mtime=0)
    with contextlib.suppress(OSError):
        _keep(kept, packed)
    return _of(packed)


def _made() -> bytes:
    return str(drawer().javascript_bundle(_SNIPPET, vl_version=VEGA_LITE)).encode()


def _of(packed: bytes) -> Runtime:
    """Returns the runtime from a gzip file's content. Raises OSError, EOFError or zlib.error if it is damaged."""
    return Runtime(letters(packed), base64.b64encode(hashlib.sha256(gzip.decompress(packed)).digest()).decode())


def _kept_in() -> Path:
    key = hashlib.sha256(f"{metadata.version('vl-convert-python')} {VEGA_LITE} {_SNIPPET}".encode()).hexdigest()[:16]
    return Path(importlib.util.cache_from_source(__file__)).with_name(f"runtime-{key}.js.gz")


def _keep(file: Path, packed: bytes) -> None:
    """Writes the runtime completely or not at all, because several processes may write it at the same time."""
    if sys.dont_write_bytecode:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    half = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        half.write_bytes(packed)
        half.replace(file)
    finally:
        half.unlink(missing_ok=True)
