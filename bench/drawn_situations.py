"""Draws the situations in which real storage misleads, and says in how many experiments a report states a false
difference.

    nice python -m bench.drawn_situations [EXPERIMENTS [FOLDER]]     prints the tables, and puts them into
                                                                  docs/records/monte-carlo.md; keeps rows in FOLDER

Experiments are judged as reports judge them. Power is that of the verdict, beside that of pooled Tukey's test at 5 %,
which takes all layouts for equally noisy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from storagelab.findings.samples import ALPHA
from storagelab.findings.studentized import tukey

from bench import drawn, drawn_rows
from bench.drawn import Design, Matrix, Rng, design
from bench.drawn_carry_over import SITUATIONS
from bench.drawn_carry_over import draw as draw_left_behind
from storagelab.findings import stats
from storagelab.findings.statements import SHARES

SIZES = ((2, 5), (3, 5), (8, 5), (72, 5))
POWER_SIZES = ((3, 5), (5, 5), (8, 3), (8, 5))
SLOWER = (0.02, 0.05, 0.10)
PARTS = {72: 5}
"""Of so many layouts, only one in this many of the experiments is drawn."""
ORDERS = 20


def _left_behind(name: str) -> Callable[[Design, Rng], Matrix]:
    return lambda of, rng: draw_left_behind(of, SITUATIONS[name], rng)


def _twice_as_noisy(of: Design, rng: Rng) -> Matrix:
    log_s = drawn.normal(of, rng)
    log_s[0] += drawn.normal(of, rng)[0] * math.sqrt(3)  # variances add up: 1 + 3 = 2 squared
    return log_s


KINDS: Mapping[str, Callable[[Design, Rng], Matrix]] = {
    "nothing": drawn.normal,
    **{name: _left_behind(name) for name in SITUATIONS if name != "nothing"},
    **{name: of for name, of in drawn.KINDS.items() if of is not drawn.normal},
    "one cell twice as noisy": _twice_as_noisy,
}


def false(name: str, size: tuple[int, int], experiments: int) -> float:
    """The share of experiments whose report states any difference, where none is true."""

    def one(rng: Rng, number: int) -> tuple[bool]:
        of = design(*size, seed=number % ORDERS)
        return (drawn.states_a_difference(of, drawn.fit(of, KINDS[name](of, rng))),)

    seed = (*size, list(KINDS).index(name))
    (stated,) = drawn_rows.counted(f"situation: {name}, {size[0]}x{size[1]}", seed, experiments, one)
    return stated / experiments


def found(size: tuple[int, int], slower: float, experiments: int) -> tuple[float, float]:
    """The shares of experiments in which the second layout, which takes longer, is called slower: by reports, and by
    Tukey's test."""

    def one(rng: Rng, number: int) -> tuple[bool, bool]:
        of = design(*size, seed=number % ORDERS)
        log_s = drawn.normal(of, rng)
        log_s[1] += math.log1p(slower)
        return _by_verdict(drawn.fit(of, log_s)), _by_tukey(log_s)

    row = f"power beside Tukey's: {size[0]}x{size[1]}, {100 * slower:g} %"
    by_report, by_tukey = drawn_rows.counted(row, (*size, round(1000 * slower)), experiments, one)
    return by_report / experiments, by_tukey / experiments


def _by_verdict(fitted: stats.Fit) -> bool:
    """Whether the verdict calls the second layout slower, in both of the steps of `statements`, others not being
    asked.
    """
    best = stats.fastest(fitted)
    assert best is not None
    first, second = (stats.compare_with_best(fitted, best, alpha=level) for level in (ALPHA * SHARES["verdict"], ALPHA))
    return any(one is not None and one.distinguishable for one in first) and (
        second[1] is not None and second[1].distinguishable
    )


def _by_tukey(log_s: Matrix) -> bool:
    fitted = stats.fit(log_s)
    cells, rounds = log_s.shape
    error = math.sqrt(2 * float(np.nansum(fitted.residuals**2)) / fitted.df / rounds)
    return float(fitted.cells[1] - fitted.cells.min()) > tukey(cells).point(float(fitted.df), ALPHA) * error


def _text(share: float, experiments: int) -> str:
    error = math.sqrt(max(share * (1 - share), 0.5 / experiments) / experiments)
    return f"{100 * share:.1f} ± {100 * error:.1f}"


def false_rows(experiments: int) -> list[list[str]]:
    shares: dict[str, list[str]] = {name: [] for name in KINDS}
    for size in SIZES:
        many = experiments // PARTS.get(size[0], 1)
        for name, row in shares.items():
            row.append(_text(false(name, size, many), many))
            print(size, name, row[-1], flush=True)
    return [[name, *row] for name, row in shares.items()]


def power_rows(experiments: int) -> Iterator[list[str]]:
    for size in POWER_SIZES:
        row = ["x".join(map(str, size))]
        for slower in SLOWER:
            row += [_text(share, experiments) for share in found(size, slower, experiments)]
        print(" | ".join(row), flush=True)
        yield row


FALSE_HEADS = ("what happens", *(f"{cells}x{repetitions}" for cells, repetitions in SIZES))
POWER_HEADS = (
    "layouts x rounds", *(f"{by}{100 * slower:g} % slower" for slower in SLOWER for by in ("", "by Tukey's test: "))
)  # fmt: skip

if __name__ == "__main__":
    from bench.statistics import markdown, put_into_the_page

    asked = drawn_rows.asked(sys.argv[1:])
    put_into_the_page({"power-beside-tukey": markdown(POWER_HEADS, list(power_rows(asked)))})
    put_into_the_page({"situations": markdown(FALSE_HEADS, false_rows(asked))})
