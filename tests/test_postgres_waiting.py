"""Waiting tasks: moments decoded into things a person knows, and never too many of them."""

from storagelab.engines.postgres.sampler import LockWait, lock_wait, waiting_tasks
from storagelab.model.measurement import WaitingTask
from storagelab.model.waits import NO_EVENT

RELATIONS = {1000: ("my_big_table_p3", 3), 1001: ("my_big_table_p3_pkey", 3), 2000: ("my_big_table", None)}


def _wait(pid: int, locktype: str, relation: int | None = None, holder: int | None = None, **more: str) -> LockWait:
    return LockWait(pid, locktype, relation, more.get("page", ""), more.get("tuple_", ""), more.get("xid", ""), holder)


def _said(tasks: tuple[WaitingTask, ...]) -> list[tuple[str, str, int, int | None, str]]:
    return [(task.wait_type, task.resource.text, task.sessions, task.data_file, task.held_by) for task in tasks]


def test_sessions_that_extend_one_file_are_one_line_with_what_the_holder_does():
    seen = {1: "Lock:extend", 2: "Lock:extend", 3: "IO:DataFileExtend"}
    locks = [_wait(1, "extend", 1000, 3), _wait(2, "extend", 1000, 3)]
    assert _said(waiting_tasks(0.5, seen, locks, RELATIONS)) == [
        ("Lock:extend", "extension of my_big_table_p3 (data file 3)", 2, 3, "IO:DataFileExtend"),
        ("IO:DataFileExtend", "new pages of a data file", 1, None, ""),
    ]


def test_extension_of_table_and_of_index_are_two_things():
    seen = {1: "Lock:extend", 2: "Lock:extend", 3: NO_EVENT}
    locks = [_wait(1, "extend", 1000, 3), _wait(2, "extend", 1001, 3)]
    tasks = waiting_tasks(0.5, seen, locks, RELATIONS)
    assert {task.resource.text for task in tasks} == {
        "extension of my_big_table_p3 (data file 3)",
        "extension of my_big_table_p3_pkey (data file 3)",
    }
    assert {task.held_by for task in tasks} == {"on CPU or waiting for one"}


def test_rows_pages_transactions_and_unknown_relations_have_names_too():
    seen = dict.fromkeys(range(1, 6), "Lock:tuple")
    locks = [
        _wait(1, "tuple", 1000, 9, page="7", tuple_="2"), _wait(2, "page", 1001, None, page="8"),
        _wait(3, "transactionid", None, 9, xid="755"), _wait(4, "relation", 2000), _wait(5, "extend", 77),
    ]  # fmt: skip
    tasks = waiting_tasks(1.0, seen, locks, RELATIONS)
    assert {(task.resource.text, task.held_by) for task in tasks} == {
        ("row 7/2 of my_big_table_p3 (data file 3)", "a session outside the workload"),
        ("page 8 of my_big_table_p3_pkey (data file 3)", ""),
        ("end of transaction 755", "a session outside the workload"),
        ("my_big_table", ""),
        ("extension of relation 77", ""),
    }


def test_a_latch_that_no_one_can_name_is_told_by_its_kind():
    seen = {1: "LWLock:WALWrite", 2: "LWLock:WALWrite", 3: NO_EVENT}
    assert _said(waiting_tasks(0.0, seen, [], RELATIONS)) == [
        ("LWLock:WALWrite", "another session's write of the log", 2, None, "")
    ]


def test_sessions_outside_the_workload_and_those_at_the_barrier_are_left_out():
    locks = [_wait(99, "extend", 1000), _wait(1, "advisory")]
    assert waiting_tasks(0.0, {1: NO_EVENT}, locks, RELATIONS) == ()


def test_a_row_of_the_lock_table_is_read_with_its_nulls():
    row = [b"12", b"transactionid", None, None, None, b"755", b"13"]
    assert lock_wait(row) == LockWait(12, "transactionid", None, "", "", "755", 13)
