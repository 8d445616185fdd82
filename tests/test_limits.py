"""The report names a volume as the reason if its limit determines the rate, but not if a load is merely as constant."""

import random

import pytest
from builders import make_experiment, make_plan, make_runs

from storagelab.findings.analysis import analyse
from storagelab.findings.answer import answer
from storagelab.findings.basis import basis_of
from storagelab.findings.cautions.cpu_time import BusyMachine
from storagelab.findings.reasons import Rule, case_between, reasons
from storagelab.report.words.answer import opening
from storagelab.report.words.why import why_sentence

SLOWER, FASTER = "cell-001", "cell-002"
WAITING = {"Lock:extend": 0.5, "IO:DataFileWrite": 0.3, "LWLock:WALWrite": 0.15}


def drawn(writes, limit, seconds, on_cpu=0.1, seed=1, per_run=None):
    """FABRICATED. Two cells of five runs: `writes` of volume a and `seconds`, each with noise of one percent."""
    experiment = make_experiment({"layout.log": ["a", "b"]})
    plan, noise = make_plan(experiment), random.Random(seed)

    def place(levels):
        return 0 if levels["layout.log"] == "a" else 1

    made = make_runs(
        experiment, plan, elapsed=lambda levels, _: seconds[place(levels)] * noise.gauss(1, 0.01),
        waits=lambda levels, _: WAITING,
    )  # fmt: skip
    runs = []
    for number, run in enumerate(made):
        measured = run.measurement
        count = writes[place(run.levels)] * noise.gauss(1, 0.01)
        limits = limit if per_run is None else per_run[number % len(per_run)]
        volumes = {"a": {"device": "sda", "throttle": {"write_iops": limits} if limits else {}}}
        update = {
            "waits": measured.waits.model_copy(update={"cpu_s": on_cpu * measured.waits.busy_s}),
            "counters": {**measured.counters, "volumes": {"volume.a.throttled_writes": count}},
            "environment": {**measured.environment, "volumes": volumes},
        }
        runs.append(run.model_copy(update={"measurement": measured.model_copy(update=update)}))
    findings = analyse(experiment, plan, runs)
    return findings, case_between(findings, basis_of(experiment, plan, runs).used, FASTER, SLOWER)


def rules(case):
    return [one.rule for one in reasons(case)]


def test_a_volume_at_its_limit_is_the_reason_and_no_wait_behind_it_is():
    _, case = drawn(writes=(4200, 3000), limit=600, seconds=(7.1, 5.1))
    (reason,) = reasons(case)
    assert reason.rule == Rule.VOLUME_LIMIT
    assert reason.limit.volume == "a"
    assert reason.limit.share == pytest.approx(0.985, abs=0.02)
    assert reason.share == pytest.approx(1, abs=0.05)
    assert reason.types[0] == "Lock:extend"
    text = why_sentence(case, "all on a", "log on b", None)
    assert "Volume a was at its limit, 600 writes/s, for 9" in text
    assert "% of the slower one's time: its requests alone take 7.0" in text
    assert "its queue causes Lock:extend" in text
    assert "take" not in text.split("its queue causes")[1]


def test_the_answer_names_the_volume_and_not_the_wait():
    findings, _ = drawn(writes=(4200, 3000), limit=600, seconds=(7.1, 5.1))
    (cause,) = answer(findings).causes
    assert cause.wait is None
    assert (cause.limit.volume, cause.limit.rate, cause.limit.limit) == ("a", "write_iops", 600)
    (line,) = opening(findings).why
    assert line.startswith("Why, log: volume a was at its limit, 600 writes/s, 9")


@pytest.mark.parametrize(("limit", "unable"), [(600, False), (None, True)])
def test_a_busy_machine_withholds_no_verdict_that_a_volume_s_limit_explains(limit, unable):
    findings, _ = drawn(writes=(4200, 3000), limit=limit, seconds=(7.1, 5.1))
    assert BusyMachine(others_share=0.3, limit=0.1, runs=4, checked=10).is_unable(findings) is unable


@pytest.mark.parametrize(
    ("why", "given"),
    [
        ("no limit is known", {"limit": None}),
        ("the rate is flat at three quarters of the limit: the load is steady", {"limit": 790}),
        ("the rate is flat at the limit, and sessions work on CPUs", {"limit": 600, "on_cpu": 0.7}),
        ("the volume had as much to do in both", {"limit": 600, "writes": (4200, 4190)}),
        ("the limit changed between the runs", {"limit": 600, "per_run": (600, 1200)}),
    ],
)
def test_no_limit_is_named_without_evidence(why, given):
    given = {"writes": (4200, 3000), "seconds": (7.1, 5.1), **given}
    _, case = drawn(**given)
    assert Rule.VOLUME_LIMIT not in rules(case), why
    assert case.limit is None


def test_of_two_hundred_steady_loads_below_the_limit_none_is_said_to_stand_at_it():
    """Rates are flat and times follow the number of writes, as at a limit; but the limit is 25 % away or more."""
    noise = random.Random(18)
    for seed in range(200):
        rate, work = 600.0, 3000 * noise.uniform(0.8, 1.2)
        more = noise.uniform(1.1, 2.0)
        given = (work * more, work), rate / noise.uniform(0.3, 0.8), (work * more / rate, work / rate)
        assert drawn(*given, seed=seed)[1].limit is None


def test_two_equal_layouts_at_their_limit_have_nothing_to_explain():
    _, case = drawn(writes=(3000, 3000), limit=600, seconds=(5.1, 5.1))
    assert reasons(case) == ()
