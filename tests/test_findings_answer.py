"""The reasons of an answer about transactions: waits add up to the mean transaction, but not to a percentile."""

import random

import pytest
from builders import make_experiment, make_plan, make_run, make_waits

from storagelab.findings.analysis import analyse
from storagelab.findings.answer import answer
from storagelab.findings.why import between
from storagelab.model.measurement import Measurement, latency_of
from storagelab.report.words.answer import opening

CONNECTIONS, SECONDS = 8, 60.0
MEAN_S = {"a": 0.020, "b": 0.010}
"""The time of the mean transaction by the place of the log: the commit takes what is more than 8 ms of it."""


WRITES = {"a": 2.0, "b": 0.5}
"""Writes of each transaction to volume a."""


def findings(judge: str, throttle: float | None = None, **load):
    """FABRICATED. Five runs of a minute with the log on a and on b; each with noise of one percent."""
    experiment = make_experiment({"layout.log": ["a", "b"]}, base={
        "target": {"engine": "postgres"}, "volumes": {"a": {"path": "./a"}, "b": {"path": "./b"}},
        "layout": {"data": ["a"], "log": "a"}, "measure": {"judge": judge},
        "workload": {"kind": "pgbench", "connections": CONNECTIONS, "duration_s": SECONDS, **load},
    })  # fmt: skip
    plan, noise = make_plan(experiment), random.Random(19)
    runs = []
    for planned in plan.runs:
        cell = plan.cell(planned.cell_id)
        place = str(cell.levels["layout.log"])
        mean_s = MEAN_S[place] * noise.gauss(1, 0.01)
        runs.append(make_run(planned, cell, measurement(mean_s, throttle, WRITES[place])))
    return analyse(experiment, plan, runs)


def measurement(mean_s: float, throttle: float | None, writes: float) -> Measurement:
    number = round(CONNECTIONS * SECONDS / mean_s)
    shares = {"IO:WALSync": (mean_s - 0.008) / mean_s, "Lock:transactionid": 0.002 / mean_s}
    waits = make_waits(CONNECTIONS, SECONDS, shares)
    rest = {"cpu_s": 0.006 / mean_s * waits.busy_s, "runqueue_s": 0.1 * sum(shares.values()) * waits.busy_s}
    return Measurement.model_validate({
        "provenance": "measured", "elapsed_s": SECONDS, "transactions": number,
        "connection_s": (SECONDS,) * CONNECTIONS,
        "latency": latency_of([(round(mean_s * 1e9), number)]), "waits": waits.model_copy(update=rest),
        "counters": {"volumes": {"volume.a.throttled_writes": writes * number}} if throttle else {},
        "environment": {"volumes": {"a": {"throttle": {"write_iops": throttle}}}} if throttle else {},
        "observer": {"sampler_cpu_s": 0.1, "session_cpu_s": 0.1, "ticks": 3000},
    })  # fmt: skip


@pytest.mark.parametrize("judge", ["mean", "throughput"])
def test_the_wait_that_moved_the_mean_transaction_is_named_with_its_seconds_of_each(judge):
    found = findings(judge)
    (cause,) = answer(found).causes
    assert cause.wait == "IO:WALSync"
    # A tenth of each wait is time in which its session queued for a CPU.
    assert (cause.from_s, cause.to_s) == (pytest.approx(0.9 * 0.012, rel=0.03), pytest.approx(0.9 * 0.002, rel=0.03))
    assert (cause.total_from_s, cause.total_to_s) == (pytest.approx(0.020, rel=0.02), pytest.approx(0.010, rel=0.02))
    (why,) = opening(found).why
    assert "IO:WALSync" in why
    assert why.endswith("s per transaction.")


def test_the_steps_add_up_to_the_change_of_the_mean_latency():
    waterfall = between(findings("mean"), "cell-001", "cell-002")
    assert sum(step.change.value for step in waterfall.steps) == pytest.approx(waterfall.change.value, abs=1e-9)
    assert waterfall.change.value == pytest.approx(-0.010, rel=0.05)
    assert waterfall.of == "transaction"


@pytest.mark.parametrize(("judge", "load"), [("p99", {}), ("mean", {"rate": 300.0})])
def test_waits_explain_no_percentile_and_no_latency_that_began_before_its_transaction(judge, load):
    found = findings(judge, **load)
    assert answer(found).causes == ()
    assert not opening(found).why


@pytest.mark.parametrize(("limit", "named"), [(800.0, True), (8000.0, False)])
def test_a_volume_at_its_limit_is_named_for_runs_of_a_set_time_too(limit, named):
    found = findings("throughput", throttle=limit)  # 400 transactions/s at the slower end
    (cause,) = answer(found).causes
    assert (cause.limit is not None and cause.limit.volume == "a") is named
