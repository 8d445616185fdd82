"""Where a percentile is judged, its tail is described by its seconds, and no steps of the mean transaction are
shown.
"""

import random

from builders import make_experiment, make_plan, make_run

from storagelab.findings.analysis import analyse
from storagelab.findings.kinds.slow_seconds import SlowSeconds
from storagelab.findings.model import Findings
from storagelab.model.measurement import Measurement, Resource, TimeSeries, WaitingTask, latency_of

SECONDS = 100


def findings_of(judge: str = "p99", tells: bool = True) -> Findings:
    """FABRICATED: every tenth second has a checkpoint; then transactions take long and wait for the log. Volume a is
    busy by chance alone."""
    load = {"kind": "pgbench", "connections": 4, "threads": 1, "duration_s": SECONDS}
    base = {"target": {"engine": "postgres"}, "volumes": {"a": {"path": "./a"}}, "layout": {"data": ["a"], "log": "a"},
            "workload": load, "measure": {"judge": judge}}  # fmt: skip
    experiment = make_experiment({"layout.data_files": [1, 4]}, 3, base=base)
    plan, runs = make_plan(experiment), []
    for planned in plan.runs:
        rng, cell = random.Random(planned.seed), plan.cell(planned.cell_id)
        slow = [tells and second % 10 == 0 for second in range(SECONDS)]
        columns = {
            "latency_p99_s": tuple((0.05 if one else 0.01) * rng.uniform(0.9, 1.1) for one in slow),
            "checkpoint_s_per_s": tuple(0.8 if one else 0.0 for one in slow),
            "volume.a.busy_s_per_s": tuple(rng.random() for _ in slow),
        }
        waiting = tuple(
            WaitingTask(
                at_s=second + 0.5, wait_type="IO:WALSync", resource=Resource(kind="log"), sessions=4 if one else 1
            )
            for second, one in enumerate(slow)
        )
        latency = latency_of(
            [(round(1e7 * rng.uniform(0.99, 1.01)), 10_000), (50_000_000 if tells else 12_000_000, 200)]
        )
        runs.append(make_run(planned, cell, Measurement(
            provenance="measured", elapsed_s=SECONDS, transactions=10_200, latency=latency, waiting_tasks=waiting,
            series=TimeSeries(at_s=tuple(second + 1.0 for second in range(SECONDS)), columns=columns),
        )))  # fmt: skip
    return analyse(experiment, plan, runs)


def test_the_slow_seconds_tell_what_else_differed_in_them_and_not_what_differed_by_chance():
    for one in SlowSeconds.of(findings_of()):
        assert (one.seconds, one.slow) == (300, 30)
        assert [along.what for along in one.along] == ["checkpoint_s_per_s", "IO:WALSync"]
    first = SlowSeconds.sentences(findings_of())[0]
    assert " in the slowest 30 of 300 seconds, and 10" in first
    assert "a checkpoint ran 80 % of the time (0 %) and 4.0 sessions waited in IO:WALSync (1.0)" in first


def test_where_nothing_surely_differed_that_is_said():
    found = SlowSeconds.sentences(findings_of(tells=False))
    assert found
    assert all(text.endswith("Nothing else that was observed surely differed between them.") for text in found)


def test_a_verdict_by_means_has_no_slow_seconds():
    assert SlowSeconds.sentences(findings_of("mean")) == []
