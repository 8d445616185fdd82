"""Each caution is raised when there is a reason for it, with the figures that its wording needs, and not otherwise."""

import copy
import random

import pytest
from builders import (
    make_environment,
    make_experiment,
    make_measurement,
    make_plan,
    make_planned,
    make_run,
    make_runs,
    ten_seconds,
)

from storagelab.findings.analysis import analyse
from storagelab.findings.model import Caution
from storagelab.model.measurement import BEHIND_RATE, SETTLED, Check, ObserverCost, Run
from storagelab.model.plan import Factor, Level
from storagelab.model.waits import NO_EVENT, EventTicks
from storagelab.spec.matrix import expand
from storagelab.targets.durability import judged

FILES = {"layout.data_files": [1, 2, 4, 8]}


def cautions_of(
    factors=FILES, repetitions=5, order="randomised", change=lambda runs: runs, **how
) -> tuple[Caution, ...]:
    """The cautions of an experiment; `change` is applied to its runs first."""
    experiment, plan = make_planned(factors, repetitions, order=order)
    return analyse(experiment, plan, change(make_runs(experiment, plan, **how))).cautions


def only(cautions: tuple[Caution, ...]) -> Caution:
    (caution,) = cautions
    return caution


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


def test_a_sound_experiment_raises_no_caution():
    assert cautions_of() == ()


def test_an_environment_of_which_nothing_could_be_read_raises_no_caution():
    assert cautions_of(environment={}) == ()
    assert cautions_of(environment={"host": None, "volumes": [], "server": {"settings": "unknown"}}) == ()


# --- Runs that are not there, or not as asked -----------------------------------------------------------------------


def test_failed_runs_are_counted_with_the_most_frequent_reason():
    reasons = {0: "the server went away", 3: "the disk is full", 7: "the disk is full"}
    found = {caution.kind: caution for caution in cautions_of(failed=lambda run: reasons.get(run.sequence, ""))}
    assert found["failed-runs"].severity == "caution"
    assert found["failed-runs"].figures == {
        "failed": 3, "unrecovered": 3, "planned": 20, "reason": "the disk is full",
    }  # fmt: skip


def test_a_failed_run_that_was_made_again_is_recovered():
    def made_again(runs):
        lost = runs[0].model_copy(update={"measurement": None, "status": "failed", "reason": "lost"})
        return [lost, runs[0].model_copy(update={"attempt": 2}), *runs[1:]]

    failed = only(cautions_of(change=made_again))
    assert (failed.kind, failed.figures["failed"], failed.figures["unrecovered"]) == ("failed-runs", 1, 0)
    assert len(failed.cells) == 1


def test_runs_still_to_be_made_are_missing():
    missing = only(cautions_of(repetitions=6, change=lambda runs: runs[:-3]))
    assert missing.kind == "missing-runs"
    assert missing.figures == {"missing": 3, "stored": 21, "planned": 24}


def test_what_was_not_got_as_asked_is_named_once_with_its_runs():
    check = Check(name="wal_compression", asked="on", got="off", ok=False, read_from="pg_settings")

    def unverified(runs):
        return [
            with_measurement(run, checks=(check,)).model_copy(update={"status": "unverified"})
            if run.levels["layout.data_files"] == 2
            else run
            for run in runs
        ]

    caution = only(cautions_of(change=unverified))
    assert (caution.kind, caution.cells) == ("unverified", ("cell-002",))
    assert caution.figures == {
        "what": "wal_compression", "asked": "on", "got": "off", "read_from": "pg_settings", "runs": 5, "reason": "",
    }  # fmt: skip


def held_back(share: float):
    def change(runs):
        for run in runs[:3]:
            cpu = {"server_throttled_s": share * run.measurement.elapsed_s, "storagelab_throttled_s": 0.0}
            yield with_measurement(run, counters={**run.measurement.counters, "cpu": cpu})
        yield from runs[3:]

    return lambda runs: list(change(runs))


def test_a_quota_that_held_the_server_back_is_a_caution_with_its_size_from_a_hundredth_of_a_run_on():
    caution = only(cautions_of(change=held_back(0.3)))
    assert (caution.kind, caution.severity, caution.runs, caution.who) == ("throttled", "caution", 3, "server")
    assert caution.share == pytest.approx(0.3)
    assert caution.throttled_s == pytest.approx(3, rel=0.1)
    assert cautions_of(change=held_back(0.009)) == ()


@pytest.mark.parametrize(("name", "kind"), [(SETTLED, "unsettled"), (BEHIND_RATE, "behind-rate")])
def test_runs_that_had_not_settled_or_fell_behind_their_rate_are_one_caution_of_their_own(name, kind):
    def unsettled(runs):
        checks = [
            Check(name=name, asked="settled within 2 %", got=f"by {n} %", ok=False, read_from="pgbench")
            for n in range(5)
        ]
        return [
            with_measurement(run, checks=(checks[run.repetition % 5],)).model_copy(update={"status": "unverified"})
            if run.levels["layout.data_files"] == 2
            else run
            for run in runs
        ]

    caution = only(cautions_of(change=unsettled))
    assert (caution.kind, caution.cells) == (kind, ("cell-002",))
    assert caution.figures["runs"] == 5
    assert caution.figures["asked"] == "settled within 2 %"


def test_a_run_unverified_for_another_reason_says_that_reason():
    def unverified(runs):
        return [run.model_copy(update={"status": "unverified", "reason": "rows were lost"}) for run in runs]

    assert only(cautions_of(change=unverified)).figures["what"] == "rows were lost"


@pytest.mark.parametrize(
    ("repetitions", "kind", "severity"),
    [
        (1, "single-repetition", "caution"),
        (2, "few-repetitions", "caution"),
        (3, "few-repetitions", "note"),
        (4, "few-repetitions", "note"),
    ],
)
def test_few_repetitions_are_a_caution_and_very_few_a_grave_one(repetitions, kind, severity):
    caution = only(cautions_of(repetitions=repetitions))
    assert (caution.kind, caution.severity, caution.cells) == (kind, severity, ())
    assert caution.figures == {"repetitions": repetitions, "sound": 5}


# --- Times that can't be trusted as they stand ----------------------------------------------------------------------


def test_runs_below_two_seconds_are_short_and_their_waits_rest_on_few_samples():
    short, few = cautions_of(elapsed=lambda levels, _: 1.5 if levels["layout.data_files"] == 8 else 10.0)
    assert (short.kind, short.cells, short.figures) == (
        "short-runs",
        ("cell-004",),
        {"shortest_s": 1.5, "limit_s": 2.0},
    )
    assert (few.kind, few.cells, few.figures) == ("few-wait-samples", ("cell-004",), {"passes": 75, "limit": 100})


def test_a_run_far_from_its_cell_and_round_is_named_with_what_was_expected():
    def elapsed(levels, repetition):
        slow = 1.8 if (levels["layout.data_files"], repetition) == (4, 3) else 1.0
        return slow * ten_seconds(levels, repetition)

    caution = only(cautions_of(elapsed=elapsed))
    assert (caution.kind, caution.cells) == ("outlier", ("cell-003",))
    assert (caution.figures["repetition"], caution.figures["runs"]) == (3, 1)
    assert caution.figures["elapsed_s"] == pytest.approx(18, rel=0.05)
    assert caution.figures["expected_s"] == pytest.approx(10, rel=0.05)
    assert caution.figures["ratio"] == pytest.approx(1.8, rel=0.05)


def slower_and_slower(runs):
    return [
        with_measurement(run, elapsed_s=run.measurement.elapsed_s * (1 + 0.2 * run.sequence / len(runs)))
        for run in runs
    ]


@pytest.mark.parametrize(("order", "severity"), [("randomised", "note"), ("as-listed", "caution")])
def test_a_drift_over_the_campaign_is_grave_only_where_the_order_was_not_random(order, severity):
    caution = only([one for one in cautions_of(order=order, change=slower_and_slower) if one.kind != "order"])
    assert (caution.kind, caution.severity, caution.figures["order"]) == ("drift", severity, order)
    assert caution.figures["change"] == pytest.approx(0.17, abs=0.05)


def test_blocks_are_a_caution_that_names_the_factors_changed_between_them():
    factors = {"layout.log": ["a", "b"], "layout.data": [["a"], ["b"]], **FILES}
    experiment = make_experiment(factors, 5, costly=("layout.log", "layout.data"))
    plan = expand(experiment)
    caution = only(analyse(experiment, plan, make_runs(experiment, plan)).cautions)
    assert (caution.kind, caution.severity, caution.cells) == ("blocks", "caution", ())
    assert caution.figures == {"factors": "layout.log, layout.data", "blocks": 4}


def test_a_drift_over_several_blocks_is_grave_whatever_the_order():
    experiment = make_experiment({"layout.log": ["a", "b"], **FILES}, 5, costly=("layout.log",))
    plan = expand(experiment)
    cautions = analyse(experiment, plan, slower_and_slower(make_runs(experiment, plan))).cautions
    (drift,) = [caution for caution in cautions if caution.kind == "drift"]
    assert (drift.severity, drift.figures["order"], drift.figures["blocks"]) == ("caution", "randomised", 2)


def test_a_far_run_is_told_in_seconds_where_time_per_row_is_compared():
    factors = {"workload.rows_per_connection": [10_000, 20_000, 40_000]}

    def elapsed(levels, repetition):
        rows = levels["workload.rows_per_connection"]
        return rows / 10_000 * ten_seconds(levels, repetition) * (3 if (rows, repetition) == (20_000, 2) else 1)

    caution = only(cautions_of(factors, repetitions=6, elapsed=elapsed))
    assert caution.kind == "outlier"
    assert caution.figures["elapsed_s"] == pytest.approx(60, rel=0.05)
    assert caution.figures["expected_s"] == pytest.approx(20, rel=0.1)


@pytest.mark.parametrize("made", [6, 8, 10])
def test_a_drift_of_the_first_runs_is_not_drawn_out_over_ten_thousand_repetitions(made):
    experiment, plan = make_planned({"layout.data_files": [1, 2]}, 10_000)
    first = plan.model_copy(update={"runs": plan.runs[:made]})
    runs = make_runs(experiment, first, elapsed=lambda levels, repetition: 10 * 1.2**repetition, waits=None)
    (drift,) = [caution for caution in analyse(experiment, plan, runs).cautions if caution.kind == "drift"]
    assert drift.change == pytest.approx(1.2 ** (made / 2 - 1) - 1, rel=0.5)


def test_a_drift_below_two_percent_is_not_worth_a_word():
    rng = random.Random(1)

    def creeping(runs):
        return [
            with_measurement(run, elapsed_s=10 * (1 + 0.01 * run.sequence / len(runs) + rng.gauss(0, 1e-4)))
            for run in runs
        ]

    assert cautions_of(change=creeping) == ()


# --- What observing costs, and what it can't see --------------------------------------------------------------------


def test_a_sampler_that_takes_more_than_4_percent_of_a_core_is_a_caution():
    def dear(runs):
        cost = {"sampler_cpu_s": 0.4, "session_cpu_s": 0.2}
        return [
            with_measurement(run, elapsed_s=10.0 + 0.01 * run.repetition, observer=ObserverCost(ticks=500, **cost))
            for run in runs
        ]

    caution = only(cautions_of(change=dear))
    assert (caution.kind, caution.cells) == ("observer-cost", ())
    assert caution.figures["core_share"] == pytest.approx(0.06, rel=0.01)
    assert caution.figures["sampler_core_share"] == pytest.approx(0.04, rel=0.01)


def test_waits_that_leave_most_of_the_time_unexplained_are_a_caution():
    def unseen(runs):
        nameless = (EventTicks(wait_type=NO_EVENT, blocked=1000),)
        return [with_waits(run, events=nameless, cpu_s=1.0, runqueue_s=1.0) for run in runs]

    caution = only(cautions_of(change=unseen))
    assert (caution.kind, caution.cells) == ("conservation", ())
    assert caution.figures["lowest"] < 0.1
    assert (caution.figures["limit_low"], caution.figures["limit_high"]) == (0.80, 1.10)


def test_waits_without_a_split_say_why():
    def remote(runs):
        return [
            with_waits(run, cpu_s=None, runqueue_s=None, no_split_reason="the server is on another host")
            for run in runs
        ]

    caution = only(cautions_of(change=remote))
    assert (caution.kind, caution.severity) == ("no-split", "note")
    assert caution.figures == {"runs": 20, "reason": "the server is on another host"}


def test_waits_that_were_not_observed_are_no_caution():
    assert cautions_of(waits=None) == ()


# --- The machine and the server -------------------------------------------------------------------------------------


def disturbed(runs, share, every=1):
    """`share` of the 8 CPUs' time went to others, in every n-th run."""

    def spent(run):
        window_s = 8 * (run.measurement.elapsed_s + 2)  # the counters are read before the start and after the end
        taken = share * window_s if run.sequence % every == 0 else 0.0
        idle = {"idle_s": 0.75 * (window_s - taken), "iowait_s": 0.25 * (window_s - taken)}
        return {**run.measurement.counters, "cpu": {"busy_s": taken, "others_s": taken, "steal_s": 0.0, **idle}}

    return [with_measurement(run, counters=spent(run)) for run in runs]


def test_a_machine_that_others_use_meanwhile_is_a_caution():
    caution = only(cautions_of(change=lambda runs: disturbed(runs, 0.3)))
    assert caution.kind == "busy-machine"
    assert caution.figures == {"others_share": pytest.approx(0.3), "limit": 0.1, "runs": 20, "checked": 20}


def test_others_never_take_more_than_all_of_the_machine():
    caution = only(cautions_of(change=lambda runs: disturbed(runs, 1.0)))
    assert caution.figures["others_share"] == pytest.approx(1.0)


def test_others_that_take_little_or_seldom_are_none():
    assert cautions_of(change=lambda runs: disturbed(runs, 0.05)) == ()
    assert cautions_of(change=lambda runs: disturbed(runs, 0.5, every=12)) == ()


def test_cpus_that_are_busy_all_the_time_are_named_as_what_limits():
    caution = only(cautions_of(environment=environment(host={"cpu_count": 1})))
    assert (caution.kind, caution.severity) == ("cpu-saturated", "note")
    assert caution.figures["cpu_count"] == 1
    assert caution.figures["cpu_share"] > caution.figures["limit"] == 0.9


def test_a_virtual_disk_is_named_with_how_it_was_told():
    disk = {
        "path": "./volumes/a",
        "device": "vda",
        "device_model": "",
        "virtual": True,
        "virtual_reason": "driver virtio_blk",
    }
    caution = only(cautions_of(environment=environment(volumes={"a": disk})))
    assert (caution.kind, caution.severity) == ("virtual-disk", "note")
    assert caution.figures == {"volumes": "a", "reason": "driver virtio_blk", "device_model": ""}


def test_a_disk_of_which_it_is_not_known_is_not_called_virtual():
    disk = {"path": "./volumes/a", "device": "sda", "virtual": None}
    assert cautions_of(environment=environment(volumes={"a": disk})) == ()


def test_each_setting_that_gives_something_up_is_named_for_the_cells_it_concerns():
    unsafe = environment(server={"settings": {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off"}})

    def in_one_cell(runs):
        return [
            with_measurement(run, durability=judged(unsafe)) if run.levels["layout.data_files"] == 1 else run
            for run in runs
        ]

    cautions = cautions_of(change=in_one_cell)
    assert [(c.kind, c.severity, c.cells, c.figures) for c in cautions] == [
        ("durability-off", "note", ("cell-001",), {"setting": "fsync", "value": "off", "loses": "everything"}),
        (
            "durability-off", "note", ("cell-001",),
            {"setting": "full_page_writes", "value": "off", "loses": "pages not in the log"},
        ),
    ]  # fmt: skip


def test_volumes_on_one_device_are_named_together():
    one = {"path": "./volumes/a", "device": "sda", "virtual": False}
    caution = only(cautions_of(environment=environment(volumes={"a": one, "b": one})))
    assert (caution.kind, caution.severity) == ("shared-device", "note")
    assert caution.figures == {"volumes": "a, b", "device": "sda"}


def test_volumes_on_one_device_that_are_throttled_apart_are_no_caution():
    a = {"path": "./a", "device": "sda", "device_numbers": "7:0", "virtual": False, "throttle": {"write_iops": 600}}
    b = {**a, "path": "./b", "device_numbers": "7:1"}
    assert cautions_of(environment=environment(volumes={"a": a, "b": b})) == ()
    assert cautions_of(environment=environment(volumes={"a": a, "b": {**b, "throttle": {}}})) == ()
    same = only(cautions_of(environment=environment(volumes={"a": a, "b": {**b, "device_numbers": "7:0"}})))
    assert same.figures == {"volumes": "a, b", "device": "sda"}


def test_drives_that_were_made_for_a_run_are_told_apart_by_their_volumes_as_the_kernel_numbers_them_anew():
    made = {"device": "loop0", "device_stack": ["loop0"], "made": {"device": "loop0"}, "virtual": False}
    assert cautions_of(environment=environment(volumes={"a": made, "b": made})) == ()  # in memory
    on_disk = {**made, "device": "sda", "device_stack": ["loop0", "sda"]}
    same = only(cautions_of(environment=environment(volumes={"a": on_disk, "b": on_disk})))
    assert same.figures == {"volumes": "a, b", "device": "sda"}
    limited = {**on_disk, "throttle": {"write_iops": 600}}
    assert cautions_of(environment=environment(volumes={"a": limited, "b": limited})) == ()


def test_a_factor_that_sets_layout_and_load_at_once_makes_the_lighter_load_win():
    levels = (
        Level(value="few", sets={"layout.data_files": 1, "workload.read_fraction": 0}),
        Level(value="many", sets={"layout.data_files": 8, "workload.read_fraction": 0.9}),
    )
    caution = only(mixed_cautions({"layout.log": ["a", "b"]}, Factor(name="both", levels=levels)))
    assert (caution.kind, caution.severity, caution.cells) == ("different-loads", "caution", ())
    assert caution.figures == {"factors": "both", "loads": 2}


def test_loads_that_are_a_factor_of_their_own_are_no_caution():
    assert mixed_cautions({"workload.read_fraction": [0, 0.9]}) == ()
    assert mixed_cautions({"workload.read_fraction": [0, 0.5, 0.9], "layout.data_files": [1, 4]}) == ()


def mixed_cautions(factors, *more: Factor) -> tuple[Caution, ...]:
    experiment = make_experiment(factors)
    experiment = experiment.model_copy(update={"factors": (*experiment.factors, *more)})
    base = {**experiment.base, "workload": {"kind": "mixed", "connections": 16, "rows_per_connection": 50_000}}
    experiment = experiment.model_copy(update={"base": base})
    plan = make_plan(experiment)
    return analyse(experiment, plan, make_runs(experiment, plan)).cautions


def test_versions_of_sql_server_are_named_where_numbers_of_data_files_are_compared():
    experiment = make_experiment(FILES)
    base = {**experiment.base, "target": {"engine": "sqlserver", "dsn": "mssql://localhost"}}
    experiment = experiment.model_copy(update={"base": base})
    plan = make_plan(experiment)
    servers = environment(server={"engine": "sqlserver", "version": "16.0.4135.4", "settings": {}})
    caution = only(analyse(experiment, plan, make_runs(experiment, plan, environment=servers)).cautions)
    assert (caution.kind, caution.severity, caution.figures) == (
        "allocation-latches",
        "note",
        {"major": 16, "engine": "sqlserver"},
    )


def test_more_data_files_than_volumes_on_simulated_disks_are_a_caution():
    caution = only(files_on_drives({"title": "15k SCSI 300 GB", "order": "elevator"}))
    assert (caution.kind, caution.severity) == ("files-on-disks", "caution")
    assert caution.cells == ("cell-002", "cell-003", "cell-004")
    assert caution.figures == {"volumes": "a", "data_files": 8, "order": "elevator"}


def test_many_files_on_flash_or_one_number_of_files_on_disks_are_none():
    disk = {"title": "15k SCSI 300 GB", "order": "fifo"}
    assert files_on_drives({"title": "ioDrive 320 GB", "format": "basic"}) == ()
    assert files_on_drives(disk, {"layout.log": ["a", "b"]}) == ()
    assert files_on_drives(disk, provenance="measured") == ()


def files_on_drives(drive, factors=FILES, provenance="simulated") -> tuple[Caution, ...]:
    volumes = {"a": {"drives": "one"}, "b": {"drives": "two"}}
    drives = environment(volumes=volumes) | {"drives": {"one": drive, "two": drive}}

    def as_asked(runs: list[Run]) -> list[Run]:
        return [with_measurement(run, provenance=provenance) for run in runs]

    return cautions_of(factors, change=as_asked, environment=drives)


def test_what_weighs_more_comes_first():
    experiment, plan = make_planned(FILES, repetitions=2)
    one = {"path": "./volumes/a", "device": "sda", "virtual": False}
    runs = make_runs(experiment, plan, environment=environment(volumes={"a": one, "b": one}))
    severities = [caution.severity for caution in analyse(experiment, plan, runs).cautions]
    assert severities == ["caution", "note"]


def test_a_cell_that_ran_once_among_others_is_named():
    experiment, plan = make_planned(FILES)
    cells = {cell.cell_id: cell for cell in plan.cells}
    runs = [
        make_run(planned, cells[planned.cell_id], make_measurement(cells[planned.cell_id].config, 10.0, None))
        for planned in plan.runs
        if planned.cell_id != "cell-002" or planned.repetition == 1
    ]
    kinds = {caution.kind: caution.cells for caution in analyse(experiment, plan, runs).cautions}
    assert kinds == {"missing-runs": ("cell-002",), "single-repetition": ("cell-002",)}
