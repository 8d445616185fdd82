"""What the parts of the export's form have in common. Pure."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, GetPydanticSchema, WithJsonSchema

FORM = ConfigDict(extra="forbid", use_attribute_docstrings=True)


def dumped(model: Any) -> GetPydanticSchema:
    """The form of a value that is dumped from this model."""
    return GetPydanticSchema(lambda _, handler: handler.generate_schema(model))


_SCALAR = {"type": ["string", "number", "boolean"]}
Level = Annotated[object, WithJsonSchema({"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]})]
Levels = dict[str, Level]
Amount = Annotated[float | None, Field(ge=0)]
Count = Annotated[int | None, Field(ge=0)]
Interval = Annotated[list[float] | None, Field(min_length=2, max_length=2)]
Table = Annotated[object, WithJsonSchema({"type": "object"})]
