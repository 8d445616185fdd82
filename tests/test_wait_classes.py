"""Waits of several engines joined by what is waited for; their own names are kept beside."""

import pytest

from storagelab.findings.cell import in_classes, native_names
from storagelab.model.waits import UNINSTRUMENTED, WaitStat


def row(wait_type, category, wait_s, *, signal_s=None, method="sampled", is_wait=True):
    resource_s = None if signal_s is None else wait_s - signal_s
    return WaitStat(
        wait_type=wait_type, category=category, method=method, wait_s=wait_s, resource_s=resource_s, signal_s=signal_s,
        wait_count=3, is_wait=is_wait,
    )  # fmt: skip


POSTGRES = [
    row("LWLock:WALWrite", "commit", 4.0, signal_s=1.0), row("IO:WALSync", "commit", 2.0, signal_s=0.5),
    row("IO:DataFileRead", "data-read", 1.0, signal_s=0.0), row("ON_CPU", "cpu", 9.0, is_wait=False),
]  # fmt: skip
MARIADB = [
    row("state/Commit", "commit", 3.0),
    row(UNINSTRUMENTED, "other", 2.0, method="derived"),
    row("wait/io/file/innodb/innodb_data_file", "data-read", 5.0, method="counter"),
]


def test_waits_for_one_thing_are_one_row_whatever_they_are_called():
    joined = {row.wait_type: row for row in in_classes(POSTGRES)}
    assert list(joined) == ["commit", "data read", "ON_CPU"]
    assert (joined["commit"].wait_s, joined["commit"].resource_s, joined["commit"].signal_s) == (6.0, 4.5, 1.5)
    assert sum(row.wait_s for row in joined.values()) == pytest.approx(sum(row.wait_s for row in POSTGRES))


def test_a_split_that_one_part_lacks_the_sum_lacks_too():
    joined = {row.wait_type: row for row in in_classes([*POSTGRES, *MARIADB])}
    assert joined["commit"].resource_s is None
    assert joined["data read"].wait_s == 6.0


def test_time_without_a_timer_is_never_mixed_with_other_waits():
    assert UNINSTRUMENTED in {row.wait_type for row in in_classes([*MARIADB, row("x", "other", 1.0)])}


def test_a_benign_wait_is_never_mixed_with_others_of_its_class():
    rows = [*MARIADB, row("SP_SERVER_DIAGNOSTICS_SLEEP", "other", 60.0), row("x", "other", 1.0)]
    joined = {row.wait_type: row.wait_s for row in in_classes(rows)}
    assert (joined["SP_SERVER_DIAGNOSTICS_SLEEP"], joined["other wait"]) == (60.0, 1.0)
    assert native_names(rows)["other wait"] == ("x",)


def test_the_engines_own_names_are_kept_the_longest_wait_first():
    assert native_names([*POSTGRES, *MARIADB]) == {
        "commit": ("LWLock:WALWrite", "state/Commit", "IO:WALSync"),
        "data read": ("wait/io/file/innodb/innodb_data_file", "IO:DataFileRead"),
    }
