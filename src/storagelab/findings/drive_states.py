"""What drives report of a run: pages written for each page that they were given, and how full they are. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Literal, get_args

from storagelab.findings import samples
from storagelab.findings.model import DriveState, Estimate
from storagelab.model.measurement import Measurement

Quantity = Literal["write_amplification", "utilisation"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
PREFIX = "drive "
BOUNDS: dict[Quantity, tuple[float, float]] = {"write_amplification": (1.0, math.inf), "utilisation": (0.0, 1.0)}
"""A drive writes at least what it is given, and can't be more than full."""


def states(measurements: Sequence[Measurement]) -> Iterator[DriveState]:
    """Means over the runs of a cell, for every drive that reports its state."""
    for drive, quantity in product(drives_in(measurements), QUANTITIES):
        values = [value for one in measurements if (value := value_of(one, drive, quantity)) is not None]
        if values:
            yield DriveState(drive=drive, quantity=quantity, mean=mean_of(values, quantity))


def mean_of(values: Sequence[float], quantity: Quantity) -> Estimate:
    """The mean with a 95 % interval that stays within the possible range without being cut off.

    It is the t interval of log((mean - least) / (most - mean)), or of log(mean - least) if there is no `most` (delta
    method). Its width is 0 if all values are equal.
    """
    least, most = BOUNDS[quantity]
    plain = samples.mean_estimate(values)
    below, above = plain.value - least, most - plain.value
    if plain.high is None or plain.high == plain.value or min(below, above) <= 0:
        return plain
    # Values that scatter far beyond their mean bound nothing; the exponent keeps the arithmetic finite.
    factor = math.exp(min(300.0, (plain.high - plain.value) * (1 / below + 1 / above)))
    low, high = below / factor, below * factor
    if math.isfinite(most):
        low, high = ((most - least) * part / (part + above) for part in (low, high))
    return plain.model_copy(update={"low": least + low, "high": least + high})


def drives_in(measurements: Iterable[Measurement]) -> list[str]:
    groups = dict.fromkeys(group for one in measurements for group in one.counters)
    return [group.removeprefix(PREFIX) for group in groups if group.startswith(PREFIX)]


def value_of(measurement: Measurement, drive: str, quantity: Quantity) -> float | None:
    return measurement.counters.get(f"{PREFIX}{drive}", {}).get(quantity)
