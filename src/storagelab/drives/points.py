"""The points at which a drive is measured: those for the fit, and those held out, whose block sizes, depths and mixes
(at random) the fit has not seen.
"""

from __future__ import annotations

import random
from itertools import product
from typing import NamedTuple

_KIB = 1024


class Asked(NamedTuple):
    """One load: blocks of one size, a share of reads, and requests in progress."""

    block_bytes: int
    read_share: float
    depth: int
    sequential: bool
    held_out: bool = False


def planned(*, quick: bool, seed: int) -> list[Asked]:
    """All points, in a random order, so that a drive that slows down does not favour some of them."""
    points = _quick() if quick else _full()
    random.Random(seed).shuffle(points)
    return points


def _full() -> list[Asked]:
    return [
        *_grid((4, 16, 64, 256), (1.0, 0.7, 0.3, 0.0), (1, 4, 16, 64), sequential=False),
        *_grid((16, 64, 256, 1024), (1.0, 0.0), (1, 16), sequential=True),
        *_held_out((8, 32, 128), (2, 8, 32), (0.85, 0.5, 0.15), sequential=False),
        *_held_out((32, 128, 512), (4, 8), (1.0, 0.0), sequential=True),
    ]


def _quick() -> list[Asked]:
    return [
        *_grid((4, 16, 256), (1.0, 0.7, 0.3, 0.0), (1, 8, 64), sequential=False),
        *_grid((16, 256), (1.0, 0.0), (1, 16), sequential=True),
        *_held_out((8, 64), (2, 32), (0.85, 0.5), sequential=False),
        *_held_out((64,), (4,), (1.0, 0.0), sequential=True),
    ]


def _grid(kib: tuple[int, ...], shares: tuple[float, ...], depths: tuple[int, ...], *, sequential: bool) -> list[Asked]:
    return [Asked(size * _KIB, share, depth, sequential) for size, share, depth in product(kib, shares, depths)]


def _held_out(
    kib: tuple[int, ...], depths: tuple[int, ...], shares: tuple[float, ...], *, sequential: bool
) -> list[Asked]:
    """Each size with each depth; the shares take turns, so that each meets each size."""
    return [
        Asked(size * _KIB, share, depth, sequential, held_out=True)
        for row, size in enumerate(kib)
        for column, depth in enumerate(depths)
        for share in ([shares[(row + column) % len(shares)]] if not sequential else shares)
    ]
