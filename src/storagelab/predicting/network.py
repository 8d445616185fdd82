"""A closed network: a set number of sessions, each always in one transaction, which visits stations one after the
other.

The exact solution of such networks: its figures are those of mean value analysis. They are reckoned by convolution
(Buzen, Communications of the ACM 16, 1973), which stays exact where the recursion of mean value analysis with
load-dependent stations loses its digits. Pure arithmetic: what a station is, its callers know.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Weights = NDArray[np.longdouble]
"""Long, because the products of thousands of sessions exceed the range of a double."""


_ONE = np.ones(1, dtype=np.longdouble)


@dataclass(frozen=True)
class Station:
    """What a transaction visits `visits` times. `per_s`: the visits a second that it ends while 1, 2, ... sessions are
    at it; the last figure holds for more of them, too.
    """

    name: str
    visits: float
    per_s: tuple[float, ...]

    @property
    def capacity(self) -> float:
        """The transactions a second that it can take at most."""
        return max(self.per_s) / self.visits if self.visits > 0 else math.inf

    @property
    def alone_s(self) -> float:
        """The time of a transaction's visits while nobody else is there."""
        return self.visits / self.per_s[0]


@dataclass(frozen=True)
class Solution:
    """`per_s`: transactions a second. `at`: the mean number of sessions at each station, by name."""

    per_s: float
    at: dict[str, float]


def bound(stations: Sequence[Station], think_s: float, sessions: float) -> float:
    """The transactions a second that can't be exceeded: by the busiest station, and by sessions that never wait for
    each other.
    """
    alone_s = think_s + sum(one.alone_s for one in stations)
    alone = sessions / alone_s if alone_s > 0 else math.inf
    return min([alone, *(one.capacity for one in stations)])


def solve(stations: Sequence[Station], think_s: float, sessions: float) -> Solution:
    """What `sessions` sessions do, each of which spends `think_s` of a transaction elsewhere. A number of sessions
    between two whole ones lies between their figures. Raises ValueError if a transaction takes no time at all.
    """
    used = [one for one in stations if one.visits > 0]
    if think_s <= 0 and not used:
        raise ValueError("a transaction takes no time at all")
    least = math.floor(sessions)
    share = sessions - least
    below = _solve_whole(used, think_s, least)
    if share == 0:
        return below
    above = _solve_whole(used, think_s, least + 1)
    at = {name: (1 - share) * below.at[name] + share * above.at[name] for name in above.at}
    return Solution((1 - share) * below.per_s + share * above.per_s, at)


def _solve_whole(stations: Sequence[Station], think_s: float, sessions: int) -> Solution:
    if sessions == 0:
        return Solution(0.0, {one.name: 0.0 for one in stations})
    unit_s = 1 / bound(stations, think_s, sessions)
    weights = [_weights(one, unit_s, sessions) for one in stations]
    elsewhere = np.concatenate((_ONE, np.cumprod(think_s / unit_s / np.arange(1, sessions + 1), dtype=np.longdouble)))
    whole = _convolved([elsewhere, *weights], sessions)
    per_s = float(whole[sessions - 1] / whole[sessions]) / unit_s
    at = {}
    for place, one in enumerate(stations):
        others = _convolved([elsewhere, *weights[:place], *weights[place + 1 :]], sessions)
        shares = weights[place] * others[::-1] / whole[sessions]
        at[one.name] = float(np.arange(sessions + 1) @ shares)
    return Solution(per_s, at)


def _weights(station: Station, unit_s: float, sessions: int) -> _Weights:
    speeds = np.array([station.per_s[min(n, len(station.per_s) - 1)] for n in range(sessions)])
    return np.concatenate((_ONE, np.cumprod(station.visits / (speeds * unit_s), dtype=np.longdouble)))


def _convolved(weights: Sequence[_Weights], sessions: int) -> _Weights:
    whole = np.zeros(sessions + 1, dtype=np.longdouble)
    whole[0] = 1.0
    for one in weights:
        whole = np.convolve(whole, one)[: sessions + 1]
    return whole
