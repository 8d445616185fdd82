"""Draws campaigns in which levels are prepared several times, to check what a report says about them.

    nice python -m bench.drawn_blocks [CAMPAIGNS [FOLDER]]    prints the table, and puts it into
                                                              docs/records/monte-carlo.md; keeps rows in FOLDER

Each preparation makes all runs of its block faster or slower, by so many percent (one sd); each round does so by 2 %,
and each run by 3 %. The factor `drive` is costly; with `both`, a second factor varies within each block.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from storagelab.findings.means import mean_time

from bench import drawn_rows
from bench.drawn import NOISE, Rng, verdict_of
from storagelab.findings import basis, irregular, stats
from storagelab.findings.model import Estimate
from storagelab.findings.statements import Statements, state
from storagelab.findings.times import blocks_of
from storagelab.model.plan import Experiment, Factor, Level, Plan
from storagelab.spec.matrix import expand

ROUNDS = 0.02
RUNS = 3
BLOCKS = (2, 3, 5)
PREPARATIONS = (0.0, 0.02, 0.05, 0.10)
DRIVE, FILES = "layout.log", "layout.data_files"


class Drawn(NamedTuple):
    """A campaign: its plan, the blocks of its cells, and the fit."""

    experiment: Experiment
    plan: Plan
    blocks: Sequence[int]
    fitted: stats.Fit

    def stated(self) -> Statements:
        return state(self.experiment.factors, self.plan, self.fitted, self.blocks)

    def found(self) -> bool:
        """Whether the second drive, alone with the slower cells, is called slower."""
        judged = verdict_of(self.experiment.factors, self.plan, self.fitted, self.blocks)
        return any(one.distinguishable for one in judged.comparisons)


def ratio(stated: Statements, factor: str) -> Estimate:
    """The effect of the costly factor, or of the one within."""
    return next(one.ratio for one in stated.effects if one.factor == factor and not one.at)


@functools.cache
def design(blocks: int, seed: int, *, both: bool) -> tuple[Experiment, Plan]:
    factors = {DRIVE: ["a", "b"], **({FILES: [1, 4]} if both else {})}
    experiment = Experiment(
        name="drawn", repetitions=RUNS * blocks, blocks=blocks, seed=seed, costly=(DRIVE,),
        base={"target": {"engine": "postgres"}, "volumes": {name: {"path": name} for name in "ab"}},
        factors=tuple(
            Factor(name=name, levels=tuple(Level(value=value, sets={name: value}) for value in levels))
            for name, levels in factors.items()
        ),
    )  # fmt: skip
    return experiment, expand(experiment)


def drawn(rng: Rng, number: int, blocks: int, prepared: float, slower: float = 0.0, *, both: bool = False) -> Drawn:
    """`slower`: by how much more time the second drive takes, as a share."""
    experiment, plan = design(blocks, number % 20, both=both)
    row = {cell.cell_id: place for place, cell in enumerate(plan.cells)}
    made_in = np.full((len(row), experiment.repetitions), -1)
    of_round = np.full(made_in.shape, 0.0)
    rounds: dict[tuple[int, int], float] = {}
    for run in plan.runs:
        at = row[run.cell_id], run.repetition - 1
        made_in[at] = run.block
        of_round[at] = rounds.setdefault((run.block, run.repetition), rng.normal(0, ROUNDS))
    luck = rng.normal(0, prepared, made_in.max() + 1)
    log_s = luck[made_in] + of_round + rng.normal(0, NOISE, made_in.shape)
    for cell in plan.cells:
        if cell.levels[DRIVE] == "b":
            log_s[row[cell.cell_id]] += math.log1p(slower)
    of_cell = blocks_of(plan)
    fitted = basis.by_preparation(irregular.fit(log_s, of_cell), made_in, of_cell)
    return Drawn(experiment, plan, of_cell, fitted)


def holds(estimate: Estimate, truth: float) -> bool:
    return estimate.low is not None and estimate.high is not None and estimate.low <= truth <= estimate.high


def row_of(blocks: int, prepared: float, campaigns: int, *, both: bool) -> list[str]:
    """A row of the table, in percent of so many campaigns."""
    row = f"blocks: {blocks}, {100 * prepared:g} %, {'both' if both else 'one'}, {campaigns}"
    return drawn_rows.whole(row, lambda: _row(blocks, prepared, campaigns, both=both))


def _row(blocks: int, prepared: float, campaigns: int, *, both: bool) -> list[str]:
    rng = np.random.default_rng([blocks, round(1000 * prepared), both])
    equal = [drawn(rng, number, blocks, prepared, both=both) for number in range(campaigns)]
    apart = [
        sum(drawn(rng, number, blocks, prepared, slower, both=both).found() for number in range(campaigns))
        for slower in (0.10, 0.30)
    ]
    stated = [one.stated() for one in equal]
    drives = [ratio(one, DRIVE) for one in stated]
    widths = [math.log(one.high or math.inf) - math.log(one.low or 1e-300) for one in drives]
    shares = [
        sum(one.name_a_difference for one in stated),
        sum(one.judged.verdict in ("winner", "best-set") for one in stated),
        sum(holds(one, 1.0) for one in drives),
        *([sum(holds(ratio(one, FILES), 1.0) for one in stated)] if both else []),
        sum(holds(mean_time(one.fitted, 0), 1.0) for one in equal),
        *apart,
    ]
    figures = [f"{100 * one / campaigns:.1f}" for one in shares]
    if not both:
        figures.insert(3, "-")
    cells = ["2 x 2 within" if both else "2", str(blocks), f"{100 * prepared:g} %", *figures]
    return [*cells, f"± {100 * math.expm1(float(np.median(widths)) / 2):.0f} %"]


HEADS = (
    "levels", "blocks of each", "preparing again (sd)", "any false statement", "false verdict",
    "interval of the levels' ratio holds it", "that of the factor within", "that of a mean", "10 % found", "30 % found",
    "half width of the levels' ratio, median",
)  # fmt: skip


def rows(campaigns: int) -> Iterator[list[str]]:
    for both in (False, True):  # whether a second factor varies within each block
        for blocks in BLOCKS:
            for prepared in PREPARATIONS:
                row = row_of(blocks, prepared, campaigns, both=both)
                print(" | ".join(row), flush=True)
                yield row


if __name__ == "__main__":
    from bench.statistics import markdown, put_into_the_page

    put_into_the_page({"blocks": markdown(HEADS, list(rows(drawn_rows.asked(sys.argv[1:]))))})
