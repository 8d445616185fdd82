"""Watched and unwatched stretches of a run in turns, so that what watching costs can be told from what it watches.

Stretches are short, since whatever else disturbs a machine lasts longer and so hits both kinds alike: with other programs on
all CPUs, the ratio of both kinds scatters by 4 % from one run of 16 s to the next, and by 15 % with stretches of a second.
Yet they last longer than most transactions, since one that ends in another stretch than it began in is neither. The order is
that of Thue and Morse (watched, not, not, watched, not, watched, watched, not ...): neither a trend nor a period of the load
hits one kind more than the other.
"""

from __future__ import annotations

import math

STRETCH_S = 0.25
SHORTEST_S = 4.0
"""A shorter run has too few stretches: it is watched throughout."""


def is_watched(at_s: float) -> bool:
    """Whether the stretch at this moment, in seconds since the beginning, is watched."""
    return max(0, math.floor(at_s / STRETCH_S)).bit_count() % 2 == 0


def next_edge_s(at_s: float) -> float:
    """The end of the stretch at this moment."""
    return (math.floor(at_s / STRETCH_S) + 1) * STRETCH_S
