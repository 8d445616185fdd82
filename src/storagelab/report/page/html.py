"""Makes a document into one self-contained HTML page. Reading it needs no network, no server, and no script.

This module draws the charts as SVG, so they also appear on paper and without scripts. The scripts of a report add
tooltips, filters and the raw data. The page contains the raw data in compressed form, unless they would make the page
too large to open or to send. The page's content policy forbids every request.

The templates escape all text and remove any password that a message quotes. Only the style, the scripts and the
drawings are not escaped, because they come from storagelab itself.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import tomllib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from storagelab.findings.model import Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.report.document import Bar, Document, Fold, Heading, Mark, Picture, Section, Table
from storagelab.report.drawing.arrange import CHOSEN_CELLS
from storagelab.report.drawing.chart import Drawn
from storagelab.report.drawing.vega import FORMS, Spec, letters, runtime, to_svg
from storagelab.report.export.as_json import json_pieces
from storagelab.report.page.explore import MAX_RUNS, Json, packed, plots, record, series
from storagelab.report.sections.cells import CellsTable, cells_table
from storagelab.report.sections.contents import document
from storagelab.report.words.secrets import masked
from storagelab.words import numbers

GLOSSARY: Mapping[str, str] = tomllib.loads(resources.files(__package__).joinpath("glossary.toml").read_text("utf-8"))
"""Maps each term to its meaning."""
_GZIP_LEVEL = 5
"""The gzip level. Level 6 would take 1.5 times as long and save 1.5 %."""
_AS_GZIP = 31
"""zlib's code for the largest window and a gzip header."""
_COMMENT = re.compile(r"^ +(?://.*\n)?|^//.*\n", re.MULTILINE)
_NEEDLESS = re.compile(
    r'<path class="(?:fore|back)ground" aria-hidden="true" d="(?:M0,0h0v0h0Z)?"(?: [a-z-]+="none")*/>'
    r'| (?:role="graphics-[a-z]+"|aria-roledescription="[^"]*"|aria-hidden="true"|pointer-events="none")'
    r'| (?:font-family="[^"]*"|font-size="12px"|(?:fill-|stroke-)?opacity="1"|stroke-width="1")'
    r'|(?<=fill="#\w{6}") stroke-width="2"'
)
_FINE = re.compile(r' (?:d|transform|[xy]2)="[^"]*"')
"""Attributes that may have more decimals than a page needs. `_NEEDLESS` matches parts that a page doesn't need: the
element around a drawing already has its role, name and font. Both together are a quarter of a drawing, and Vega-Lite
has no setting to leave them out.
"""
LARGEST_PAGE = 1_200_000
"""The largest page, in characters, that contains its raw data by default."""
MAX_TABLE_ROWS = 400
"""The most rows of a chart's table."""
_LEFT_OUT_ON_PAPER, _MOST_ON_PAPER = (3, 4, 5, 9), 7
"""From tables with more than this many columns, paper omits the columns with these ranks. They have rates beside times,
the scatter of runs, and states of drives.
"""
_LONG_WORD = 24
"""Words with more letters may be broken on paper, because a table could otherwise be too wide."""


@dataclass(frozen=True)
class Drawings:
    """A part of a page: a chart drawn in several widths, and its label for screen readers."""

    svgs: Sequence[Markup]
    label: str


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
    """Returns the page of a report as text, to be written in UTF-8. The same input gives the same page.

    `exported`: the pieces of what `storagelab export --format json` prints; made here if None. The page offers the
    export as a download, byte for byte, if the page with it is smaller than `LARGEST_PAGE`, or if `embed_data`. If
    the export is too large, no more pieces are made. With `embed_data`, `runs` must have been read completely.
    `manifest`: facts on the campaign that are in no run, such as the version that made the report. `so_far`: the
    progress of an unfinished campaign, and after how many seconds the page reloads itself (0 means never). `limit`:
    the reader's limit, in seconds or as a rate.
    """
    of = document(experiment, plan, runs, findings, manifest, limit=limit)
    of = of if so_far is None else replace(of, next="")  # because the missing runs are already being made
    if so_far is None and findings.runs_stored < findings.runs_planned:
        so_far = "Not finished.", 0
    shows = f"This page shows {findings.runs_stored} of {findings.runs_planned} runs."
    drawn = {part.drawn.name: part.drawn for one in of.sections for part in one.parts if isinstance(part, Picture)}
    found = cells_table(findings)
    known = _record(plan, runs, findings, found)
    # The script has the names of cells, so the marks have only ids. With names, a large page would be 10 % larger.
    shown = {name: one.with_ids if known else one for name, one in drawn.items()}
    wide, narrow = _framed(shown)
    whole = _framed({name: all_rows for name, one in shown.items() if (all_rows := one.whole)})
    drawer = runtime() if known else None
    names = ("page.js", "folds.js", *(("explore-series.js", "explore.js") if drawer else ()))
    # The page has the scripts without comments and indents, which are only for developers.
    scripts = [Markup(_COMMENT.sub("", asset(name))) for name in names]  # noqa: S704 - our own
    glossary = Table([Heading("term", "text"), Heading("meaning", "prose")], list(GLOSSARY.items()), "The terms")
    sections = [*of.sections, Section("glossary", "Glossary", [glossary], numbers.plural(len(GLOSSARY), "term"))]
    pieces = _pieces(drawings=wide, is_explored=known is not None, experiment=experiment.name, scripts=scripts)
    body = Markup("\n").join(map(pieces.section, sections))
    folds = [part for one in sections if one.name == "cells" for part in one.parts if isinstance(part, Fold)]
    later = packed(
        {
            "narrow": narrow,
            "whole": {name: whole[0][name] + whole[1][name] for name in whole[0]},
            "cells": [[*_words(fold), pieces.parts(fold.parts)] for fold in folds],
            "record": known,
            "series": series(findings, runs, found.cells) if known else None,
        }
    )
    style = asset("page.css")
    packed_runtime = drawer.packed if drawer else ""
    size = sum(map(len, (body, later, style, packed_runtime, *scripts))) + _HEAD
    all_in_detail = plan.in_detail == math.inf
    return _rendered(
        of=of,
        drawn=drawn,
        sections=sections,
        body=body,
        so_far=so_far and (f"{so_far[0]} {shows}", so_far[1]),
        later=later,
        experiment=experiment.name,
        carried=_packed(
            json_pieces(experiment, plan, runs, findings) if exported is None else exported,
            math.inf if embed_data else LARGEST_PAGE - size if all_in_detail else 0,
        ),
        in_detail=None if all_in_detail or embed_data else numbers.plural(int(plan.in_detail), "repetition"),
        file_name=(re.sub(r"[^\w-]", "-", experiment.name) or "export") + ".json",
        style=style,
        scripts=scripts,
        script_hashes=[*map(_sha256, scripts), *([drawer.sha256] if drawer else [])],
        runtime=packed_runtime,
    )


_HEAD = 20_000
"""An upper bound for the characters of a page other than its sections, style and scripts."""


def page_of(of: Document) -> str:
    """Returns a page without a script, for a short report or for the answer alone."""
    return _rendered(
        of=of, sections=of.sections, so_far=None, scripts=[], script_hashes=[],
        body=Markup("\n").join(map(_pieces(scripts=()).section, of.sections)),
        style=asset("page.css"),
    )  # fmt: skip


def _pieces(**given: object) -> Any:
    """Returns the template's macros, one for each kind of part."""
    return templates().get_template("pieces.html").make_module(given)


def _rendered(**given: object) -> str:
    return templates().get_template("page.html").render(**given)


def _words(fold: Fold) -> list[str]:
    """Returns a cell's entry in the page's list: anchor, title, figure, and the verdict's kind and text."""
    mark = fold.mark or Mark("", "")
    return [fold.anchor, *map(masked, (fold.title, fold.holds, mark.kind, mark.text))]


def _record(plan: Plan, runs: Sequence[Run], findings: Findings, found: CellsTable) -> Json | None:
    """Returns the data with which the script sorts and filters the table of cells, and compares two cells. None if
    there is only one cell.
    """
    if len(found.cells) < 2 or not findings.factors:
        return None
    known = record(plan, runs, findings, found.cells)
    return known | {"keys": found.keys, "plots": plots(findings), "most_runs": MAX_RUNS}


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _framed(drawn: Mapping[str, Drawn]) -> list[dict[str, Markup]]:
    """Returns the drawings by the names of charts: first the wide drawings, then the narrow ones."""
    specs = {name: one.specs() for name, one in drawn.items()}
    return [{name: framed(form, of[form]) for name, of in specs.items()} for form in FORMS]


def framed(form: str, spec: Spec) -> Markup:
    """Draws a chart for a page. The drawing has no title and no background, because the page has them. Parts and digits
    that a page doesn't need are removed.
    """
    svg = to_svg({key: value for key, value in spec.items() if key != "title"} | {"background": None})
    short = _FINE.sub(lambda found: re.sub(r"(?:\.0|(\.\d))\d*", r"\1", found[0]), _NEEDLESS.sub("", svg))
    return Markup(f'<div class="{form}" aria-hidden="true">{short}</div>')  # noqa: S704 - drawn by us


class _Carried(NamedTuple):
    """Raw data in the form that a page contains: compressed and encoded as letters. The sizes are texts with units."""

    letters: str
    size: str
    packed_size: str


def _packed(pieces: Iterable[str], most: float) -> _Carried | None:
    """Compresses the data. None if they take more than `most` letters; then no more pieces are made."""
    if most <= 0:
        return None
    packer = zlib.compressobj(_GZIP_LEVEL, wbits=_AS_GZIP)
    small, size = bytearray(), 0
    for piece in pieces:
        plain = piece.encode()
        size += len(plain)
        small += packer.compress(plain)
        if 5 * len(small) > 4 * most:
            return None
    text = letters(bytes(small + packer.flush()))
    return _Carried(text, numbers.bytes_(size), numbers.bytes_(len(text))) if len(text) <= most else None


@cache
def templates() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined, finalize=_unsecret,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "kind": lambda value: type(value).__name__, "together": numbers.keep_together, "columns": _columns,
        "numbers_of": _numbers_of,
    }  # fmt: skip
    environment.globals["cells_without_scripts"] = CHOSEN_CELLS
    environment.tests["late"] = lambda of: any(isinstance(part, Picture | Fold) for part in of.parts)
    return environment


def _columns(of: Table) -> list[Markup]:
    """Returns the class attribute of each column: its alignment, whether it has long words, and whether paper omits it
    from a table with many columns.
    """
    found = []
    for place, heading in enumerate(of.headings):
        names = {"text": [], "prose": ["p"], "number": ["n"]}[heading.align]
        contents = [row[place] for row in of.rows]
        names += ["w"] * any(len(word) > _LONG_WORD for content in contents for word in str(content).split())
        needless = of.ranks.get(heading.text, 0) in _LEFT_OUT_ON_PAPER or any(isinstance(one, Bar) for one in contents)
        names += ["screen"] * (needless and len(of.headings) > _MOST_ON_PAPER)
        found.append(Markup(' class="{}"').format(" ".join(names)) if names else Markup(""))
    return found


def _numbers_of(drawn: Drawn) -> Table:
    """Returns the data of a chart as a folded table."""
    table = drawn.table
    caption = f"{drawn.title} ({drawn.where}): what the chart shows"
    if len(table.rows) > MAX_TABLE_ROWS:
        caption += f"; the first {MAX_TABLE_ROWS} of {numbers.count(len(table.rows))} rows, the rest is in the raw data"
    return table.called(caption, rows=table.rows[:MAX_TABLE_ROWS], folded="The same numbers as a table")


def _unsecret(value: object) -> object:
    """Removes passwords from a value that a template is about to write. Markup is unchanged."""
    return masked(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def asset(name: str) -> Markup:
    loader = templates().loader
    assert loader is not None
    return Markup(loader.get_source(templates(), name)[0])  # noqa: S704 - a file of this package
