"""What watching costs, from runs that were watched in turns."""

import pytest
from builders import make_experiment, make_plan, make_runs

from storagelab.findings.analysis import analyse
from storagelab.model.measurement import ObserverCost, Turns


def test_a_load_that_is_surely_slower_while_watched_is_noted_with_the_interval():
    experiment = make_experiment({"layout.data_files": [1, 2, 4, 8]}, 5)
    plan, runs = make_plan(experiment), []
    for run in make_runs(experiment, make_plan(experiment)):
        watched = 9_500 + 10 * run.repetition
        turns = Turns(unwatched_s=10, unwatched_transactions=10_000, watched_s=10, watched_transactions=watched)
        dear = ObserverCost(sampler_cpu_s=1.0, session_cpu_s=0.4, ticks=500)
        measured = run.measurement.model_copy(update={"turns": turns, "observer": dear})
        runs.append(run.model_copy(update={"measurement": measured}))
    (caution,) = analyse(experiment, plan, runs).cautions
    assert (caution.kind, caution.severity, caution.p99) == ("watched-slower", "note", None)
    assert caution.throughput.value == pytest.approx(0.953, abs=0.001)
    assert 0.95 < caution.throughput.low < caution.throughput.high < 0.955
