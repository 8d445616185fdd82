"""Formats figures by the unit at the end of their names. Pure."""

from __future__ import annotations

from storagelab.model.values import JsonValue
from storagelab.words import numbers
from storagelab.words.names import value_text


def quantity_text(name: str, value: JsonValue | None) -> str:
    """A figure in its unit: `write_bytes` -> "512 MB", `busy_s` -> "1.50 s"; a drive's `usable_bytes` in its maker's
    units.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return value_text(value)
    if name == "usable_bytes":
        return numbers.capacity(value)
    if name.endswith("bytes_per_s"):
        return f"{numbers.significant(value / 1e6)} MB/s"
    if name.endswith("_per_s"):
        what = name.removesuffix("_per_s").replace("_", " ")
        return f"{numbers.significant(value)} {'IO' if what == 'ios' else what}/s"
    if name.endswith("bytes"):
        return numbers.bytes_(value)
    if name.endswith("_s"):
        return numbers.seconds(value)
    return numbers.count(value) if value == round(value) or abs(value) >= 100 else f"{value:.3g}"
