"""Which page of which file a latch is on, and what such a page holds: maps of the file, or rows.

By arithmetic on its number, which holds in every version; from SQL Server 2019 on the server can be asked instead
(sys.dm_db_page_info). A PFS page maps 8088 pages. A GAM interval is 511232 pages: 63904 extents of 8 pages, of which a
bitmap of 7988 bytes has one bit each (sqlity.net/en/2331/gam-interval); books often say 64000 extents.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PFS_INTERVAL_PAGES = 8088
GAM_INTERVAL_PAGES = 511_232

FILE_HEADER, PFS, GAM, SGAM, DIFF, ML = "file header", "PFS", "GAM", "SGAM", "DIFF", "ML"
ROWS = ""
"""Not a map by its number: data, index or IAM."""
MAPS = (PFS, GAM, SGAM, DIFF, ML)

_OF_PAGE = re.compile(r"\s*(\d+):(\d+):(\d+)(?:$|[\s(])")
_TYPES = {
    1: "rows", 2: "index", 3: "text", 4: "text", 7: "sort", 8: GAM, 9: SGAM, 10: "IAM", 11: PFS, 13: "boot",
    15: FILE_HEADER, 16: DIFF, 17: ML,
}  # fmt: skip
"""The server's numbers of page types (sys.dm_db_page_info, column page_type)."""


class Page(NamedTuple):
    """Database and file by the server's ids; pages are numbered from 0 in each file."""

    database_id: int
    file_id: int
    page_id: int


def page_of(resource: str) -> Page | None:
    """The page in a `resource_description` such as "5:3:8088"; None where it names something else."""
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
    """What the server says of a page: its type by number, and for rows the index and the level in its tree, leaf = 0."""

    page_type: int
    index_id: int | None
    level: int | None


def kind_text(page: Page, info: PageInfo | None) -> str:
    """What the page holds, in words: by the server where it was asked, else by arithmetic."""
    kind = kind_of(page.page_id)
    if info is None:
        return kind or "rows"
    named = _TYPES.get(info.page_type, f"type {info.page_type}")
    if info.page_type in (1, 2) and info.level is not None:
        return f"{named}, leaf of its tree" if info.level == 0 else f"{named}, level {info.level} of its tree"
    return named
