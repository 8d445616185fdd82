"""Each caution appears if there is a reason for it, with the figures that its text needs, and only then."""

import copy
import json
import random

import pytest
from builders import (
    analysed,
    make_environment,
    make_experiment,
    make_plan,
    make_planned,
    make_run,
    make_runs,
    ten_seconds,
)
from fabricated_findings import golden

from storagelab.findings.analysis import analyse
from storagelab.findings.cautions.unlike_hosts import UnlikeCopies
from storagelab.findings.model import Caution
from storagelab.model.measurement import BEHIND_RATE, LOAD, SETTLED, Check, ObserverCost, Run
from storagelab.model.plan import RESTORED, Factor, Level
from storagelab.model.waits import NO_EVENT, EventTicks
from storagelab.report.words.answer import answer_lines
from storagelab.report.words.caution_texts import caution_sentence
from storagelab.servers.durability import judged
from storagelab.spec.matrix import expand

FILES = {"layout.data_files": [1, 2, 4, 8]}


def cautions_of(
    factors=FILES, repetitions=5, order="randomised", change=lambda runs: runs, **how
) -> tuple[Caution, ...]:
    """The cautions of an experiment; `change` is applied to its runs first."""
    experiment, plan = make_planned(factors, repetitions, order=order)
    return analyse(experiment, plan, change(make_runs(experiment, plan, **how))).cautions


def with_measurement(run: Run, **fields: object) -> Run:
    return run.model_copy(update={"measurement": run.measurement.model_copy(update=fields)})


def with_waits(run: Run, **fields: object) -> Run:
    return with_measurement(run, waits=run.measurement.waits.model_copy(update=fields))


def environment(**tables: dict[str, object]) -> dict[str, object]:
    """The fabricated environment with some values of its tables replaced."""
    known = copy.deepcopy(make_environment())
    for name, values in tables.items():
        known[name] = {**known[name], **values}
    return known


def each(change, only_of=lambda run: True):
    """Changes each run that `only_of` picks."""
    return lambda runs: [change(run) if only_of(run) else run for run in runs]


def with_two_files(run: Run) -> bool:
    return run.levels["layout.data_files"] == 2


def unverified(name: str, asked: str, got, read_from: str):
    """What was asked for and not got; `got(repetition)`."""

    def change(run: Run) -> Run:
        check = Check(name=name, asked=asked, got=got(run.repetition), ok=False, read_from=read_from)
        return with_measurement(run, checks=(check,)).model_copy(update={"status": "unverified"})

    return each(change, with_two_files)


def made_again(runs):
    lost = runs[0].model_copy(update={"measurement": None, "status": "failed", "reason": "lost"})
    return [lost, runs[0].model_copy(update={"attempt": 2}), *runs[1:]]


def held_back(share: float):
    def change(run: Run) -> Run:
        cpu = {"server_throttled_s": share * run.measurement.elapsed_s, "storagelab_throttled_s": 0.0}
        return with_measurement(run, counters={**run.measurement.counters, "cpu": cpu})

    return lambda runs: [*map(change, runs[:3]), *runs[3:]]


def one_far_run(levels, repetition):
    return (1.8 if (levels["layout.data_files"], repetition) == (4, 3) else 1.0) * ten_seconds(levels, repetition)


ROWS_EACH = "workload.rows_per_connection"


def one_far_run_of_many_rows(levels, repetition):
    rows = levels[ROWS_EACH]
    return rows / 10_000 * ten_seconds(levels, repetition) * (3 if (rows, repetition) == (20_000, 2) else 1)


def slower_and_slower(runs):
    return [
        with_measurement(run, elapsed_s=run.measurement.elapsed_s * (1 + 0.2 * run.sequence / len(runs)))
        for run in runs
    ]


def creeping(runs):
    rng = random.Random(1)
    return [
        with_measurement(run, elapsed_s=10 * (1 + 0.01 * run.sequence / len(runs) + rng.gauss(0, 1e-4))) for run in runs
    ]


def dear(run: Run) -> Run:
    cost = ObserverCost(ticks=500, sampler_cpu_s=0.4, session_cpu_s=0.2)
    return with_measurement(run, elapsed_s=10.0 + 0.01 * run.repetition, observer=cost)


def unseen(run: Run) -> Run:
    nameless = (EventTicks(wait_type=NO_EVENT, blocked=1000),)
    return with_waits(run, events=nameless, cpu_s=1.0, runqueue_s=1.0)


def remote(run: Run) -> Run:
    return with_waits(run, cpu_s=None, runqueue_s=None, no_split_reason="the server is on another host")


def disturbed(share: float, every: int = 1, by: str = "others_s", only_of=lambda run: True):
    """`share` of the 8 CPUs' time went to others, or to the hypervisor, in every n-th run that `only_of` picks."""

    def spent(run: Run) -> Run:
        window_s = 8 * (run.measurement.elapsed_s + 2)  # the counters are read before the start and after the end
        taken = share * window_s if run.sequence % every == 0 and only_of(run) else 0.0
        cpu = {"busy_s": 0.0, "idle_s": window_s - taken, "iowait_s": 0.0, "others_s": 0.0, "steal_s": 0.0, by: taken}
        cpu["busy_s"] = cpu["others_s"]
        return with_measurement(run, counters={**run.measurement.counters, "cpu": cpu})

    return each(spent)


def on(**volumes: dict[str, object]) -> tuple[Caution, ...]:
    return cautions_of(environment=environment(volumes=volumes))


def in_blocks(factors, *costly: str, change=lambda runs: runs) -> tuple[Caution, ...]:
    experiment = make_experiment(factors, 5, costly=costly)
    plan = expand(experiment)
    return analyse(experiment, plan, change(make_runs(experiment, plan))).cautions


def mixed_cautions(factors, *more: Factor) -> tuple[Caution, ...]:
    experiment = make_experiment(factors)
    experiment = experiment.model_copy(update={"factors": (*experiment.factors, *more)})
    base = {**experiment.base, "workload": {"kind": "mixed", "connections": 16, "rows_per_connection": 50_000}}
    experiment = experiment.model_copy(update={"base": base})
    plan = make_plan(experiment)
    return analyse(experiment, plan, make_runs(experiment, plan)).cautions


def on_sql_server() -> tuple[Caution, ...]:
    base = {**make_experiment(FILES).base, "target": {"engine": "sqlserver", "dsn": "mssql://localhost"}}
    servers = environment(server={"engine": "sqlserver", "version": "16.0.4135.4", "settings": {}})
    return analysed(FILES, base=base, environment=servers).cautions


def files_on_drives(drive, factors=FILES, provenance="simulated") -> tuple[Caution, ...]:
    volumes = {"a": {"drives": "one"}, "b": {"drives": "two"}}
    drives = environment(volumes=volumes) | {"drives": {"one": drive, "two": drive}}
    return cautions_of(
        factors, change=each(lambda run: with_measurement(run, provenance=provenance)), environment=drives
    )


def some_cells_ran_once() -> tuple[Caution, ...]:
    return cautions_of(
        waits=None, change=lambda runs: [run for run in runs if not with_two_files(run) or run.repetition == 1]
    )


UNSAFE = judged(
    environment(server={"settings": {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off"}})
)
FEW_AND_MANY = Factor(name="both", levels=(
    Level(value="few", sets={"layout.data_files": 1, "workload.read_fraction": 0}),
    Level(value="many", sets={"layout.data_files": 8, "workload.read_fraction": 0.9}),
))  # fmt: skip
VIRTIO = {"path": "./a", "device": "vda", "device_model": "", "virtual": True, "virtual_reason": "driver virtio_blk"}
SDA = {"path": "./volumes/a", "device": "sda", "virtual": False}
SLOW_A = {**SDA, "device_numbers": "7:0", "throttle": {"write_iops": 600}}
SLOW_B = {**SLOW_A, "device_numbers": "7:1"}
MADE = {"device": "loop0", "device_stack": ["loop0"], "made": {"device": "loop0"}, "virtual": False}
MADE_ON_DISK = {**MADE, "device": "sda", "device_stack": ["loop0", "sda"]}
MADE_AND_SLOW = {**MADE_ON_DISK, "throttle": {"write_iops": 600}}
SCSI = {"title": "15k SCSI 300 GB", "order": "elevator"}
WHY = {0: "the server went away", 3: "the disk is full", 7: "the disk is full"}
SITUATIONS = {
    "a sound experiment": cautions_of,
    "nothing could be read of the environment": lambda: cautions_of(environment={}),
    "the environment is nonsense": lambda: cautions_of(
        environment={"host": None, "volumes": [], "server": {"settings": "unknown"}}
    ),
    "failed runs, with the most frequent reason": lambda: cautions_of(failed=lambda run: WHY.get(run.sequence, "")),
    "a failed run that was made again": lambda: cautions_of(change=made_again),
    "runs still to be made": lambda: cautions_of(repetitions=6, change=lambda runs: runs[:-3]),
    "one setting was not got as asked": lambda: cautions_of(
        change=unverified("wal_compression", "on", lambda _: "off", "pg_settings")
    ),
    "a quota held the server back for 30 %": lambda: cautions_of(change=held_back(0.3)),
    "a quota held the server back for 0.9 %": lambda: cautions_of(change=held_back(0.009)),
    "runs had not settled": lambda: cautions_of(
        change=unverified(SETTLED, "settled within 2 %", lambda n: f"by {n} %", "pgbench")
    ),
    "runs fell behind their rate": lambda: cautions_of(
        change=unverified(BEHIND_RATE, "settled within 2 %", lambda n: f"by {n} %", "pgbench")
    ),
    "rows were lost": lambda: cautions_of(
        change=each(lambda run: run.model_copy(update={"status": "unverified", "reason": "rows were lost"}))
    ),
    "one repetition": lambda: cautions_of(repetitions=1),
    "two repetitions": lambda: cautions_of(repetitions=2),
    "three repetitions": lambda: cautions_of(repetitions=3),
    "four repetitions": lambda: cautions_of(repetitions=4),
    "runs below two seconds": lambda: cautions_of(elapsed=lambda of, _: 1.5 if of["layout.data_files"] == 8 else 10.0),
    "a run far from its cell and round": lambda: cautions_of(elapsed=one_far_run),
    "a far run where time per row is compared": lambda: cautions_of(
        {ROWS_EACH: [10_000, 20_000, 40_000]}, repetitions=6, elapsed=one_far_run_of_many_rows
    ),
    "a drift in random order": lambda: cautions_of(change=slower_and_slower),
    "a drift in the listed order": lambda: cautions_of(order="as-listed", change=slower_and_slower),
    "a drift below two percent": lambda: cautions_of(change=creeping),
    "blocks": lambda: in_blocks(
        {"layout.log": ["a", "b"], "layout.data": [["a"], ["b"]], **FILES}, "layout.log", "layout.data"
    ),
    "a drift over several blocks": lambda: in_blocks(
        {"layout.log": ["a", "b"], **FILES}, "layout.log", change=slower_and_slower
    ),
    "a sampler that takes 6 % of a core": lambda: cautions_of(change=each(dear)),
    "waits leave most of the time unexplained": lambda: cautions_of(change=each(unseen)),
    "waits without a split": lambda: cautions_of(change=each(remote)),
    "waits that were not observed": lambda: cautions_of(waits=None),
    "others take 30 % of the machine": lambda: cautions_of(change=disturbed(0.3)),
    "others take all of the machine": lambda: cautions_of(change=disturbed(1.0)),
    "others take 5 %": lambda: cautions_of(change=disturbed(0.05)),
    "others take half in one run of twelve": lambda: cautions_of(change=disturbed(0.5, every=12)),
    "the hypervisor takes 30 %": lambda: cautions_of(change=disturbed(0.3, by="steal_s")),
    "the hypervisor takes 30 % of one layout's runs": lambda: cautions_of(
        change=disturbed(0.3, by="steal_s", only_of=with_two_files)
    ),
    "CPUs are busy all the time": lambda: cautions_of(environment=environment(host={"cpu_count": 1})),
    "a virtual disk": lambda: on(a=VIRTIO),
    "a disk in memory": lambda: on(a={**VIRTIO, "filesystem": "tmpfs"}),
    "a disk that may be virtual": lambda: on(a={"path": "./volumes/a", "device": "sda", "virtual": None}),
    "one cell gives safety up": lambda: cautions_of(
        change=each(lambda run: with_measurement(run, durability=UNSAFE), lambda run: run.cell_id == "cell-001")
    ),
    "volumes on one device": lambda: on(a=SDA, b=SDA),
    "volumes that are throttled apart": lambda: on(a=SLOW_A, b=SLOW_B),
    "one volume alone is throttled": lambda: on(a=SLOW_A, b={**SLOW_B, "throttle": {}}),
    "volumes that are throttled together": lambda: on(a=SLOW_A, b={**SLOW_B, "device_numbers": "7:0"}),
    "drives made in memory": lambda: on(a=MADE, b=MADE),
    "drives made on one disk": lambda: on(a=MADE_ON_DISK, b=MADE_ON_DISK),
    "drives made on one disk, with limits": lambda: on(a=MADE_AND_SLOW, b=MADE_AND_SLOW),
    "a factor sets layout and load at once": lambda: mixed_cautions({"layout.log": ["a", "b"]}, FEW_AND_MANY),
    "a load is a factor of its own": lambda: mixed_cautions({"workload.read_fraction": [0, 0.9]}),
    "loads and layouts are factors": lambda: mixed_cautions(
        {"workload.read_fraction": [0, 0.5, 0.9], "layout.data_files": [1, 4]}
    ),
    "numbers of files on SQL Server": on_sql_server,
    "more files than volumes on simulated disks": lambda: files_on_drives(SCSI),
    "many files on flash": lambda: files_on_drives({"title": "ioDrive 320 GB", "format": "basic"}),
    "one number of files on disks": lambda: files_on_drives({**SCSI, "order": "fifo"}, {"layout.log": ["a", "b"]}),
    "many files on real disks": lambda: files_on_drives({**SCSI, "order": "fifo"}, provenance="measured"),
    "what weighs more comes first": lambda: cautions_of(
        repetitions=2, environment=environment(volumes={"a": SDA, "b": SDA})
    ),
    "a cell ran once among others": some_cells_ran_once,
}  # fmt: skip


def raised() -> list[dict[str, object]]:
    """Each situation with its cautions; figures to three digits, as processors differ in the last ones."""
    return [
        {"in": name, "raised": [
            {"kind": one.kind, "severity": one.severity, "cells": list(one.cells), "figures": shown(one.figures)}
            for one in found()
        ]}
        for name, found in SITUATIONS.items()
    ]  # fmt: skip


def shown(figures: dict[str, object]) -> dict[str, object]:
    return {
        name: float(f"{one:.3g}") if isinstance(one, float) else list(one) if isinstance(one, tuple) else one
        for name, one in figures.items() if name != "p_value"
    }  # fmt: skip


def test_cautions_are_raised_as_they_were():
    """After a change, read what changes: `python tools/make_golden_answers.py`."""
    assert raised() == json.loads(golden("raised", "json").read_text("utf-8"))


@pytest.mark.parametrize("made", [6, 8, 10])
def test_a_drift_of_the_first_runs_is_not_drawn_out_over_ten_thousand_repetitions(made):
    experiment, plan = make_planned({"layout.data_files": [1, 2]}, 10_000)
    first = plan.model_copy(update={"runs": plan.runs[:made]})
    runs = make_runs(experiment, first, elapsed=lambda levels, repetition: 10 * 1.2**repetition, waits=None)
    (drift,) = [caution for caution in analyse(experiment, plan, runs).cautions if caution.kind == "drift"]
    assert drift.change == pytest.approx(1.2 ** (made / 2 - 1) - 1, rel=0.5)


@pytest.mark.parametrize(("empty_after_s", "told"), [([4.5], []), ([4.5, 6.5], [0.5]), (4.5, []), (6.5, [0.5])])
def test_credits_that_refill_before_a_run_counts_and_run_out_again_are_told(empty_after_s, told):
    made = {"made": {"burst": {"credits_left": 0, "empty_after_s": empty_after_s}}}
    found = cautions_of(
        environment=environment(volumes={"a": {**SDA, **made}}),
        change=each(
            lambda run: with_measurement(run, counters={**run.measurement.counters, LOAD: {"counts_after_s": 6}})
        ),
    )
    assert [one.after_s for one in found if one.kind == "burst-credits"] == told


# --- layouts whose data is copied in different ways -------------------------------------------------------------------


def findings_where(states: dict[str, str]):
    """Those of runs on the volumes a and b, each of which began with its data in one of these states."""
    experiment, plan = make_planned({"layout.log": list(states)})
    runs = []
    for run in make_runs(experiment, plan):
        environment = {**make_environment(), "data": {"state": states[str(run.levels["layout.log"])]}}
        measurement = run.measurement.model_copy(update={"environment": environment})
        planned = next(one for one in plan.runs if (one.cell_id, one.repetition) == (run.cell_id, run.repetition))
        runs.append(make_run(planned, plan.cell(run.cell_id), measurement))
    return analyse(experiment, plan, runs)


def unlike(states: dict[str, str]) -> list[UnlikeCopies]:
    return [caution for caution in findings_where(states).cautions if isinstance(caution, UnlikeCopies)]


def test_a_copy_in_full_beside_one_that_shares_its_blocks_is_a_caution_in_the_answer():
    findings = findings_where({"a": f"{RESTORED}copied", "b": f"{RESTORED}reflinked"})
    [caution] = [one for one in findings.cautions if isinstance(one, UnlikeCopies)]
    assert caution.severity == "caution"
    assert caution_sentence(caution, findings).startswith(
        "Data was reflinked from its template (log on b), and elsewhere copied."
    )
    assert "data reflinked here, copied there" in answer_lines(findings)[-1]


def test_copies_of_one_kind_and_data_that_is_made_anew_are_none():
    assert unlike({"a": f"{RESTORED}copied", "b": f"{RESTORED}copied"}) == []
    assert unlike({"a": "rebuilt", "b": f"{RESTORED}copied"}) == []
    mixed = f"{RESTORED}partly reflinked, partly copied"
    assert unlike({"a": mixed, "b": mixed}) == []
