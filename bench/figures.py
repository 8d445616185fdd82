"""A figure of the bench, and the computation of paired ratios."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from scipy.stats import bootstrap


@dataclass(frozen=True)
class Figure:
    """One line of the bench's table. `low` and `high` are the ends of a 95 % interval, or None if the figure is a
    single measurement.
    """

    what: str
    value: float
    unit: str
    goal: str
    met: bool | None
    low: float | None = None
    high: float | None = None
    remark: str = ""


def paired_ratios(pairs: int, one: Callable[[], float], other: Callable[[], float]) -> list[float]:
    """Returns the ratios `one() / other()`, each measured as a pair. The order alternates, so that a drift favours
    neither."""
    ratios = []
    for number in range(pairs):
        if number % 2:
            below = other()
            above = one()
        else:
            above = one()
            below = other()
        ratios.append(above / below)
    return ratios


def rounds(count: int, ways: Sequence[Callable[[], float]]) -> list[tuple[float, ...]]:
    """Returns the results of `ways`. Each round measures all of them once. The order rotates, so that a drift favours
    none of them.
    """
    found = []
    for number in range(count):
        order = [(number + turn) % len(ways) for turn in range(len(ways))]
        values = {way: ways[way]() for way in order}
        found.append(tuple(values[way] for way in range(len(ways))))
    return found


def ratio_figure(
    what: str, ratios: Sequence[float], goal: str, met: Callable[[float], bool] | None, remark: str
) -> Figure:
    """Returns the figure of paired ratios: their median with its bootstrapped 95 % interval."""
    middle = median(ratios)
    interval = bootstrap(
        (list(ratios),), median, vectorized=False, n_resamples=2000, method="percentile", rng=1
    ).confidence_interval
    return Figure(
        what, middle, "", goal, met(middle) if met else None, float(interval.low), float(interval.high),
        f"{remark}; pairs: " + ", ".join(f"{ratio:.3f}" for ratio in ratios),
    )  # fmt: skip


def show(figure: Figure) -> str:
    """Returns the figure as readable text."""
    interval = "" if figure.low is None else f"  (95 % interval {figure.low:.3f} to {figure.high:.3f})"
    verdict = {True: "met", False: "MISSED", None: "for the record"}[figure.met]
    remark = f"\n      {figure.remark}" if figure.remark else ""
    return f"{figure.what}: {figure.value:.3f} {figure.unit}{interval}  goal: {figure.goal}  [{verdict}]{remark}"
