"""The page of a measured campaign beside a prediction: its tables and their chart."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from storagelab.findings.beside import Beside
from storagelab.report.drawing import palette
from storagelab.report.drawing.beside import TITLE, beside_specs
from storagelab.report.drawing.slim import framed
from storagelab.report.drawing.vega import to_svg
from storagelab.report.page.html import page_of
from storagelab.report.words.beside import beside_words
from storagelab.report.words.table import Paper


def beside_page(paper: Paper, found: Beside, names: Mapping[str, str]) -> str:
    """The page as text. It has no script and needs no network."""
    svgs = {f"beside-{form}": to_svg(spec) for form, spec in beside_specs(found, names).items()}
    drawings = [Markup(svg) for svg in framed(svgs).values()]  # noqa: S704 - drawn by us
    return page_of(paper, drawings, beside_words(found, names), palette.dark_style(()), TITLE)
