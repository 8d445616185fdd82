"""How all charts use Vega-Lite: appearance, two widths, panels, and drawing without a browser.

A page embeds drawings unchanged; none is edited or drawn again for dark mode:

* Text, axes and grids are drawn in `currentColor`, the colour of the surrounding text: light in dark mode, dark on
  paper, black in files. All other colours are visible on a light and on a dark background (`palette`).
* A drawing has no ids, as it needs no clipping and no gradients. So two drawings on a page can't interfere.
* The element around a drawing states its width. `page.css` shows the widest drawing that fits, at its own size, so text
  is never smaller than it was drawn.

An image would need none of this, but it has neither tooltips nor the page's text colour.
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
"""Fonts with the same letter widths on every system, because this module computes the space for labels."""
FONT_PX = 12
"""No text in a chart is smaller."""
LETTER_PX = 6.6
"""An estimate of a letter's mean width, slightly too wide on purpose."""
WIDER, BOLD = 1.1, 1.12
"""A factor for text widths: a browser's font may be wider than assumed, and bold text is wider still."""
VEGA_LITE = "6.4"
VEGA_LITE_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
AXIS_PX = 74
"""The width of a vertical axis of figures with its title."""
_GAP_PX = 18


@dataclass(frozen=True)
class Form:
    """The width of a chart: `WIDE` for pages and files, `NARROW` for phones."""

    width_px: int
    height_px: int
    panel_height_px: int
    most_columns: int

    def columns(self, panels: int) -> int:
        return min(self.most_columns, 2 if panels == 4 else max(1, panels))

    def panel_width_px(self, panels: int, axes_px: int = AXIS_PX) -> int:
        """The width of the plot in each panel if a row has `panels` panels, each beside its vertical axis."""
        columns = self.columns(panels)
        return (self.width_px - axes_px - (columns - 1) * _GAP_PX - 8) // columns

    def letters(self, share: float = 1.0) -> int:
        """How many letters fit side by side into a fraction (`share`) of the width."""
        return max(8, int(share * self.width_px / LETTER_PX))


WIDE = Form(width_px=900, height_px=320, panel_height_px=170, most_columns=3)
NARROW = Form(width_px=336, height_px=270, panel_height_px=170, most_columns=1)
FORMS = {"wide": WIDE, "narrow": NARROW}
"""By the names of their elements' classes. `page.css` has the width and the font size of the wide one, too."""


def config(form: Form) -> Spec:
    """The appearance: no frame, a faint grid, one font family. Axes have no ARIA labels; charts and marks have them."""
    text = {"labelColor": palette.INK, "titleColor": palette.INK, "labelOpacity": 0.85, "labelFontSize": FONT_PX,
            "titleFontSize": FONT_PX, "titleFontWeight": 500, "aria": False}  # fmt: skip
    return {
        "font": FONT,
        "view": {"stroke": None},
        "axis": text | {"gridColor": palette.INK, "gridOpacity": 0.13, "domainColor": palette.INK,
                        "domainOpacity": 0.5, "tickColor": palette.INK, "tickOpacity": 0.5, "labelPadding": 5,
                        "titlePadding": 9, "tickSize": 4},
        "axisY": {"domain": False, "ticks": False, "tickCount": 5},
        "axisYQuantitative": {"labelExpr": "abs(datum.value) < 1e5 ? datum.label : format(datum.value, '~s')"},
        "axisX": {"grid": False, "titleAnchor": "end"},
        # The end labels of an axis of figures stay inside the axis: beyond it, they would be cut.
        "axisXQuantitative": {"labelFlush": 24, "labelSeparation": 8},
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
    """A channel of figures; `title` is the title of its axis."""
    return {"field": field, "type": "quantitative", "title": title, **more}


class Sheet(NamedTuple):
    """The form of a chart, its title and the lines below the title; `where` is its provenance."""

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
    """One chart of `layers` over `rows`, as wide as its form.

    `panels`: if there are several, the chart is split by the rows' `panel`, each with its title. `apart`: the channel
    for which each panel has its own axis. `axis_px`: the width of a panel's vertical axis with its labels. Only columns
    that are drawn are included; the others are for tables and text.
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
        lines = _titles_in_lines(layers, int(height_px / LETTER_PX))
        axis_px += (lines - 1) * (FONT_PX + 2)
        width = form.panel_width_px(count, axis_px * (form.columns(count) if apart == "y" else 1))
        letter_px = WIDER * BOLD * LETTER_PX
        titles = in_lines({name: wrapped(text, int(width / letter_px)) for name, text in panels.items()})
        header = {"field": "panel", "type": "nominal", "sort": list(panels), "header": {"labelExpr": titles}}
        inner = drawn | {"width": width, "height": height_px}
        # With places that have no panel, axes that panels share would stand there.
        resolve = {"axis": {"x": "independent"}} if count % form.columns(count) else {}
        resolve |= {"scale": {apart: "independent"}} if apart else {}
        drawn = {"facet": header | {"title": None}, "columns": form.columns(count), "spec": inner, "resolve": resolve}
    else:
        drawn |= {"width": form.width_px, "height": height_px or form.height_px}
        drawn["autosize"] = {"type": "fit-x", "contains": "padding"}
    finished: Spec = _drawable(_with_rows(spec | drawn, rows))
    return finished


def _titles_in_lines(layers: Sequence[Spec], letters: int) -> int:
    """Breaks the titles of vertical axes into lines of `letters` letters, and returns the most lines of any title."""
    most = 1
    for layer in layers:
        axis = layer.get("encoding", {}).get("y", {})
        if isinstance(axis.get("title"), str):
            axis["title"] = textwrap.wrap(axis["title"], letters)
            most = max(most, len(axis["title"]))
    return most


def _drawable(part: Any) -> Any:
    """A spec, or a part of it, with its texts escaped. A control character in a label, as old stores contain, would
    crash the process that draws.
    """
    if isinstance(part, str):
        return escaped(part)
    if isinstance(part, dict):
        return {escaped(name): _drawable(inner) for name, inner in part.items()}
    return [_drawable(inner) for inner in part] if isinstance(part, list | tuple) else part


def _with_rows(spec: Spec, rows: Sequence[Mapping[str, object]]) -> Spec:
    """The spec with the rows, reduced to the columns that it names as the field of a channel or in an expression."""
    named, columns = json.dumps(spec), dict.fromkeys(name for row in rows for name in row)
    drawn = [name for name in columns if f'"field": "{name}"' in named or f"datum.{name}" in named]
    return spec | {"data": {"values": [{name: row[name] for name in drawn if name in row} for row in rows]}}


def wrapped(text: str, letters: int) -> list[str]:
    """`text` in lines of at most `letters` letters, and one more for a comma or bracket that would begin a line."""
    return re.sub(r"\n([,;:.)]+) ?", r"\1\n", "\n".join(textwrap.wrap(text, letters))).rstrip("\n").split("\n")


def in_lines(lines_of: Mapping[str, Sequence[str]]) -> str:
    """A Vega expression that maps each label to its lines; texts are quoted as data."""
    cases = "".join(
        f"datum.value === {quoted(text)} ? [{', '.join(map(quoted, lines))}] : "
        for text, lines in lines_of.items()
        if [text] != list(lines)
    )
    return f"{cases}datum.value"


def quoted(text: str) -> str:
    """`text` as a literal of Vega's expression language."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return "'" + plain.replace("\\", "\\\\").replace("'", "\\'") + "'"


_IN_TEXT = bytes.maketrans(b"<>&(", b",./[")


def letters(data: bytes) -> str:
    """Bytes as text for a page: in base 85, which is a sixteenth shorter than base64, with letters that have no meaning
    in HTML.
    """
    return base64.b85encode(data).translate(_IN_TEXT).decode()


_RESERVED_BYTES = 68 * 2**30
"""The address space that the drawing library reserves when it starts, rounded up; it uses little of this memory."""


def drawer() -> Any:
    """The drawing library. Raises StoragelabError if it can't start here, as it would then end this process by a
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


# --- Vega-Lite's own runtime for a page, so that its charts work interactively without a network ----------------------
#
# The library contains the runtime and takes seconds to build it. So the result is kept beside this module's bytecode as
# long as the versions stay the same. If that folder can't be written, the runtime is built each time.

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


class Runtime(NamedTuple):
    """The script, compressed and encoded as letters, and the hash by which a page's content policy allows it."""

    packed: str
    sha256: str


def runtime() -> Runtime:
    """Vega, Vega-Lite and vega-embed as one script that sets `vegaEmbed`."""
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
    """Raises OSError, EOFError or zlib.error if `packed` is damaged."""
    script = gzip.decompress(packed)
    return Runtime(letters(packed), base64.b64encode(hashlib.sha256(script).digest()).decode())


def _kept_in() -> Path:
    key = hashlib.sha256(f"{metadata.version('vl-convert-python')} {VEGA_LITE} {_SNIPPET}".encode()).hexdigest()[:16]
    return Path(importlib.util.cache_from_source(__file__)).with_name(f"runtime-{key}.js.gz")


def _keep(file: Path, packed: bytes) -> None:
    """Writes the runtime whole or not at all, as several reports may write it at once."""
    if sys.dont_write_bytecode:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    half = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        half.write_bytes(packed)
        half.replace(file)
    finally:
        half.unlink(missing_ok=True)
