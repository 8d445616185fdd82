"""The base of every value in storagelab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Scalar = str | int | float | bool
JsonValue = Scalar | list[Scalar]
MOST = 1e30
Figure = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
"""A measured figure: finite, and small enough that its square and sums of thousands are finite, too."""
Count = Annotated[int, Field(ge=-int(MOST), le=int(MOST))]


class Frozen(BaseModel):
    """A value: immutable, and strict about unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class LeftOut:
    """The words for what a missing key means, if the key's own default is None."""

    words: str
