"""Simulates random campaigns with known true times, to check the statements of reports. This module has the designs and
the effects on runs.

nice python -m bench.drawn [EXPERIMENTS [FOLDER]] [--jobs N]    writes the tables of docs/records/monte-carlo.md; an
interrupted call continues from FOLDER

The logarithms of times have noise of 3 % from run to run. `bench.drawn_orders` has the orders of runs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from storagelab.findings import basis
from storagelab.findings.model import JudgedByLoad
from storagelab.findings.statements import Statements, state, stated_at
from storagelab.model.plan import Experiment, Factor, Level, Order, Plan, Race
from storagelab.spec.matrix import expand
from storagelab.stats import fit as least_squares
from storagelab.stats import order, stalls
from storagelab.stats.fit import Fit, Matrix, Means, Places, Vector, prepared

NOISE = 0.03
ORDERS = 20
"""The number of different seeds of orders. They are used in turn."""
FILES, LOG, COMPRESSION = "layout.data_files", "layout.log", "target.settings.wal_compression"
DESIGNS: Mapping[int, Mapping[str, list[int | str]]] = {
    2: {FILES: [1, 4]},
    3: {FILES: [1, 4, 16]},
    4: {LOG: ["a", "b"], FILES: [1, 4]},
    5: {FILES: [1, 2, 4, 8, 16]},
    8: {FILES: [1, 2, 4, 8], LOG: ["a", "b"]},
    16: {FILES: [1, 2, 4, 8], LOG: ["a", "b"], COMPRESSION: ["off", "on"]},
    24: {FILES: [1, 2, 4, 8], LOG: ["a", "b", "c"], COMPRESSION: ["off", "on"]},
}
"""Maps a number of layouts to factors. The factors are those of real experiments, so that reports make every kind of
statement."""

Rng = np.random.Generator


@dataclass(frozen=True)
class Design:
    """An experiment and its plan. `sequence` has the cell and the column of each run, in their order. `before` has the
    cell of the run before (-1 for none) and `made_in` the preparation, both as cells x rounds. `blocks` has each cell's
    block."""

    experiment: Experiment
    plan: Plan
    sequence: tuple[tuple[int, int], ...]
    before: Places
    made_in: Places
    blocks: Sequence[int]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.plan.cells), self.experiment.repetitions


@functools.cache
def design(
    cells: int, repetitions: int, order: Order = "randomised", seed: int = 1, *, balanced: bool = True,
    race: bool = False, blocks: int = 1,
) -> Design:  # fmt: skip
    """The experiment with this many cells and repetitions. With several `blocks`, the first factor is costly."""
    names = list(DESIGNS[cells])
    experiment = Experiment(
        name="drawn", repetitions=repetitions, order=order, seed=seed, balanced=balanced, blocks=blocks,
        race=Race() if race else None, costly=tuple(names[:1]) if blocks > 1 else (),
        base={"target": {"engine": "postgres"}, "volumes": {name: {"path": name} for name in "abc"}},
        factors=tuple(
            Factor(name=name, levels=tuple(Level(value=value, sets={name: value}) for value in levels))
            for name, levels in DESIGNS[cells].items()
        ),
    )  # fmt: skip
    plan = expand(experiment)
    row = {cell.cell_id: index for index, cell in enumerate(plan.cells)}
    sequence = tuple((row[run.cell_id], run.repetition - 1) for run in plan.runs)
    before, made_in = np.full((cells, repetitions), -1), np.full((cells, repetitions), -1)
    of_cell = [0] * cells
    for number, (at, run) in enumerate(zip(sequence, plan.runs, strict=True)):
        made_in[at] = of_cell[at[0]] = run.block
        if number and plan.runs[number - 1].block == run.block:
            before[at] = sequence[number - 1][0]
    return Design(experiment, plan, sequence, before, made_in, of_cell)


# --- effects on runs --------------------------------------------------------------------------------------------------

Machine = Callable[[int], float]
"""A function that makes the next run of a layout. It returns how much the run's log time differs from the layout's
own."""
Start = Callable[[Rng, int, int], Machine]
"""Makes a machine for a number of layouts and a total number of runs."""


@dataclass(frozen=True)
class Situation:
    """`first` is the mean log time of the first layout minus the mean log time of the other layouts. `mean` is the mean
    effect on the log times of all runs, or None if it depends on their order.
    """

    start: Start
    first: float = 0.0
    mean: float | None = 0.0


def _each(draw: Callable[[Rng, int], float]) -> Start:
    """Makes independent runs."""
    return lambda rng, cells, runs: lambda cell: draw(rng, cell)  # noqa: ARG005 - all situations have the same form


def _noisy(times: float) -> Start:
    return _each(lambda rng, cell: rng.normal(0, NOISE * (1 if cell else times)))


def _sometimes(share: float, ratio: float, faster: float = 0.0, *, only_first: bool = False) -> Start:
    def draw(rng: Rng, cell: int) -> float:
        stalls_now = rng.random() < share and not (only_first and cell)
        return rng.normal(0, NOISE) + math.log(ratio) * stalls_now + (0 if cell else math.log1p(-faster))

    return _each(draw)


def _drift(share: float) -> Start:
    def start(rng: Rng, cells: int, runs: int) -> Machine:  # noqa: ARG001
        places = iter(np.linspace(-0.5, 0.5, runs))
        return lambda cell: rng.normal(0, NOISE) + math.log1p(share) * next(places)  # noqa: ARG005

    return start


def _alike(kept: float) -> Start:
    """Makes runs that each keep the fraction `kept` of the previous run's noise."""

    def start(rng: Rng, cells: int, runs: int) -> Machine:  # noqa: ARG001
        last = rng.normal(0, NOISE)

        def run(cell: int) -> float:  # noqa: ARG001
            nonlocal last
            last = kept * last + rng.normal(0, NOISE * math.sqrt(1 - kept**2))
            return last

        return run

    return start


def _left_behind(*shares: float) -> Start:
    """Makes runs that take longer by these fractions, one, two and more runs after a run of the first layout."""

    def start(rng: Rng, cells: int, runs: int) -> Machine:  # noqa: ARG001
        latest: list[int] = []

        def run(cell: int) -> float:
            longer = sum(share for share, one in zip(shares, latest, strict=False) if one == 0)
            latest.insert(0, cell)
            return rng.normal(0, NOISE) + math.log1p(longer)

        return run

    return start


def _every(period: int) -> Start:
    """Makes one run in every `period` take 20 % longer. 0 means one run in each round."""

    def start(rng: Rng, cells: int, runs: int) -> Machine:  # noqa: ARG001
        step = period or cells
        number = itertools.count(1 + int(rng.integers(step)))
        return lambda cell: rng.normal(0, NOISE) + math.log1p(0.2) * (next(number) % step == 0)  # noqa: ARG005

    return start


def _debt(rng: Rng, cells: int, runs: int) -> Machine:  # noqa: ARG001
    """Makes runs that add to a debt. A run of the first layout adds 3, and a run of another layout adds 1. When the
    debt is 6 or more, the next run takes 30 % longer and ends the debt.
    """
    debt = int(rng.integers(6))

    def run(cell: int) -> float:
        nonlocal debt
        pays = debt >= 6
        debt = (0 if pays else debt) + (1 if cell else 3)
        return rng.normal(0, NOISE) + math.log(1.3) * pays

    return run


_SKEWED_MEAN = 2.443287
"""The mean of log(10 + e^z) for a standard normal z, by quadrature. A test checks it."""
STALLING = math.log(1.08)
SITUATIONS: Mapping[str, Situation] = {
    "normal": Situation(_noisy(1)),
    "skewed (lognormal)": Situation(_each(lambda rng, _: math.log(10 + rng.lognormal(0, 1)) - _SKEWED_MEAN)),
    "heavy tails (t of 3 df)": Situation(_each(lambda rng, _: NOISE * rng.standard_t(3))),
    "skewed (gamma of shape 1)": Situation(_each(lambda rng, _: NOISE * (rng.standard_exponential() - 1))),
    "one cell twice as noisy": Situation(_noisy(2)),
    "one cell 5 times as noisy": Situation(_noisy(5)),
    **{f"drift of {100 * share:.0f} %": Situation(_drift(share)) for share in (0.1, 0.2, 0.4)},
    "autocorrelated (0.7)": Situation(_alike(0.7)),
    "next run 20 % longer": Situation(_left_behind(0.2), mean=None),
    "next three runs 25, 12, 6 % longer": Situation(_left_behind(0.25, 0.12, 0.06), mean=None),
    "every second run 20 % longer": Situation(_every(2), mean=None),
    "one run of each round 20 % longer": Situation(_every(0), mean=None),
    "a debt that is paid": Situation(_debt, mean=None),
    "5 % of runs 30 % too long": Situation(_sometimes(0.05, 1.3), mean=0.05 * math.log(1.3)),
    "a layout that stalls": Situation(
        _sometimes(0.2, math.exp((STALLING - math.log(0.95)) / 0.2), 0.05, only_first=True), STALLING
    ),
}  # fmt: skip
"""The effects on runs. "normal" has no effect. If layouts differ, only the first layout has an effect."""


def happened(of: Design, situation: Situation, rng: Rng) -> Matrix:
    """Returns the effects on all runs of a design, as cells x rounds."""
    machine = situation.start(rng, of.shape[0], len(of.sequence))
    found = np.full(of.shape, np.nan)
    for at in of.sequence:
        found[at] = machine(at[0])
    return found


KINDS: Mapping[str, Callable[[Design, Rng], Matrix]] = {
    name: partial(lambda situation, of, rng: happened(of, situation, rng), one)
    for name, one in SITUATIONS.items() if one.mean is not None and not one.first
}  # fmt: skip
"""The kinds of noise. With these, layouts are equal, and no run affects another run."""
normal = KINDS["normal"]


def draw(kind: str, cells: int, repetitions: int, experiments: int) -> Iterator[tuple[Design, Matrix]]:
    """Yields A/A experiments of one kind, each with its order. Every call yields the same experiments."""
    rng = np.random.default_rng([cells, repetitions, list(KINDS).index(kind)])
    for number in range(experiments):
        of = design(cells, repetitions, seed=number % ORDERS)
        yield of, KINDS[kind](of, rng)


# --- the statements of a report ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """The content of a report: its statements, the fit with its means, and the fastest cell."""

    statements: Statements
    fitted: Fit
    fastest: int


def say(of: Design, log_s: Matrix, *, robust: bool = True) -> Said:
    """Makes the statements of a report as `analysis` does, but only about times."""
    fitted = fit(of, log_s, robust=robust)
    fastest = fitted.fastest()
    assert fastest is not None
    return Said(state(of.experiment.factors, of.plan, fitted, of.blocks), fitted, fastest)


def fit(of: Design, log_s: Matrix, *, robust: bool = True) -> Fit:
    """Returns the fit that a report judges, as `basis.basis_of` makes it."""
    found, of_rounds = carried_over(of, log_s), stalls.fit if robust else least_squares.fit
    fitted = of_rounds(log_s, of.blocks, covariates=found.covariates if found and found.corrected else ())
    return basis.resolved(prepared(fitted, of.made_in), basis.tick_of(np.exp(log_s[~np.isnan(log_s)])))


def shifted(fitted: Fit, levels: Vector) -> Fit:
    """Returns the fit of the same runs if each cell took longer by its level. The residuals don't change."""

    def of(means: Means) -> Means:
        return replace(means, log_s=means.log_s + levels)

    again, every, more = fitted.preparations, of(fitted.every), levels[:, None]
    calm = every if fitted.calm is fitted.every else of(fitted.calm)
    again = None if again is None else replace(again, every=again.every + more, calm=again.calm + more)
    return replace(fitted, log_s=fitted.log_s + more, every=every, calm=calm, preparations=again)


def judged(of: Design, fitted: Fit) -> JudgedByLoad:
    return state(of.experiment.factors, of.plan, fitted, of.blocks).judged


def states_a_difference(of: Design, fitted: Fit) -> bool:
    """Whether the report states any difference. This is faster than `say`."""
    return stated_at(of.experiment.factors, of.plan, fitted, of.blocks).name_a_difference


def carried_over(of: Design, log_s: Matrix) -> order.CarriedOver | None:
    """Returns the report's estimate of carry-over from run to run."""
    return order.carried_over([cell.levels for cell in of.plan.cells], log_s, of.before, of.blocks)


if __name__ == "__main__":
    from bench import statistics

    statistics.main()
