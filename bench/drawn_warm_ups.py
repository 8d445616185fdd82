"""Draws series of throughput with known settling times. They check when the rule for `warm_up = "auto"` begins to
count.

Each series has a true level, which climbs to 1, falls to 1 or is 1. In one kind it also has a saw-tooth, as checkpoints
cause it. Noise is 1 to 15 % of a second's throughput, with an autocorrelation of 0, 0.3 or 0.7. The settling time is
drawn in proportion to the length of the counted part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench import drawn_rows
from storagelab.loads import settling
from storagelab.model.loads.pgbench import Pgbench

Numbers = NDArray[np.float64]
Rng = np.random.Generator
ALIKE = (0.0, 0.3, 0.7)
LEAST_NOISE, MOST_NOISE = 0.01, 0.15


def _times(rng: Rng, number: int, least: float, most: float) -> Numbers:
    """Returns times whose logarithms are uniform, as a column."""
    return np.exp(rng.uniform(math.log(least), math.log(most), (number, 1)))


def _climbs(rng: Rng, at: Numbers, height: Numbers, counted_s: float) -> Numbers:
    return 1 - height * np.exp(-at / _times(rng, len(height), 2, 2 * counted_s))


def _ramps(rng: Rng, at: Numbers, height: Numbers, counted_s: float) -> Numbers:
    return 1 - height * np.maximum(0, 1 - at / _times(rng, len(height), 5, 3 * counted_s))


def _saw(rng: Rng, at: Numbers, height: Numbers, counted_s: float) -> Numbers:
    number = len(height)
    phase = at / _times(rng, number, 5, counted_s) + rng.uniform(0, 1, (number, 1))
    return 1 + rng.uniform(0.05, 0.4, (number, 1)) * (phase % 1 - 0.5)


LEVELS: Mapping[str, Callable[[Rng, Numbers, Numbers, float], Numbers]] = {
    "settled from the start": lambda _rng, at, height, _s: np.ones((len(height), len(at))),
    "climbs, ever slower": _climbs,
    "climbs along a line": _ramps,
    "steps up within 15 s": lambda rng, at, height, _s: 1 - height * (at < rng.uniform(1, 15, (len(height), 1))),
    "falls, ever slower": lambda rng, at, height, s: 2 - _climbs(rng, at, height, s),
    "climbs below a saw-tooth": _climbs,
    "steps up after 15 to 60 s": lambda rng, at, height, _s: 1 - height * (at < rng.uniform(15, 60, (len(height), 1))),
}
"""How true levels change. The last kind of change can't be foreseen."""
SAW_TOOTH = "climbs below a saw-tooth"
UNSEEN = "steps up after 15 to 60 s"


class Judged(NamedTuple):
    """The results of simulated runs: which runs counted as stable, after how many seconds, and after how many seconds
    the level really was stable. `moved` is the change of the level over the measured part. `away` is the level's
    distance from its end when that part began. Both are shares.
    """

    settled: NDArray[np.bool_]
    began_s: NDArray[np.int_]
    truly_s: NDArray[np.int_]
    moved: Numbers
    away: Numbers

    @property
    def too_early(self) -> float:
        """The share of runs that count as settled while their level still changes by 2 % or more."""
        return float((self.settled & (self.moved >= settling.BAND)).mean())

    @property
    def away_from_end(self) -> float:
        """The share of runs that count as settled while their level is still 2 % or more away from its end."""
        return float((self.settled & (self.away >= settling.BAND)).mean())

    @property
    def never(self) -> float:
        return float((~self.settled).mean())

    @property
    def waited_s(self) -> float:
        """The median time in seconds from true settling until the run counts as settled."""
        return float(np.median((self.began_s - self.truly_s)[self.settled])) if self.settled.any() else math.nan


def judged(kind: str, number: int, counted_s: int, seed: int) -> Judged:
    """Simulates `number` runs with true levels of this kind, and judges each run second by second."""
    rng = np.random.default_rng(seed)
    limit_s = round(Pgbench(duration_s=counted_s, warm_up_s="auto").longest_warm_up_s)
    at = np.arange(limit_s + counted_s, dtype=float)
    height = rng.uniform(0.05, 0.6, (number, 1))
    level = LEVELS[kind](rng, at, height, float(counted_s))
    rates = level * (_saw(rng, at, height, float(counted_s)) if kind == SAW_TOOTH else 1)
    rates = np.maximum(rates * (1 + _noise(rng, number, len(at))), 0.01)
    began_s = first_settled(rates[:, :limit_s], counted_s)
    settled, start = began_s >= 0, np.where(began_s < 0, limit_s, began_s)
    rows = np.arange(number)
    moves = np.abs(level[:, counted_s - 1 :] / level[:, : len(at) - counted_s + 1] - 1)
    truly_s = (moves < settling.BAND).argmax(1)
    return Judged(settled, start, truly_s, moves[rows, start], np.abs(1 - level[rows, start]))


def _noise(rng: Rng, number: int, seconds: int) -> Numbers:
    alike = rng.choice(ALIKE, number)
    fresh = rng.standard_normal((number, seconds))
    made = fresh.copy()
    for second in range(1, seconds):
        made[:, second] = alike * made[:, second - 1] + np.sqrt(1 - alike**2) * fresh[:, second]
    return made * _times(rng, number, LEAST_NOISE, MOST_NOISE)


def first_settled(rates: Numbers, counted_s: int) -> NDArray[np.int_]:
    """Returns the second after which each run counts as stable, or -1 if a run never does."""
    began_s = np.full(len(rates), -1)
    for second in range(settling.LEAST_S, rates.shape[1] + 1):
        waiting = np.flatnonzero(began_s < 0)
        found = settling.trend(rates[waiting, :second], counted_s)
        assert found is not None
        began_s[waiting[found.settled]] = second
    return began_s


# --- the table of docs/records/monte-carlo.md -------------------------------------------------------------------------

RUNS = {10: 2000, 60: 1000, 300: 200}
"""Maps the counted seconds to the number of runs of each kind."""
HEADS = ("true level", "counted", "still moves", "away from its end", "never settles", "waits for")


class Row(NamedTuple):
    """The runs of one kind: the shares that counted too early, that counted away from their end, and that never counted
    as stable."""

    kind: str
    counted_s: int
    runs: int
    too_early: float
    away: float
    never: float
    waited_s: float

    @property
    def texts(self) -> list[str]:
        shares = (f"{100 * share:.1f}" for share in (self.too_early, self.away, self.never))
        return [self.kind, f"{self.counted_s} s", *shares, f"{self.waited_s:.0f} s"]


def rows(pool: Executor, part: int) -> list[Row]:
    """Returns a row for each kind and each counted time. It simulates one `part`-th of the runs."""
    cases = [(kind, counted_s, runs // part) for counted_s, runs in RUNS.items() for kind in LEVELS]
    return list(pool.map(_row, cases))


def _row(case: tuple[str, int, int]) -> Row:
    kind, counted_s, runs = case

    def shares(rng: Rng, number: int) -> tuple[float, ...]:  # noqa: ARG001 - one call makes all runs
        found = judged(kind, runs, counted_s, seed=1)
        return found.too_early, found.away_from_end, found.never, found.waited_s

    return Row(*case, *drawn_rows.counted(f"warm-up: {kind}, {counted_s} s, {runs}", 1, 1, shares))
