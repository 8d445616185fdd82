"""Calculates the smallest difference that an experiment can find, and the number of repetitions that are needed to find
a given difference. The functions are pure. They calculate and do not simulate.

The power is that of the test by which the verdict compares a layout with the fastest (`contrast.compare_with_best`).
The test has two steps, and both must succeed. Both use the same difference of means. One estimates the scatter from all
layouts, the other from the two layouts. The two estimates are treated as independent. tests/test_power.py shows how
close the result is to simulated experiments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special

from storagelab.findings.kinds.scatter import Scatter, scatter_in
from storagelab.findings.statements import SHARES
from storagelab.findings.times import blocks_judged, compared_of, log_times, timed
from storagelab.findings.verdicts import loads_of
from storagelab.model.measurement import Run
from storagelab.model.plan import Factor, Plan
from storagelab.stats import stalls
from storagelab.stats.contrast import Family, cautious
from storagelab.stats.fit import Vector
from storagelab.stats.intervals import ALPHA, MANY, t_point

POWER = 0.8
MOST_REPETITIONS = 1000
LARGEST = math.log(100)
_STEPS = 32
ASSUMED = Scatter(sd=0.03, runs=0, alike=True)
"""The scatter that is assumed for a plan without runs."""


def scatter_of(plan: Plan, runs: Iterable[Run]) -> Scatter | None:
    """The scatter of an experiment's runs, without odd runs. None if no cell ran in two rounds together with other
    cells."""
    simulated = all(cell.config.simulated for cell in plan.cells)
    _, log_s = log_times(plan, [timed(run) for run in runs if not run.burn_in], compared_of(plan))
    return scatter_in(stalls.fit(log_s, blocks_judged(plan, in_stretches=False, simulated=simulated)))


def power(effect: float, scatter: Scatter, cells: int, repetitions: int, families: int = 1) -> float:
    """The probability that a layout is called slower if it takes the share `effect` more time than the fastest (0.03
    for 3 %)."""
    if cells < 2 or repetitions < 2:
        return 0.0
    family = Family("range", cells, families, cautious(repetitions, alike=scatter.alike))
    alpha = ALPHA * SHARES["verdict"]
    alone = _alone(cells, repetitions - 1.0, family.level(alpha))
    df = float((cells - 1) * (repetitions - 1))
    together = family.point(df, alpha) * np.sqrt(_variance_ratios(df))
    # If there are only two cells, both steps are the same test, because they estimate the same scatter.
    limits = alone if cells == 2 else np.maximum(together[:, None], alone[None, :])
    distance = math.log1p(effect) / max(scatter.sd * math.sqrt(2 / repetitions), 1e-12)
    return float(special.ndtr(distance - limits).mean())


def _alone(cells: int, df: float, alpha: float) -> Vector:
    """Limits of the second step, in standard errors. The limits are equally likely. The second step is Welch's test
    with the two cells' own variances."""
    own = _variance_ratios(df)
    one, other = (own, own) if cells == 2 else (part.ravel() for part in np.meshgrid(own, own))
    spread = one**2 + other**2 + 2 * one * other / (cells - 1) ** 2
    dfs = np.round((one + other) ** 2 * df / spread, 1)
    return np.array([t_point(float(at), alpha) for at in dfs]) * np.sqrt((one + other) / 2)


def _variance_ratios(df: float) -> Vector:
    """Values of an estimated variance divided by the true variance. The values are equally likely."""
    if df >= MANY:
        return np.ones(1)
    return np.asarray(special.chdtri(df, 1 - (np.arange(_STEPS) + 0.5) / _STEPS) / df)


def smallest_found(scatter: Scatter, cells: int, repetitions: int, families: int = 1) -> float | None:
    """The smallest effect that 80 % of experiments find. None if they don't even find that a layout takes 100 times as
    long."""
    low, high = 0.0, LARGEST
    if power(math.expm1(high), scatter, cells, repetitions, families) < POWER:
        return None
    for _ in range(40):
        middle = (low + high) / 2
        found = power(math.expm1(middle), scatter, cells, repetitions, families) >= POWER
        low, high = (low, middle) if found else (middle, high)
    return math.expm1(high)


@cache
def repetitions_for(effect: float, scatter: Scatter, cells: int, families: int = 1) -> int | None:
    """The smallest number of repetitions with which 80 % of experiments find `effect`. None if it is above 1000."""
    low, high = 1, MOST_REPETITIONS
    if power(effect, scatter, cells, high, families) < POWER:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(effect, scatter, cells, middle, families) >= POWER else (middle, high)
    return high


@dataclass(frozen=True)
class Tells:
    """The effects that a plan can show. `smallest` is the smallest effect that 80 % of experiments find with these
    `repetitions`; None if there is none. `takes` has smaller effects, each with the number of repetitions that it
    needs; None if this number is above 1000.
    """

    scatter: Scatter
    repetitions: int
    smallest: float | None
    takes: tuple[tuple[float, int | None], ...]


EFFECTS = (0.01, 0.03, 0.05, 0.1)


def tells(
    factors: Sequence[Factor], plan: Plan, repetitions: int, scatter: Scatter, *, in_pairs: bool = False
) -> Tells:
    """The effects that a plan with these repetitions can show. `in_pairs` says that each layout is compared with only
    one other, as in a gate."""
    loads = [len(cells) for _, cells in loads_of(factors, plan.cells) if len(cells) > 1]
    if in_pairs:
        loads = [2] * (len(plan.cells) // 2)
    cells, families = max(loads, default=1), max(1, len(loads))
    smallest = smallest_found(scatter, cells, repetitions, families)
    finer = [effect for effect in EFFECTS if smallest is None or effect < 0.9 * smallest][-2:] if cells > 1 else []
    takes = tuple((effect, repetitions_for(effect, scatter, cells, families)) for effect in reversed(finer))
    return Tells(scatter, repetitions, smallest, takes)
