"""Watched and unwatched stretches of a run in turns, so that what watching costs can be told from what it watches.

Stretches last a second. Their order is that of Thue and Morse (watched, not, not, watched, not, watched, watched, not ...):
of each two neighbours that begin at an even second, one is watched, and a trend or a period of the load affects both kinds
alike.
"""

from __future__ import annotations

import math

STRETCH_S = 1.0
SHORTEST_S = 8.0
"""A shorter run has too few stretches: it is watched throughout."""


def is_watched(at_s: float) -> bool:
    """Whether the stretch at this moment, in seconds since the beginning, is watched."""
    return max(0, math.floor(at_s / STRETCH_S)).bit_count() % 2 == 0


def next_edge_s(at_s: float) -> float:
    """The end of the stretch at this moment."""
    return (math.floor(at_s / STRETCH_S) + 1) * STRETCH_S
