from storagelab.model.measurement import Page
from storagelab.targets.sqlserver.sampler import Decoder, Moment, PageInfo, Task, pages_to_ask, task_of

DATABASE = 6
FILES = {1: 0, 2: 0, 3: 1, 4: 2}
"""The primary file, the log, and two data files."""


def decoded(*tasks: Task, pages=None):
    return Decoder(DATABASE, FILES, pages or {}).waiting_tasks(Moment(1.5, tasks))


def test_a_row_of_the_view_becomes_a_task():
    """github.com/microsoft/SqlNexus issue 1: session 35, PAGELATCH_EX, 62906 ms, 5:51:3339590."""
    task = task_of((35, "PAGELATCH_EX", 62906, "5:51:3339590", None))
    assert task == Task(35, "PAGELATCH_EX", 62906, "5:51:3339590", None)


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
    (group,) = decoded(
        Task(51, "PAGELATCH_EX", 3, "6:4:900", None), pages={Page(6, 4, 900): PageInfo(2, 1, 2)}
    )  # fmt: skip
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
        "LCK_M_IX": "objectlock", "LATCH_EX": "ACCESS_METHODS_HOBT_COUNT", "SOS_SCHEDULER_YIELD": "a CPU", "WRITELOG": "",
    }  # fmt: skip


def test_only_pages_of_rows_in_our_database_are_asked_for_most_seen_first():
    def latch(page: str) -> Task:
        return Task(51, "PAGELATCH_EX", 1, page, None)

    moments = [
        Moment(0.1, (latch("6:3:900"), latch("6:3:901"), latch("6:3:8088"), latch("2:1:900"))),
        Moment(0.2, (latch("6:3:901"), Task(52, "WRITELOG", 1, "", None))),
    ]
    assert pages_to_ask(moments, DATABASE) == [Page(6, 3, 901), Page(6, 3, 900)]
