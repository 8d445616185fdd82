"""Makes long series short enough to draw: equal stretches with their mean, least and most, so that no peak is lost. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Stretch(NamedTuple):
    """Neighbouring samples: when the last of them ends, and what they came to; None where nothing was known."""

    at_s: float
    mean: float | None
    least: float | None
    most: float | None


def stretches(at_s: Sequence[float], values: Sequence[float | None], limit: int) -> Iterator[Stretch]:
    """At most `limit` equal stretches of a series; the last one may be shorter."""
    length = max(1, -(-len(values) // limit))
    for start in range(0, len(values), length):
        known = [value for value in values[start : start + length] if value is not None]
        end = at_s[min(start + length, len(at_s)) - 1]
        if known:
            yield Stretch(end, sum(known) / len(known), min(known), max(known))
        else:
            yield Stretch(end, None, None, None)
