"""Fits a drive's law to measured points. The method is least squares of the logarithms of rates, from several starting
points."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

# --- the law of a measured drive --------------------------------------------------------------------------------------
#
# The law gives requests per second by block size, share of reads, requests in progress and order.
#
# A lone request has a latency and a transfer time. If other requests are in progress, both times are longer. The drive
# serves a certain number of requests at once, and transfers the data of a certain number at once. `knee` says how
# suddenly further requests begin to wait. With 1, they soon wait, as with a queue at each part of the drive. With 8,
# they wait only when all parts are busy. The resulting rate can't exceed the limits on requests and bytes per second.
# The simulator's drives of kind "measured" (crates/sim/src/devices/measured.rs) obey the same law.

KNEES = (1, 2, 4, 8)
"""Powers of two, because the simulator computes roots only by square roots, which are the same on every machine."""
LIMITS = ("reads_per_s", "writes_per_s", "ios_per_s", "read_bytes_per_s", "write_bytes_per_s", "bytes_per_s")


@dataclass(frozen=True)
class Law:
    """The figures of the law. `*_ns` are latencies of a lone request. `*_data_bytes_per_s` is the rate of its data
    transfer, which follows the latency.
    """

    read_ns: float
    write_ns: float
    read_in_order_ns: float
    write_in_order_ns: float
    read_data_bytes_per_s: float
    write_data_bytes_per_s: float
    reads_parallel: float
    writes_parallel: float
    data_parallel: float
    knee: int
    limits: dict[str, float]
    """Maps names of LIMITS to limits. A limit that was not reached is missing."""

    def requests_per_s(self, *, block_bytes: Any, read_share: Any, depth: Any, sequential_share: Any = 0.0) -> Any:
        """Returns requests per second, for numbers or arrays. A depth below 1 means that the drive is idle for a part
        of the time.
        """
        progressing = np.maximum(depth, 1.0)
        mean_s = read_share * self._latency_s("read", block_bytes, progressing, sequential_share) + (
            1 - read_share
        ) * self._latency_s("write", block_bytes, progressing, sequential_share)
        most = depth / mean_s
        for name, per_s in self.limits.items():
            most = np.minimum(most, per_s / np.maximum(_use(name, block_bytes, read_share), 1e-12))
        return most

    def _latency_s(self, direction: str, block_bytes: Any, progressing: Any, sequential_share: Any) -> Any:
        reads = direction == "read"
        random_ns, in_order_ns = (
            (self.read_ns, self.read_in_order_ns) if reads else (self.write_ns, self.write_in_order_ns)
        )
        data_per_s = self.read_data_bytes_per_s if reads else self.write_data_bytes_per_s
        alone_s = (random_ns + (in_order_ns - random_ns) * sequential_share) / 1e9
        parallel = self.reads_parallel if reads else self.writes_parallel
        of_data_s = block_bytes / data_per_s * self._stretch(progressing, self.data_parallel)
        return alone_s * self._stretch(progressing, parallel) + of_data_s

    def _stretch(self, progressing: Any, parallel: float) -> Any:
        """Returns the time of a request divided by the time of a lone request."""
        return (1 + (progressing**self.knee - 1) / parallel**self.knee) ** (1 / self.knee)


def _use(limit: str, block_bytes: Any, read_share: Any) -> Any:
    """Returns how much of a limit one request uses on average."""
    share = read_share if limit.startswith("read") else 1 - read_share if limit.startswith("write") else 1.0
    return share * (block_bytes if "bytes" in limit else 1.0)


# --- the points at which a drive is measured --------------------------------------------------------------------------
#
# There are two kinds of points: points for the fit, and test points. The block sizes, depths and mixes of test points
# occur in no point for the fit.

_KIB = 1024


class LoadPoint(NamedTuple):
    """One load: blocks of one size, a share of reads, and a number of requests in progress."""

    block_bytes: int
    read_share: float
    depth: int
    sequential: bool
    held_out: bool = False


def planned(*, quick: bool, seed: int) -> list[LoadPoint]:
    """Returns all points in random order. So a drive that slows down affects all kinds of points equally."""
    points = _quick() if quick else _full()
    random.Random(seed).shuffle(points)
    return points


def _full() -> list[LoadPoint]:
    return [
        *_grid((4, 16, 64, 256), (1.0, 0.7, 0.3, 0.0), (1, 4, 16, 64), sequential=False),
        *_grid((16, 64, 256, 1024), (1.0, 0.0), (1, 16), sequential=True),
        *_held_out((8, 32, 128), (2, 8, 32), (0.85, 0.5, 0.15), sequential=False),
        *_held_out((32, 128, 512), (4, 8), (1.0, 0.0), sequential=True),
    ]


def _quick() -> list[LoadPoint]:
    return [
        *_grid((4, 16, 256), (1.0, 0.7, 0.3, 0.0), (1, 8, 64), sequential=False),
        *_grid((16, 256), (1.0, 0.0), (1, 16), sequential=True),
        *_held_out((8, 64), (2, 32), (0.85, 0.5), sequential=False),
        *_held_out((64,), (4,), (1.0, 0.0), sequential=True),
    ]


def _grid(
    kib: tuple[int, ...], shares: tuple[float, ...], depths: tuple[int, ...], *, sequential: bool
) -> list[LoadPoint]:
    return [LoadPoint(size * _KIB, share, depth, sequential) for size, share, depth in product(kib, shares, depths)]


def _held_out(
    kib: tuple[int, ...], depths: tuple[int, ...], shares: tuple[float, ...], *, sequential: bool
) -> list[LoadPoint]:
    """Makes a point for each size with each depth. The shares of reads take turns, so that each share occurs with each
    size. Sequential points have each share.
    """
    return [
        LoadPoint(size * _KIB, share, depth, sequential, held_out=True)
        for row, size in enumerate(kib)
        for column, depth in enumerate(depths)
        for share in ([shares[(row + column) % len(shares)]] if not sequential else shares)
    ]


# --- the fit ---------------------------------------------------------------------------------------------------------

LEAST_POINTS = 16
"""The smallest number of points for a fit. A fit of fewer points would follow their noise."""
_REACHED = 1.02
"""If the drive's rate at a point would be this many times as high without a limit, the point reached the limit."""
_LEAST_DATA_PER_S, _MOST_DATA_PER_S = 1e3, 1e14
_MOST_PARALLEL = 1e4
_FAR = 1e3
_FIGURES = [one.name for one in fields(Law)][:-2]
"""The names of a law's figures, without its knee and its limits."""


class Result(NamedTuple):
    """The drive's measured rate and latency at one point."""

    asked: LoadPoint
    requests_per_s: float
    mean_latency_s: float


def fit(results: Sequence[Result]) -> Law:
    """Returns the law that best fits all points except the test points. Raises ValueError if there are too few
    points.
    """
    used = [one for one in results if not one.asked.held_out]
    if len(used) < LEAST_POINTS:
        raise ValueError(f"{len(used)} points were measured, and a fit needs {LEAST_POINTS}")
    points = _Points(used)
    found = min((_fitted(points, knee, start) for knee in KNEES for start in _starts(points)), key=lambda one: one[0])
    return _without_unreached(found[1], points)


class _Points:
    """The measured points as arrays."""

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
        """Returns the highest rate of any point, in the quantity that this limit limits."""
        share = self.load["read_share"]
        of = share if limit.startswith("read") else 1 - share if limit.startswith("write") else 1.0
        return float(np.max(of * (self.bytes_per_s if "bytes" in limit else self.per_s)))

    def errors(self, law: Law) -> Any:
        return np.log(law.requests_per_s(**self.load) / self.per_s)


def _starts(points: _Points) -> Iterator[Any]:
    """Yields starting figures of the fit, as logarithms. Times of lone requests come from the points with one request
    in progress. The starting limits are the highest measured rates. There are three cases: the rates of each direction,
    the rates of both directions together, and all of these. All other limits start far above them.
    """
    alone = points.load["depth"] == 1
    lone_ns = float(np.median(1e9 / points.per_s[alone])) if alone.any() else 1e5
    data_per_s = max(points.most("bytes_per_s"), _LEAST_DATA_PER_S)
    for parallel, data_parallel, limited in product(
        (2.0, 16.0), (1.2, 8.0), ("each direction", "both together", "all")
    ):
        limits = [points.most(name) * (_FAR if _skipped(name, limited) else 1.02) for name in LIMITS]
        yield np.log([*[lone_ns * 0.7] * 4, data_per_s, data_per_s, parallel, parallel, data_parallel, *limits])


def _skipped(limit: str, limited: str) -> bool:
    of_both = limit in ("ios_per_s", "bytes_per_s")
    return (limited == "each direction" and of_both) or (limited == "both together" and not of_both)


def _law(logs: Any, knee: int) -> Law:
    values = [float(one) for one in np.exp(logs)]
    figures: dict[str, Any] = dict(zip(_FIGURES, values, strict=False))
    return Law(**figures, knee=knee, limits=dict(zip(LIMITS, values[len(_FIGURES) :], strict=True)))


def _fitted(points: _Points, knee: int, start: Any) -> tuple[float, Law]:
    from scipy.optimize import least_squares  # here, because it loads slowly, and captures need this module

    least = np.log([*[1.0] * 4, _LEAST_DATA_PER_S, _LEAST_DATA_PER_S, *[1.0] * 3, *[1.0] * len(LIMITS)])
    most = np.log([*[1e9] * 4, _MOST_DATA_PER_S, _MOST_DATA_PER_S, *[_MOST_PARALLEL] * 3, *[1e15] * len(LIMITS)])
    # soft_l1: a single odd point, for example from a busy machine, does not distort all figures
    found = least_squares(
        lambda logs: points.errors(_law(logs, knee)), np.clip(start, least + 1e-9, most - 1e-9), bounds=(least, most),
        loss="soft_l1", f_scale=0.05, x_scale=1.0, max_nfev=200,
    )  # fmt: skip
    return float(found.cost), _law(found.x, knee)


def _without_unreached(law: Law, points: _Points) -> Law:
    """Returns the law without the limits that no point reached. The values of such limits are unknown."""
    kept = dict(law.limits)
    for name in LIMITS:
        others = replace(law, limits={one: value for one, value in kept.items() if one != name})
        if not (others.requests_per_s(**points.load) > law.requests_per_s(**points.load) * _REACHED).any():
            del kept[name]
    return replace(law, limits=kept)
