"""Draws races with a known truth, to check which layouts are lost, how many runs they take, and who wins.

A race is made as `run --find-best` makes it, in rounds of a random order, and evaluated by the same
code. Noise applies to the log time: 3 % from run to run, or as much for each layout as the simulated articles had.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.drawn import NOISE, Matrix, Rng
from bench.figures import Figure
from bench.statistics import Share
from storagelab.findings import irregular, raced
from storagelab.findings.raced import Standing
from storagelab.model.plan import RACES_LOOK_FROM

ARTICLES = ("multiple-data-files", "random-inserts", "sequential-inserts")
CLIFF, DRIFT = math.log(1.20), math.log(1.10)
_TIMES_NOISIER = 5.0
_MOST_ROUNDS = 200
_SKEWED_SD = 0.0815
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """The true log times of layouts, the sd of each one's runs, and the repetitions of the full design."""

    levels: Vector
    sds: Vector
    repetitions: int = 5

    @property
    def best(self) -> int:
        return int(np.argmin(self.levels))

    @property
    def full_runs(self) -> int:
        return len(self.levels) * self.repetitions


def equal(layouts: int, repetitions: int = 5) -> Truth:
    return Truth(np.zeros(layouts), np.full(layouts, NOISE), repetitions)


def apart(step: float, layouts: int = 16) -> Truth:
    """Layouts that each take longer than the one before, by `step` of the fastest's time."""
    return Truth(np.log1p(np.arange(layouts) * step), np.full(layouts, NOISE))


def article(name: str, *, own_noise: bool) -> Truth:
    """The layouts of a simulated article, with the same distances between them."""
    with (Path(__file__).parent / "articles.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["experiment"] == name]
    sds = np.array([float(row["sd"]) for row in rows])
    return Truth(np.log([float(row["ratio"]) for row in rows]), sds if own_noise else np.full(len(rows), NOISE))


Noise = Callable[[Rng, Vector, Vector], Vector]
"""The noise of runs, from the sd of each and its place in the full design's order (0 to 1 or beyond)."""


def _normal(rng: Rng, sds: Vector, at: Vector) -> Vector:  # noqa: ARG001
    return rng.normal(0, 1, len(sds)) * sds


def _skewed(rng: Rng, sds: Vector, at: Vector) -> Vector:  # noqa: ARG001
    return (np.log(10 + rng.lognormal(0, 1, len(sds))) - 2.443287) * sds / NOISE


def _heavy(rng: Rng, sds: Vector, at: Vector) -> Vector:  # noqa: ARG001
    return np.asarray(rng.standard_t(3, len(sds)) * sds)


def _odd(rng: Rng, sds: Vector, at: Vector) -> Vector:
    return _normal(rng, sds, at) + math.log(1.3) * (rng.random(len(sds)) < 0.05)


def _drift(rng: Rng, sds: Vector, at: Vector) -> Vector:
    return _normal(rng, sds, at) + DRIFT * at


def _cliff(rng: Rng, sds: Vector, at: Vector) -> Vector:
    return _normal(rng, sds, at) + CLIFF * (at > 0.5)


NOISY = "the fastest 5 times as noisy"
KINDS: Mapping[str, Noise] = {
    "normal": _normal, "skewed (lognormal)": _skewed, "heavy tails (t of 3 df)": _heavy, NOISY: _normal,
    "another 5 times as noisy": _normal, "5 % of runs 30 % too long": _odd, "drift of 10 %": _drift,
    "a step of 20 % midway": _cliff,
}  # fmt: skip


@dataclass(frozen=True)
class Race:
    """How a drawn race ended."""

    standing: Standing
    runs: int


@dataclass(frozen=True)
class Rules:
    """How races are made: from which look on, and with which margin. The best layout takes longer in its
    first two rounds by `slow_at_first`, on the log scale.
    """

    first_look: int = RACES_LOOK_FROM
    within: float = 0.0
    slow_at_first: float = 0.0


def race(truth: Truth, kind: str, rng: Rng, rules: Rules = Rules(), runs: int | None = None) -> Race:
    """A race over the full design's rounds or, given a number of runs, until these are made."""
    sds = truth.sds.copy()
    if kind == NOISY:
        sds[truth.best] *= _TIMES_NOISIER
    elif kind.startswith("another"):
        sds[(truth.best + 1) % len(sds)] *= _TIMES_NOISIER
    rounds = truth.repetitions if runs is None else _MOST_ROUNDS
    log_s: Matrix = np.full((len(sds), rounds), np.nan)
    every = tuple(range(len(sds)))
    standing, made = Standing(every), 0
    while standing.running and standing.rounds < rounds:
        if runs is not None and made + len(standing.running) > runs:
            break
        cells = rng.permutation(standing.running)
        at = (made + np.arange(len(cells))) / truth.full_runs
        log_s[cells, standing.rounds] = truth.levels[cells] + KINDS[kind](rng, sds[cells], at)
        if standing.rounds < 2:
            log_s[truth.best, standing.rounds] += rules.slow_at_first
        made += len(cells)
        fit = irregular.fit(log_s[:, : standing.rounds + 1], [0] * len(sds))
        standing = raced.look(standing, fit, 1, rules.within, rules.first_look)
    return Race(standing, made)


# ---------------------------------------------------------------------------------------------------------------------
# Figures of drawn races
# ---------------------------------------------------------------------------------------------------------------------

_LIMIT_SE = 2.0


class Tables(NamedTuple):
    """Tables for the records' page by name, and the figures with a goal."""

    tables: dict[str, str]
    figures: tuple[Figure, ...]


def at_most(name: str, share: Share, most: float) -> Figure:
    met = share.percent <= most + _LIMIT_SE * share.error
    return Figure(
        name, share.percent, "%", f"at most {most:g} %", met, share.percent - share.error,
        share.percent + share.error, "± one SE",
    )  # fmt: skip
