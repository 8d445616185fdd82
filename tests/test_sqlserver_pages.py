"""Pages as published: numbers of pages from documents and recorded waits, each with its source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storagelab.targets.sqlserver.sampler import (
    DIFF,
    FILE_HEADER,
    GAM,
    GAM_INTERVAL_PAGES,
    ML,
    PFS,
    PFS_INTERVAL_PAGES,
    ROWS,
    SGAM,
    Page,
    PageInfo,
    kind_of,
    kind_text,
    page_of,
)


@pytest.mark.parametrize(
    ("page_id", "kind"),
    [
        # sqlservercentral.com, script 72008: in tempdb PFS is 2:1:1, GAM 2:1:2, SGAM 2:1:3.
        (1, PFS),
        (2, GAM),
        (3, SGAM),
        # simple-talk.com, Kehayias 2012: PFS again every 8088 pages, GAM every 511232, SGAM one page after each GAM.
        (8088, PFS),
        (16176, PFS),
        (511232, GAM),
        (511233, SGAM),
        (1022464, GAM),
        (1022465, SGAM),
        # Pages 6 and 7 of each interval are its differential and its minimally logged map.
        (6, DIFF),
        (7, ML),
        (511238, DIFF),
        (511239, ML),
        # 0 is a multiple of every interval, and the header of the file.
        (0, FILE_HEADER),
        # blog.sqlgrease.com: 2:7:384885 was a page of sysobjvalues. SqlNexus issue 1: 5:51:3339590.
        (384885, ROWS),
        (3339590, ROWS),
        (4, ROWS),
        (8087, ROWS),
        (8089, ROWS),
    ],
)
def test_the_kind_of_a_page_follows_from_its_number(page_id, kind):
    assert kind_of(page_id) == kind


@given(st.integers(1, 60))
def test_every_interval_begins_with_its_maps(interval):
    start = interval * GAM_INTERVAL_PAGES
    assert [kind_of(start + offset) for offset in (0, 1, 6, 7)] == [GAM, SGAM, DIFF, ML]
    assert kind_of(interval * PFS_INTERVAL_PAGES) == PFS


@given(st.integers(0, 516_855_551))
def test_few_pages_are_maps_and_no_page_is_two(page_id):
    """Below lcm(8088, 511232) no page is both PFS and GAM: 3.85 TiB into one file."""
    is_pfs = page_id == 1 or (page_id > 0 and page_id % PFS_INTERVAL_PAGES == 0)
    is_gam = page_id == 2 or (page_id > 0 and page_id % GAM_INTERVAL_PAGES == 0)
    assert not (is_pfs and is_gam)
    assert (kind_of(page_id) == PFS) == is_pfs
    assert (kind_of(page_id) == GAM) == is_gam


def test_the_widely_copied_precedence_mistake_is_not_made():
    """`page - 1 % 8088 = 0` finds page 1 only."""
    assert [page for page in range(1, 3 * 8088) if kind_of(page) == PFS] == [1, 8088, 16176]


@pytest.mark.parametrize(
    ("resource", "page"),
    [
        ("5:51:3339590", Page(5, 51, 3339590)),  # github.com/microsoft/SqlNexus issue 1
        ("2:7:384885", Page(2, 7, 384885)),  # blog.sqlgrease.com
        ("2:1:1             ", Page(2, 1, 1)),
        ("2:1:1 (LATCH 0x0000000000000000: Class: BUFFER)", Page(2, 1, 1)),
        ("keylock hobtid=72057594041991168 dbid=5", None),
        ("ACCESS_METHODS_HOBT_COUNT (0000000000000000)", None),
        ("", None),
        ("5:1", None),
    ],
)
def test_a_page_is_read_from_what_the_server_says_is_waited_for(resource, page):
    assert page_of(resource) == page


def test_the_server_knows_more_of_a_page_than_its_number():
    page = Page(5, 3, 777)
    assert kind_text(page, None) == "a data or index page"
    assert kind_text(page, PageInfo(2, 1, 1)) == "an index page, level 1 of its tree"
    assert kind_text(page, PageInfo(1, 1, 0)) == "a data page, leaf of its tree"
    assert kind_text(page, PageInfo(10, None, None)) == "an IAM page"
    assert kind_text(page, PageInfo(11, None, None)) == "a PFS page"
    assert kind_text(page, PageInfo(99, None, None)) == "a page of type 99"
    assert kind_text(Page(5, 3, 8088), None) == "a PFS page"
