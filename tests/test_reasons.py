"""Each rule applies if its mechanism changed, and does not apply if nothing changed or the evidence is weak."""

import re
from dataclasses import replace

import pytest
from real_servers import site_at
from simulated_specs import SMALL, changed

from storagelab.findings.analysis import analyse
from storagelab.findings.basis import basis_of
from storagelab.findings.limits import AtLimit
from storagelab.findings.model import Estimate
from storagelab.findings.reasons import RULES, Case, Crowd, DeviceChange, Figure, Rule, case_between, reasons
from storagelab.findings.why import QUEUE, Step, Thing, Waterfall
from storagelab.model.measurement import Run
from storagelab.report.words.why import waterfall_table, why_sentence
from storagelab.run.loop import batches, make_batch
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse

BASE = SMALL.split("[factors]")[0].replace("repetitions = 2", "repetitions = 4").replace("cell-by-cell", "randomised")
DISK = 'log = "a"\n[drives.disk]\nprofile = "sata-7k2-1000"\n[volumes.slow]\ndrives = ["disk"]\n[workload]'


def case_of(folder, factor, *changes):
    """From the first level of a simulated campaign's one factor to its last."""
    experiment = parse(f"{changed(BASE, *changes)}[factors]\n{factor}\n", str(folder / "small.toml"))
    plan, told = expand(experiment), []
    for whole in batches(plan, {}, site_at(folder), folder):
        make_batch(whole, told.append)
    runs = [one for one in told if isinstance(one, Run)]
    findings, used = analyse(experiment, plan, runs), basis_of(experiment, plan, runs).used
    return case_between(findings, used, plan.cells[0].cell_id, plan.cells[-1].cell_id)


def test_with_more_cores_the_cpu_was_the_limit(tmp_path):
    (reason,) = reasons(case_of(tmp_path, '"server.cores" = [2, 16]', ("cores = 4\n", "")))
    assert reason.rule == Rule.CPU_LIMIT
    assert reason.share == pytest.approx(1, abs=0.05)


def test_with_the_log_on_a_disk_the_log_is_the_reason(tmp_path):
    case = case_of(tmp_path, '"layout.log" = ["a", "slow"]', ("[workload]", f'[layout]\ndata = ["a"]\n{DISK}'))
    (reason,) = reasons(case)
    assert reason.rule == Rule.LOG
    assert reason.types == ("WRITELOG",)
    text = why_sentence(case, "slow", "a", Estimate(value=1.54, low=1.5, high=1.6))
    assert text.startswith("slow against a: 54 % more time")
    assert "Waits for the log (WRITELOG) take" in text
    assert "Against that: queueing for a CPU -" in text
    rows = {row[0]: row[3] for row in waterfall_table(case.waterfall, "a", "slow", None, case.parts).rows}
    for name in ("WRITELOG", "queueing for a CPU"):
        (said,) = re.findall(rf"{name}\)?(?: take)? -?([\d.]+) s", text)
        assert float(rows[name].lstrip("+-")) == pytest.approx(float(said), rel=0.01)


def test_where_nothing_differs_no_rule_speaks(tmp_path):
    same = 'same = [{label = "a", "layout.data_files" = 4}, {label = "b", "layout.data_files" = 4}]'
    cases = [case_of(tmp_path, same, ("repetitions = 4", f"repetitions = 4\nseed = {seed}")) for seed in range(1, 7)]
    assert sum(bool(reasons(case)) for case in cases) == 0
    told_apart = [case for case in cases if case.waterfall.differs]
    assert len(told_apart) <= 1
    for case in cases:
        if case not in told_apart:
            text = why_sentence(case, "b", "a", Estimate(value=1.0, low=0.9, high=1.1))
            assert text.endswith("These runs show no difference to explain.")


def step(name, change_s, *, sure=True, category="other", part=None, before_s=20.0):
    low, high = sorted((change_s * (0.9 if sure else -0.1), change_s * 1.1))
    return Step(
        Thing(name, "", category, part), before_s, before_s + change_s, Estimate(value=change_s, low=low, high=high)
    )


def made_up(*steps, devices=(), differs=True):
    total = sum(one.change.value for one in steps)
    waterfall = Waterfall(100.0, 100.0 + total, Estimate(value=total), tuple(steps), (("c01", "c02"),), differs)
    return Case(waterfall, waterfall, devices, (Crowd("PAGELATCH_UP", "a PFS page", 0.5, 9),))


def device(quantity, before, after, *, sure=True):
    change = after - before
    low, high = sorted((change * (0.5 if sure else -0.5), change * 1.5))
    return DeviceChange(Figure("ssd", quantity), before, after, Estimate(value=change, low=low, high=high))


READS = step("data read", 30.0, category="data-read")
AT_600 = AtLimit("a", "write_iops", 600.0, 0.98, 100.0, 130.0, Estimate(value=30.0, low=29.0, high=31.0))
CASES = {
    Rule.VOLUME_LIMIT: replace(made_up(READS), limit=AT_600),
    Rule.MORE_WORK: made_up(step("more or fewer rows", 30.0)),
    Rule.WRITE_AMPLIFICATION: made_up(READS, devices=[device("write_amplification", 1.2, 1.9), device("queue", 2, 3)]),
    Rule.DEVICE_QUEUE: made_up(READS, devices=[device("queue", 5, 9), device("read_latency_s", 0.001, 0.002)]),
    Rule.DEVICE_LATENCY: made_up(READS, devices=[device("read_latency_s", 0.001, 0.002)]),
    Rule.DATA_WAITS: made_up(READS, devices=[device("read_latency_s", 0.002, 0.001), device("queue", 9, 5)]),
    Rule.LATCHES: made_up(step("page latches", 30.0, category="page-latch")),
    Rule.LOG: made_up(step("log waits", 30.0, category="commit")),
    Rule.LOCKS: made_up(step("lock", 30.0, category="lock")),
    Rule.CPU_LIMIT: made_up(
        step(QUEUE.name, 30.0, category="cpu-queue"), step("ON_CPU", 1.0, part="cpu", before_s=60.0)
    ),
    Rule.SCHEDULER: made_up(step(QUEUE.name, 30.0, category="cpu-queue"), step("ON_CPU", 1.0, part="cpu")),
    Rule.CPU_WORK: made_up(step("ON_CPU", 30.0, part="cpu", category="cpu")),
}


def test_every_rule_has_a_case():
    assert len(RULES) == len(Rule)
    assert set(CASES) == set(Rule)


@pytest.mark.parametrize("rule", Rule)
def test_each_rule_speaks_of_its_case_and_of_no_other(rule):
    assert [one.rule for one in reasons(CASES[rule])] == [rule]


@pytest.mark.parametrize("rule", Rule)
def test_no_rule_speaks_where_the_times_can_not_be_told_apart(rule):
    case = CASES[rule]
    assert reasons(replace(case, waterfall=replace(case.waterfall, differs=False))) == ()


@pytest.mark.parametrize("rule", [rule for rule in Rule if rule not in (Rule.MORE_WORK, Rule.VOLUME_LIMIT)])
def test_no_rule_speaks_of_a_step_inside_its_interval_or_of_one_that_explains_too_little(rule):
    first, *others = CASES[rule].waterfall.steps
    doubtful = replace(first, change=Estimate(value=30.0, low=-1.0, high=61.0))
    small = replace(first, change=Estimate(value=5.0, low=4.0, high=6.0))
    for steps in ((doubtful, *others), (small, *others, step("network", 60.0))):
        assert reasons(made_up(*steps, devices=CASES[rule].devices)) == ()


def test_a_device_that_moved_the_other_way_or_by_chance_is_not_the_reason():
    devices = [
        device("write_amplification", 1.9, 1.2), device("queue", 5, 9, sure=False), device("read_latency_s", 1, 1.01),
    ]  # fmt: skip
    assert [one.rule for one in reasons(made_up(READS, devices=devices))] == [Rule.DATA_WAITS]
