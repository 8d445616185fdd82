"""The base of every value in storagelab."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Scalar = str | int | float | bool
JsonValue = Scalar | list[Scalar]
MOST = 1e30
Figure = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
"""A measured figure: finite, and so small that its square and sums of thousands are finite, too."""
Count = Annotated[int, Field(ge=-int(MOST), le=int(MOST))]
MOST_SECONDS = 1e9
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)]
"""A time from a file that others may have written: at most 32 years."""
Amount = Annotated[int, Field(ge=0, lt=2**63)]
"""Requests, bytes or transactions from a file that others may have written."""


_PER_CENT = re.compile(r"\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*%\s*")


def share_of(text: str) -> float | None:
    """The share for a percentage such as "3%" or "2.5 %": 0.03; None if the text is not a percentage."""
    found = _PER_CENT.fullmatch(text)
    return float(found[1]) / 100 if found else None


class Frozen(BaseModel):
    """A value: immutable, and strict about unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Described(Frozen):
    """A value of a spec. The string below a field is the field's description, which the reference pages show."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Estimate(Frozen):
    """A figure with its interval at `confidence`. `low` and `high` are None if there are too few runs, or if they
    don't bound it."""

    value: float
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width; None without an interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def inverse(self) -> Estimate:
        """The ratio of the opposite comparison: a against b becomes b against a."""
        low, high = (1 / end if end else None for end in (self.high, self.low))
        return self.model_copy(update={"value": 1 / self.value, "low": low, "high": high})


@dataclass(frozen=True)
class LeftOut:
    """The description of what a missing key means, if the key's own default is None."""

    words: str


@dataclass(frozen=True)
class LeftToCore:
    """A missing key gets the default that the core declares for the key's name in `owner` (`storagelab.profiles`)."""

    owner: str
