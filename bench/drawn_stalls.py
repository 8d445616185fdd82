"""Draws experiments with a layout that stalls, and with times that a clock's ticks or a lack of noise leave equal.

A run that stalls takes half as long again, in a fifth of the runs of the first layout: its mean run takes 8.4 % more
time than its typical one. Nothing outside the layout shows a cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from bench import drawn
from bench.drawn import NOISE, Design, Matrix, Rng, design
from storagelab.findings.model import JudgedByLoad

SHARE, RATIO = 0.2, 1.5
QUIET = 0.01
"""Noise at which layouts can be called the same within 3 %."""
FASTER = 0.05
"""By how much the typical run of the layout that stalls may be faster: on average it still takes 3 % longer."""
TICK = 0.01
SIZES = ((3, 5), (8, 5), (3, 10))
Case = Callable[[Rng, int], bool]


def _judged(of: Design, log_s: Matrix, *, measured: bool = True) -> JudgedByLoad:
    return drawn.judged(of, drawn.fit(of, log_s, measured=measured))


def _stalling(
    cells: int, repetitions: int, noise: float, faster: float, rng: Rng, number: int
) -> tuple[Design, Matrix]:
    """The first layout stalls; its typical run takes `faster` less time."""
    of = design(cells, repetitions, seed=number % 20)
    log_s = rng.normal(0, noise, of.shape)
    log_s[0] += math.log(RATIO) * (rng.random(repetitions) < SHARE) - math.log1p(faster)
    return of, log_s


def _bound(of: Design, judged: JudgedByLoad, cell: int) -> float | None:
    """The most that the cell is slower than the fastest, as the report says it of a cell in the best set."""
    name = of.plan.cells[cell].cell_id
    if name == judged.fastest:
        return judged.at_most_slower
    return next((row.at_most_slower for row in judged.comparisons if row.cell_id == name), None)


def called_the_winner(cells: int, repetitions: int, noise: float) -> Case:
    def hit(rng: Rng, number: int) -> bool:
        of, log_s = _stalling(cells, repetitions, noise, FASTER, rng, number)
        judged = _judged(of, log_s)
        return judged.verdict == "winner" and judged.fastest == of.plan.cells[0].cell_id

    return hit


def called_the_same(cells: int, repetitions: int) -> Case:
    def hit(rng: Rng, number: int) -> bool:
        of, log_s = _stalling(cells, repetitions, QUIET, 0.0, rng, number)
        bound = _bound(of, _judged(of, log_s), 0)
        return bound is not None and bound <= 1.03

    return hit


def no_run_stalls(repetitions: int) -> Case:
    return lambda rng, _: not (rng.random(repetitions) < SHARE).any()


def nothing_differs(kind: str, cells: int, repetitions: int) -> Case:
    def hit(rng: Rng, number: int) -> bool:
        of = design(cells, repetitions, seed=number % 20)
        return drawn.states_a_difference(of, drawn.fit(of, _NOISE[kind](of, rng)))

    return hit


def _all_stall(of: Design, rng: Rng) -> Matrix:
    """Runs of all layouts stall alike."""
    return drawn.normal(of, rng) + math.log(RATIO) * (rng.random(of.shape) < SHARE)


def _missing(of: Design, rng: Rng) -> Matrix:
    """A tenth of the runs is missing, at random."""
    log_s = drawn.normal(of, rng)
    log_s[rng.random(of.shape) < 0.1] = np.nan
    return log_s


_NOISE = {
    "independent noise": drawn.normal, "drift of 10 %": drawn.drift, "10 % of runs missing": _missing,
    "heavy tails (t of 3 df)": drawn.heavy_tails, "5 % of runs 30 % too long": drawn.odd_runs,
    "a fifth of all runs 50 % too long": _all_stall,
}  # fmt: skip


def found(kind: str, slower: float) -> Case:
    """Of eight layouts, one takes `slower` more time than the others: it is called slower."""

    def hit(rng: Rng, number: int) -> bool:
        of = design(8, 5, seed=number % 20)
        log_s = _NOISE[kind](of, rng)
        log_s[5] += math.log1p(slower)
        slow = of.plan.cells[5].cell_id
        return any(row.cell_id == slow and row.distinguishable for row in _judged(of, log_s).comparisons)

    return hit


def wins(kind: str, faster: float) -> Case:
    """Of eight layouts, one takes less time than the others: it is the winner."""

    def hit(rng: Rng, number: int) -> bool:
        of = design(8, 5, seed=number % 20)
        log_s = _NOISE[kind](of, rng)
        log_s[5] -= math.log1p(faster)
        judged = _judged(of, log_s)
        return judged.verdict == "winner" and judged.fastest == of.plan.cells[5].cell_id

    return hit


def ticks(cells: int, repetitions: int, slower: float) -> Case:
    """Times without noise, by a clock of coarse ticks: is there a winner?"""

    def hit(rng: Rng, number: int) -> bool:
        of = design(cells, repetitions, seed=number % 20)
        true = np.full(of.shape, 1 + TICK / 2 - 1e-6)  # just before the next tick
        true[1:] *= 1 + slower
        shift = TICK * rng.integers(0, 30)
        return _judged(of, np.log(TICK * np.floor((true + shift) / TICK + 0.5))).verdict == "winner"

    return hit


def without_noise(cells: int, repetitions: int, slower: float) -> Case:
    """Simulated times that agree but for a difference between layouts: is there a winner?"""

    def hit(rng: Rng, number: int) -> bool:
        of = design(cells, repetitions, seed=number % 20)
        log_s = np.full(of.shape, float(rng.normal()))
        log_s[1:] += math.log1p(slower)
        return _judged(of, log_s, measured=False).verdict == "winner"

    return hit


CASES: Mapping[str, Case] = {
    **{f"{c} x {r}: the layout that stalls is 5 % faster if it does not, 3 % slower on average, noise "
    f"{100 * n:g} %: it is the winner": called_the_winner(c, r, n) for c, r in SIZES for n in (QUIET, NOISE)},
    **{f"{c} x {r}: it is as fast if it does not stall, noise 1 %: called the same within 3 %": called_the_same(c, r)
       for c, r in SIZES},
    **{f"none of {r} runs of the layout stalls: no rule can see it": no_run_stalls(r) for r in (5, 10)},
    **{f"{c} x {r}, nothing differs, {kind}: any difference is stated": nothing_differs(kind, c, r)
       for kind in _NOISE for c, r in ((3, 5), (8, 5))},
    **{f"8 x 5, one {100 * by:g} % slower, {kind}: found": found(kind, by)
       for kind in ("independent noise", "heavy tails (t of 3 df)", "5 % of runs 30 % too long") for by in (0.05,
       0.10)},
    **{f"{c} x 5, no noise, a clock that ticks every 1 % of a run, 0.05 % apart: a winner": ticks(c, 5, 0.0005)
       for c in (2, 8)},
    **{f"8 x 5, one {100 * by:g} % faster, {kind}: the winner": wins(kind, by)
       for kind in ("independent noise", "5 % of runs 30 % too long") for by in (0.05, 0.10)},
    **{f"{c} x 5, no noise, 0.0001 % apart: a winner": without_noise(c, 5, 1e-6) for c in (2, 8)},
    **{f"{c} x 5, no noise, 5 % apart: a winner (as it should be)": without_noise(c, 5, 0.05) for c in (2, 8)},
}  # fmt: skip
