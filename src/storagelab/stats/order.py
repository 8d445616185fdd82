"""Effects of the order of runs on their times: a drift, a step, and carry-over from one run to the next. Pure.

Matrices are as in `fit`: natural logarithms of times, with a row for each cell and a column for each round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from storagelab.model.values import MOST, JsonValue
from storagelab.stats.fit import VARIANCE_FLOOR, Matrix, Places, fit
from storagelab.stats.intervals import ALPHA, t_point

# ---------------------------------------------------------------------------------------------------------------------
# Changes in the course of an experiment
# ---------------------------------------------------------------------------------------------------------------------

TOO_WIDE = math.log(100)
"""If the upper end of an interval is a hundred times the lower end, the size of the change is unknown."""
PERMUTATIONS = 199
ALIKE_LEAST = 1.64
"""If runs are independent, the correlation of neighbouring runs exceeds this number of standard errors in only one of
20 experiments.
"""
KEPT_MOST = 0.9
STEP_T_LEAST = 2.5
"""Steps of fewer standard errors are not tested by permutations, because most experiments have larger steps by chance.
"""


@dataclass(frozen=True)
class Drift:
    """A linear trend of times.

    `change` is the relative change from the first run to the last run, of the experiment or of a block. `change` is
    None if its size is unknown.
    """

    change: float | None
    p_value: float
    explained: float
    """The trend explains this fraction of the scatter of runs within their cells."""


@dataclass(frozen=True)
class Step:
    """A sudden change of times. The runs after the place `after` in the order differ by `change` from the runs before
    it.
    """

    after: float
    change: float
    p_value: float
    explained: float


def drift(
    log_s: Sequence[float], cells: Sequence[int], sequence: Sequence[float], length: float | None = None
) -> Drift | None:
    """The linear trend of times in the order of runs. Returns None if it can't be estimated.

    The slope is the slope within cells: each run is compared with the mean of its cell. The change is from the first to
    the last of all runs. If blocks are independent, it is over the `length` of a block. If runs are few and close
    together, their slope says little about many runs. So if the 95 % interval of the change is too wide, or exceeds the
    possible range of times, the size of the change is unknown. The effects of rounds are NOT removed here, because they
    include the drift.
    """
    times, at = _centred(log_s, cells), _centred(sequence, cells)
    df = len(times) - len(set(cells)) - 1
    spread, total = float(at @ at), float(times @ times)
    if df < 3 or spread <= 0:
        return None
    slope = float(at @ times) / spread
    rest = max(total - slope**2 * spread, 0.0) / df
    order = np.argsort(np.asarray(sequence, dtype=float), kind="stable")
    longer = long_run_variance((times - slope * at)[order])
    standard_error = math.sqrt(longer * max(rest, VARIANCE_FLOOR) / spread)
    length = max(sequence) - min(sequence) if length is None else length
    log_change, half = slope * length, t_point(df, ALPHA) * standard_error * length
    return Drift(
        change=math.expm1(log_change) if abs(log_change) <= math.log(MOST) and 2 * half <= TOO_WIDE else None,
        p_value=float(2 * special.stdtr(df, -abs(slope) / standard_error)),
        explained=slope**2 * spread / max(total, VARIANCE_FLOOR),
    )


def step(log_s: Sequence[float], cells: Sequence[int], sequence: Sequence[float]) -> Step | None:
    """The largest sudden change of times. Returns None if no change is large enough for a test.

    Every place in the order is tried. Each run is compared with the mean of its cell. The p-value of the largest step
    comes from permutations of each cell's runs, as in E-divisive (Matteson and James 2014, J. Am. Stat. Assoc. 109).
    Correlation of neighbouring runs makes means scatter more, but permutations remove this correlation. So the step
    must be larger by the factor by which correlation increases the scatter. If all runs of one cell are before all runs
    of another cell, a change between them can't be detected.
    """
    order = np.argsort(np.asarray(sequence, dtype=float), kind="stable")
    times = _centred(log_s, cells)[order]
    _, of_cell = np.unique(np.asarray(cells)[order], return_inverse=True)
    df = len(times) - int(of_cell.max(initial=0)) - 2
    total = float(times @ times)
    if df < 3 or total <= len(times) * VARIANCE_FLOOR:
        return None
    weights = _weights(of_cell)
    places, explained = _largest_step(times, weights)
    rest = max(total - explained, VARIANCE_FLOOR) / df
    if math.sqrt(explained / rest) < STEP_T_LEAST:
        return None
    # The sum of the deviations after the place, divided by the number of runs that it stands for.
    height = float(times[places + 1 :].sum() / weights[places])
    after = np.arange(len(times)) > places
    left = times - height * _centred(after.tolist(), of_cell.tolist())
    surprising = explained / long_run_variance(left)
    random = np.random.default_rng(len(times))
    by_cell = np.argsort(of_cell, kind="stable")
    as_large = 0
    for _ in range(PERMUTATIONS):
        permuted = np.empty_like(times)
        permuted[by_cell] = times[np.lexsort((random.random(len(times)), of_cell))]
        as_large += _largest_step(permuted, weights)[1] >= surprising
    return Step(
        after=float(np.asarray(sequence, dtype=float)[order][places]), change=math.expm1(height),
        p_value=(1 + as_large) / (1 + PERMUTATIONS), explained=explained / total,
    )  # fmt: skip


def long_run_variance(left: Matrix) -> float:
    """How many times as large the variance of a mean of many consecutive runs is as with independent runs.

    It is estimated from the residuals `left`, with an autoregression of first order. It is 1 if neighbouring runs are
    not surely correlated.
    """
    total = float(left @ left)
    share = float(left[1:] @ left[:-1]) / total if total > 0 else 0.0
    if share <= ALIKE_LEAST / math.sqrt(len(left)):
        return 1.0
    share = min(share + (1 + 4 * share) / len(left), KEPT_MOST)  # Marriott and Pope 1954, Biometrika 41
    return (1 + share) / (1 - share)


def _weights(of_cell: Places) -> Matrix:
    """For each place in the order: the sum of n p (1 - p) over the cells. n is the number of runs of a cell, and p is
    the share of these runs after the place.
    """
    runs = np.bincount(of_cell)
    done = np.zeros((len(runs),))
    weight = np.zeros(len(of_cell))
    now = 0.0
    for place, cell in enumerate(of_cell):
        now -= done[cell] * (runs[cell] - done[cell]) / runs[cell]
        done[cell] += 1
        now += done[cell] * (runs[cell] - done[cell]) / runs[cell]
        weight[place] = now
    return weight


def _largest_step(times: Matrix, weights: Matrix) -> tuple[int, float]:
    """The place of the step that explains most of the scatter, and the sum of squares that this step explains."""
    up_to = np.cumsum(times)
    explained = np.where(weights > 1e-9, up_to**2 / np.maximum(weights, 1e-9), 0.0)
    place = int(np.argmax(explained))
    return place, float(explained[place])


def _centred(values: Sequence[float], groups: Sequence[int]) -> Matrix:
    """Each value minus the mean of its group."""
    flat = np.asarray(values, dtype=float)
    _, at = np.unique(np.asarray(groups), return_inverse=True)
    means = np.bincount(at, weights=flat) / np.bincount(at)
    return np.asarray(flat - means[at])


# ---------------------------------------------------------------------------------------------------------------------
# Carry-over from one run to the next
# ---------------------------------------------------------------------------------------------------------------------

CHANGE_LEAST = 0.02
"""Effects of the previous run that are smaller than this are not reported."""
CELLS_LEAST = 5
"""With fewer cells, times are not corrected. Carry-over to two or three runs then looks almost like carry-over to one
run, so the correction would be wrong. With a balanced order, carry-over affects all cells equally."""
CORRECTED_P_VALUE = 0.005
"""Times are corrected only if carry-over is nearly certain. If neighbouring runs are correlated, the test finds
carry-over in 8 of 100 experiments with five layouts that have none. Then a correction would create differences."""
_FREE_LEAST = 2
"""The least number of degrees of freedom that must remain for the residuals."""
_CELLS_MOST = 8
"""If there are more cells and several factors, the levels of the previous run are tested instead of its cell."""
_COLUMNS_MOST = 40


@dataclass(frozen=True)
class CarriedOver:
    """Carry-over from one run to the next.

    `levels` are the levels of the previous run that change times most. Runs after them take longer than other runs by
    `change`: 0.12 means 12 %. A negative value means that they are shorter. `covariates` describe the previous runs,
    for `fit`. `corrected` is True if verdicts use the fit with these covariates.
    """

    levels: Mapping[str, JsonValue]
    change: float
    p_value: float
    covariates: tuple[Matrix, ...]
    corrected: bool


def carried_over(
    levels: Sequence[Mapping[str, JsonValue]], log_s: Matrix, before: Places, blocks: Sequence[int]
) -> CarriedOver | None:
    """Tests whether the cell of the previous run explains times. With many cells, tests the levels of its factors.

    One F test covers all these effects. `levels` has the levels of each cell. `before` has the place of the cell that
    ran before, as cells x rounds. It is -1 if there was no run before. Returns None if no effect is certain, or if
    there are too few runs.
    """
    columns = _columns(levels, before)
    there = ~np.isnan(log_s)
    if not 1 < len(columns) <= _COLUMNS_MOST:
        return None
    known = there & (before >= 0)
    shares = np.array([column[known].mean() if known.any() else 0.0 for _, column in columns])
    # If a run has no previous run, it counts as a run after an average cell.
    covariates = tuple(
        np.where(before < 0, 0.0, column - share) for (_, column), share in zip(columns, shares, strict=True)
    )
    plain, full = fit(log_s, blocks), fit(log_s, blocks, covariates=covariates)
    lost, free = plain.free - full.free, full.free
    if lost < 1 or free < _FREE_LEAST:
        return None
    squares, rest = (float(np.nansum(one.calm.residuals**2)) for one in (plain, full))
    rest = max(rest / free, VARIANCE_FLOOR)
    p_value = float(special.fdtrc(lost, free, max(squares - rest * free, 0.0) / lost / rest))
    changes = _changes(columns, full.effects[len(full.effects) - len(columns) :], shares)
    worst = int(np.argmax(np.abs(changes)))
    if p_value >= ALPHA or abs(math.expm1(changes[worst])) < CHANGE_LEAST:
        return None
    corrected = len(levels) >= CELLS_LEAST and p_value < CORRECTED_P_VALUE
    return CarriedOver(columns[worst][0], math.expm1(changes[worst]), p_value, covariates, corrected)


def _columns(levels: Sequence[Mapping[str, JsonValue]], before: Places) -> list[tuple[dict[str, JsonValue], Matrix]]:
    """Returns the cells or levels that a previous run may have. For each of them, also returns the runs that follow it,
    as cells x rounds.
    """
    varied = [name for name in levels[0] if len({repr(of[name]) for of in levels}) > 1]
    if len(levels) <= _CELLS_MOST or len(varied) < 2:
        return [(dict(of), (before == place).astype(float)) for place, of in enumerate(levels)]
    found: dict[tuple[str, str], tuple[dict[str, JsonValue], Matrix]] = {}
    for place, of in enumerate(levels):
        for name in varied:
            _, column = found.setdefault((name, repr(of[name])), ({name: of[name]}, np.zeros(before.shape)))
            column += before == place
    return list(found.values())


def _changes(columns: Sequence[tuple[dict[str, JsonValue], Matrix]], effects: Matrix, shares: Matrix) -> Matrix:
    """The effect of each level, compared with the mean effect of the other levels of its factor."""
    names = [tuple(levels) for levels, _ in columns]
    found = np.zeros(len(columns))
    for number, name in enumerate(names):
        others = [other for other, one in enumerate(names) if one == name and other != number and shares[other] > 0]
        if others and shares[number] > 0:
            found[number] = effects[number] - effects[others].mean()
    return found
