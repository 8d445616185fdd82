"""Formats numbers as text with their units. The functions are pure.

Each formatter returns "" for None, so unknown figures are shown as empty and never as 0. The interval of a figure
determines the number of its digits, so that the runs support each digit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from storagelab.model.values import JsonValue
from storagelab.words.names import value_text

if TYPE_CHECKING:
    from storagelab.model.loads.base import Unit
    from storagelab.model.values import Estimate

_SECOND_UNITS = ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (0.1, 1e3, "ms"))
_TOO_WIDE = 100
_FAR_TOO_WIDE = 1e6
MANY_TIMES = 9.0
"""If a time grew by at least this many times its old value, the change is shown as a multiple ("11 times as long")."""
_LEAST_BOUND = 1.0011
"""An upper bound that is closer to 1 is shown as this value, so that the text is "at most 0.1 % slower". It is still an
upper bound."""
MB = 1e6
_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_MAKERS_UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB")
_UNIT = (
    r"(?:%|s|ms|µs|ns|min|h|rows/s|IO/s|reads/s|writes/s|tps|bytes|[KMGTP]?i?B|Hz|times|data files?|connections?|runs?"
    r"|CIs?)"
)
_AFTER_NUMBER = re.compile(rf"(?<=\d) (?={_UNIT}(?!\w))|(?<=%) (?=CIs?(?!\w))")


def keep_together(text: str) -> str:
    """Replaces the spaces between numbers and their units by no-break spaces, for output that wraps lines."""
    return _AFTER_NUMBER.sub("\u00a0", text)


def decimals_for(values: Sequence[float], half_width: float | None, significant: int = 3) -> int:
    """The number of decimals for figures with these values and this half width of an interval.

    Two digits of the half width are shown if its first digit is 1; otherwise one digit. A value has at least three
    digits, as in ladders. If there is no interval, the largest value has `significant` digits.
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if largest == 0:
        return 0
    order = math.floor(math.log10(largest))
    if not half_width or not math.isfinite(half_width):
        return max(0, significant - 1 - order)
    width_order = math.floor(math.log10(half_width))
    digits = 1 if half_width / 10**width_order < 1.95 else 0
    return max(0, min(digits - width_order, 4 - order), 2 - order)


def _number(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text


def significant(value: float, digits: int = 3) -> str:
    """`value` rounded to `digits` significant digits, with separated thousands: "190,000" for 189734."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else ""
    order = math.floor(math.log10(abs(value)))
    return _number(round(value, digits - 1 - order), max(0, digits - 1 - order))


def round_figure(value: float, digits: int = 4) -> str:
    """A number that is already round, such as the start of an axis, without zeros at its end: "9.8" for 9.8."""
    text = significant(value, digits)
    return text.rstrip("0").removesuffix(".") if "." in text else text


def round_figures(low: float, high: float, most: int = 9) -> list[float]:
    """The round figures from `low` to `high`, which are both above 0. In a narrow range, they have equal steps.
    Otherwise, they are 1, 2, 5, 10 and so on. If these are more than `most`, they are 1, 10, 100 and so on.
    """
    powers = range(math.floor(math.log10(low)) - 3, math.ceil(math.log10(high)) + 1)
    series = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    if high < 5 * low:
        step = next(step for step in series if (high - low) / step < most)
        return [float(f"{step * place:.6g}") for place in range(math.ceil(low / step), math.floor(high / step) + 1)]
    found = [value for value in series if low <= value <= high]
    return found if len(found) <= most else [value for value in found if f"{value:e}".startswith("1.0")]


def second_unit(value: float) -> tuple[float, str]:
    return next(((factor, unit) for below, factor, unit in _SECOND_UNITS if 0 < abs(value) < below), (1.0, "s"))


def seconds(value_s: float | None, half_width_s: float | None = None, like_s: float | None = None) -> str:
    """Seconds as "2.41 s", "83 ms" or "5.2 µs". The half width of the interval (`half_width_s`) determines the
    digits. The unit is that of the time `like_s`, if it is given."""
    if value_s is None or not math.isfinite(value_s):
        return ""
    factor, unit = second_unit(like_s or value_s)
    width = None if half_width_s is None else half_width_s * factor
    return f"{_number(value_s * factor, decimals_for([value_s * factor], width))} {unit}"


def seconds_like(value_s: float, all_s: Sequence[float]) -> str:
    """A time for a column with the times `all_s`. All have the unit of the largest, and as many decimals as give the
    smallest three digits. So the column is aligned."""
    factor, unit = second_unit(max(all_s))
    return f"{_number(value_s * factor, decimals_for([min(all_s) * factor], None))} {unit}"


def seconds_moved(before_s: float, after_s: float) -> str:
    """Two times in the unit of the larger time, such as "5.10 -> 0.04 ms"."""
    factor, unit = second_unit(max(before_s, after_s))
    decimals = decimals_for([before_s * factor, after_s * factor], None)
    return f"{_number(before_s * factor, decimals)} -> {_number(after_s * factor, decimals)} {unit}"


def seconds_number(value_s: float | None, decimals: int) -> str:
    """Seconds without their unit, for a table column whose heading has the unit. If a value is too small for the
    column, its text is "<0.01" instead of 0.
    """
    if value_s is None or not math.isfinite(value_s):
        return ""
    smallest = 10.0**-decimals
    return f"<{_number(smallest, decimals)}" if 0 < value_s < smallest / 2 else _number(value_s, decimals)


def duration(value_s: float | None) -> str:
    """A duration for planning: "45 s", "3 min 20 s", "2 h 10 min", "3 d 4 h"."""
    if value_s is None or not math.isfinite(value_s):
        return ""
    if value_s < 10:
        return seconds(value_s) if value_s < 1 else f"{_number(value_s, 1).removesuffix('.0')} s"
    whole = round(value_s)
    for size, unit, small_size, small_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = round((whole % size) / small_size)
            large, rest = (whole // size + 1, 0) if rest * small_size == size else (whole // size, rest)
            return f"{large} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole} s"


def percent(share: float | None, decimals: int | None = None) -> str:
    """A fraction (0..1) as "25 %", "2.1 %" or "less than 0.1 %"."""
    if share is None or not math.isfinite(share):
        return ""
    points = 100 * share
    if decimals is None:
        if 0 < abs(points) < 0.1:
            return "less than 0.1 %"
        decimals = 0 if abs(points) >= 9.95 else 1
        return f"{_number(points, decimals).removesuffix('.0')} %"
    return f"{_number(points, decimals)} %"


def signed_percent(ratio: float | None, half_width: float | None = None) -> str:
    """A ratio of elapsed times as a change, for tables: "+22 %" for 1.22, "-18 %" for 0.82, and "x 2.4" for 2.4."""
    if ratio is None or not math.isfinite(ratio):
        return ""
    if abs(ratio - 1) < 0.0005:
        return f"{'+' if ratio > 1 else '-'}<0.1 %" if abs(ratio - 1) > 1e-9 else "0 %"
    if ratio >= 2:
        return f"x {significant(ratio, 2)}"
    return f"{'+' if ratio > 1 else '-'}{_share_of_change(ratio - 1, half_width).replace('less than ', '<')}"


def ratio_text(ratio: float, decimals: int = 2) -> str:
    """A ratio of times: "1.04", or "17" for a large ratio."""
    return significant(ratio, 2) if ratio >= 10 else _number(ratio, decimals if ratio < 2 else 2)


def ratio_estimate(ratio: Estimate, decimals: int = 2) -> str:
    """A ratio with its interval, for a column whose heading says what the interval is: "1.22 (1.17 to 1.27)"."""
    return ratio_text(ratio.value, decimals) + ends_in_brackets(ratio, lambda end: ratio_text(end, decimals))


def at_least_slower(low: float) -> str:
    """The lower bound of a cell's additional time as text: "at least 4 %", or "at least 2.1 times as long"."""
    return f"at least {ratio_text(low)} times as long" if low >= 2 else f"at least {percent(low - 1)}"


def signed_estimate(ratio: Estimate | None) -> str:
    """A change with its interval, for a column whose heading says what the interval is: "+22 % (17 to 27 % more)"."""
    if ratio is None:
        return ""
    interval = ratio_interval(ratio).removeprefix(f"{_joint(ratio)} ")
    if interval.endswith("times"):  # then the value is shown as a multiple, too
        return f"x {significant(ratio.value, 2)} ({interval.removesuffix(' times')})"
    if interval.endswith("%"):
        interval += " more" if ratio.value > 1 else " less"
    return signed_percent(ratio.value, ratio.half_width) + (f" ({interval})" if interval else "")


def at_most_slower(bound: float) -> str:
    """The upper bound of a cell's additional time relative to the truly fastest cell: "at most 6.2 % slower"."""
    return f"at most {percent(max(bound, _LEAST_BOUND) - 1)} slower"


def change(ratio: float | None, half_width: float | None = None, per: str = "") -> str:
    """A ratio of elapsed times as text: "18 % less time", "22 % more time", or "2.4 times as long". `per`, such as "
    per row", is appended.
    """
    if ratio is None or not math.isfinite(ratio):
        return ""
    if ratio >= 2:
        return f"{significant(ratio, 2)} times as long{per}"
    if abs(ratio - 1) < 0.0005:
        return f"less than 0.1 % more or less time{per}"
    return f"{_share_of_change(ratio - 1, half_width)} {'more' if ratio > 1 else 'less'} time{per}"


def differs_by(ratio: Estimate) -> str:
    """The ratio of two changes as text: "22 % (joint 95 % CI 17 to 27 %)", or "a factor of 2.4 (...)"."""
    interval = ratio_interval(ratio)
    amount = f"a factor of {significant(ratio.value, 2)}"
    if ratio.value < 2 and not interval.endswith(" times"):
        amount = _share_of_change(ratio.value - 1, ratio.half_width)
    return f"{amount} ({interval.removesuffix(' times')})" if interval else amount


def _share_of_change(share: float, half_width: float | None) -> str:
    """The absolute value of `share` in per cent. It has the digits that its interval supports, but is never rounded to
    0."""
    if half_width is None:
        return percent(abs(share))
    decimals = _change_decimals(half_width)
    rounds_to_nothing = abs(share) * 100 < 0.5 * 10.0**-decimals
    return percent(abs(share)) if rounds_to_nothing else percent(abs(share), decimals)


def _change_decimals(half_width: float) -> int:
    return 0 if half_width >= 0.0095 else 1


RATES: Mapping[Unit, str] = {"rows": "rows/s", "requests": "IO/s", "transactions": "transactions/s"}
"""The unit of a rate, by the unit of the work."""


def rate(value: float | None, unit: Unit) -> str:
    """A rate with three digits: "190,000 rows/s"."""
    return rows_per_s(value, RATES[unit])


def rows_per_s(value: float | None, unit: str = "rows/s") -> str:
    """Throughput with three digits: "190,000 rows/s"."""
    return "" if value is None or not math.isfinite(value) else f"{significant(value)} {unit}"


def limit_text(rate: str, limit: float) -> str:
    """The limit of a volume's rate as text: "600 writes/s", or "20 MB/s read"."""
    what = "read" if rate.startswith("read") else "write"
    if rate.endswith("iops"):
        return f"{significant(limit)} {what}s/s"
    return f"{significant(limit / MB)} MB/s {'read' if what == 'read' else 'written'}"


def count(value: float | None) -> str:
    """A count with separated thousands. A mean count below 10 that is no integer has one decimal."""
    if value is None or not math.isfinite(value):
        return ""
    if value != round(value) and abs(value) < 9.95:
        return "<0.1" if 0 < value < 0.05 else _number(value, 1)
    return _number(value, 0)


def plural(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 panel", "3 panels"."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def price(value: float) -> str:
    """An amount of money in any currency: "110", "1,234.50"."""
    return f"{value:,.2f}".removesuffix(".00")


def bytes_(value: float | None) -> str:
    """Bytes in binary units, as servers count them (1 KiB = 1024 bytes): "512 bytes", "64 MiB", "1.5 GiB"."""
    if value is None or not math.isfinite(value):
        return ""
    size, unit = float(value), 0
    while abs(size) >= 1024 and unit < len(_BYTE_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    text = _number(size, 0) if abs(size) >= 9.95 or unit == 0 else _number(size, 1).removesuffix(".0")
    return f"{text} {_BYTE_UNITS[unit]}"


def capacity(value: float | None) -> str:
    """Space on a drive in decimal units, as manufacturers count it (1 GB = 10^9 bytes): "300 GB", "1.2 TB"."""
    if value is None or not math.isfinite(value):
        return ""
    power = next((power for power in (12, 9, 6) if value >= 0.9995 * 10**power), 3)
    return f"{round_figure(value / 10**power, 3)} {_MAKERS_UNITS[power // 3]}"


# ---------------------------------------------------------------------------------------------------------------------
# Estimates: a figure and its interval
# ---------------------------------------------------------------------------------------------------------------------


def _level(estimate: Estimate) -> str:
    return f"{_number(100 * estimate.confidence, 1).removesuffix('.0')} % CI"


def ends_in_brackets(estimate: Estimate, show: Callable[[float], str], name: str = "") -> str:
    """The interval in brackets, for use after a figure: " (2.36 to 2.47)". `name`, such as "95 % CI ", is written
    before the ends. It is "" if there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f" ({name}{show(estimate.low)} to {show(estimate.high)})"


def share_estimate(estimate: Estimate | None) -> str:
    """A fraction (0..1) with its interval: "29 % (95 % CI 26 to 32 %)". If there are too few runs for an interval, the
    text has only the fraction.

    If the whole interval is too small to be shown, the text is "less than 0.1 % (95 % CI, too)".
    """
    if estimate is None:
        return ""
    if estimate.low is None or estimate.high is None:
        return percent(estimate.value)
    low, high = max(0.0, estimate.low), min(1.0, estimate.high)
    if 100 * high < 0.05:
        return f"{percent(estimate.value)} ({_level(estimate)}, too)"
    decimals = 0 if 100 * estimate.value >= 9.95 and high - low >= 0.01 else 1
    return (
        f"{percent(estimate.value)} ({_level(estimate)} {_number(100 * low, decimals)} to "
        f"{_number(100 * high, decimals)} %)"
    )


def times_estimate(ratio: Estimate) -> str:
    """A ratio of figures that are not times, with its interval: "0.965 times (95 % CI 0.938 to 0.992)"."""
    return f"{ratio.value:.3f} times{ends_in_brackets(ratio, '{:.3f}'.format, f'{_level(ratio)} ')}"


def seconds_estimate(estimate: Estimate | None) -> str:
    """A time with its interval: "2.41 s (95 % CI 2.36 to 2.47 s)". If there are too few runs for an interval, the
    brackets say so."""
    if estimate is None:
        return ""
    factor, unit = second_unit(estimate.value)
    width = None if estimate.half_width is None else estimate.half_width * factor
    decimals = decimals_for([estimate.value * factor], width)
    interval = _interval(estimate, lambda end: _number(end * factor, decimals), f" {unit}")
    return f"{seconds(estimate.value, estimate.half_width)} ({interval or 'no interval: too few runs'})"


def rows_per_s_estimate(estimate: Estimate | None, unit: str = "rows/s") -> str:
    """Throughput with its interval: "190,000 rows/s (95 % CI 187,000 to 193,000)"."""
    if estimate is None:
        return ""
    interval = _interval(estimate, significant)
    return rows_per_s(estimate.value, unit) + (f" ({interval})" if interval else "")


def _interval(estimate: Estimate, show: Callable[[float], str], unit: str = "") -> str:
    """The text "95 % CI 2.36 to 2.47 s"; "" if there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    too_wide = estimate.high > _FAR_TOO_WIDE * abs(estimate.value)
    ends = "too wide to say" if too_wide else f"{show(estimate.low)} to {show(estimate.high)}{unit}"
    return f"{_level(estimate)} {ends}"


def ratio_interval(ratio: Estimate | None) -> str:
    """The interval of a ratio as changes: "joint 95 % CI 17 to 27 %", or "joint 95 % CI 2 % less to 8 % more".

    The interval is joint, because it holds together with the intervals of all other ratios of its kind. The interval of
    a mean holds by itself. If an end is rounded to no change, it is written as "0" if the interval includes no change,
    and as "more than 0" if it does not.

    If one end is more than a hundred times the other, the text has only the informative end. If there is none, it is
    "too wide to say".
    """
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    if ratio.high > _TOO_WIDE * ratio.low:
        text = _wide_interval(ratio.low, ratio.high)
    elif ratio.high >= 2:
        digits = 2 if significant(ratio.low, 2) != significant(ratio.high, 2) else 3
        low, high = (significant(end, digits) for end in (ratio.low, ratio.high))
        if low == "1.0":  # a ratio that is not 1 must not be shown as 1.0
            low = f"{1 + float(f'{ratio.low - 1:.1g}'):g}"
        text = f"{low} to {high}{' times' * (ratio.value < 2)}"
    elif ratio.low <= 1 <= ratio.high:
        text = _less_to_more(ratio.low - 1, ratio.high - 1)
    else:
        text = _change_to_change(ratio.low - 1, ratio.high - 1)
    return f"{_joint(ratio)} {text}"


def _less_to_more(low: float, high: float) -> str:
    """The text "2 % less to 8 % more", or "0 to 8 % more", for an interval that includes no change."""
    decimals = _change_decimals((high - low) / 2)
    ends = [
        f"{percent(abs(end), decimals)} {way}"
        for end, way in ((low, "less"), (high, "more"))
        if not _shown_as_nothing(end, decimals)
    ]
    return " to ".join(["0", *ends] if len(ends) == 1 else ends) or "less than 0.1 % either way"


def _change_to_change(low: float, high: float) -> str:
    """The text "17 to 27 %", for changes in one direction."""
    decimals = _change_decimals((high - low) / 2)
    small, large = sorted((abs(low), abs(high)))
    # If an interval does not include 0, its lower end must not be shown as 0.
    while decimals < 2 and small > 0 and _shown_as_nothing(small, decimals):
        decimals += 1
    start = "more than 0" if 0 < small < 0.00005 else percent(small, decimals).removesuffix(" %")
    return f"{start} to {percent(large, decimals)}"


def _shown_as_nothing(share: float, decimals: int) -> bool:
    return abs(share) < 0.5 * 10.0 ** -(decimals + 2)


def _joint(ratio: Estimate) -> str:
    return f"joint {_level(ratio)}"


def _wide_interval(low: float, high: float) -> str:
    if low > 1:
        return f"at least {significant(low, 2)} times" if low >= 2 else f"at least {percent(low - 1, 0)} more"
    return f"at least {percent(1 - high, 0)} less" if high < 1 else "too wide to say"


def change_estimate(ratio: Estimate | None, per: str = "") -> str:
    """A change with its interval: "22 % more time (joint 95 % CI 17 to 27 %)". `per`, such as " per row", is appended
    to the change."""
    if ratio is None:
        return ""
    interval, value = ratio_interval(ratio) or "no interval: too few runs", change(ratio.value, ratio.half_width, per)
    if ratio.value < 2 and interval.endswith(" times"):  # then the value is shown as a multiple, too
        value, interval = f"{significant(ratio.value, 2)} times as long{per}", interval.removesuffix(" times")
    return f"{value} ({interval})"


# --- figures whose names end with their units -------------------------------------------------------------------------


def quantity_text(name: str, value: JsonValue | None) -> str:
    """A figure with the unit that its name ends with: "512 MiB" for `write_bytes`, and "1.50 s" for `busy_s`. A drive's
    `usable_bytes` are shown in decimal units, as its manufacturer shows them.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return value_text(value)
    if name == "usable_bytes":
        return capacity(value)
    if name.endswith("bytes_per_s"):
        return f"{significant(value / MB)} MB/s"
    if name.endswith("_per_s"):
        what = name.removesuffix("_per_s").replace("_", " ")
        return f"{significant(value)} {'IO' if what == 'ios' else what}/s"
    if name.endswith("bytes"):
        return bytes_(value)
    if name.endswith("_s"):
        return seconds(value)
    return count(value) if value == round(value) or abs(value) >= 100 else f"{value:.3g}"
