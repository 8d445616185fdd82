"""The tables of a spec as written, before its factors expand them into cells.

A level can change the kind of the workload. So a spec may have the keys of every kind, and each is checked by itself.
`rules` checks that a key belongs to the kind of a cell.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Literal

from pydantic import BaseModel, create_model
from pydantic.fields import FieldInfo

from storagelab.model.config import Config
from storagelab.model.values import Frozen
from storagelab.model.workload import KINDS


def _left_out(field: FieldInfo) -> FieldInfo:
    """The same for a key that may be missing."""
    optional = copy(field)
    optional.default = None
    return optional


def _any_workload() -> type[BaseModel]:
    fields = dict[str, Any]()
    for member in KINDS.values():
        for name, field in member.model_fields.items():
            # A key of several kinds takes here what it takes in the first of them; raw I/O, the last, takes the least.
            fields.setdefault(name, (field.annotation, _left_out(field)))
    fields["kind"] = (Literal[tuple(KINDS)], None)
    return create_model("AnyWorkload", __base__=Frozen, **fields)


_AnyWorkload = _any_workload()
Written: type[Config] = create_model("Written", __base__=Config, workload=(_AnyWorkload, _AnyWorkload()))
