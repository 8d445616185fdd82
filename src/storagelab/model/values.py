"""What every value in storagelab is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Scalar = str | int | float | bool
JsonValue = Scalar | list[Scalar]
MOST = 1e30
Figure = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
"""Something measured: finite, and such that its square and a sum of thousands of them are, too."""
Count = Annotated[int, Field(ge=-int(MOST), le=int(MOST))]


class Frozen(BaseModel):
    """A value: immutable, and strict about names it doesn't know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class LeftOut:
    """What stands for a key that a spec leaves out, in words, where the key's own default is None."""

    words: str
