"""Compares predictions with measurements: the order, the ratios and the misses of the layouts that both contain. The
functions are pure.

A prediction is a file of `storagelab predict` or a simulated campaign. Only ratios are compared: the speed of each
layout divided by the speed of one layout, the base.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from storagelab.findings.basis import Basis, ratio_of
from storagelab.findings.campaigns import Compare
from storagelab.model.plan import Plan
from storagelab.model.values import Estimate
from storagelab.words.names import cell_entry, cell_text

Ratio = Callable[[str, str], Estimate | None]
"""Returns the speed of the second of two layouts divided by the speed of the first; None if the ratio can't be
tested."""


@dataclass(frozen=True)
class Row:
    """One layout, with its measured and its predicted speed. Both are divided by the base's speed."""

    name: str
    measured: Estimate
    predicted: Estimate

    @property
    def error(self) -> float:
        """The predicted ratio divided by the measured ratio, minus 1."""
        return self.predicted.value / self.measured.value - 1

    @property
    def missed(self) -> bool | None:
        """Whether the intervals of the two ratios don't overlap; None if an interval is missing."""
        low, high, least, most = self.measured.low, self.measured.high, self.predicted.low, self.predicted.high
        if low is None or high is None or least is None or most is None:
            return None
        return high < least or most < low


@dataclass(frozen=True)
class Beside:
    """The comparison of a prediction with a measurement. `base` is the layout whose speed is 1. `apart` has the pairs
    of layouts whose measured speeds surely differ. Each is (slower layout, faster layout, whether the prediction has
    the same order).
    """

    base: str
    rows: tuple[Row, ...]
    apart: tuple[tuple[str, str, bool], ...]

    @property
    def right(self) -> int:
        return sum(right for *_, right in self.apart)

    @property
    def missed(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.missed)

    @property
    def median_error(self) -> float | None:
        """The median of the absolute errors of ratios; None if the base is the only layout."""
        errors = [abs(row.error) for row in self.rows if row.name != self.base]
        return median(errors) if errors else None

    @property
    def worst(self) -> Row | None:
        """The row with the largest error of its ratio; None if the base is the only layout."""
        return max((row for row in self.rows if row.name != self.base), key=lambda row: abs(row.error), default=None)


def beside(base: str, measured: Ratio, predicted: Mapping[str, Estimate]) -> Beside:
    """Compares a prediction with a measurement. `predicted` has each layout's speed divided by the base's speed. A
    layout has no row if its measured ratio is unknown."""
    rows = []
    for name, times in predicted.items():
        found = Estimate(value=1.0) if name == base else measured(base, name)
        if found is not None and math.isfinite(found.value):
            rows.append(Row(name, found, times))
    apart = []
    for one, other in combinations([row.name for row in rows], 2):
        ratio = measured(one, other)
        if ratio is None or ratio.low is None or ratio.high is None or ratio.low <= 1 <= ratio.high:
            continue
        slow, fast = (one, other) if ratio.value > 1 else (other, one)
        apart.append((slow, fast, predicted[slow].value < predicted[fast].value))
    return Beside(base, tuple(rows), tuple(apart))


def speeds(basis: Basis, plan: Plan) -> Ratio:
    """Returns a function that calculates the speed of a cell divided by the speed of another, from the ratio of their
    times."""

    def of(one: str, other: str) -> Estimate | None:
        found = ratio_of(basis, plan, one, other)
        return None if found is None else found.inverse

    return of


def of_campaigns(found: Compare, first: Plan, second: Plan) -> tuple[Beside, dict[str, str]] | None:
    """The comparison of a measured with a simulated campaign, and the text of each layout, by cell id. None unless one
    campaign is measured and the other is simulated.
    """
    kinds = (found.first.findings.provenance, found.second.findings.provenance)
    if set(kinds) != {"measured", "simulated"}:
        return None
    # The measured campaign is the reference, whether it is the first or the second.
    ids = [(one.first_id, one.second_id) for one in found.matched]
    sides, plans = (found.first, found.second), (first, second)
    if kinds[0] == "simulated":
        ids, sides, plans = [(two, one) for one, two in ids], sides[::-1], plans[::-1]
    measured, simulated = (speeds(one.basis, plan) for one, plan in zip(sides, plans, strict=True))
    base = ids[0]
    predicted = {base[0]: Estimate(value=1.0)}
    for name, of_simulated in ids[1:]:
        if (ratio := simulated(base[1], of_simulated)) is not None:
            # A simulation's interval contains the scatter of repetitions, not the model's error, so it can't judge
            # misses.
            predicted[name] = Estimate(value=ratio.value)
    texts = {name: cell_entry(name, cell_text(sides[0].findings.cell(name).levels)) for name in predicted}
    return beside(base[0], measured, predicted), texts
