"""Checkpoint cycles: the length of a run with whole cycles, and the statements of reports about parts of cycles."""

import math

import numpy as np
import pytest
from builders import make_experiment, make_measurement, make_plan, make_planned, make_run

from bench.drawn_cycles import PERIODS_S, experiments, pool
from storagelab.findings.analysis import analyse
from storagelab.findings.model import Findings
from storagelab.loads.settling import Cycles, LogRoom, WarmUp, end_of_whole, told
from storagelab.model.config import Config
from storagelab.model.measurement import CYCLES, LOG_ROOM
from storagelab.model.plan import Plan
from storagelab.model.target import CheckpointCycle
from storagelab.report.text.plan import before_full, too_short
from storagelab.report.words.answer import answer_lines
from storagelab.report.words.caution_texts import caution_sentence
from storagelab.report.words.ladder import verdict_of

TIMEOUT = "target.settings.checkpoint_timeout"
WHOLE = {"in_warm_up": 1.0, "while_counted": 1.0, "whole": 1.0}
PART = {"in_warm_up": 1.0, "while_counted": 0.0, "whole": 0.0}
NONE = {"in_warm_up": 0.0, "while_counted": 0.0, "whole": 0.0}


def test_a_part_that_begins_with_a_checkpoint_ends_with_one_however_long_its_cycles_are():
    assert end_of_whole([10, 70], 10, 60) == 70
    assert end_of_whole([10, 70, 125], 10, 60) == 70
    assert end_of_whole([10, 40, 95], 10, 60) == 95
    assert end_of_whole([10], 10, 60) is None


def test_a_part_that_begins_between_checkpoints_lasts_a_multiple_of_their_distance():
    assert end_of_whole([30, 90], 10, 60) == 130  # after 70 the distance was not known yet
    assert end_of_whole([30, 50, 70], 10, 100) == 110


@pytest.mark.parametrize(("end_s", "whole"), [(70, 1), (71, 1), (130, 2), (100, 0)])
def test_a_run_tells_how_many_whole_cycles_it_holds(end_s, whole):
    assert told([10, 70, 130], 10, end_s)["whole"] == whole


def test_a_settled_load_begins_to_count_with_the_next_checkpoint_if_there_was_one():
    rates = [100.0] * 90
    warm_up = WarmUp(60, 0, 360)
    assert not warm_up.is_over([20], rates[:20], settled=False)
    assert not warm_up.is_over([20], rates[:30], settled=True)
    assert warm_up.is_over([20, 80], rates[:80], settled=False)
    assert WarmUp(60, 0, 360).is_over([], rates[:30], settled=True)


def test_cycles_alike_have_settled_though_throughput_moves_within_each():
    saw = [80.0, 100.0, 120.0] * 20
    warm_up = WarmUp(60, 0, 1e6)
    moments = [warm_up.is_over(list(range(9, at + 1, 15)), saw[:at], settled=False) for at in (9, 24, 39)]
    assert moments == [False, False, True]
    assert warm_up.settled


def test_a_server_is_asked_now_and_then_when_its_checkpoints_begin():
    now_s, begun = 0.0, 3
    cycles = Cycles(lambda: begun, lambda: now_s)
    for at_s, count in ((0.0, 3), (0.1, 4), (0.3, 4), (0.6, 4), (0.9, 6)):
        now_s, begun = at_s, count
        cycles.look()
    assert cycles.starts_s == [0.3, 0.9]
    assert Cycles(None, lambda: 0.0).counters(0, 1) == {}


@pytest.mark.slow
def test_of_equal_layouts_with_cycles_of_unlike_length_few_are_called_slower_and_none_is_off():
    rng = np.random.default_rng(5)
    before, after = (
        [pool(rng, one, 60, at_random=False, whole=whole, number=150) for one in PERIODS_S] for whole in (False, True)
    )
    locked = list(experiments((2, 5), before, 60, whole=False, seed=1))
    assert sum(one.slower for one in locked) > 40  # or there is nothing to mend
    found = list(experiments((2, 5), after, 60, whole=True, seed=1))
    assert sum(one.slower for one in found) <= 60 * 0.05 + 3 * math.sqrt(60 * 0.05)
    assert all(one.compared for one in found)
    assert np.abs(np.mean([one.off for one in found], 0)).max() < 0.01


def findings_where(
    tells: dict[str, dict[str, float]], warm_up: str | float, group: str = CYCLES, setting: str = TIMEOUT
) -> Findings:
    """Those of runs that tell this, by the setting of their server; the first is faster."""
    mariadb = group != CYCLES
    base = {
        "target": {"engine": "mariadb" if mariadb else "postgres"},
        "volumes": {"a": {"path": "a"}},
        "workload": {"kind": "sysbench" if mariadb else "pgbench", "duration_s": 60.0, "warm_up_s": warm_up},
    }
    experiment, plan = make_planned({setting: list(tells)}, base=base)
    any_load = Config.model_validate({**base, "workload": {}})
    runs = []
    for planned in plan.runs:
        cell = plan.cell(planned.cell_id)
        level = str(cell.levels[setting])
        did = 600_000 if level == next(iter(tells)) else 500_000 + 100 * planned.repetition
        counters = {group: tells[level], "wal": {"wal_fpi": 1000.0, "wal_bytes": 2 * 8_192_000.0}}
        measured = make_measurement(any_load, 60.0, None, rows=None, transactions=did, counters=counters)
        runs.append(make_run(planned, cell, measured))
    return analyse(experiment, plan, runs)


def cautions(findings: Findings) -> dict[str, str]:
    return {one.kind: caution_sentence(one, findings) for one in findings.cautions if "check" in one.kind}


def test_runs_that_hold_whole_cycles_are_compared_without_a_word():
    findings = findings_where({"60s": WHOLE, "120s": WHOLE}, "auto")
    assert findings.verdict == "winner"
    assert not cautions(findings)


def test_where_the_warm_up_is_to_be_found_a_layout_with_parts_of_cycles_is_not_compared():
    findings = findings_where({"60s": WHOLE, "120s": PART}, "auto")
    assert findings.verdict == "untested"
    assert "are not compared" in cautions(findings)["checkpoint-cycles"]
    lines = " ".join(answer_lines(findings))
    assert "runs count parts of checkpoint cycles" in lines
    assert "the order was not random" not in lines
    assert verdict_of(findings, findings.cells[1].cell_id).text == "not judged"


def test_with_a_set_warm_up_parts_of_cycles_are_a_caution():
    findings = findings_where({"60s": WHOLE, "120s": PART}, 10.0)
    assert findings.verdict == "winner"
    assert 'Set workload.warm_up = "auto"' in cautions(findings)["checkpoint-cycles"]


def test_where_no_run_saw_a_checkpoint_a_note_says_so():
    findings = findings_where({"60s": NONE, "120s": NONE}, "auto")
    assert findings.verdict == "winner"
    assert "Up to 50 % of the log was images of whole pages" in cautions(findings)["no-checkpoint"]


def test_a_run_tells_when_its_redo_log_was_full():
    now_s, used = 0.0, 0
    room = LogRoom(lambda: (used, 1000), lambda: now_s)
    for at_s, of_it in ((0.0, 100), (2.0, 500), (4.0, 900), (6.0, 800)):
        now_s, used = at_s, of_it
        room.look()
    assert room.counters(1.0, 6.0)[LOG_ROOM] == {
        "all_bytes": 1000.0, "begin_share": 0.5, "end_share": 0.8, "full_after_s": 3.0
    }  # fmt: skip
    assert "full_after_s" not in room.counters(1.0, 3.0)[LOG_ROOM]
    assert LogRoom(lambda: None, lambda: 0.0).counters(0, 1) == {}


FULL = {"all_bytes": 2.0**24, "begin_share": 0.9, "end_share": 0.9, "full_after_s": -1.0}
FILLS = {**FULL, "begin_share": 0.5, "full_after_s": 30.0}
EMPTY = {"all_bytes": 2.0**30, "begin_share": 0.1, "end_share": 0.2}


@pytest.mark.parametrize(
    ("rooms", "said"),
    [
        ((FULL, FULL), {}),
        ((FULL, FILLS), {"log-fills": "for 50 % of the time. Until then, the server need not write changed pages"}),
        ((FULL, EMPTY), {"log-fills": "for 100 % of the time"}),
        ((EMPTY, EMPTY), {"log-never-full": "The redo log (room for 1 GiB) was not full in any run"}),
    ],
)
def test_runs_that_count_before_their_redo_log_is_full_are_told(rooms, said):
    told = dict(zip(("16M", "1G"), rooms, strict=True))
    findings = findings_where(told, 10.0, LOG_ROOM, "target.settings.innodb_log_file_size")
    texts = {one.kind: caution_sentence(one, findings) for one in findings.cautions if one.kind.startswith("log-")}
    assert texts.keys() == said.keys()
    assert all(words in texts[kind] for kind, words in said.items())


def test_plan_says_how_long_a_redo_log_takes_to_fill():
    plan = plan_of(60, 5.0)
    cell = plan.cells[0].cell_id
    assert not list(before_full(plan, {cell: 2.0**24}, {cell: 2.0**23}))
    [text] = before_full(plan, {cell: 2.0**24}, {cell: 2.0**20})
    assert 'that takes 16 s, longer than the warm-up: set workload.warm_up = "16s"' in text
    assert "unless a load writes 3.2 MiB of log in a second" in next(before_full(plan, {cell: 2.0**24}, {}))


def plan_of(duration_s: float, warm_up: str | float) -> Plan:
    workload = {"kind": "pgbench", "duration_s": duration_s, "warm_up_s": warm_up}
    base = {"target": {"engine": "postgres"}, "volumes": {"a": {"path": "a"}}, "workload": workload}
    return make_plan(make_experiment({"layout.data_files": [1]}, base=base))


def said(timeout_s: float, warm_up: str | float, log_rate: float | None = None) -> list[str]:
    plan = plan_of(60.0, warm_up)
    cycle = CheckpointCycle(timeout_s, 540 * 2**20, "checkpoint_timeout", "max_wal_size")
    cell = plan.cells[0].cell_id
    return list(too_short(plan, {cell: cycle}, {cell: log_rate} if log_rate else {}))


def test_plan_says_when_a_run_may_hold_no_whole_cycle_and_how_long_a_warm_up_may_be_for_one():
    [text] = said(300, "auto")
    assert "checkpoints come up to 5 min apart (checkpoint_timeout), unless runs write 3 MiB of log" in text
    assert 'set workload.warm_up_at_most = "600s"' in text
    assert not said(60, "auto")
