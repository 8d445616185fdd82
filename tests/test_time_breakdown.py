"""A connection's seconds add up to the elapsed time, in each run and in the mean."""

import pytest
from builders import make_campaign
from simulated_specs import run_once

from storagelab.findings.analysis import analyse
from storagelab.findings.cell import IDLE, UNACCOUNTED, in_classes, native_names, spent
from storagelab.model.waits import UNINSTRUMENTED, CountedWait, CountedWaits, WaitStat, conservation, normalise

FILES = "layout.data_files"


def of(raw):
    return spent([(raw.connections, conservation(raw), normalise(raw))])


def test_sampled_waits_add_up_run_by_run():
    experiment, plan, runs = make_campaign({FILES: [1, 4]}, repetitions=3)
    for cell in analyse(experiment, plan, runs).cells:
        elapsed = [point.value for point in cell.elapsed_s.points]
        assert [sum(one.by_run_s[n] for one in cell.spent) for n in range(3)] == pytest.approx(elapsed)


def test_counted_waits_of_a_simulation_add_up(tmp_path):
    run = run_once(tmp_path)[0]
    parts = of(run.measurement.waits)
    assert sum(one.mean_s for one in parts) == pytest.approx(run.measurement.elapsed_s)
    assert {one.part for one in parts} >= {"resource", "signal", "cpu", "idle"}


def test_timers_that_overlap_leave_less_than_nothing():
    waits = CountedWaits(
        connections=2, elapsed_s=10, busy_s=18, cpu_s=8,
        rows=(CountedWait(wait_type="log", wait_ns=11_000_000_000, signal_ns=None, wait_count=1),),
    )  # fmt: skip
    parts = {one.name: one for one in of(waits)}
    assert parts["log"].part == "wait"
    assert parts[IDLE].mean_s == pytest.approx(1.0)
    assert parts[UNACCOUNTED].mean_s == pytest.approx(-0.5)
    assert sum(one.mean_s for one in parts.values()) == pytest.approx(10)


# --- waits of several engines, joined by what is waited for -----------------------------------------------------------


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
