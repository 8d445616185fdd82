"""What every value in storagelab is made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

Scalar = str | int | float | bool
JsonValue = Scalar | list[Scalar]


class Frozen(BaseModel):
    """A value: immutable, and strict about names it doesn't know."""

    model_config = ConfigDict(frozen=True, extra="forbid")
