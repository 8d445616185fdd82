"""Findings -> one self-contained HTML page: reading it needs no network, no server, and no script.

Charts are drawn here, as SVG, not by the browser, so they also appear on paper and without scripts. The script only
adds tooltips and unpacks the raw data. The page carries the raw data compressed, unless they would make it too large to
open or to send. The page's own policy forbids every request.

The templates escape all text and remove any password that a message quotes. Only the style, the script and the
drawings, which are made here, go in unescaped.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from storagelab.findings.model import Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.report.charts import page_charts
from storagelab.report.drawing.vega import STYLE, framed, runtime, to_svg
from storagelab.report.export.as_json import json_pieces
from storagelab.report.page.opening import badges
from storagelab.report.page.pieces import PageTable
from storagelab.report.page.sections import Section, sections
from storagelab.report.words.secrets import masked
from storagelab.report.words.table import Paper
from storagelab.words import numbers

_GZIP_LEVEL = 5
"""The gzip level: level 6 takes half as long again for 1.5 % less."""
_AS_GZIP = 31
"""zlib's name for the largest window with gzip's header."""
_COMMENT = re.compile(r"^ *//.*\n", re.MULTILINE)
LARGEST_PAGE = 3_000_000
"""The largest page, in characters, that carries its raw data by default."""


def page(
    experiment: Experiment,
    plan: Plan,
    runs: Sequence[Run],
    findings: Findings,
    exported: Iterable[str] | None = None,
    manifest: Mapping[str, object] | None = None,
    *,
    embed_data: bool = False,
    so_far: tuple[str, int] | None = None,
) -> str:
    """The page as text, to be written in UTF-8.

    `exported` is what `storagelab export --format json` returns, in pieces; it is made here if missing. The page offers
    it as a download, byte for byte, if the page stays below `LARGEST_PAGE` with it or if `embed_data` asks for it.
    Otherwise, making it stops as soon as it is too large. `embed_data` needs `runs` that were read whole. `manifest`
    holds facts of the campaign that no run carries (such as the version that made the report); nested tables of scalars
    are fine. `so_far`: how far an unfinished campaign is, and after how many seconds the page loads itself again (0 for
    never). The same input gives the same page.
    """
    drawn = page_charts(findings, runs)
    svgs = {f"{name}-{form}": to_svg(_bare(spec)) for name, one in drawn.items() for form, spec in one.specs().items()}
    drawings = {name: Markup(svg) for name, svg in framed(svgs).items()}  # noqa: S704 - drawn by us
    found = sections(experiment, plan, runs, findings, drawn, manifest or {})
    content = templates().get_template("content.html").render(sections=found, drawings=drawings)
    scripts = [_script("page.js"), _script("folds.js")]
    is_interactive = any(one.name == "explore" and one.view and one.view["record"] for one in found)
    drawer = runtime() if is_interactive else None
    if drawer is not None:
        scripts += [_script("explore-series.js"), _script("explore.js")]
    size = len(content) + sum(map(len, scripts)) + (len(drawer.packed) if drawer is not None else 0)
    pieces = json_pieces(experiment, plan, runs, findings) if exported is None else exported
    all_in_detail = plan.in_detail == math.inf
    most = math.inf if embed_data else LARGEST_PAGE - size if all_in_detail else 0
    return templates().get_template("page.html").render(
        experiment=experiment.name,
        question=findings.question,
        so_far=so_far,
        provenance=findings.provenance,
        facts=badges(findings, runs),
        sections=[*found, Section("data", "All raw data", None)],
        content=Markup(content),  # noqa: S704 - rendered by our templates
        carried=_packed(pieces, most),
        in_detail=None if all_in_detail or embed_data else numbers.plural(int(plan.in_detail), "repetition"),
        file_name=f"{_file_name(experiment.name)}.json",
        style=asset("page.css") + asset("layout.css") + Markup(STYLE),  # noqa: S704 - our own
        scripts=scripts,
        script_hashes=[*map(_sha256, scripts), *([drawer.sha256] if drawer is not None else [])],
        runtime=drawer.packed if drawer is not None else "",
    )  # fmt: skip


def page_of(paper: Paper, drawings: Sequence[Markup] = (), label: str = "", heading: str = "Over time") -> str:
    """A short report as a page without a script, with the same appearance. `drawings` are one chart in its widths below
    `heading`, which `label` describes.
    """
    tables = [PageTable(f"{part.caption} ({paper.provenance})", *part.table) for part in paper.parts if part.table.rows]
    return templates().get_template("paper.html").render(
        paper=paper, tables=tables, drawings=drawings, label=label, heading=heading,
        style=asset("page.css") + Markup(STYLE),  # noqa: S704 - our own
    )  # fmt: skip


def _script(name: str) -> Markup:
    """A script without its comments, which are for those who change it."""
    return Markup(_COMMENT.sub("", asset(name)))  # noqa: S704 - our own


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _bare(spec: Mapping[str, object]) -> dict[str, object]:
    """A chart without title and background, because the page has both."""
    return {key: value for key, value in spec.items() if key != "title"} | {"background": None}


class _Carried(NamedTuple):
    """Raw data as a page carries them: compressed and in base64, whose letters can't close a script element."""

    letters: str
    size: str
    packed_size: str


def _packed(pieces: Iterable[str], most: float) -> _Carried | None:
    """None if the data take more than `most` letters; no more pieces are made once this is sure."""
    if most <= 0:
        return None
    packer = zlib.compressobj(_GZIP_LEVEL, wbits=_AS_GZIP)
    packed, size = bytearray(), 0
    for piece in pieces:
        plain = piece.encode()
        size += len(plain)
        packed += packer.compress(plain)
        if 4 * len(packed) > 3 * most:
            return None
    packed += packer.flush()
    letters = base64.b64encode(packed).decode()
    return _Carried(letters, numbers.bytes_(size), numbers.bytes_(len(letters))) if len(letters) <= most else None


def _file_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "-_" else "-" for char in name) or "export"


@cache
def templates() -> Environment:
    return Environment(
        loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined, finalize=_unsecret,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def _unsecret(value: object) -> object:
    """Template output without the passwords that a message may quote."""
    return masked(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def asset(name: str) -> Markup:
    loader = templates().loader
    assert loader is not None
    return Markup(loader.get_source(templates(), name)[0])  # noqa: S704 - a file of this package
