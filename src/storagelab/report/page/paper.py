"""A short report as one HTML page without a script, in the look of the large one."""

from __future__ import annotations

from storagelab.report.page.html import asset, templates
from storagelab.report.page.pieces import PageTable
from storagelab.report.words.paper import Paper


def page_of(paper: Paper) -> str:
    """The page as text, to be written in UTF-8."""
    tables = [PageTable(f"{part.caption} ({paper.provenance})", *part.table) for part in paper.parts if part.table.rows]
    return templates().get_template("paper.html").render(paper=paper, tables=tables, style=asset("page.css"))
