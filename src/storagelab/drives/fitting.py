"""The fit of a drive's law to measured points: least squares of the logarithms of rates, from several starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

from storagelab.drives.law import KNEES, LIMITS, Law
from storagelab.drives.points import Asked

LEAST_POINTS = 16
"""A fit of fewer points would follow their noise."""
_REACHED = 1.02
"""A limit holds at a point if the drive would do this much more without it."""
_LEAST_DATA_PER_S, _MOST_DATA_PER_S = 1e3, 1e14
_MOST_PARALLEL = 1e4
_FAR = 1e3
_FIGURES = 9
"""The figures of a law before its knee."""


class Result(NamedTuple):
    """What a drive did at one point."""

    asked: Asked
    requests_per_s: float
    mean_latency_s: float


def fit(results: Sequence[Result]) -> Law:
    """The law that fits the points best that are not held out. Raises ValueError if they are too few."""
    used = [one for one in results if not one.asked.held_out]
    if len(used) < LEAST_POINTS:
        raise ValueError(f"{len(used)} points were measured, and a fit needs {LEAST_POINTS}")
    points = _Points(used)
    found = min((_fitted(points, knee, start) for knee in KNEES for start in _starts(points)), key=lambda one: one[0])
    return _without_unreached(found[1], points)


class _Points:
    """The points as arrays."""

    def __init__(self, results: Sequence[Result]) -> None:
        asked = [one.asked for one in results]
        self.load = {
            "block_bytes": np.array([float(one.block_bytes) for one in asked]),
            "read_share": np.array([one.read_share for one in asked]),
            "depth": np.array([float(one.depth) for one in asked]),
            "sequential_share": np.array([float(one.sequential) for one in asked]),
        }
        self.per_s = np.array([one.requests_per_s for one in results])
        self.bytes_per_s = self.per_s * self.load["block_bytes"]

    def most(self, limit: str) -> float:
        """The most that any point did of what this limits."""
        share = self.load["read_share"]
        of = share if limit.startswith("read") else 1 - share if limit.startswith("write") else 1.0
        return float(np.max(of * (self.bytes_per_s if "bytes" in limit else self.per_s)))

    def errors(self, law: Law) -> Any:
        return np.log(law.requests_per_s(**self.load) / self.per_s)


def _starts(points: _Points) -> Iterator[Any]:
    """Starting figures as logarithms: lone times from the points with one request; limits on each direction, on both
    together, or on all of these, at what was reached; the others far above.
    """
    alone = points.load["depth"] == 1
    lone_ns = float(np.median(1e9 / points.per_s[alone])) if alone.any() else 1e5
    data_per_s = max(points.most("bytes_per_s"), _LEAST_DATA_PER_S)
    for parallel, data_parallel, limited in product((2.0, 16.0), (1.2, 8.0), ("each direction", "both together", "all")):
        limits = [points.most(name) * (_FAR if _skipped(name, limited) else 1.02) for name in LIMITS]
        yield np.log([*[lone_ns * 0.7] * 4, data_per_s, data_per_s, parallel, parallel, data_parallel, *limits])


def _skipped(limit: str, limited: str) -> bool:
    of_both = limit in ("ios_per_s", "bytes_per_s")
    return (limited == "each direction" and of_both) or (limited == "both together" and not of_both)


def _law(logs: Any, knee: int) -> Law:
    figures = [float(one) for one in np.exp(logs)]
    return Law(*figures[:_FIGURES], knee=knee, limits=dict(zip(LIMITS, figures[_FIGURES:], strict=True)))


def _fitted(points: _Points, knee: int, start: Any) -> tuple[float, Law]:
    least = np.log([*[1.0] * 4, _LEAST_DATA_PER_S, _LEAST_DATA_PER_S, *[1.0] * 3, *[1.0] * len(LIMITS)])
    most = np.log(
        [*[1e9] * 4, _MOST_DATA_PER_S, _MOST_DATA_PER_S, *[_MOST_PARALLEL] * 3, *[1e15] * len(LIMITS)]
    )
    # soft_l1: one odd point, as when the machine was busy, does not pull all figures
    found = least_squares(
        lambda logs: points.errors(_law(logs, knee)), np.clip(start, least + 1e-9, most - 1e-9), bounds=(least, most),
        loss="soft_l1", f_scale=0.05, x_scale=1.0, max_nfev=200,
    )  # fmt: skip
    return float(found.cost), _law(found.x, knee)


def _without_unreached(law: Law, points: _Points) -> Law:
    """The law without limits that no point reached: nothing is known of them."""
    kept = dict(law.limits)
    for name in LIMITS:
        others = Law(**{**vars(law), "limits": {one: value for one, value in kept.items() if one != name}})
        if not (others.requests_per_s(**points.load) > law.requests_per_s(**points.load) * _REACHED).any():
            del kept[name]
    return Law(**{**vars(law), "limits": kept})
