"""A document as one self-contained HTML page: reading it needs no network, no server, and no script.

Charts are drawn here, as SVG, not by the browser, so they also appear on paper and without scripts. The scripts of a
report add tooltips, filters and the raw data, which the page carries compressed unless they would make it too large to
open or to send. The page's own policy forbids every request.

The templates escape all text and remove any password that a message quotes. Only the style, the scripts and the
drawings, which are made here, go in unescaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from storagelab.findings.model import Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.report.document import Document, Heading, Picture, Section, Table
from storagelab.report.drawing.chart import Drawn
from storagelab.report.drawing.runtime import runtime
from storagelab.report.drawing.vega import STYLE, framed, to_svg
from storagelab.report.export.as_json import json_pieces
from storagelab.report.page.explore_plots import MAX_RUNS, plots
from storagelab.report.page.explore_record import record
from storagelab.report.page.explore_series import packed, series
from storagelab.report.sections.cells import cells_table
from storagelab.report.sections.contents import document
from storagelab.report.words import compared
from storagelab.report.words.glossary import GLOSSARY
from storagelab.report.words.secrets import masked
from storagelab.words import numbers

_GZIP_LEVEL = 5
"""The gzip level: level 6 takes half as long again for 1.5 % less."""
_AS_GZIP = 31
"""zlib's name for the largest window with gzip's header."""
_COMMENT = re.compile(r"^ *//.*\n", re.MULTILINE)
LARGEST_PAGE = 3_000_000
"""The largest page, in characters, that carries its raw data by default."""
MAX_TABLE_ROWS = 400
"""The most rows of a chart's table."""


@dataclass(frozen=True)
class Drawings:
    """A chart that was drawn already, in its widths, and its name for readers who can't see it: a part of a page."""

    svgs: Sequence[Markup]
    label: str


class _Explore(NamedTuple):
    """What the script knows of all cells: `record` and packed `series`."""

    legend: str
    record: Markup
    series: str


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
    limit: float | None = None,
) -> str:
    """The page of a report as text, to be written in UTF-8.

    `exported` is what `storagelab export --format json` returns, in pieces; it is made here if missing. The page offers
    it as a download, byte for byte, if the page stays below `LARGEST_PAGE` with it or if `embed_data` asks for it.
    Otherwise, making it stops as soon as it is too large. `embed_data` needs `runs` that were read whole. `manifest`
    holds facts of the campaign that no run carries (such as the version that made the report). `so_far`: how far an
    unfinished campaign is, and after how many seconds the page loads itself again (0 for never). `limit`: the reader's
    own. The same input gives the same page.
    """
    of = document(experiment, plan, runs, findings, manifest, limit=limit)
    drawn = {part.drawn.name: part.drawn for one in of.sections for part in one.parts if isinstance(part, Picture)}
    svgs = {f"{name}-{form}": to_svg(_bare(spec)) for name, one in drawn.items() for form, spec in one.specs().items()}
    drawings = {name: Markup(svg) for name, svg in framed(svgs).items()}  # noqa: S704 - drawn by us
    explore = _explore(plan, runs, findings)
    drawer = runtime() if explore is not None else None
    scripts = [
        _script(name) for name in ("page.js", "folds.js", *(("explore-series.js", "explore.js") if drawer else ()))
    ]
    glossary = Table([Heading("term", "text"), Heading("meaning", "prose")], list(GLOSSARY.items()), "The terms")
    sections = [
        *of.sections, Section("glossary", "Glossary", [glossary], numbers.plural(len(GLOSSARY), "term")),
        Section("data", "All raw data", ()),
    ]  # fmt: skip
    size = sum(map(len, [*drawings.values(), *scripts])) + (len(drawer.packed) if drawer else 0) + len(str(explore))
    pieces = json_pieces(experiment, plan, runs, findings) if exported is None else exported
    all_in_detail = plan.in_detail == math.inf
    most = math.inf if embed_data else LARGEST_PAGE - size if all_in_detail else 0
    return _rendered(
        of=of,
        sections=sections,
        so_far=so_far,
        drawings=drawings,
        explore=explore,
        experiment=experiment.name,
        carried=_packed(pieces, most),
        in_detail=None if all_in_detail or embed_data else numbers.plural(int(plan.in_detail), "repetition"),
        file_name=f"{_file_name(experiment.name)}.json",
        style=asset("page.css") + Markup(STYLE),  # noqa: S704 - our own
        scripts=scripts,
        script_hashes=[*map(_sha256, scripts), *([drawer.sha256] if drawer is not None else [])],
        runtime=drawer.packed if drawer is not None else "",
    )


def page_of(of: Document) -> str:
    """A short report, or the answer alone, as a page without a script."""
    return _rendered(
        of=of, sections=of.sections, so_far=None, drawings={}, explore=None, scripts=[], script_hashes=[],
        style=asset("page.css") + Markup(STYLE),  # noqa: S704 - our own
    )  # fmt: skip


def _rendered(**given: object) -> str:
    return templates().get_template("page.html").render(**given)


def _explore(plan: Plan, runs: Sequence[Run], findings: Findings) -> _Explore | None:
    """Every cell as the script knows it, to sort and filter the table, and to put any two side by side; None for a
    single cell.
    """
    found = cells_table(findings, runs)
    if len(found.cells) < 2 or not findings.factors:
        return None
    known = record(plan, runs, findings, found.cells)
    known |= {"keys": found.keys, "plots": plots(findings), "most_runs": MAX_RUNS}
    legend = compared.legend_sentence(findings)
    return _Explore(legend, _script_text(known), packed(series(findings, runs, found.cells)))


def _script_text(value: object) -> Markup:
    """JSON in which nothing can end the script element around it, or begin another one."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704


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
    letters, size = bytearray(), 0
    for piece in pieces:
        plain = piece.encode()
        size += len(plain)
        letters += packer.compress(plain)
        if 4 * len(letters) > 3 * most:
            return None
    letters += packer.flush()
    text = base64.b64encode(letters).decode()
    return _Carried(text, numbers.bytes_(size), numbers.bytes_(len(text))) if len(text) <= most else None


def _file_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "-_" else "-" for char in name) or "export"


@cache
def templates() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined, finalize=_unsecret,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "kind": lambda value: type(value).__name__, "together": numbers.keep_together, "aligned": _aligned,
        "numbers_of": _numbers_of,
    }  # fmt: skip
    return environment


def _aligned(heading: Heading) -> Markup:
    return {"text": Markup(""), "prose": Markup(' class="p"'), "number": Markup(' class="n"')}[heading.align]


def _numbers_of(drawn: Drawn) -> Table:
    """The numbers of a chart as a table."""
    table = drawn.table
    caption = f"{drawn.title} ({drawn.where}): what the chart shows"
    if len(table.rows) > MAX_TABLE_ROWS:
        caption += f"; the first {MAX_TABLE_ROWS} of {numbers.count(len(table.rows))} rows, the rest is in the raw data"
    return table.called(caption, rows=table.rows[:MAX_TABLE_ROWS], folded="The same numbers as a table")


def _unsecret(value: object) -> object:
    """Template output without the passwords that a message may quote."""
    return masked(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def asset(name: str) -> Markup:
    loader = templates().loader
    assert loader is not None
    return Markup(loader.get_source(templates(), name)[0])  # noqa: S704 - a file of this package
