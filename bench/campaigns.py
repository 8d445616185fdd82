"""Draws pairs of campaigns with a known truth, to check what a comparison says about them.

Noise applies to the log time, 3 % from run to run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.drawn import DESIGNS, NOISE, Matrix, Rng, design
from storagelab.findings import stats
from storagelab.findings.campaigns import Compare, Gate, compare, gate

LUCK = 0.05
KEPT = 0.7
MARGIN = 0.05

Noise = Callable[[Rng, int, int], Matrix]


def normal(rng: Rng, cells: int, runs: int) -> Matrix:
    return rng.normal(0, NOISE, (cells, runs))


def with_round_effects(rng: Rng, cells: int, runs: int) -> Matrix:
    """Each round is some 5 % faster or slower for all its cells."""
    return normal(rng, cells, runs) + rng.normal(0, LUCK, (1, runs))


def one_noisy(rng: Rng, cells: int, runs: int) -> Matrix:
    log_s = normal(rng, cells, runs)
    log_s[0] *= 5
    return log_s


def heavy_tails(rng: Rng, cells: int, runs: int) -> Matrix:
    return np.asarray(NOISE * rng.standard_t(3, (cells, runs)))


def autocorrelated(rng: Rng, cells: int, runs: int) -> Matrix:
    """Each run keeps 0.7 of the noise of the one before."""
    series = rng.normal(0, NOISE, cells * runs)
    for number in range(1, len(series)):
        series[number] = KEPT * series[number - 1] + math.sqrt(1 - KEPT**2) * series[number]
    return np.asarray(series[_order(cells, runs)])


def in_two_states(rng: Rng, cells: int, runs: int) -> Matrix:
    """The machine is in one of two states, 10 % apart, and stays in it from one run to the next in 9 of 10 cases."""
    changes = rng.random(cells * runs) < 0.1
    states = (rng.integers(2) + np.cumsum(changes)) % 2
    return np.asarray(normal(rng, cells, runs) / 3 + 0.1 * states[_order(cells, runs)])


@functools.cache
def _order(cells: int, runs: int) -> NDArray[np.intp]:
    """The place of each run in the order in which runs are made."""
    if cells not in DESIGNS:
        return np.arange(cells * runs).reshape(cells, runs)
    return np.asarray(np.rint(design(cells, runs).place * (cells * runs - 1)), dtype=np.intp)


def campaign(log_s: Matrix) -> Any:
    """A campaign with these log times, and nothing else except what a comparison needs."""
    order = _order(*log_s.shape)
    used = {
        f"c{n}": {at: SimpleNamespace(sequence=int(place)) for at, place in enumerate(row)}
        for n, row in enumerate(order)
    }
    cells = [SimpleNamespace(cell_id=f"c{n}", work=1.0, levels={"x": n}, elapsed_s=1) for n in range(len(log_s))]
    return SimpleNamespace(
        name="drawn", findings=SimpleNamespace(cells=cells, compared="elapsed"),
        basis=SimpleNamespace(
            fitted=stats.fit(log_s), blocks=[0] * len(log_s), in_stretches=False, used=used,
            rounds=tuple(range(log_s.shape[1])), fleet=None,
        ),
    )  # fmt: skip


def drawn(rng: Rng, kind: Noise, cells: int, runs: int, slower: float = 1.0, noisier: float = 1.0) -> Compare:
    """Two campaigns; the second is slower, and scatters more, by these factors."""
    second = kind(rng, cells, runs) * noisier + math.log(slower)
    return compare(campaign(kind(rng, cells, runs)), campaign(second))


def differs(found: Compare) -> bool:
    """Whether the comparison states any difference."""
    return found.differs or any(one.differs for one in found.matched)


def _equal(kind: Noise, cells: int, runs: int, noisier: float = 1.0) -> Callable[[Rng, int], bool]:
    return lambda rng, _: differs(drawn(rng, kind, cells, runs, noisier=noisier))


def _slower(cells: int) -> Callable[[Rng, int], bool]:
    return lambda rng, _: differs(drawn(rng, normal, cells, 5, 1.05))


def _gate(answer: Gate, slower: float, kind: Noise = normal) -> Callable[[Rng, int], bool]:
    return lambda rng, _: gate([drawn(rng, kind, 8, 5, slower)], MARGIN) == answer


CASES: Mapping[str, Callable[[Rng, int], bool]] = {
    "equal, 1 layout x 3, the second 4 times as noisy: they differ": _equal(normal, 1, 3, 4),
    "equal, 1 x 5: they differ": _equal(normal, 1, 5),
    "equal, 8 x 5: they differ": _equal(normal, 8, 5),
    "equal, 8 x 5, the second 4 times as noisy: they differ": _equal(normal, 8, 5, 4),
    "equal, 8 x 5, rounds 5 % apart by chance: they differ": _equal(with_round_effects, 8, 5),
    "equal, 2 x 5, rounds 5 % apart by chance, the second 3 times as noisy: they differ": _equal(with_round_effects, 2, 5, 3),
    "equal, 16 x 5, one layout 5 times as noisy: they differ": _equal(one_noisy, 16, 5),
    "equal, 16 x 3, heavy tails: they differ": _equal(heavy_tails, 16, 3),
    "5 % slower, 8 x 5: a gate at 5 % says slower": _gate(Gate.SLOWER, 1.05),
    "5 % slower, 8 x 5: a gate at 5 % says not slower": _gate(Gate.NOT_SLOWER, 1.05),
    "equal, 8 x 5: a gate at 5 % says not slower": _gate(Gate.NOT_SLOWER, 1.0),
    "10 % slower, 8 x 5: a gate at 5 % says slower": _gate(Gate.SLOWER, 1.10),
    "equal, rounds 5 % apart by chance: a gate at 5 % says not slower": _gate(Gate.NOT_SLOWER, 1.0, with_round_effects),
    "20 % slower, rounds 5 % apart by chance: a gate at 5 % says slower": _gate(Gate.SLOWER, 1.20, with_round_effects),
}  # fmt: skip
"""What is drawn, and which statement is checked."""

ALIKE: Mapping[str, Callable[[Rng, int], bool]] = {
    **{f"equal, {cells} x 5, {what}: they differ": _equal(kind, cells, 5)
       for what, kind in (("autocorrelated (0.7)", autocorrelated), ("a machine of two states", in_two_states))
       for cells in (1, 2, 3, 5, 8)},
    "5 % slower, 2 x 5: they differ": _slower(2), "5 % slower, 3 x 5: they differ": _slower(3),
}  # fmt: skip
"""The same where runs are like those just before them, and what allowing for that costs."""
