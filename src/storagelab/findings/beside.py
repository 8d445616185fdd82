"""Predictions compared with measurements: order, ratios and misses for the layouts that both contain. Pure.

A prediction is a file of `storagelab predict`, or a simulated campaign. Both are compared by ratios only: the speed of
each layout divided by the speed of one layout, the base.
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
"""The speed of the second of two layouts divided by the speed of the first; None if it can't be tested."""


@dataclass(frozen=True)
class Row:
    """One layout. Its speeds are divided by the base's speed."""

    name: str
    measured: Estimate
    predicted: Estimate

    @property
    def error(self) -> float:
        """Predicted over measured, minus 1."""
        return self.predicted.value / self.measured.value - 1

    @property
    def missed(self) -> bool | None:
        """Whether the two intervals are disjoint; None if an interval is missing."""
        ends = (self.measured.low, self.measured.high, self.predicted.low, self.predicted.high)
        low, high, least, most = ends
        if low is None or high is None or least is None or most is None:
            return None
        return high < least or most < low


@dataclass(frozen=True)
class Beside:
    """`base`: the layout whose speed is 1. `apart`: pairs of layouts that the measurement tells apart, the slower
    layout first, and whether the prediction has the same order.
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
        """The median error of ratios, without its sign; None without other layouts than the base."""
        errors = [abs(row.error) for row in self.rows if row.name != self.base]
        return median(errors) if errors else None

    @property
    def worst(self) -> Row | None:
        """The row with the largest error of its ratio; None if the base is the only layout."""
        return max((row for row in self.rows if row.name != self.base), key=lambda row: abs(row.error), default=None)


def beside(base: str, measured: Ratio, predicted: Mapping[str, Estimate]) -> Beside:
    """`predicted`: each layout's speed divided by the base's. Layouts whose measurement can't be tested have no row."""
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
    """The speed of one cell divided by the speed of another, from the ratio of their times."""

    def of(one: str, other: str) -> Estimate | None:
        found = ratio_of(basis, plan, one, other)
        return None if found is None else found.inverse

    return of


def of_campaigns(found: Compare, first: Plan, second: Plan) -> tuple[Beside, dict[str, str]] | None:
    """The comparison of a measured with a simulated campaign, and the layouts' texts. None if the two campaigns are not
    such a pair.
    """
    kinds = (found.first.findings.provenance, found.second.findings.provenance)
    if set(kinds) != {"measured", "simulated"}:
        return None
    # The measured one is the reference, in either order of the names.
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
