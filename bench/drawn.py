"""Draws random experiments with a known truth, to check what the statistics say about them.

In an A/A experiment no cell differs from another, so any difference that a report states is false. Runs are in the
random order that `matrix` makes. Noise applies to the log time, 3 % from run to run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storagelab.findings import basis, verdicts
from storagelab.findings.model import JudgedByLoad
from storagelab.findings.statements import SHARES, Statements, first_step, state
from storagelab.model.plan import Experiment, Factor, Level, Order, Plan
from storagelab.spec.matrix import expand
from storagelab.stats import fit as least_squares
from storagelab.stats import order, stalls
from storagelab.stats.fit import Fit, Matrix
from storagelab.stats.points import ALPHA

NOISE = 0.03
ODD_SHARE, ODD_RATIO = 0.05, 1.3
FILES, LOG, COMPRESSION = "layout.data_files", "layout.log", "target.settings.wal_compression"
DESIGNS: Mapping[int, Mapping[str, list[int | str]]] = {
    2: {FILES: [1, 4]},
    3: {FILES: [1, 4, 16]},
    5: {FILES: [1, 2, 4, 8, 16]},
    8: {FILES: [1, 2, 4, 8], LOG: ["a", "b"]},
    16: {FILES: [1, 2, 4, 8], LOG: ["a", "b"], COMPRESSION: ["off", "on"]},
    72: {FILES: [1, 2, 4, 8, 16, 32, 64, 128], LOG: ["a", "b", "c"], COMPRESSION: ["off", "pglz", "lz4"]},
}
"""Cells -> factors: as in real experiments, so that reports make every kind of statement."""
SIZES = ((2, 3), (2, 5), (5, 5), (8, 5), (16, 5))

Rng = np.random.Generator


@dataclass(frozen=True)
class Design:
    """An experiment and its plan; `place` is the position of each cell and repetition in the order, from 0 to 1;
    `before` = the cell that ran before it, -1 for none."""

    experiment: Experiment
    plan: Plan
    place: Matrix
    before: NDArray[np.intp]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.plan.cells), self.experiment.repetitions


@functools.cache
def design(
    cells: int, repetitions: int, order: Order = "randomised", seed: int = 1, *, balanced: bool = True
) -> Design:
    """The experiment with this many cells and repetitions."""
    experiment = Experiment(
        name="drawn", repetitions=repetitions, order=order, seed=seed, balanced=balanced,
        base={"target": {"engine": "postgres"}, "volumes": {name: {"path": name} for name in "abc"}},
        factors=tuple(
            Factor(name=name, levels=tuple(Level(value=value, sets={name: value}) for value in levels))
            for name, levels in DESIGNS[cells].items()
        ),
    )  # fmt: skip
    plan = expand(experiment)
    row = {cell.cell_id: index for index, cell in enumerate(plan.cells)}
    place = np.zeros((cells, repetitions))
    before = np.full((cells, repetitions), -1)
    for run in plan.runs:
        before[row[run.cell_id], run.repetition - 1] = row[plan.runs[run.sequence - 1].cell_id] if run.sequence else -1
        place[row[run.cell_id], run.repetition - 1] = run.sequence / (len(plan.runs) - 1)
    return Design(experiment, plan, place, before)


# ---------------------------------------------------------------------------------------------------------------------
# Kinds of noise
# ---------------------------------------------------------------------------------------------------------------------


def normal(of: Design, rng: Rng) -> Matrix:
    return rng.normal(0, NOISE, of.shape)


def skewed(of: Design, rng: Rng) -> Matrix:
    """Skewed times: 10 s and a little more, sometimes much more, relative to their mean logarithm."""
    return np.log(10 + rng.lognormal(0, 1, of.shape)) - _SKEWED_MEAN


_SKEWED_MEAN = 2.443287
"""Mean of log(10 + e^z) for a standard normal z, by quadrature; a test checks it."""


def heavy_tails(of: Design, rng: Rng) -> Matrix:
    return np.asarray(NOISE * rng.standard_t(3, of.shape))


def odd_runs(of: Design, rng: Rng) -> Matrix:
    """Some runs take 30 % longer. The truth is the time of the others."""
    return normal(of, rng) + math.log(ODD_RATIO) * (rng.random(of.shape) < ODD_SHARE)


def one_noisy(of: Design, rng: Rng) -> Matrix:
    """The first cell, the baseline of every factor, scatters five times as much as the others."""
    log_s = normal(of, rng)
    log_s[0] *= 5
    return log_s


def drift(of: Design, rng: Rng) -> Matrix:
    """Times grow by 10 % from the first run to the last, centred on their mean."""
    return normal(of, rng) + math.log(1.10) * (of.place - of.place.mean())


def autocorrelated(of: Design, rng: Rng) -> Matrix:
    """Autocorrelated noise: each run keeps 0.7 of the previous run's noise and adds its own."""
    order = np.argsort(of.place, axis=None)
    noise = np.empty(order.size)
    last = rng.normal(0, NOISE)
    for number in range(order.size):
        last = noise[number] = last if number == 0 else 0.7 * last + rng.normal(0, NOISE * math.sqrt(1 - 0.49))
    drawn = np.empty(order.size)
    drawn[order] = noise
    return drawn.reshape(of.shape)


def gamma(of: Design, rng: Rng) -> Matrix:
    """Gamma noise of shape 1, which is exponential: its skewness is 2."""
    return np.asarray(NOISE * (rng.standard_exponential(of.shape) - 1))


KINDS: Mapping[str, Callable[[Design, Rng], Matrix]] = {
    "normal": normal, "skewed (lognormal)": skewed, "heavy tails (t of 3 df)": heavy_tails,
    "5 % of runs 30 % too long": odd_runs, "one cell 5 times as noisy": one_noisy, "drift of 10 %": drift,
    "autocorrelated (0.7)": autocorrelated, "skewed (gamma of shape 1)": gamma,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the statistics say about them
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """What an experiment's report says: its statements, the fit with its means, and the fastest cell."""

    statements: Statements
    fitted: Fit
    fastest: int


def say(of: Design, log_s: Matrix, *, robust: bool = True, measured: bool = True) -> Said:
    """Does what `analysis` does, without the parts that do not concern times."""
    fitted = fit(of, log_s, robust=robust, measured=measured)
    fastest = fitted.fastest()
    assert fastest is not None
    return Said(state(of.experiment.factors, of.plan, fitted, [0] * len(of.plan.cells)), fitted, fastest)


def fit(of: Design, log_s: Matrix, *, robust: bool = True, measured: bool = True) -> Fit:
    """The fit from which a report judges."""
    tick = basis.tick_of(np.exp(log_s[~np.isnan(log_s)])) if measured else 0.0
    of_rounds = stalls.fit if robust else least_squares.fit
    found = carried_over(of, log_s)
    return basis.resolved(of_rounds(log_s, covariates=found.covariates if found and found.corrected else ()), tick)


def states_a_difference(of: Design, fitted: Fit) -> bool:
    """Whether the report says that anything differs; quicker than `say`."""
    return first_step(of.experiment.factors, of.plan, fitted, [0] * len(of.plan.cells)).name_a_difference


def judged(of: Design, fitted: Fit) -> JudgedByLoad:
    """The report's verdict, but for intervals and p values where nothing differs; quicker than `say`."""
    return verdict_of(of.experiment.factors, of.plan, fitted, [0] * len(of.plan.cells))


def verdict_of(factors: Sequence[Factor], plan: Plan, fitted: Fit, blocks: Sequence[int]) -> JudgedByLoad:
    """As `judged`, of any experiment. All else that a report states is asked for only where the verdict depends on
    it.
    """
    compared = fitted.compared.tolist()

    def judge(alpha: float) -> JudgedByLoad:
        return verdicts.judge(factors, plan, fitted, compared, alpha)

    full = judge(ALPHA)
    if not any(row.distinguishable for row in full.comparisons):
        return full
    strict = judge(ALPHA * SHARES["verdict"])
    surely = any(row.distinguishable for row in strict.comparisons)
    return full if surely or first_step(factors, plan, fitted, blocks).name_a_difference else strict


def carried_over(of: Design, log_s: Matrix) -> order.CarriedOver | None:
    """What a report finds of what runs leave behind."""
    return order.carried_over([cell.levels for cell in of.plan.cells], log_s, of.before, [0] * len(of.plan.cells))


def draw(kind: str, cells: int, repetitions: int, experiments: int) -> Iterator[tuple[Design, Matrix]]:
    """A/A experiments with one kind of noise, each in its own order; the same ones every time."""
    rng = np.random.default_rng([cells, repetitions, list(KINDS).index(kind)])
    for number in range(experiments):
        of = design(cells, repetitions, seed=number % 20)
        yield of, KINDS[kind](of, rng)
