"""The effects of levels: how one factor's best level and effect depend on another factor, and their charts."""

import math
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from builders import make_campaign, make_experiment, make_planned, make_runs

from storagelab.findings.analysis import analyse
from storagelab.findings.effects import main_effects
from storagelab.findings.model import Dependence, Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Plan
from storagelab.model.values import JsonValue
from storagelab.report.charts import effects
from storagelab.spec.matrix import expand
from storagelab.stats.fit import fit
from storagelab.stats.intervals import ALPHA

FILES, LOG, ROWS, COMPRESSION, CONNECTIONS = (
    "layout.data_files", "layout.log", "workload.rows_per_transaction", "target.settings.wal_compression",
    "workload.connections",
)  # fmt: skip
Slower = Callable[[dict[str, JsonValue]], float]


def findings_of(
    factors: dict[str, Sequence[JsonValue]], slower: Slower, repetitions: int = 5, *, seed: int = 1,
    spread: float = 0.01, keep: Callable[[Run], bool] = lambda run: True, blocks_by: str = "",
) -> Findings:  # fmt: skip
    """FABRICATED: times of 10 s, longer by the factor `1 + slower(levels)`, that scatter by `spread`."""
    experiment, plan = make_planned(factors, repetitions)
    if blocks_by:
        plan = in_blocks(plan, blocks_by)

    def elapsed(levels, repetition):
        chance = random.Random(f"{seed}{sorted(levels.items())}{repetition}").gauss(0, spread)
        return 10 * (1 + slower(levels)) * math.exp(chance)

    return analyse(experiment, plan, [run for run in make_runs(experiment, plan, elapsed=elapsed) if keep(run)])


def in_blocks(plan: Plan, factor: str) -> Plan:
    levels = list(dict.fromkeys(str(cell.levels[factor]) for cell in plan.cells))
    block = {cell.cell_id: levels.index(str(cell.levels[factor])) for cell in plan.cells}
    return plan.model_copy(
        update={"runs": tuple(run.model_copy(update={"block": block[run.cell_id]}) for run in plan.runs)}
    )


def only(findings: Findings, factor: str, within: str) -> Dependence:
    (found,) = [one for one in findings.dependences if (one.factor, one.within) == (factor, within)]
    return found


def away_from(best_of: Callable[[dict[str, JsonValue]], float]) -> Slower:
    return lambda levels: 0.2 * abs(math.log2(float(levels[FILES]) / best_of(levels)))  # type: ignore[arg-type]


def test_a_best_level_that_follows_another_factor_is_found_at_each_of_its_levels():
    factors = {FILES: [1, 2, 4, 8, 16], ROWS: [4, 8, 16]}
    found = only(findings_of(factors, away_from(lambda levels: float(levels[ROWS]))), FILES, ROWS)
    assert [(row.at, row.levels) for row in found.best] == [(4, (4,)), (8, (8,)), (16, (16,))]
    assert (found.differs, found.in_common) == (True, ())


def test_the_dearest_mistake_is_to_take_the_level_that_is_best_farthest_away():
    factors = {FILES: [1, 2, 4, 8, 16], ROWS: [4, 8, 16]}
    cost = only(findings_of(factors, away_from(lambda levels: float(levels[ROWS]))), FILES, ROWS).cost
    assert {cost.at, cost.taken_from} == {4, 16}
    assert 1 < cost.ratio.low < 1.4 < cost.ratio.high


def test_a_best_level_that_is_the_same_everywhere_is_held_in_common():
    factors = {FILES: [1, 4, 16], LOG: ["a", "b"]}
    found = only(findings_of(factors, away_from(lambda levels: 4)), FILES, LOG)
    assert (found.differs, found.in_common, found.cost, found.change) == (False, (4,), None, None)


def test_the_ratio_of_two_layouts_has_the_interval_of_the_verdict_wherever_it_is_told():
    findings = findings_of({FILES: [8, 128], LOG: ["a", "b"]}, lambda at: 0.2 * (at[FILES] == 128 and at[LOG] == "b"))
    change, best = only(findings, FILES, LOG).change, findings.cell(findings.best[0]).levels
    at = {one.at[LOG]: one.ratio for one in findings.effects if one.at and one.factor == FILES}
    assert (change.low, change.high) == (at["a"], at["b"])
    ratios = {str(findings.cell(one.cell_id).levels): one.ratio for one in findings.comparisons}
    assert at[best[LOG]] in (ratio := ratios[str(best | {FILES: 136 - best[FILES]})], ratio.inverse)


@pytest.mark.slow
def test_an_effect_that_holds_at_one_level_only_is_found_and_its_intervals_cover_the_truth():
    experiments = 40
    missed = 0
    for seed in range(experiments):
        findings = findings_of(
            {FILES: [8, 128], LOG: ["a", "b"]}, lambda at: 0.2 * (at[FILES] == 128 and at[LOG] == "b"), seed=seed
        )
        change = only(findings, FILES, LOG).change
        assert (change.baseline, change.level, change.low_at, change.high_at) == (8, 128, "a", "b")
        for ratio, truth in ((change.low, 1.0), (change.high, 1.2), (change.difference, 1.2)):
            missed += not ratio.low < truth < ratio.high
    assert missed <= 0.08 * 3 * experiments


def test_all_other_factors_are_averaged_and_named():
    def slower(at):
        return (1.3 if at[FILES] == 8 and at[LOG] == "b" else 1.0) * (1.5 if at[COMPRESSION] == "on" else 1.0) - 1

    findings = findings_of({FILES: [1, 8], LOG: ["a", "b"], COMPRESSION: ["off", "on"]}, slower)
    assert only(findings, FILES, LOG).averaged == (COMPRESSION,)
    assert only(findings, FILES, LOG).change is not None
    assert only(findings, FILES, COMPRESSION).change is None


def test_what_was_not_run_everywhere_is_left_out_of_the_comparison():
    def without_16_on_b(run: Run) -> bool:
        return run.levels != {FILES: 16, LOG: "b"}

    found = only(
        findings_of({FILES: [1, 4, 16], LOG: ["a", "b"]}, away_from(lambda at: 16), keep=without_16_on_b), FILES, LOG
    )
    assert [row.levels for row in found.best] == [(4,), (4,)]


def test_an_effect_may_be_compared_between_blocks_as_each_is_measured_within_one():
    factors = {FILES: [1, 8], "drive": ["basic", "improved"]}
    findings = findings_of(factors, lambda at: 0.3 * (at[FILES] == 8 and at["drive"] == "basic"), blocks_by="drive")
    assert only(findings, FILES, "drive").change is not None


def test_levels_in_different_blocks_have_no_best_and_their_speed_ups_are_untested():
    factors = {FILES: [1, 8], LOG: ["a", "b"]}
    assert findings_of(factors, lambda at: 0.5 * (at[FILES] == 8), blocks_by=FILES).dependences == ()
    speed_ups = findings_of(factors, lambda at: 0.5 * (at[LOG] == "b"), blocks_by=LOG).speed_ups
    assert [one.across_blocks for one in speed_ups] == [True, True]
    assert [(one.ratio.low, one.distinguishable) for one in speed_ups] == [(None, False)] * 2


def test_speed_ups_stand_at_each_level_of_the_axis_with_all_else_averaged():
    factors = {LOG: ["a", "b"], FILES: [1, 8], COMPRESSION: ["off", "on"]}
    findings = findings_of(factors, lambda at: (1.0 if at[FILES] == 1 else 0.25) * (at[LOG] == "b"))
    of_log = {one.at[FILES]: one.ratio for one in findings.speed_ups if one.factor == LOG}
    assert {at: ratio.value for at, ratio in of_log.items()} == pytest.approx({1: 2.0, 8: 1.25}, rel=0.02)
    assert all(ratio.low is not None and ratio.low > 1 for ratio in of_log.values())
    assert {one.factor for one in findings.speed_ups} == {LOG, COMPRESSION}


def test_of_a_load_no_level_is_best_and_layouts_are_what_depends_on_it():
    factors = {ROWS: [4, 8, 16, 32, 64], LOG: ["a", "b"]}
    findings = findings_of(factors, lambda levels: 1.0 if levels[LOG] == "b" and levels[ROWS] == 4 else 0.0)
    (found,) = findings.dependences
    assert (found.factor, found.within) == (LOG, ROWS)
    assert found.best[0].levels == ("a",)


def test_of_two_loads_it_is_told_how_the_cost_of_one_depends_on_the_other():
    factors = {ROWS: [4, 8, 16], CONNECTIONS: [1, 2]}
    findings = findings_of(factors, lambda levels: 1.0 if levels == {ROWS: 16, CONNECTIONS: 2} else 0.0)
    (found,) = findings.dependences
    assert (found.best, found.cost, found.in_common, found.differs) == ((), None, (), False)
    assert found.change.high.value == pytest.approx(2, rel=0.05)
    assert findings_of(factors, lambda _: 0.0).dependences == ()


# --- what levels of a factor do, over all cells that match ------------------------------------------------------------


def effects_of(log_s):
    experiment, plan = make_planned({FILES: [1, 4], LOG: ["a", "b", "c"]}, repetitions=5)
    found = main_effects(experiment.factors, plan.cells, fit(log_s), [0] * len(plan.cells), ALPHA)
    return {(one.factor, one.level): one for one in found}


def test_a_level_that_takes_a_tenth_more_time_everywhere_is_found_and_no_other():
    log_s = np.random.default_rng(1).normal(0, 0.01, (6, 5))
    log_s[3:] += math.log(1.1)
    found = effects_of(log_s)
    assert [key for key, one in found.items() if one.distinguishable] == [(FILES, 4)]
    assert found[FILES, 4].ratio.value == pytest.approx(1.1, abs=0.02)
    assert (found[FILES, 4].pairs, found[LOG, "b"].pairs) == (15, 10)


def test_what_disturbs_all_cells_of_a_level_in_one_round_is_noise():
    log_s = np.random.default_rng(2).normal(0, 0.003, (6, 5))
    log_s[3:, 2] += math.log(1.5)
    assert not effects_of(log_s)[FILES, 4].distinguishable


# --- charts of speed-ups ----------------------------------------------------------------------------------------------


SPEED_UPS = effects.CHARTS[1]


def twice_as_fast_on_b(levels, repetition):
    return (20.0 if levels[LOG] == "a" else 10.0) * (1 + 0.005 * ((repetition * 7 + int(levels[FILES])) % 5))


def story(**fields) -> Findings:
    """FABRICATED: volume b is twice as fast as a."""
    experiment = make_experiment({FILES: [1, 2, 4], LOG: ["a", "b"]}, 4, **fields)
    plan = expand(experiment)
    return analyse(experiment, plan, make_runs(experiment, plan, elapsed=twice_as_fast_on_b))


def test_a_level_twice_as_fast_has_a_speed_up_of_two_with_its_interval_at_each_level_of_the_axis():
    data = SPEED_UPS.rows(story(), ())
    assert [row["x"] for row in data.rows] == ["1", "2", "4"]
    for row in data.rows:
        assert float(row["low"] or 0) < 2.0 < float(row["high"] or 0)
        assert row["judged"] == "faster"
        assert "b against a with" in str(row["tip"])
        assert "times as fast (joint 95 % CI" in str(row["tip"])


def test_speed_ups_between_blocks_have_no_interval_and_say_that_they_are_not_tested():
    data = SPEED_UPS.rows(story(costly=(LOG,)), ())
    assert {row["low"] for row in data.rows} == {None}
    assert {row["judged"] for row in data.rows} == {"not tested"}
    assert [row["mean"] for row in data.rows] == pytest.approx([2.0] * 3, rel=0.02)


def test_the_level_that_differs_most_comes_first_and_those_without_a_panel_are_counted(monkeypatch):
    levels = [f"configuration {number}" for number in range(19)]
    slow = {"configuration 7": 30.0, "configuration 12": 20.0}
    experiment, plan, runs = make_campaign(
        {"storage": levels, FILES: [1, 2]}, 3, elapsed=lambda levels, _: slow.get(str(levels["storage"]), 10.0)
    )
    monkeypatch.setattr(effects, "MAX_PANELS", 8)
    drawn = SPEED_UPS.of(analyse(experiment, plan, runs), runs)
    assert drawn.data.panels[:2] == [f"{level} against configuration 0" for level in slow]
    assert (len(drawn.data.panels), drawn.data.hidden) == (8, "10 levels differ less and have no panel.")
    assert drawn.finding.startswith("The largest effect: configuration 7 took 3.0 times as long")
