"""SQL Server's counters, the resources for which its sessions wait, and the pages among them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storagelab.engines.sqlserver.meanings import event_of
from storagelab.engines.sqlserver.sampler import (
    DIFF,
    FILE_HEADER,
    GAM,
    GAM_INTERVAL_PAGES,
    ML,
    PFS,
    PFS_INTERVAL_PAGES,
    ROWS,
    SGAM,
    Decoder,
    Moment,
    Page,
    PageInfo,
    Task,
    WaitCount,
    counted_waits,
    kind_of,
    kind_text,
    page_of,
    pages_to_ask,
    server_waits_group,
    summed,
    task_of,
    waits_between,
)  # fmt: skip
from storagelab.model.waits import CountedWaits, normalise

COUNTS = st.dictionaries(
    st.sampled_from(["WRITELOG", "PAGELATCH_UP", "SOS_SCHEDULER_YIELD", "LCK_M_IS"]),
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**9), st.integers(0, 10**6)),
)


def test_a_wait_in_progress_is_added_to_those_that_ended():
    total = summed([("WRITELOG", 10, 500, 20)], [("WRITELOG", 1, 40, 0), ("PAGELATCH_EX", 2, 7, 0)])
    assert total == {"WRITELOG": WaitCount(11, 540, 20), "PAGELATCH_EX": WaitCount(2, 7, 0)}


def test_the_difference_of_two_readings_is_what_was_waited_between_them():
    before = {"WRITELOG": WaitCount(10, 500, 20), "CHKPT": WaitCount(1, 9, 0)}
    after = {"WRITELOG": WaitCount(15, 800, 21), "CHKPT": WaitCount(1, 9, 0), "LATCH_EX": WaitCount(1, 3, 1)}
    assert waits_between(before, after) == {"LATCH_EX": WaitCount(1, 3, 1), "WRITELOG": WaitCount(5, 300, 1)}


@given(COUNTS, COUNTS)
def test_a_difference_is_never_negative(first, second):
    before = {name: WaitCount(*counts) for name, counts in first.items()}
    after = {name: WaitCount(*counts) for name, counts in second.items()}
    assert all(min(count) >= 0 for count in waits_between(before, after).values())
    for row in counted_waits(waits_between(before, after)):
        assert 0 <= row.signal_ns <= row.wait_ns


def test_the_start_gate_is_left_out_of_a_runs_waits_and_other_locks_are_not():
    waits = {"LCK_M_IS": WaitCount(16, 9000, 1), "LCK_M_IX": WaitCount(1, 5, 0)}
    assert [row.wait_type for row in counted_waits(waits)] == ["LCK_M_IX"]
    assert server_waits_group(waits) == {"LCK_M_IX.waits": 1.0, "LCK_M_IX.wait_ms": 5.0, "LCK_M_IX.signal_ms": 0.0}


def test_a_yield_is_all_signal_and_stands_among_the_waits():
    (row,) = counted_waits({"SOS_SCHEDULER_YIELD": WaitCount(40, 200, 200)})
    (stat,) = normalise(CountedWaits(connections=1, elapsed_s=1, busy_s=1, rows=(row,)))
    assert (stat.category, stat.resource_s, stat.signal_s, stat.is_wait) == ("cpu-queue", 0.0, 0.2, True)


def test_wait_types_are_joined_with_those_of_other_engines():
    expected = {
        "PAGEIOLATCH_SH": "data-read", "WRITELOG": "commit", "LOGBUFFER": "log-buffer", "PAGELATCH_UP": "allocation",
        "PAGELATCH_EX": "page-latch", "LATCH_EX": "latch", "LCK_M_X": "lock", "SOS_SCHEDULER_YIELD": "cpu-queue",
        "ASYNC_NETWORK_IO": "network", "PREEMPTIVE_OS_WRITEFILEGATHER": "file-growth", "CHKPT": "data-write",
        "SLEEP_BPOOL_FLUSH": "data-write", "SOMETHING_OF_A_LATER_VERSION": "other",
    }  # fmt: skip
    assert {name: event_of(name).category for name in expected} == expected


# sqlservercentral.com, script 72008: in tempdb PFS is 2:1:1, GAM 2:1:2, SGAM 2:1:3.
# simple-talk.com, Kehayias 2012: PFS again every 8088 pages, GAM every 511232, SGAM one page after each GAM.
# blog.sqlgrease.com: 2:7:384885 was a page of sysobjvalues. SqlNexus issue 1: 5:51:3339590.
PAGES = {
    PFS: (1, 8088, 16176), GAM: (2, 511232, 1022464), SGAM: (3, 511233, 1022465), DIFF: (6, 511238), ML: (7, 511239),
    FILE_HEADER: (0,), ROWS: (384885, 3339590, 4, 8087, 8089),
}  # fmt: skip


def test_the_kind_of_a_page_follows_from_its_number():
    assert {kind: tuple(page for page in pages if kind_of(page) == kind) for kind, pages in PAGES.items()} == PAGES


@given(st.integers(1, 60))
def test_every_interval_begins_with_its_maps(interval):
    start = interval * GAM_INTERVAL_PAGES
    assert [kind_of(start + offset) for offset in (0, 1, 6, 7)] == [GAM, SGAM, DIFF, ML]
    assert kind_of(interval * PFS_INTERVAL_PAGES) == PFS


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


DATABASE = 6
FILES = {1: 0, 2: 0, 3: 1, 4: 2}
"""The primary file, the log, and two data files."""


def decoded(*tasks: Task, pages=None):
    return Decoder(DATABASE, FILES, pages or {}).waiting_tasks(Moment(1.5, tasks))


def test_a_holder_that_the_server_can_not_name_or_that_is_the_waiter_is_none():
    for holder in (None, 0, -2, -3, -4, -5, 51):
        assert task_of((51, "PAGELATCH_UP", 1, "6:3:1", holder)).held_by is None
    assert task_of((51, "PAGELATCH_UP", 1, "6:3:1", 52)).held_by == 52


def test_sessions_that_wait_for_one_page_stand_together_with_its_data_file():
    (group,) = decoded(Task(51, "PAGELATCH_UP", 3, "6:3:8088", None), Task(52, "PAGELATCH_UP", 2, "6:3:8088", None))
    assert (group.resource.text, group.data_file, group.sessions) == ("6:3:8088, a PFS page", 1, 2)
    assert (group.at_s, group.wait_type) == (1.5, "PAGELATCH_UP")


def test_who_holds_a_page_is_told_by_what_it_waits_for_itself():
    groups = decoded(
        Task(51, "PAGELATCH_EX", 3, "6:4:900", 52),
        Task(52, "WRITELOG", 2, "", None),
        Task(53, "PAGELATCH_EX", 1, "6:4:901", 99),
    )
    assert {group.resource.text: group.held_by for group in groups} == {
        "6:4:900, a data or index page": "WRITELOG", "": "", "6:4:901, a data or index page": "not seen waiting",
    }  # fmt: skip


def test_what_the_server_said_of_a_page_is_used():
    (group,) = decoded(Task(51, "PAGELATCH_EX", 3, "6:4:900", None), pages={Page(6, 4, 900): PageInfo(2, 1, 2)})
    assert group.resource.text == "6:4:900, an index page, level 2 of its tree"


def test_pages_of_other_databases_and_of_the_primary_file_are_not_of_a_data_file():
    first, second = decoded(Task(51, "PAGELATCH_UP", 3, "2:1:1", None), Task(52, "PAGEIOLATCH_SH", 3, "6:1:3", None))
    assert {(first.resource.text, first.data_file), (second.resource.text, second.data_file)} == {
        ("2:1:1, a PFS page", None), ("6:1:3, an SGAM page", None),
    }  # fmt: skip


def test_locks_latches_and_the_queue_for_a_cpu_are_named():
    groups = decoded(
        Task(51, "LCK_M_IX", 3, "objectlock lockPartition=0 objid=1 subresource=FULL dbid=6 id=lock1 mode=X", None),
        Task(52, "LATCH_EX", 3, "ACCESS_METHODS_HOBT_COUNT (00000002)", None),
        Task(53, "SOS_SCHEDULER_YIELD", 0, "", None),
        Task(54, "WRITELOG", 3, "", None),
    )
    assert {group.wait_type: group.resource.text for group in groups} == {
        "LCK_M_IX": "objectlock", "LATCH_EX": "ACCESS_METHODS_HOBT_COUNT", "SOS_SCHEDULER_YIELD": "a CPU",
        "WRITELOG": "",
    }  # fmt: skip


def test_only_pages_of_rows_in_our_database_are_asked_for_most_seen_first():
    def latch(page: str) -> Task:
        return Task(51, "PAGELATCH_EX", 1, page, None)

    moments = [
        Moment(0.1, (latch("6:3:900"), latch("6:3:901"), latch("6:3:8088"), latch("2:1:900"))),
        Moment(0.2, (latch("6:3:901"), Task(52, "WRITELOG", 1, "", None))),
    ]
    assert pages_to_ask(moments, DATABASE) == [Page(6, 3, 901), Page(6, 3, 900)]
