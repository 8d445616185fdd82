"""Draws races that something disturbs: the best layout is slow in its first two rounds only, or runs leave something
behind. A part of `bench.races`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from bench.drawn import NOISE, Matrix, design
from bench.drawn_races import Race, Rules, Tables, Truth, apart, at_most, race
from bench.statistics import Share, markdown
from storagelab.findings import basis, irregular, raced
from storagelab.findings.raced import Standing

LOST_MOST = 5.0
SLOW_BY = (0.1, 0.3, 0.7)
WORLDS = {
    "16, each 1 % slower": apart(0.01), "16, each 3 % slower, 1 % noise": Truth(apart(0.03).levels, np.full(16, 0.01)),
    "8, each 5 % slower, 2 % noise": Truth(apart(0.05, 8).levels, np.full(8, 0.02)),
    "5, each 3 % slower": apart(0.03, 5),
}  # fmt: skip
LEFT_BEHIND: Mapping[str, tuple[float, ...]] = {
    "nothing": (), "next run 20 % longer": (0.2,), "next three runs 25, 12, 6 % longer": (0.25, 0.12, 0.06),
}  # fmt: skip
"""The shares by which the first layout makes the next runs longer."""
SIZES = ((8, 0), (8, 4), (16, 0), (16, 8))
_ORDERS = 40


class _Slow(NamedTuple):
    truth: Truth
    rules: Rules
    races: int


class _Carried(NamedTuple):
    layouts: int
    slow: int
    what: str
    races: int


def drawn(races: int, pool: Executor) -> Tables:
    rules: dict[str, Callable[[float], Rules]] = {
        "before": lambda slow: Rules(first_look=raced.EARLIER_FIRST_LOOK, slow_at_first=slow),
        "now": lambda slow: Rules(slow_at_first=slow),
    }
    slow = {
        (by, name, which): _Slow(truth, of(math.log1p(by)), races)
        for by in SLOW_BY
        for name, truth in WORLDS.items()
        for which, of in rules.items()
    }
    carried = {(*size, what): _Carried(*size, what, races) for size in SIZES for what in LEFT_BEHIND}
    lost = dict(zip(slow, pool.map(_lost, slow.values()), strict=True))
    left = dict(zip(carried, pool.map(_told, carried.values()), strict=True))
    return Tables(
        {
            "races-slow-at-first": markdown(
                ["the best is slower in rounds 1 and 2 by", "layouts", "lost, looking from round 2 (before)",
                 "lost, looking from round 3"],
                [[f"{100 * by:.0f} %", name, *(str(lost[by, name, which]) for which in rules)]
                 for by in SLOW_BY for name in WORLDS],
            ),
            "races-carry-over": markdown(
                ["what happens", "layouts", "a fastest one is lost", "carry-over is told"],
                [[what, f"{layouts}, {slow} of them twice as slow", *map(str, left[layouts, slow, what])]
                 for what in LEFT_BEHIND for layouts, slow in SIZES],
            ),
        },
        (
            *(at_most(f"the best is lost: {100 * by:.0f} % slower at first, {name}", lost[by, name, "now"], LOST_MOST)
              for by in SLOW_BY for name in WORLDS),
            *(at_most(f"a fastest is lost: {what}, {slow} of {layouts} slow", left[layouts, slow, what][0], LOST_MOST)
              for layouts, slow, what in left),
        ),
    )  # fmt: skip


def _lost(asked: _Slow) -> Share:
    made = [race(asked.truth, "normal", np.random.default_rng(number), asked.rules) for number in range(asked.races)]
    return Share(sum(_loses(asked.truth, one) for one in made), len(made), len(made))


def _loses(truth: Truth, one: Race) -> bool:
    """Whether the best left, or the layout named is slower than its bound."""
    standing = one.standing
    if any(left.cell == truth.best for left in standing.left):
        return True
    most = standing.at_most_slower
    return most is not None and float(truth.levels[standing.racing[0]] - truth.levels[truth.best]) > math.log(most)


def _told(asked: _Carried) -> tuple[Share, Share]:
    """Races that lose one of the fastest, and races of which carry-over is told; the first layout is the guilty one."""
    lost = told = 0
    for number in range(asked.races):
        standing, left = _carried_race(asked, number)
        lost += any(one.cell < asked.layouts - asked.slow for one in standing.left)
        told += left
    return Share(lost, asked.races, asked.races), Share(told, asked.races, asked.races)


def _carried_race(asked: _Carried, number: int, repetitions: int = 5) -> tuple[Standing, bool]:
    rng = np.random.default_rng([asked.layouts, asked.slow, number])
    plan = design(asked.layouts, repetitions, seed=number % _ORDERS).plan
    row = {cell.cell_id: place for place, cell in enumerate(plan.cells)}
    log_s: Matrix = np.full((len(row), repetitions), np.nan)
    before = np.full(log_s.shape, -1)
    made: list[int] = []
    standing = Standing(tuple(range(len(row))))
    while standing.running and standing.rounds < repetitions:
        column = standing.rounds
        for cell in (row[run.cell_id] for run in plan.runs if run.repetition == column + 1):
            if cell in standing.running:
                before[cell, column] = made[-1] if made else -1
                latest = reversed(made[-len(LEFT_BEHIND[asked.what]) :]) if LEFT_BEHIND[asked.what] else ()
                longer = sum(share for share, one in zip(LEFT_BEHIND[asked.what], latest, strict=False) if one == 0)
                level = math.log(2) if cell >= asked.layouts - asked.slow else 0.0
                log_s[cell, column] = level + rng.normal(0, NOISE) + math.log1p(longer)
                made.append(cell)
        standing = raced.look(standing, irregular.fit(log_s[:, : column + 1], [0] * len(row)))
    there = standing.rounds
    found = basis.carried_over(plan.cells, log_s[:, :there], before[:, :there], [0] * len(row))
    return standing, found is not None
