"""The arithmetic of waits: nothing is lost, nothing is made up, and what isn't known stays unknown."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storagelab.model.waits import (
    NO_EVENT,
    ON_CPU,
    ON_CPU_OR_RUNNABLE,
    RUNNABLE_NO_EVENT,
    UNINSTRUMENTED,
    UNSAMPLED,
    CountedWait,
    CountedWaits,
    EventTicks,
    SampledWaits,
    WaitStat,
    conservation,
    mean_of_runs,
    normalise,
    wait_table,
)  # fmt: skip

ticks = st.integers(0, 50_000)
seconds = st.floats(0, 1e5)
names = st.sampled_from(
    ["Lock:extend", "IO:WALSync", "IO:DataFileWrite", "LWLock:WALWrite", "LWLock:WALInsert", NO_EVENT]
)


@st.composite
def events(draw):
    wait_type = draw(names)
    return EventTicks(
        wait_type=wait_type, in_io=wait_type.startswith("IO:"), blocked=draw(ticks), runnable=draw(ticks),
        unknown=draw(st.sampled_from([0, 0, 1, 77])), timeslices=draw(ticks),
    )  # fmt: skip


@st.composite
def sampled(draw, split: bool = True):
    """Samples of sessions whose CPU and queue time are at most their busy time."""
    busy_s = draw(seconds)
    cpu_s = busy_s * draw(st.floats(0, 1))
    return SampledWaits(
        connections=draw(st.integers(1, 64)), elapsed_s=draw(seconds), busy_s=busy_s, passes=draw(ticks),
        events=tuple(draw(st.lists(events(), max_size=6, unique_by=lambda event: event.wait_type))),
        cpu_s=cpu_s if split else None,
        runqueue_s=(busy_s - cpu_s) * draw(st.floats(0, 1)) if split else None,
        voluntary_switches=draw(st.none() | ticks), involuntary_switches=draw(st.none() | ticks),
        cpus=draw(st.none() | st.integers(1, 64)),
    )  # fmt: skip


@st.composite
def counted(draw):
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 10**15), st.none() | st.integers(0, 10**15), st.integers(0, 10**6)), max_size=8
        )
    )
    return CountedWaits(
        connections=4, elapsed_s=10.0, busy_s=40.0, cpu_s=draw(st.none() | seconds),
        rows=tuple(
            CountedWait(wait_type=f"WAIT_{index}", wait_ns=wait_ns, signal_ns=signal_ns, wait_count=count)
            for index, (wait_ns, signal_ns, count) in enumerate(rows)
        ),
    )  # fmt: skip


def close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-7)


def stat(wait_type: str, wait_s: float, signal_s: float | None = None, count: float | None = None) -> WaitStat:
    resource_s = None if signal_s is None else wait_s - signal_s
    return WaitStat(
        wait_type=wait_type, method="sampled", wait_s=wait_s, resource_s=resource_s, signal_s=signal_s, wait_count=count
    )


# --- Raw counts to rows ----------------------------------------------------------------------------------------------


@given(sampled())
def test_in_every_sampled_row_wait_is_resource_plus_signal(raw):
    for row in normalise(raw):
        if row.is_wait:
            assert min(row.wait_s, row.resource_s, row.signal_s) >= 0
            assert close(row.wait_s, row.resource_s + row.signal_s)


@given(counted())
def test_in_every_counted_row_wait_is_resource_plus_signal_or_neither_is_known(raw):
    for row in normalise(raw):
        assert (row.resource_s is None) == (row.signal_s is None)
        if row.resource_s is not None and row.signal_s is not None:
            assert min(row.resource_s, row.signal_s) >= 0
            assert close(row.wait_s, row.resource_s + row.signal_s)


@given(sampled())
def test_raked_rows_add_up_to_the_exact_totals_of_the_kernel(raw):
    rows = normalise(raw)
    resource_s = sum(row.resource_s or 0.0 for row in rows)
    signal_s = sum(row.signal_s or 0.0 for row in rows)
    (cpu,) = (row for row in rows if not row.is_wait)
    assert cpu.wait_type == ON_CPU
    assert cpu.wait_s == raw.cpu_s
    assert close(signal_s, raw.runqueue_s)
    assert close(resource_s, raw.busy_s - raw.cpu_s - raw.runqueue_s)
    assert close(sum(row.wait_s for row in rows), raw.busy_s)


@given(sampled(split=False))
def test_without_the_kernels_totals_there_is_no_split_and_never_a_zero_for_it(raw):
    rows = normalise(raw)
    assert {row.resource_s for row in rows} <= {None}
    assert {row.signal_s for row in rows} <= {None}
    assert {row.wait_count for row in rows} <= {None}
    assert ON_CPU not in {row.wait_type for row in rows}
    assert close(sum(row.wait_s for row in rows), raw.busy_s)


def test_samples_without_an_event_and_without_the_kernel_are_cpu_or_its_queue():
    raw = SampledWaits(
        connections=1, elapsed_s=10, busy_s=10, passes=10,
        events=(EventTicks(wait_type="Lock:extend", blocked=4), EventTicks(wait_type=NO_EVENT, runnable=6)),
        no_split_reason="the server is on another host",
    )  # fmt: skip
    assert [(row.wait_type, row.wait_s, row.is_wait) for row in normalise(raw)] == [
        ("Lock:extend", 4.0, True),
        (ON_CPU_OR_RUNNABLE, 6.0, False),
    ]


def test_a_worked_example_is_raked_as_the_comment_says():
    raw = SampledWaits(
        connections=2, elapsed_s=50, busy_s=100, passes=50, cpu_s=20, runqueue_s=10, voluntary_switches=1000,
        events=(
            EventTicks(wait_type="Lock:extend", blocked=60, runnable=5, timeslices=30),
            EventTicks(wait_type="IO:WALSync", in_io=True, blocked=20, runnable=15, timeslices=10),
            EventTicks(wait_type=NO_EVENT, runnable=9, blocked=1),
        ),
    )  # fmt: skip
    rows = {row.wait_type: row for row in normalise(raw)}
    assert rows["Lock:extend"].resource_s == pytest.approx(70 * 60 / 80)
    assert rows["IO:WALSync"].resource_s == pytest.approx(70 * 20 / 80)
    # 20 % of 110 ticks found a session on a CPU, 22 of the 25 where one can be; so 3 of these queued, and 5 for the
    # lock.
    assert rows["Lock:extend"].signal_s == pytest.approx(10 * 5 / 8)
    assert rows["IO:WALSync"].signal_s == pytest.approx(10 * 15 * 3 / 25 / 8)
    assert rows[RUNNABLE_NO_EVENT].signal_s == pytest.approx(10 * 10 * 3 / 25 / 8)
    assert rows["Lock:extend"].wait_count == pytest.approx(750)


def test_a_wait_never_seen_with_a_turn_on_a_cpu_has_an_unknown_count_and_not_zero():
    raw = SampledWaits(
        connections=1, elapsed_s=10, busy_s=10, passes=100, cpu_s=1, runqueue_s=1, voluntary_switches=500,
        events=(
            EventTicks(wait_type="LWLock:WALWrite", blocked=90, timeslices=9),
            EventTicks(wait_type="Lock:extend", blocked=10),
        ),
    )  # fmt: skip
    counts = {row.wait_type: row.wait_count for row in normalise(raw)}
    assert counts["LWLock:WALWrite"] == pytest.approx(500)
    assert counts["Lock:extend"] is None


def test_the_sampler_takes_one_of_the_cpus_so_that_fewer_sessions_are_seen_running():
    events = (
        EventTicks(wait_type="LWLock:WALWrite", blocked=50, runnable=20),
        EventTicks(wait_type=NO_EVENT, runnable=30),
    )

    def queue_without_event_s(cpus: int | None) -> float:
        raw = SampledWaits(
            connections=1, elapsed_s=100, busy_s=100, passes=100, events=events, cpu_s=20, runqueue_s=30, cpus=cpus
        )
        return next(row.signal_s or 0.0 for row in normalise(raw) if row.wait_type == RUNNABLE_NO_EVENT)

    assert queue_without_event_s(1) == pytest.approx(30 * 30 / 50)
    assert queue_without_event_s(2) == pytest.approx(30 * 20 / 40)
    assert queue_without_event_s(64) == pytest.approx(queue_without_event_s(None), rel=0.05)
    assert queue_without_event_s(None) == pytest.approx(30 * 10 / 30)


def test_time_that_no_sample_explains_is_named_and_not_lost():
    raw = SampledWaits(connections=1, elapsed_s=10, busy_s=10, passes=0, events=(), cpu_s=2, runqueue_s=1)
    assert [(row.wait_type, row.resource_s, row.signal_s) for row in normalise(raw)] == [
        (UNSAMPLED, 7.0, 0.0),
        (RUNNABLE_NO_EVENT, 0.0, 1.0),
        (ON_CPU, None, None),
    ]


@given(st.one_of(sampled(), sampled(split=False), counted()))
def test_rows_come_largest_first_with_ties_by_name_and_cpu_last(raw):
    rows = normalise(raw)
    assert list(rows) == sorted(rows, key=lambda row: (not row.is_wait, -row.wait_s, row.wait_type))


def test_a_signal_counter_that_ran_ahead_of_its_wait_makes_no_negative_resource():
    raw = CountedWaits(
        connections=1, elapsed_s=1, busy_s=1, rows=(CountedWait(wait_type="X", wait_ns=5, signal_ns=7, wait_count=1),)
    )
    (row,) = normalise(raw)
    assert (row.wait_s, row.resource_s, row.signal_s) == (5e-9, 0.0, 5e-9)


# --- The audit -------------------------------------------------------------------------------------------------------


@given(sampled(split=False))
def test_without_cpu_time_the_audit_says_nothing(raw):
    assert conservation(raw).explained is None


def asleep_half_of_the_time(asleep: int, running: int) -> SampledWaits:
    """4 connections: a fifth of their time on a CPU, all of it inside the sync, and three tenths in its queue."""
    return SampledWaits(
        connections=4, elapsed_s=10, busy_s=40, passes=100, cpu_s=8, runqueue_s=12, cpus=2,
        events=(
            EventTicks(wait_type="LWLock:WALWrite", blocked=asleep - 10, runnable=300 - running),
            EventTicks(wait_type="IO:WalSync", in_io=True, blocked=10, runnable=running),
            EventTicks(wait_type=NO_EVENT, runnable=700 - asleep),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("running", [0, 60, 300])
def test_cpu_time_inside_an_io_event_is_counted_once(running):
    assert conservation(asleep_half_of_the_time(500, running)).explained == pytest.approx(1.0)


@pytest.mark.parametrize(("asleep", "explained"), [(100, 0.6), (400, 0.9), (600, 1.1), (700, 1.2)])
def test_the_audit_tells_samples_that_saw_too_few_or_too_many_asleep(asleep, explained):
    assert conservation(asleep_half_of_the_time(asleep, 60)).explained == pytest.approx(explained)


@given(sampled())
def test_the_audit_rests_on_what_was_sampled_and_not_on_what_the_rows_were_scaled_to(raw):
    total = sum(event.ticks for event in raw.events)
    seen_s = conservation(raw).seen_s
    least_s = raw.cpu_s + raw.runqueue_s
    assert least_s <= seen_s <= least_s + raw.busy_s * (1 + 1e-9)
    if not total or all(event.wait_type == NO_EVENT for event in raw.events):
        assert seen_s == least_s


def test_counted_waits_are_audited_by_their_counters():
    row = CountedWait(wait_type="WRITELOG", wait_ns=6 * 10**9, wait_count=3)
    raw = CountedWaits(connections=2, elapsed_s=5, busy_s=10, rows=(row,), cpu_s=3)
    assert conservation(raw).explained == pytest.approx(0.9)


# --- The nine columns ------------------------------------------------------------------------------------------------

waits = st.lists(
    st.builds(stat, st.sampled_from("ABCDEFGH"), st.floats(0, 1e6)), max_size=8, unique_by=lambda row: row.wait_type
)


@given(waits, st.floats(0, 1))
def test_a_row_is_shown_if_the_total_before_it_is_below_the_share(rows, share):
    shown = wait_table(rows, share=share)
    everything = wait_table(rows, share=1)
    total_s = sum(row.wait_s for row in rows)
    assert shown == everything[: len(shown)]
    before_s = [sum(row.wait_s for row in everything[:index]) for index in range(len(everything))]
    for index, row in enumerate(everything):
        if index > 0 and share < 1 and not close(before_s[index], share * total_s):
            assert (row in shown) == (before_s[index] < share * total_s)


@given(waits)
def test_percentages_are_of_all_waits_and_reach_100_without_a_cut(rows):
    table = wait_table(rows, share=1)
    assert not table or close(sum(row.percentage for row in table), 100)
    assert sum(row.percentage for row in wait_table(rows)) >= (95 - 1e-6 if table else 0)


def test_the_row_that_crosses_95_percent_is_shown_and_the_next_is_not():
    rows = [stat("A", 90), stat("B", 4), stat("C", 3), stat("D", 3)]
    assert [row.wait_type for row in wait_table(rows)] == ["A", "B", "C"]


def test_benign_waits_leave_the_denominator_too():
    (row,) = wait_table([stat("A", 1), stat("SLEEP", 99)], benign=frozenset({"SLEEP"}))
    assert (row.wait_type, row.percentage) == ("A", 100.0)


def test_cpu_time_is_no_wait():
    cpu = stat(ON_CPU, 50).model_copy(update={"is_wait": False})
    assert [row.wait_type for row in wait_table([cpu, stat("A", 1)])] == ["A"]


def test_averages_are_per_wait_and_unknown_without_a_count():
    counted_row, uncounted, never = wait_table([stat("A", 8, 2, 4), stat("B", 6, 1), stat("C", 5, 1, 0)], share=1)
    assert (counted_row.avg_wait_s, counted_row.avg_resource_s, counted_row.avg_signal_s) == (2.0, 1.5, 0.5)
    for row in (uncounted, never):
        assert (row.avg_wait_s, row.avg_resource_s, row.avg_signal_s) == (None, None, None)


# --- The mean run ----------------------------------------------------------------------------------------------------


def test_a_wait_absent_from_a_run_counts_as_zero_there():
    (row,) = mean_of_runs([[stat("A", 6, 2, 10)], []])
    assert (row.wait_s, row.resource_s, row.signal_s, row.wait_count) == (3.0, 2.0, 1.0, 5.0)


def test_a_split_that_one_run_lacks_is_unknown_in_the_mean():
    (row,) = mean_of_runs([[stat("A", 6, 2, 10)], [stat("A", 4)]])
    assert (row.wait_s, row.resource_s, row.signal_s, row.wait_count) == (5.0, None, None, None)


@given(st.lists(sampled(), min_size=1, max_size=4))
def test_the_mean_run_keeps_the_totals_and_the_sum_of_every_row(raws):
    rows = mean_of_runs([normalise(raw) for raw in raws])
    assert close(sum(row.wait_s for row in rows), sum(raw.busy_s for raw in raws) / len(raws))
    for row in rows:
        if row.is_wait:
            assert close(row.wait_s, row.resource_s + row.signal_s)


# --- Timers with gaps that samples fill ------------------------------------------------------------------------------

LATCH, COMMIT = "wait/synch/index_tree", "state/Commit"
ticks = st.integers(0, 500)


def timed(*, latch_s: float, events: tuple[EventTicks, ...], kernel: bool = True) -> CountedWaits:
    """Ten seconds of one connection that waited for a latch; by the kernel 2 s on a CPU, 3 s queueing, 5 s asleep."""
    rows = (CountedWait(wait_type=LATCH, category="page-latch", wait_ns=round(latch_s * 1e9), wait_count=None),)
    return CountedWaits(
        connections=1, elapsed_s=10.0, busy_s=10.0, rows=rows, passes=500, events=events,
        cpu_s=2.0 if kernel else None, runqueue_s=3.0 if kernel else None,
    )  # fmt: skip


def spotted(wait_type: str, blocked: int, runnable: int) -> EventTicks:
    in_io = wait_type == COMMIT
    return EventTicks(wait_type=wait_type, category="commit", in_io=in_io, blocked=blocked, runnable=runnable)


# Of five seconds asleep two thirds were in the latch, a sixth in a commit, and a sixth in nothing that has a name.
GAPS = (spotted(LATCH, 200, 0), spotted(COMMIT, 50, 0), spotted(NO_EVENT, 50, 200))


def test_a_wait_without_a_timer_is_taken_from_samples_and_marked_so():
    rows = {row.wait_type: row for row in normalise(timed(latch_s=3.0, events=GAPS))}
    assert (rows[LATCH].method, rows[LATCH].wait_s, rows[LATCH].wait_count) == ("counter", 3.0, None)
    assert (rows[COMMIT].method, rows[COMMIT].wait_s) == ("sampled", pytest.approx(5.0 / 6))
    assert rows[RUNNABLE_NO_EVENT].wait_s == pytest.approx(3.0)
    assert rows[UNINSTRUMENTED].wait_s == pytest.approx(10 - 3 - 5 / 6 - 3 - 2)


@given(ticks, ticks, ticks, ticks, ticks, ticks, st.floats(0, 5))
def test_rows_leave_no_time_out_and_each_wait_is_the_sum_of_its_parts(a, b, c, d, e, f, latch_s):
    raw = timed(latch_s=latch_s, events=(spotted(LATCH, a, b), spotted(COMMIT, c, d), spotted(NO_EVENT, e, f)))
    rows = normalise(raw)
    assert sum(row.wait_s for row in rows) >= raw.busy_s * (1 - 1e-6)
    for row in rows:
        assert row.wait_s >= 0
        if row.resource_s is not None:
            assert row.wait_s == pytest.approx(row.resource_s + row.signal_s, abs=1e-9)


def test_the_audit_of_timers_and_samples_can_fail():
    assert conservation(timed(latch_s=5.0 * 2 / 3, events=GAPS)).explained == pytest.approx(1.0)
    assert conservation(timed(latch_s=9.0, events=GAPS)).explained == pytest.approx(1.0 + (9 - 10 / 3) / 10)
