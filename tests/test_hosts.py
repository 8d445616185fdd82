"""Reports on runs of several hosts: comparisons within each host, and verdicts for hosts like these."""

import random

import numpy as np
import pytest
from builders import make_environment, make_experiment, make_plan, make_runs, on_a_terminal

from bench.drawn import design
from bench.drawn_orders import fleet
from storagelab.findings import hosts
from storagelab.findings.analysis import analyse
from storagelab.findings.model import Findings
from storagelab.machine import host
from storagelab.model.measurement import Run, host_of
from storagelab.report.sections.contents import document
from storagelab.report.text.markdown import markdown
from storagelab.report.words.answer import answer_lines
from storagelab.report.words.hosts import host_sentences
from storagelab.stats.contrast import compare_with_best
from storagelab.stats.fit import Fit

FILES = "layout.data_files"
FACTOR = {1: 1.1, 4: 0.9, 8: 1.0}
HOSTS = ("db1", "db2", "db3")


def environment(hostname: str, **facts: object) -> dict[str, object]:
    known = make_environment()
    return {**known, "host": {**known["host"], "hostname": hostname, **facts}}


def noise(levels: object, repetition: int) -> float:
    return 1 + random.Random(f"{levels}{repetition}").gauss(0, 0.005)


def campaign(
    levels: dict[str, float], *, files: dict[int, float] = FACTOR, rounds: int = 3, hosts=None, **facts
) -> tuple[Findings, tuple[Run, ...]]:
    """`levels` = how much longer each host takes; `hosts(cell_id, repetition)` = where a run is made, else in turns."""
    experiment = make_experiment({FILES: list(files)}, repetitions=rounds * len(levels))
    plan, names = make_plan(experiment), list(levels)

    def where(run: Run) -> str:
        return hosts(run.cell_id, run.repetition) if hosts else names[run.repetition % len(names)]

    runs = make_runs(experiment, plan, elapsed=lambda of, n: 10 * files[of[FILES]] * noise(of, n))
    moved = []
    for run in runs:
        name, elapsed_s = where(run), run.measurement.elapsed_s
        of_host = {"elapsed_s": elapsed_s * levels[name], "environment": environment(name, **facts.get(name, {}))}
        moved.append(run.model_copy(update={"measurement": run.measurement.model_copy(update=of_host)}))
    return analyse(experiment, plan, moved), tuple(moved)


def test_a_host_that_is_a_fifth_slower_changes_no_ratio_and_is_named():
    alike, _ = campaign(dict.fromkeys(HOSTS, 1.0))
    found, _ = campaign({"db1": 1.0, "db2": 1.2, "db3": 1.0})
    assert found.verdict == alike.verdict == "winner"
    for one, other in zip(found.comparisons, alike.comparisons, strict=True):
        assert (one.ratio.value, one.ratio.low) == pytest.approx((other.ratio.value, other.ratio.low))
    assert [(one.name, one.odd_level) for one in found.fleet.hosts] == [("db1", False), ("db2", True), ("db3", False)]
    assert found.fleet.hosts[1].level.low < 1.2 < found.fleet.hosts[1].level.high
    assert not any(one.odd_level for one in alike.fleet.hosts)


def test_that_hosts_treat_layouts_differently_is_in_the_intervals_and_is_said():
    found, _ = campaign({"db1": 1.0, "db2": 1.0, "db3": 1.0})
    of = fleet(design(8, 3), np.random.default_rng(4), "normal", 4, 0.10)
    summary = hosts.summarise(of, make_plan(make_experiment({FILES: list(range(1, 9))})), [range(8)], [0] * 8)
    assert summary.p_value < 0.05
    assert summary.scatter.low > 0
    assert found.fleet.p_value > 0.05
    assert "can't be told from chance" in " ".join(host_sentences(found))


def test_a_host_without_a_name_of_its_own_in_a_container_is_no_other_host():
    """Each container has another name, and a campaign may go on in the next one."""
    found, runs = campaign({"a1b2": 1.0, "c3d4": 1.0}, a1b2={"container": "docker"}, c3d4={"container": "docker"})
    assert found.fleet is None
    assert host_of(runs[0]) == ""
    named, _ = campaign({"a": 1.0, "b": 1.0}, a={"container": "docker", "name": "db1"}, b={"name": "db2"})
    assert [one.name for one in named.fleet.hosts] == ["db1", "db2"]


def test_a_host_can_be_given_a_name(monkeypatch):
    assert "name" not in host.describe_host()
    monkeypatch.setenv(host.NAME_VARIABLE, "db1")
    assert host.describe_host()["name"] == "db1"


def test_a_host_that_was_lost_early_takes_no_part_and_the_verdict_is_that_of_the_others():
    """Its first round ended after one of three layouts, and another host made the rest of it."""

    def where(cell_id: str, repetition: int) -> str:
        if repetition == 9:
            return "db4" if cell_id == "cell-001" else "db1"
        return HOSTS[repetition % 3]

    found, _ = campaign({"db1": 1.0, "db2": 1.0, "db3": 1.0, "db4": 1.5}, rounds=3, hosts=where)
    assert found.verdict == "winner"
    assert [one.counted for one in found.fleet.hosts] == [True, True, True, False]
    assert "db4 ran too few" in " ".join(host_sentences(found))


def test_with_one_host_that_ran_all_layouts_the_verdict_is_its_own():
    found, _ = campaign(
        {"db1": 1.0, "db2": 3.0}, rounds=3,
        hosts=lambda cell_id, repetition: "db2" if (cell_id, repetition) == ("cell-001", 6) else "db1",
    )  # fmt: skip
    assert found.verdict == "winner"
    assert "only for db1" in host_sentences(found)[0]
    assert found.cell("cell-001").elapsed_s.mean.value < 11.2, "the run on the other host is not in its mean"


def test_the_answer_says_on_how_many_hosts_the_winner_won_and_which_is_odd():
    found, runs = campaign({"db1": 1.0, "db2": 1.25, "db3": 1.0})
    texts = answer_lines(found)
    assert any(one.startswith("The layout in front over all hosts is in front on 3 of 3; db2 is odd") for one in texts)
    experiment = make_experiment({FILES: list(FACTOR)}, repetitions=9)
    of = document(experiment, make_plan(experiment), runs, found)
    for text in (on_a_terminal(of), markdown(of)):
        assert "fastest there" in text
        assert "odd: 2" in text


def test_hosts_that_are_not_alike_get_one_caution_that_names_what_differs():
    found, _ = campaign({"db1": 1.0, "db2": 1.0}, db2={"memory_bytes": 32 * 2**30, "kernel": "Linux 6.9"})
    (caution,) = [one for one in found.cautions if one.kind == "unlike-hosts"]
    assert {one.fact for one in caution.differs} == {"host: memory_bytes", "host: kernel"}
    assert any("hosts differ in memory and kernel" in line for line in answer_lines(found))
    alike, _ = campaign({"db1": 1.0, "db2": 1.0}, db2={"memory_bytes": 16 * 2**30 - 4096})
    assert not [one for one in alike.cautions if one.kind == "unlike-hosts"]


def test_a_slower_host_is_no_drift_and_no_step():
    """The second host made the second half of the campaign."""
    found, _ = campaign(
        {"db1": 1.0, "db2": 1.3}, rounds=4, hosts=lambda _, repetition: "db2" if repetition > 4 else "db1"
    )
    assert not [one for one in found.cautions if one.kind in ("drift", "step")]


def named(fitted: Fit) -> bool:
    """Whether any layout is called slower."""
    return any(one.slower for one in compare_with_best(fitted, fitted.fastest()).values())
