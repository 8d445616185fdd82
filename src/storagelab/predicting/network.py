"""Solves a closed network. It has a fixed number of sessions. Each session is always in a transaction, which visits one
station after the other.

The solution is exact, and equals that of mean value analysis. It is calculated by convolution (Buzen, Communications of
the ACM 16, 1973), because with load-dependent stations, the recursion of mean value analysis is numerically unstable.
This module only calculates: what a station represents is decided by its callers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Weights = NDArray[np.longdouble]
"""An array of long doubles. With thousands of sessions, products exceed the range of a double."""


_ONE = np.ones(1, dtype=np.longdouble)


@dataclass(frozen=True)
class Station:
    """A station that each transaction visits `visits` times. `per_s` are rates: the visits that the station completes
    per second with 1, 2, ... sessions at it. With more sessions than rates, the last rate applies.
    """

    name: str
    visits: float
    per_s: tuple[float, ...]

    @property
    def capacity(self) -> float:
        """The largest number of transactions a second that the station can serve."""
        return max(self.per_s) / self.visits if self.visits > 0 else math.inf

    @property
    def alone_s(self) -> float:
        """The time of a transaction's visits, in seconds, if no other session is at the station."""
        return self.visits / self.per_s[0]


@dataclass(frozen=True)
class Solution:
    """`per_s`: transactions a second. `at()`: the mean number of sessions at each station, by its name. Calculating
    this takes longer than calculating the rate, so it is done only on request.
    """

    per_s: float
    at: Callable[[], dict[str, float]]


_CLOSE, _ROUNDS = 1e-9, 100


def zero_of(falling: Callable[[float], float], most: float) -> float:
    """The zero of a falling function between 0 and `most`. If the function is positive at `most`, the result is `most`.
    If the function is not positive at 0, the result is 0.

    Uses the Illinois method (Dowell and Jarratt, BIT 11, 1971), which needs fewer values than a bisection.
    """
    low, high = 0.0, most
    at_high = falling(high)
    if most <= 0 or at_high >= 0:
        return most
    at_low, side = falling(low), 0
    if at_low <= 0:
        return low
    for _ in range(_ROUNDS):
        if high - low <= _CLOSE * most:
            break
        middle = high - at_high * (high - low) / (at_high - at_low)
        found = falling(middle)
        if found > 0:
            low, at_low, at_high, side = middle, found, at_high / 2 if side > 0 else at_high, 1
        else:
            high, at_high, at_low, side = middle, found, at_low / 2 if side < 0 else at_low, -1
        if found == 0:
            break
    return high


def bound(stations: Sequence[Station], think_s: float, sessions: float) -> float:
    """An upper bound of transactions a second: the smaller one of two bounds. One is the capacity of the slowest
    station. The other is the rate of sessions that never wait for each other.
    """
    alone_s = think_s + sum(one.alone_s for one in stations)
    alone = sessions / alone_s if alone_s > 0 else math.inf
    return min([alone, *(one.capacity for one in stations)])


def solve(stations: Sequence[Station], think_s: float, sessions: float) -> Solution:
    """The solution for `sessions` sessions. A transaction spends `think_s` seconds outside of all stations. If
    `sessions` is fractional, the result is interpolated between the two nearest whole numbers. Raises ValueError if a
    transaction takes no time.
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

    def at() -> dict[str, float]:
        fewer = below.at()
        return {name: (1 - share) * fewer[name] + share * most for name, most in above.at().items()}

    return Solution((1 - share) * below.per_s + share * above.per_s, at)


def _solve_whole(stations: Sequence[Station], think_s: float, sessions: int) -> Solution:
    if sessions == 0:
        return Solution(0.0, lambda: {one.name: 0.0 for one in stations})
    unit_s = 1 / bound(stations, think_s, sessions)
    weights = [_weights(one, unit_s, sessions) for one in stations]
    elsewhere = np.concatenate((_ONE, np.cumprod(think_s / unit_s / np.arange(1, sessions + 1), dtype=np.longdouble)))
    whole = _convolved([elsewhere, *weights], sessions)
    per_s = float(whole[sessions - 1] / whole[sessions]) / unit_s

    def at() -> dict[str, float]:
        found = {}
        for place, one in enumerate(stations):
            others = _convolved([elsewhere, *weights[:place], *weights[place + 1 :]], sessions)
            shares = weights[place] * others[::-1] / whole[sessions]
            found[one.name] = float(np.arange(sessions + 1) @ shares)
        return found

    return Solution(per_s, at)


def _weights(station: Station, unit_s: float, sessions: int) -> _Weights:
    speeds = np.array(station.per_s)[np.minimum(np.arange(sessions), len(station.per_s) - 1)]
    return np.concatenate((_ONE, np.cumprod(station.visits / (speeds * unit_s), dtype=np.longdouble)))


def _convolved(weights: Sequence[_Weights], sessions: int) -> _Weights:
    whole = np.zeros(sessions + 1, dtype=np.longdouble)
    whole[0] = 1.0
    for one in weights:
        whole = np.convolve(whole, one)[: sessions + 1]
    return whole
