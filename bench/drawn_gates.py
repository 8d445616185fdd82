"""Draws gates of a change against its base, run in turns: how often equal ones alarm, and how often slower ones pass.

python -m bench.drawn_gates [EXPERIMENTS]      prints the table, and puts it into docs/records/monte-carlo.md
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np

from bench import drawn
from bench.drawn import KINDS, Design, Matrix, design
from storagelab.findings import basis, irregular, stats
from storagelab.findings.campaigns import Gate, gate_of_cells
from storagelab.model.values import share_of

REPETITIONS = (5, 10)
SLOWER = ("0%", "5%", "10%")
MARGINS = ("0%", "2%", "5%")
NOISES = ("normal", "drift of 10 %", "autocorrelated (0.7)", "5 % of runs 30 % too long")
ORDERS = 40
HEADS = (
    "noise", "rounds", "slower by", *(f"alarm at {one[:-1]} %" for one in MARGINS),
    *(f"passes at {one[:-1]} %" for one in MARGINS),
)  # fmt: skip
"""Beside alarms (exit code 1) and passes (0), a gate may not be able to tell (3)."""


def answer(of: Design, log_s: Matrix, margin: float) -> Gate:
    """What `compare NAME c01 c02 --fail-if-slower MARGIN` answers to these times."""
    left = drawn.carried_over(of, log_s)
    fitted = basis.fit_carried(log_s, [0, 0], left, irregular.fit)
    found = stats.compare_with_best(fitted, 0)[1]
    return gate_of_cells(None if found is None or found.p_value is None else found.ratio, margin)


def rows(experiments: int) -> Iterator[list[str]]:
    for kind in NOISES:
        for repetitions in REPETITIONS:
            for slower in SLOWER:
                answers = {margin: Counter[Gate]() for margin in MARGINS}
                rng = np.random.default_rng([repetitions, NOISES.index(kind), SLOWER.index(slower)])
                for number in range(experiments):
                    of = design(2, repetitions, seed=number % ORDERS)
                    log_s = KINDS[kind](of, rng)
                    log_s[1] += math.log1p(share_of(slower) or 0)
                    for margin, counted in answers.items():
                        counted[answer(of, log_s, share_of(margin) or 0)] += 1
                row = [kind, str(repetitions), f"{slower[:-1]} %"]
                for one in (Gate.SLOWER, Gate.NOT_SLOWER):
                    row += [_text(counted[one] / experiments, experiments) for counted in answers.values()]
                print(" | ".join(row), flush=True)
                yield row


def _text(share: float, experiments: int) -> str:
    error = math.sqrt(max(share * (1 - share), 0.5 / experiments) / experiments)
    return f"{100 * share:.1f} ± {100 * error:.1f}"


if __name__ == "__main__":
    from bench.statistics import markdown, put_into_the_page

    many = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    put_into_the_page({"gates": markdown(HEADS, list(rows(many)))})
