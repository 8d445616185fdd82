"""Finds which page of which file a latch is on, and what that page holds: maps of the file, or rows.

It uses arithmetic on the page's number, valid in every version; from SQL Server 2019 on the server can be asked instead
(sys.dm_db_page_info). A PFS page maps 8088 pages. A GAM interval is 511232 pages: 63904 extents of 8 pages, of which a
bitmap of 7988 bytes has one bit for each (sqlity.net/en/2331/gam-interval); books often say 64000 extents.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from storagelab.model.measurement import PFS_PAGE, Page

PFS_INTERVAL_PAGES = 8088
GAM_INTERVAL_PAGES = 511_232

FILE_HEADER, PFS, GAM, SGAM, DIFF, ML = "file header", "PFS", "GAM", "SGAM", "DIFF", "ML"
ROWS = ""
"""Not a map, by its number: data, index or IAM."""

_OF_PAGE = re.compile(r"\s*(\d+):(\d+):(\d+)(?:$|[\s(])")
_WORDS = {
    FILE_HEADER: "a file header", PFS: PFS_PAGE, GAM: "a GAM page", SGAM: "an SGAM page", DIFF: "a DIFF page",
    ML: "an ML page", ROWS: "a data or index page",
}  # fmt: skip
_TYPES = {
    1: "a data page", 2: "an index page", 3: "a text page", 4: "a text page", 7: "a sort page", 8: _WORDS[GAM],
    9: _WORDS[SGAM], 10: "an IAM page", 11: _WORDS[PFS], 13: "a boot page", 15: _WORDS[FILE_HEADER], 16: _WORDS[DIFF],
    17: _WORDS[ML],
}  # fmt: skip
"""By the server's numbers of page types (sys.dm_db_page_info, column page_type)."""


def page_of(resource: str) -> Page | None:
    """The page in a `resource_description` such as "5:3:8088"; None if it names something else."""
    found = _OF_PAGE.match(resource)
    return Page(*map(int, found.groups())) if found else None


def kind_of(page_id: int) -> str:
    """What the page with this number holds, by arithmetic. The order of the tests matters: 0 is a multiple of all."""
    if page_id == 0:
        return FILE_HEADER
    if page_id == 1 or page_id % PFS_INTERVAL_PAGES == 0:
        return PFS
    if page_id == 2 or page_id % GAM_INTERVAL_PAGES == 0:
        return GAM
    if page_id == 3 or page_id % GAM_INTERVAL_PAGES == 1:
        return SGAM
    return {6: DIFF, 7: ML}.get(page_id % GAM_INTERVAL_PAGES, ROWS)


class PageInfo(NamedTuple):
    """The server's description of a page: its type's number, and for rows the index and the level in its tree (leaf = 0)."""

    page_type: int
    index_id: int | None
    level: int | None


def kind_text(page: Page, info: PageInfo | None) -> str:
    """What the page holds, in words: by the server if it was asked, otherwise by arithmetic."""
    if info is None:
        return _WORDS[kind_of(page.page_id)]
    named = _TYPES.get(info.page_type, f"a page of type {info.page_type}")
    if info.page_type in (1, 2) and info.level is not None:
        return f"{named}, leaf of its tree" if info.level == 0 else f"{named}, level {info.level} of its tree"
    return named
