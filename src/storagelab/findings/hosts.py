"""Fits runs of several hosts, where each host is a random block. The functions are pure.

The model is Scheffe's mixed model (1956, Annals of Mathematical Statistics 27): log time = cell + host + host x cell +
round + residual. Cells are fixed, and hosts are a random sample of all hosts like these. Each host makes complete
rounds of all cells. A host has one figure for each cell: the mean of the cell's log times over the host's rounds,
adjusted for missing runs. All comparisons use these figures. So the error of comparisons is the mean square of host x
cell, which includes the noise of single runs. This mean square is never pooled with the residual. All figures of a cell
have the same weight, even if hosts made different numbers of rounds. The scatter over hosts estimates the error of such
unweighted means without bias.

So the fit over hosts is the fit of `stats` with a column for each host instead of each round. The differences between
hosts, and odd hosts, are found here from the rounds of each host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from storagelab.findings.model import Estimate, Fleet, HostSummary
from storagelab.model.measurement import Run, host_of
from storagelab.model.plan import Plan
from storagelab.stats import fit as least_squares
from storagelab.stats import stalls
from storagelab.stats.fit import VARIANCE_FLOOR, Fit, Matrix, Places
from storagelab.stats.intervals import ALPHA, CONFIDENCE, from_logs, t_point
from storagelab.stats.order import carried_over

_FitOfRounds = Callable[[Matrix, Sequence[int]], Fit]

CELLS_LEAST = 0.5
"""If a host ran less than this share of the cells, verdicts don't use its runs, because the host can't be compared with
the others."""
ODD_LEAST = 0.05
"""A host is called odd only if it differs by more than this share. Smaller differences between hosts are common and
don't matter to a reader."""


@dataclass(frozen=True)
class Hosts:
    """The hosts of a campaign. `of_run` and `before` are matrices of cells x rounds, with -1 if there is no run.
    `of_run` has the place in `names` of each run's host. `before` has the place of the cell that ran before it on the
    same host, or -1. `counted` has the places of the hosts whose runs verdicts use."""

    names: tuple[str, ...]
    of_run: Places
    before: Places
    counted: tuple[int, ...]

    def only(self, log_s: Matrix, host: int) -> Matrix:
        """The times of one host's runs. All other times are NaN."""
        return np.where(self.of_run == host, log_s, np.nan)


def hosts_of(plan: Plan, used: Mapping[str, Mapping[int, Run]], rounds: Sequence[int]) -> Hosts | None:
    """The hosts of a campaign, sorted by name. None if all runs were made on one host."""
    name_of = {
        (row, column): host_of(used[cell.cell_id][repetition])
        for row, cell in enumerate(plan.cells)
        for column, repetition in enumerate(rounds)
        if repetition in used[cell.cell_id]
    }
    names = tuple(sorted(set(name_of.values())))
    if len(names) < 2:
        return None
    of_run, before = np.full((2, len(plan.cells), len(rounds)), -1)
    last: dict[str, int] = {}
    for at in sorted(name_of, key=lambda at: used[plan.cells[at[0]].cell_id][rounds[at[1]]].started_at):
        before[at], of_run[at] = last.get(name_of[at], -1), names.index(name_of[at])
        last[name_of[at]] = at[0]
    cells = (of_run >= 0).any(axis=1).sum()
    shares = [(of_run == host).any(axis=1).sum() / cells for host in range(len(names))]
    counted = tuple(host for host, share in enumerate(shares) if share >= CELLS_LEAST)
    return Hosts(names, of_run, before, counted or tuple(range(len(names))))


@dataclass(frozen=True)
class Fitted:
    """The fits of a campaign with several hosts. `own` has a fit for each counted host. `together` is the fit of all
    hosts, with a column for each host."""

    hosts: Hosts
    own: tuple[Fit, ...]
    together: Fit


def fit(hosts: Hosts, log_s: Matrix, blocks: Sequence[int], of_rounds: _FitOfRounds = stalls.fit) -> Fitted:
    """Fits each host's runs and all hosts together. `of_rounds` fits the rounds of one host. If only one host counts,
    its fit is also the fit of all hosts together.

    If there surely is carry-over from run to run, it affects the same layouts on all hosts, because no order is
    perfectly balanced. The scatter over hosts does not show this effect. So the variance is then raised to at least the
    variance that the scatter of runs explains.
    """
    own = tuple(of_rounds(hosts.only(log_s, host), blocks) for host in hosts.counted)
    calm, every = (np.array(each).T for each in zip(*((one.calm.log_s, one.cells) for one in own), strict=True))
    odd = bool((calm != every)[~np.isnan(every)].any())
    if len(own) == 1:
        return Fitted(hosts, own, own[0])
    together = least_squares.fit(every, blocks, calm if odd else None)
    left, cells = np.full(log_s.shape, np.nan), [{"cell": place} for place in range(len(log_s))]
    for host, one in zip(hosts.counted, own, strict=True):
        left = np.where(hosts.of_run == host, log_s - one.cells[:, None], left)
    left_behind = carried_over(cells, left, hosts.before, blocks)
    return Fitted(hosts, own, least_squares.at_least(together, _of_runs(own)[0]) if left_behind else together)


def _of_runs(own: Sequence[Fit]) -> tuple[float, float]:
    """The variance of a cell's figure on one host that the scatter of runs explains, and its degrees of freedom. Both
    are 0 if the scatter of runs is unknown."""
    runs, df = np.array([one.runs for one in own]), sum(one.free for one in own)
    squares = sum(float(np.nansum(one.every.residuals**2)) for one in own)
    return (max(squares / df, VARIANCE_FLOOR) * float((1 / runs[runs > 0]).mean()) if df >= 1 else 0.0), df


def outliers(hosts: Hosts, log_s: Matrix) -> list[stalls.Outlier]:
    """The odd runs. Each run is compared only with runs of its own host."""
    return [one for host in range(len(hosts.names)) for one in stalls.outliers(hosts.only(log_s, host))]


def means(values: Sequence[float], hosts: Sequence[str]) -> list[float]:
    """The mean of each host's values, because each host counts once as a random block. If there is only one host, its
    values themselves."""
    of_host: dict[str, list[float]] = {}
    for value, host in zip(values, hosts, strict=True):
        of_host.setdefault(host, []).append(value)
    return list(values) if len(of_host) < 2 else [math.fsum(of) / len(of) for of in of_host.values()]


# ---------------------------------------------------------------------------------------------------------------------
# Differences between hosts
# ---------------------------------------------------------------------------------------------------------------------


def summarise(fitted: Fitted, plan: Plan, loads: Sequence[Sequence[int]], blocks: Sequence[int]) -> Fleet:
    """Summarises all hosts and the differences between them. `loads` has the places of the cells of each load."""
    hosts = fitted.hosts
    # the places of the cells that ran on all counted hosts
    one_of_each = np.flatnonzero(~np.isnan(np.array([one.cells for one in fitted.own])).any(axis=0))
    levels, odd_levels = _levels(fitted, one_of_each) if len(fitted.own) > 1 else ({}, set())
    odd_ratios = _odd_ratios(fitted, one_of_each, blocks)
    of_host = dict(zip(hosts.counted, fitted.own, strict=True))
    summaries = []
    for host, name in enumerate(hosts.names):
        made, own = hosts.of_run == host, of_host.get(host)
        fastest = () if own is None else tuple(_fastest(own, cells) for cells in loads)
        summaries.append(HostSummary(
            name=name, rounds=int(made.any(axis=0).sum()), runs=int(made.sum()), counted=own is not None,
            level=levels.get(host), odd_level=host in odd_levels, odd_ratios=host in odd_ratios,
            fastest=tuple(None if cell is None else plan.cells[cell].cell_id for cell in fastest),
        ))  # fmt: skip
    scatter, p_value = _scatter(fitted)
    return Fleet(hosts=tuple(summaries), scatter=scatter, p_value=p_value)


def _fastest(own: Fit, cells: Sequence[int]) -> int | None:
    there = [cell for cell in cells if not np.isnan(own.cells[cell])]
    return min(there, key=lambda cell: float(own.cells[cell])) if len(there) > 1 else None


# --- levels ----------------------------------------------------------------------------------------------------------


def _levels(fitted: Fitted, cells: Places) -> tuple[dict[int, Estimate], set[int]]:
    """Returns each counted host's time divided by the other hosts' time (geometric means over the cells), and the hosts
    for which this ratio is odd.

    The error of a host's level is estimated from the scatter of its rounds. Intervals of all hosts hold together
    (Bonferroni).
    """
    counted = fitted.hosts.counted
    if not len(cells):
        return {}, set()
    of_rounds = [_rounds(own, cells) for own in fitted.own]
    level = np.array([own.cells[cells].mean() for own in fitted.own])
    rounds = np.array([len(one) for one in of_rounds])
    df = int((rounds - 1).sum())
    variance = sum(float(((one - one.mean()) ** 2).sum()) for one in of_rounds) / df if df else math.nan
    point = t_point(df, ALPHA / len(counted)) if df else math.nan

    def against(host: int, others: Sequence[int]) -> tuple[float, float]:
        spread = 1 / rounds[host] + (1 / rounds[others]).sum() / len(others) ** 2
        return float(level[host] - level[others].mean()), point * math.sqrt(max(variance, VARIANCE_FLOOR) * spread)

    def ratio(host: int) -> Estimate:
        apart, half = against(host, [other for other in range(len(counted)) if other != host])
        return from_logs(apart, half) if df else Estimate(value=math.exp(apart))

    def odd(host: int, others: Sequence[int]) -> float | None:
        apart, half = against(host, others)
        known = df > 0 and abs(apart) > max(half, math.log1p(ODD_LEAST))
        # If there are only two hosts, the slower one is called odd.
        return None if not known or (len(others) == 1 and apart < 0) else abs(apart)

    places = _one_after_the_other(len(counted), odd, most=max(1, (len(counted) - 1) // 2))
    return {counted[place]: ratio(place) for place in range(len(counted))}, {counted[place] for place in places}


def _rounds(own: Fit, cells: Places) -> Matrix:
    """The mean effect of each round of a host on log times. Rounds with fewer than half of the cells are left out."""
    apart = own.log_s[cells] - own.cells[cells, None]
    there = ~np.isnan(apart)
    kept = there.sum(axis=0) >= CELLS_LEAST * max(1, len(cells))
    return np.asarray(np.nansum(apart[:, kept], axis=0) / there[:, kept].sum(axis=0))


def _one_after_the_other(hosts: int, odd: Callable[[int, Sequence[int]], float | None], most: int) -> list[int]:
    """Finds the odd hosts one after the other, the oddest first. Each is compared only with hosts that are not yet
    called odd. At most `most` are found, because most hosts can't be odd."""
    found: list[int] = []
    while len(found) < most:
        left = [host for host in range(hosts) if host not in found]
        how_odd = {host: odd(host, [other for other in left if other != host]) for host in left}
        known = {host: size for host, size in how_odd.items() if size is not None}
        if not known:
            break
        found.append(max(known, key=lambda host: known[host]))
    return found


# --- ratios ----------------------------------------------------------------------------------------------------------


def _scatter(fitted: Fitted) -> tuple[Estimate | None, float | None]:
    """Returns how much the ratio of two cells' times varies from host to host (one standard deviation of its
    logarithm), and the p-value of the test that it does not vary. The test compares the mean square of host x cell with
    the mean square of runs. Both are None if no host made several rounds.

    The interval is that of Williams (1962, Biometrika 49) for a variance component.
    """
    together, (per_figure, df) = fitted.together, _of_runs(fitted.own)
    if len(fitted.own) < 2 or together.free < 1 or not per_figure:
        return None, None
    square = max(float(np.nansum(together.every.residuals**2)) / together.free, VARIANCE_FLOOR)
    above, half = square / per_figure, ALPHA / 2

    def component(tail: float) -> float:
        """A bound of the variance component host x cell."""
        shrunk = square - per_figure * float(special.fdtri(together.free, df, tail))
        return max(0.0, together.free * shrunk / float(special.chdtri(together.free, 1 - tail)))

    value, low, high = (
        math.sqrt(2 * one) for one in (max(0.0, square - per_figure), component(1 - half), component(half))
    )
    scatter = Estimate(value=value, low=min(low, value), high=max(high, value), confidence=CONFIDENCE)
    return scatter, float(special.fdtrc(together.free, df, above))


def _odd_ratios(fitted: Fitted, cells: Places, blocks: Sequence[int]) -> set[int]:
    """The hosts on which the ratios between cells differ from those on the other hosts. An F test compares the
    deviation of a host's figures from the other hosts' means with the deviations among the other hosts. Its error is 5
    % for all hosts together (Bonferroni).
    """
    counted = fitted.hosts.counted
    hosts, of_cell = len(counted), np.asarray(blocks)[cells]
    free = len(cells) - len(set(of_cell.tolist()))
    if hosts < 3 or not free:
        return set()
    figures = np.array([own.cells[cells] for own in fitted.own])
    for block in set(of_cell.tolist()):
        figures[:, of_cell == block] -= figures[:, of_cell == block].mean(axis=1, keepdims=True)

    def odd(host: int, others: Sequence[int]) -> float | None:
        if len(others) < 2:
            return None
        middle = figures[others].mean(axis=0)
        apart, among = figures[host] - middle, figures[others] - middle
        if float(np.abs(apart).max()) <= math.log1p(ODD_LEAST):
            return None
        own = float((apart**2).sum()) / free / (1 + 1 / len(others))
        theirs = max(float((among**2).sum()) / (free * (len(others) - 1)), VARIANCE_FLOOR)
        p_value = float(special.fdtrc(free, free * (len(others) - 1), own / theirs))
        return own / theirs if p_value < ALPHA / hosts else None

    return {counted[place] for place in _one_after_the_other(hosts, odd, most=(hosts - 1) // 2)}
