"""A picture of runs in letters, which any program shows that shows text: a dot for each run, on one axis. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from storagelab.words import numbers

_WIDTH = 60
_DOTS = "·:⁝"
"""One run, two, three or more at one place."""


def dots(rows: Sequence[tuple[str, Sequence[float]]]) -> tuple[str, ...]:
    """A line for each row of ratios, and the ends of the axis, which is logarithmic. `●` is a mean. No line if there is no
    ratio.
    """
    values = [value for _, ratios in rows for value in ratios]
    if not values or min(values) <= 0:
        return ()
    low, high = math.log(min(values)), math.log(max(values))
    left = max(len(name) for name, _ in rows)
    lines = [f"{name:<{left}}  {_line(ratios, low, high)}".rstrip() for name, ratios in rows]
    ends = f"x {numbers.significant(math.exp(low))}", f"x {numbers.significant(math.exp(high))}"
    return (*lines, f"{'':<{left}}  {ends[0]}{ends[1]:>{_WIDTH - len(ends[0])}}")


def _line(ratios: Sequence[float], low: float, high: float) -> str:
    def place(log: float) -> int:
        return round((log - low) / (high - low) * (_WIDTH - 1)) if high > low else _WIDTH // 2

    logs = [math.log(ratio) for ratio in ratios]
    at = [place(log) for log in logs]
    letters = [" "] * _WIDTH
    for one in set(at):
        letters[one] = _DOTS[min(at.count(one), len(_DOTS)) - 1]
    if logs:
        letters[place(math.fsum(logs) / len(logs))] = "●"
    return "".join(letters)
