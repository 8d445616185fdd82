"""Draws A/A experiments in which runs leave something behind, or a disturbance comes back, in rounds that are shuffled
each by itself and in balanced orders. The first layout is the guilty one.

    python -m bench.drawn_carry_over [EXPERIMENTS [FOLDER]]    prints the table, and puts it into
                                                            docs/records/monte-carlo.md; keeps rows in FOLDER
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from storagelab.findings.samples import ALPHA

from bench import drawn, drawn_rows
from bench.drawn import Design, Matrix, Rng, design
from storagelab.findings import basis, irregular, stats
from storagelab.findings.statements import SHARES

SIZES = ((2, 5), (2, 10), (3, 5), (5, 5), (8, 5))
ORDERS = 40
Effects = Callable[[list[int], Rng], Matrix]


def left_behind(*shares: float) -> Effects:
    """The first layout makes the next runs longer by these shares."""

    def effects(order: list[int], rng: Rng) -> Matrix:  # noqa: ARG001 - all have one form
        longer = np.zeros(len(order))
        for place, cell in enumerate(order):
            for later, share in enumerate(shares, start=place + 1):
                if cell == 0 and later < len(order):
                    longer[later] += share
        return longer

    return effects


def every(period: int) -> Effects:
    """Every so many runs, one takes 20 % longer; 0 = one in each round."""

    def effects(order: list[int], rng: Rng) -> Matrix:
        step = period or max(order) + 1
        longer = np.zeros(len(order))
        longer[rng.integers(step) :: step] = 0.2
        return longer

    return effects


SITUATIONS: Mapping[str, Effects] = {
    "nothing": left_behind(),
    "next three runs 25, 12, 6 % longer": left_behind(0.25, 0.12, 0.06),
    "next run 20 % longer": left_behind(0.2),
    "every second run 20 % longer": every(2),
    "one run of each round 20 % longer": every(0),
}

OTHERS = ("drift of 10 %", "autocorrelated (0.7)")
"""Of `drawn.KINDS`: nothing is left behind, and another order could do harm."""
NAMES = (*SITUATIONS, *OTHERS)


def draw(of: Design, effects: Effects, rng: Rng) -> Matrix:
    row = {cell.cell_id: number for number, cell in enumerate(of.plan.cells)}
    order = [row[run.cell_id] for run in of.plan.runs]
    log_s = drawn.normal(of, rng)
    for run, longer in zip(of.plan.runs, effects(order, rng), strict=True):
        log_s[row[run.cell_id], run.repetition - 1] += math.log1p(longer)
    return log_s


def shares(size: tuple[int, int], name: str, *, balanced: bool, experiments: int) -> tuple[float, float, float]:
    """Shares of experiments whose verdict calls a layout slower, that say that runs leave something behind, and that
    find a layout which takes 10 % longer (of those with nothing left behind)."""

    def one(rng: Rng, number: int) -> tuple[bool, bool, bool]:
        of = design(*size, seed=number % ORDERS, balanced=balanced)
        log_s = drawn.KINDS[name](of, rng) if name in OTHERS else draw(of, SITUATIONS[name], rng)
        slower, left = _slower(of, log_s)
        log_s[1] += math.log(1.1)
        return bool(slower), left, name == "nothing" and 1 in _slower(of, log_s)[0]

    row = f"left behind: {name}, {size[0]}x{size[1]}, {'balanced' if balanced else 'shuffled'}"
    false, told, found = drawn_rows.counted(row, (*size, NAMES.index(name)), experiments, one)
    return false / experiments, told / experiments, found / experiments


def _slower(of: Design, log_s: Matrix) -> tuple[list[int], bool]:
    """The layouts that the verdict calls slower, as the first step of `statements` does (a report asks for more time),
    and whether runs are said to leave something behind."""
    left = drawn.carried_over(of, log_s)
    fitted = basis.fit_carried(log_s, [0] * len(log_s), left, irregular.fit)
    best = stats.fastest(fitted)
    assert best is not None
    found = stats.compare_with_best(fitted, best, alpha=ALPHA * SHARES["verdict"])
    return [cell for cell, one in enumerate(found) if one is not None and one.distinguishable], left is not None


def rows(experiments: int) -> Iterator[list[str]]:
    def text(share: float) -> str:
        error = math.sqrt(max(share * (1 - share), 0.5 / experiments) / experiments)
        return f"{100 * share:.1f} ± {100 * error:.1f}"

    for name in NAMES:
        for cells, repetitions in SIZES:
            pairs = [
                shares((cells, repetitions), name, balanced=balanced, experiments=experiments)
                for balanced in (False, True)
            ]
            row = [name, f"{cells}x{repetitions}", *(text(one[0]) for one in pairs), *(text(one[1]) for one in pairs)]
            row += [text(one[2]) if name == "nothing" else "-" for one in pairs]
            print(" | ".join(row), flush=True)
            yield row


HEADS = (
    "what happens", "layouts x rounds", "a layout is called slower: shuffled rounds", "balanced",
    "carry-over is told: shuffled rounds", "balanced", "10 % slower is found: shuffled rounds", "balanced",
)  # fmt: skip

if __name__ == "__main__":
    from bench.statistics import markdown, put_into_the_page

    put_into_the_page({"carry-over": markdown(HEADS, list(rows(drawn_rows.asked(sys.argv[1:]))))})
