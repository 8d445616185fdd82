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
"""A measured figure. It is finite, and so small that its square and sums of thousands of such figures are
finite, too."""
Count = Annotated[int, Field(ge=-int(MOST), le=int(MOST))]
MOST_SECONDS = 1e9
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)]
"""A time in seconds from a file that others may have written. At most 32 years."""
Amount = Annotated[int, Field(ge=0, lt=2**63)]
"""A number of requests, bytes or transactions from a file that others may have written."""


_PER_CENT = re.compile(r"\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*%\s*")


def share_of(text: str) -> float | None:
    """Returns the share for a percentage such as "3%" or "2.5 %", for example 0.03. Returns None if the text is not a
    percentage.
    """
    found = _PER_CENT.fullmatch(text)
    return float(found[1]) / 100 if found else None


class Frozen(BaseModel):
    """A value: it can't be changed, and it refuses unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Described(Frozen):
    """A value that a spec contains. The string below a field is the field's description, which the reference pages
    show.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)


KNOWN = 2.0
"""A bound above this factor is shown as "not known"."""


class Estimate(Frozen):
    """A figure with its interval at `confidence`. `low` and `high` are None if there are too few runs, or if the runs
    give no bound."""

    value: float
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width. None without an interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def inverse(self) -> Estimate:
        """The estimate for the opposite comparison: the ratio of a to b becomes the ratio of b to a."""
        low, high = (1 / end if end else None for end in (self.high, self.low))
        return self.model_copy(update={"value": 1 / self.value, "low": low, "high": high})


@dataclass(frozen=True)
class LeftOut:
    """What it means if a key is left out. Needed if the key's own default is None."""

    words: str


@dataclass(frozen=True)
class LeftToCore:
    """Marks a key whose default the core declares, under the key's name in `owner` (`storagelab.profiles`)."""

    owner: str
