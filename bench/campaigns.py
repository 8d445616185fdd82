"""Draws pairs of campaigns with a known truth, to check what a comparison says about them.

Noise applies to the log time, 3 % from run to run.
"""

from __future__ import annotations

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

Order = NDArray[np.intp]
"""The place of each cell's runs in the order in which runs are made."""
Noise = Callable[[Rng, Order], Matrix]


def order_of(cells: int, runs: int, number: int = 0) -> Order:
    """The balanced order of a spec: its seed is one of 20."""
    if cells not in DESIGNS:
        return np.arange(cells * runs).reshape(cells, runs)
    place = design(cells, runs, seed=number % 20).place
    return np.asarray(np.rint(place * (cells * runs - 1)), dtype=np.intp)


def normal(rng: Rng, order: Order) -> Matrix:
    return rng.normal(0, NOISE, order.shape)


def with_round_effects(rng: Rng, order: Order) -> Matrix:
    """Each round is some 5 % faster or slower for all its cells."""
    return normal(rng, order) + rng.normal(0, LUCK, (1, order.shape[1]))


def one_noisy(rng: Rng, order: Order) -> Matrix:
    log_s = normal(rng, order)
    log_s[0] *= 5
    return log_s


def heavy_tails(rng: Rng, order: Order) -> Matrix:
    return np.asarray(NOISE * rng.standard_t(3, order.shape))


def autocorrelated(rng: Rng, order: Order) -> Matrix:
    """Each run keeps 0.7 of the noise of the one before."""
    series = rng.normal(0, NOISE, order.size)
    for number in range(1, len(series)):
        series[number] = KEPT * series[number - 1] + math.sqrt(1 - KEPT**2) * series[number]
    return np.asarray(series[order])


def in_two_states(rng: Rng, order: Order) -> Matrix:
    """The machine is in one of two states, 10 % apart, and stays in it from one run to the next in 9 of 10 cases."""
    changes = rng.random(order.size) < 0.1
    states = (rng.integers(2) + np.cumsum(changes)) % 2
    return np.asarray(normal(rng, order) / 3 + 0.1 * states[order])


def campaign(log_s: Matrix, order: Order) -> Any:
    """A campaign with these log times, and nothing else except what a comparison needs."""
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


def drawn(rng: Rng, kind: Noise, order: Order, slower: float = 1.0, noisier: float = 1.0) -> Compare:
    """Two campaigns of one spec; the second is slower, and scatters more, by these factors."""
    second = kind(rng, order) * noisier + math.log(slower)
    return compare(campaign(kind(rng, order), order), campaign(second, order))


def differs(found: Compare) -> bool:
    """Whether the comparison states any difference."""
    return found.differs or any(one.differs for one in found.matched)


def _equal(kind: Noise, cells: int, runs: int, noisier: float = 1.0) -> Callable[[Rng, int], bool]:
    return lambda rng, number: differs(drawn(rng, kind, order_of(cells, runs, number), noisier=noisier))


def _slower(cells: int) -> Callable[[Rng, int], bool]:
    return lambda rng, number: differs(drawn(rng, normal, order_of(cells, 5, number), 1.05))


def _gate(answer: Gate, slower: float, kind: Noise = normal) -> Callable[[Rng, int], bool]:
    return lambda rng, number: gate([drawn(rng, kind, order_of(8, 5, number), slower)], MARGIN) == answer


CASES: Mapping[str, Callable[[Rng, int], bool]] = {
    "equal, 1 layout x 3, the second 4 times as noisy: they differ": _equal(normal, 1, 3, 4),
    "equal, 1 x 5: they differ": _equal(normal, 1, 5),
    "equal, 8 x 5: they differ": _equal(normal, 8, 5),
    "equal, 8 x 5, the second 4 times as noisy: they differ": _equal(normal, 8, 5, 4),
    "equal, 8 x 5, rounds 5 % apart by chance: they differ": _equal(with_round_effects, 8, 5),
    "equal, 2 x 5, rounds 5 % apart by chance, the second 3 times as noisy: they differ": _equal(with_round_effects, 2,
    5, 3),
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
