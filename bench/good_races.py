"""Draws races for a good layout: how often their bound is wrong, how many runs they take, and how far from the fastest they
end. A part of `bench.races`.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from bench.drawn import NOISE
from bench.drawn_races import ARTICLES, KINDS, NOISY, Rules, Tables, Truth, apart, article, at_most, race
from bench.statistics import Share, markdown

WRONG_MOST = 5.0
_WITHIN = math.log1p(0.03)
_RULES = Rules(goal="good", within=0.03)


def one_faster(by: float, noise: float, layouts: int = 16) -> Truth:
    """One layout faster than all others, which are equal."""
    levels = np.full(layouts, math.log1p(by))
    levels[0] = 0.0
    return Truth(levels, np.full(layouts, noise))


WORLDS = {
    "16, each 1 % slower": apart(0.01), "16, one 3.1 % faster": one_faster(0.031, NOISE),
    "16, one 3.1 % faster, 1 % noise": one_faster(0.031, 0.01), "16, one 10 % faster": one_faster(0.10, NOISE),
    "5, each 3 % slower": apart(0.03, 5), "3, each 5 % slower": apart(0.05, 3),
}  # fmt: skip


class _Asked(NamedTuple):
    truth: Truth
    kind: str
    races: int


class _Row(NamedTuple):
    """Shares of races that named a layout which is slower than their bound, or than 3 % although their bound was below, or
    that ended with a bound within 3 %; runs and regret in percent.
    """

    wrong: Share
    broken: Share
    reached: Share
    runs: float
    regret: float


def drawn(races: int, pool: Executor) -> Tables:
    bounds = {(kind, name): _Asked(truth, kind, races) for kind in KINDS for name, truth in WORLDS.items()}
    cost = {
        (name, own): _Asked(article(name, own_noise=own), "normal", races // 2)
        for name in ARTICLES
        for own in (True, False)
    }
    asked = {**bounds, **cost}
    rows = dict(zip(asked, pool.map(_draw, asked.values()), strict=True))
    normal = {**{(name, ""): rows["normal", name] for name in WORLDS}, **{key: rows[key] for key in cost}}
    noises = {"": "", True: ", its own noise", False: ", 3 % noise"}
    return Tables(
        {
            "races-good": markdown(
                ["layouts", "runs", "slower than the fastest, on average", "bound within 3 % at the end",
                 "bound within 3 %, and more than 3 % slower"],
                [
                    [f"{name}{noises[own]}", f"{one.runs:.0f} %", f"{one.regret:.2f} %", str(one.reached), str(one.broken)]
                    for (name, own), one in normal.items()
                ],
            ),
            "races-bounds": markdown(
                ["noise", *WORLDS], [[kind, *(str(rows[kind, name].wrong) for name in WORLDS)] for kind in KINDS]
            ),
        },
        tuple(at_most(f"slower than its bound: {kind}, {name}", rows[kind, name].wrong, WRONG_MOST)
              for kind, name in bounds if kind != NOISY),
    )  # fmt: skip


def _draw(asked: _Asked) -> _Row:
    """Each race has its own random numbers, the same every time."""
    truth, number = asked.truth, asked.races
    wrong = broken = reached = runs = 0
    regret = 0.0
    for seed in range(number):
        made = race(truth, asked.kind, np.random.default_rng(seed), _RULES)
        short = float(truth.levels[made.standing.racing[0]] - truth.levels[truth.best])
        bound = math.log(made.standing.at_most_slower or math.inf)
        wrong += short > bound
        reached += bound <= _WITHIN
        broken += bound <= _WITHIN < short
        runs += made.runs
        regret += math.expm1(short)
    return _Row(
        Share(wrong, number, number), Share(broken, number, number), Share(reached, number, number),
        100 * runs / number / truth.full_runs, 100 * regret / number,
    )  # fmt: skip
