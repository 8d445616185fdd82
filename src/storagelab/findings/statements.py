"""Everything that a report states about layouts, and one promise for all of it. Pure.

Of 20 experiments in which nothing differs, at most about one report states any difference. The promise covers the whole
report, not each sentence. It is kept in two steps:

1. All statements are tested at levels that add up to 5 %. Most of that goes to the verdict, which needs it most.
2. If any holds, something does differ. Then each kind of statement is made at 5 %.

So if something differs, each kind of statement by itself errs in at most 5 % of experiments: the verdicts, the main
effects, the effects at each combination, the speed-ups, the dependences. Intervals are those of the second step; if
nothing held in the first, they extend to no difference. docs/records/monte-carlo.md has the results of both steps in
simulated experiments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from storagelab.findings import interactions, stats, verdicts
from storagelab.findings.effects import effects_at, main_effects
from storagelab.findings.model import Dependence, Effect, Estimate, JudgedByLoad
from storagelab.findings.raced import Raced
from storagelab.findings.samples import ALPHA
from storagelab.model.plan import Factor, Plan

SHARES = {"verdict": 0.8, "effects": 0.12, "effects-at": 0.02, "speed-ups": 0.03, "dependences": 0.03}
"""Shares of the error in the first step."""


@dataclass(frozen=True)
class Statements:
    """The fields of `Findings` with these names, the verdict's in `judged`."""

    judged: JudgedByLoad
    effects: tuple[Effect, ...]
    dependences: tuple[Dependence, ...]
    speed_ups: tuple[Effect, ...]

    @property
    def name_a_difference(self) -> bool:
        return any(self.differences())

    def differences(self) -> Iterator[bool]:
        """For each statement, whether it says that something differs."""
        yield from (row.distinguishable for row in self.judged.comparisons)
        yield from (row.distinguishable for row in (*self.effects, *self.speed_ups))
        for dependence in self.dependences:
            yield dependence.differs or dependence.cost is not None or dependence.change is not None


def state(
    factors: Sequence[Factor], plan: Plan, fitted: stats.Fit, blocks: Sequence[int], raced: Raced | None = None
) -> Statements:
    """All statements of an experiment; `blocks` = the block of each cell. For a race, the verdict is the race's own,
    whose error is SHARES["verdict"] in either step.
    """
    of_all = ALPHA if raced is None else ALPHA * raced.share
    strict = first_step(factors, plan, fitted, blocks, raced)
    full = _at(factors, plan, fitted, blocks, dict.fromkeys(SHARES, of_all), raced)
    return full if strict.name_a_difference else _without_a_difference(strict, full)


def first_step(
    factors: Sequence[Factor], plan: Plan, fitted: stats.Fit, blocks: Sequence[int], raced: Raced | None = None
) -> Statements:
    """The statements at levels that add up to 5 %."""
    of_all = ALPHA if raced is None else ALPHA * raced.share
    return _at(factors, plan, fitted, blocks, {kind: of_all * share for kind, share in SHARES.items()}, raced)


def _without_a_difference(strict: Statements, full: Statements) -> Statements:
    """The statements of the first step, with the intervals of the second."""
    comparisons = tuple(
        one.model_copy(update={"ratio": _reaching_one(other.ratio)})
        for one, other in zip(strict.judged.comparisons, full.judged.comparisons, strict=True)
    )
    return Statements(
        judged=strict.judged.model_copy(update={"comparisons": comparisons}),
        effects=_reaching_none(strict.effects, full.effects),
        dependences=strict.dependences,
        speed_ups=_reaching_none(strict.speed_ups, full.speed_ups),
    )


def _reaching_none(strict: Sequence[Effect], full: Sequence[Effect]) -> tuple[Effect, ...]:
    return tuple(
        one.model_copy(update={"ratio": _reaching_one(other.ratio)}) for one, other in zip(strict, full, strict=True)
    )


def _reaching_one(ratio: Estimate) -> Estimate:
    if ratio.low is None or ratio.high is None:
        return ratio
    return ratio.model_copy(update={"low": min(ratio.low, 1.0), "high": max(ratio.high, 1.0)})


def _at(
    factors: Sequence[Factor],
    plan: Plan,
    fitted: stats.Fit,
    blocks: Sequence[int],
    alpha: Mapping[str, float],
    raced: Raced | None,
) -> Statements:
    given = (factors, plan.cells, fitted if raced is None else raced.complete)
    # Dependences are differences of what is seen within blocks.
    compared = blocks if fitted.between is None else fitted.between.compared(blocks)
    judging = None if raced is None else raced.judging
    return Statements(
        judged=verdicts.judge(factors, plan, fitted, compared, alpha["verdict"], judging),
        effects=(*main_effects(*given, compared, alpha["effects"]), *effects_at(*given, compared, alpha["effects-at"])),
        dependences=tuple(interactions.dependences(*given, blocks, alpha["dependences"])),
        speed_ups=tuple(interactions.speed_ups(*given, blocks, alpha["speed-ups"])),
    )
