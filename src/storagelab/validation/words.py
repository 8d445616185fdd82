"""Published and simulated figures as texts with units. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.findings.model import Estimate
from storagelab.model.values import JsonValue
from storagelab.validation.articles import Published
from storagelab.validation.judging import Row
from storagelab.words import numbers

_MOST_DIGITS = 6


def _unit_for(unit: str, value: float) -> tuple[float, str]:
    """The divisor and the unit to append. Drive makers and the articles count in thousands."""
    match unit:
        case "s":
            return (1.0, " s") if abs(value) >= 0.1 or value == 0 else (1e-6, " µs")
        case "share":
            return 0.01, " %"
        case "bytes":
            return 1e9, " GB"
        case "bytes/s":
            return 1e6, " MB/s"
        case "":
            return (1e6, " M") if abs(value) >= 1e6 else (1.0, "")
        case "/s":
            return 1.0, "/s"
        case _:
            return 1.0, f" {unit}"


def published(figure: Published) -> str:
    """A figure as in the article: all digits, a range, or an order."""
    if figure.order is not None:
        return _levels(figure.order)
    if figure.between is not None:
        low, high = figure.between
        divisor, unit = _unit_for(figure.unit, high)
        return f"{_exact(low / divisor)} to {_exact(high / divisor)}{unit}"
    assert figure.value is not None
    divisor, unit = _unit_for(figure.unit, figure.value)
    return f"{_exact(figure.value / divisor)}{unit}"


def _exact(value: float) -> str:
    text = numbers.significant(value, _MOST_DIGITS)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _levels(levels: Sequence[JsonValue]) -> str:
    return " < ".join(map(str, levels))


def simulated(row: Row) -> str:
    """The mean, and half the width of its interval if there are enough runs for one."""
    if row.order:
        return _levels(row.order)
    if row.tied:
        return f"{row.level} or {', '.join(map(str, row.tied))} {row.figure.unit}"
    if row.level is not None:
        return f"{row.level} {row.figure.unit}" if row.level != "never" else "never"
    return "" if row.simulated is None else estimate(row.simulated, row.figure.unit)


def estimate(value: Estimate, unit: str) -> str:
    divisor, words = _unit_for(unit, value.value)
    half = None if value.high is None else (value.high - value.value) / divisor
    whole = half is None and divisor == 1 and value.value == round(value.value)
    decimals = 0 if whole else numbers.decimals_for([value.value / divisor], half, significant=4)
    interval = "" if half is None else f" ± {half:,.{decimals}f}"
    return f"{value.value / divisor:,.{decimals}f}{interval}{words}"


def error(row: Row) -> str:
    """Simulated against published, in percent."""
    if row.error is None:
        return ""
    if row.figure.between is not None and row.error == 0:
        return "in range"
    points = 100 * row.error
    return f"{points:+,.0f} %" if abs(points) >= 9.95 else f"{points:+.1f} %"


def held_to(figure: Published) -> str:
    """The tolerance of the model."""
    if figure.tolerance_absolute is not None:
        return f"± {estimate(Estimate(value=figure.tolerance_absolute), figure.unit)}"
    if figure.tolerance:
        return f"± {numbers.percent(figure.tolerance)}"
    return "the range" if figure.between is not None else "the same"


def share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def bounds(low_high: tuple[int | float, int | float] | None) -> str:
    return "" if low_high is None else f"{plain(low_high[0])} to {plain(low_high[1])}"


def plain(value: object) -> str:
    """A parameter's value as in its file, thousands separated."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return f"{value:,}"
