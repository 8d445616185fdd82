"""Converts sizes and durations as people write them to bytes and seconds. `report` formats them."""

from __future__ import annotations

import math
import re

BYTES_PER_UNIT = {
    "": 1, "b": 1,
    "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
SECONDS_PER_UNIT = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

AUTO = "auto"

_SHOWN_CHARACTERS = 40
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str) -> int:
    """Bytes in `text`, such as "64MB" or "128KiB". As in PostgreSQL and SQL Server, KB = 1024 bytes.

    Raises ValueError that names the known units.
    """
    return round(_parse(text, BYTES_PER_UNIT, "bytes"))


def parse_seconds(text: str) -> float:
    """Seconds in `text`, such as "250ms" or "5min". Raises ValueError that names the known units."""
    return _parse(text, SECONDS_PER_UNIT, "a duration")


def parse_warm_up(text: str) -> float | str:
    """Seconds in `text`, or "auto" for a warm-up whose end is to be found. Raises ValueError as above."""
    if text.strip() == AUTO:
        return AUTO
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise ValueError(f'{error}, or "{AUTO}"') from None


def _parse(text: str, factors: dict[str, float] | dict[str, int], what: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2].lower() not in factors:
        known = ", ".join(unit for unit in factors if unit)
        shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
        raise ValueError(f"{shown!r} is not {what}; write a number and one of {known}")
    quantity = float(match[1]) * factors[match[2].lower()]
    if math.isinf(quantity):
        raise ValueError(f"{text[:20]}... is out of range")
    return quantity
