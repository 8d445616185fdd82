"""How one factor's best level and effect depend on another: found where it is, and not found where it is not."""

import math
import random
from collections.abc import Callable, Sequence

import pytest
from builders import make_planned, make_runs

from storagelab.findings.analysis import analyse
from storagelab.findings.model import Dependence, Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Plan
from storagelab.model.values import JsonValue

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
    findings = findings_of(
        factors, lambda at: 0.3 * (at[FILES] == 8 and at["drive"] == "basic"), blocks_by="drive"
    )  # fmt: skip
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
