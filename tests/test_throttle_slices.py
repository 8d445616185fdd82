"""Runs that are short against the slices of a throttle."""

import pytest
from builders import make_environment, make_experiment, make_plan, make_runs

from storagelab.findings.analysis import analyse


@pytest.mark.parametrize(("elapsed_s", "share"), [(2.5, 0.04), (40.0, None)])
def test_short_runs_on_a_throttled_volume_are_noted_with_the_share_of_a_slice(elapsed_s, share):
    experiment = make_experiment({"layout.data_files": [1, 2]}, 5)
    plan, made = make_plan(experiment), []
    environment = make_environment()
    volumes = {name: {**facts, "throttle": {"write_iops": 300}} for name, facts in environment["volumes"].items()}
    for run in make_runs(experiment, plan):
        measured = run.measurement.model_copy(
            update={"elapsed_s": elapsed_s + run.repetition / 1000, "environment": {**environment, "volumes": volumes}}
        )
        made.append(run.model_copy(update={"measurement": measured}))
    findings = analyse(experiment, plan, made)
    found = [one for one in findings.cautions if one.kind == "throttle-slices"]
    assert [one.share for one in found] == ([] if share is None else [pytest.approx(share, rel=0.01)])
    [compared] = findings.comparisons
    assert (compared.ratio.high > 1.039) == (share is not None)
