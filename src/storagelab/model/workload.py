"""The loads that a spec may name, and the load of a cell. The files of the folder `loads` define them."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from functools import reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from storagelab.model import loads
from storagelab.model.loads.base import Load

_FIRST, _LAST = ("inserts", "pgbench", "sysbench", "sql"), ("raw_io",)
"""The order of loads in the reference; others stand in between."""


def _files() -> list[str]:
    found = {one.name for one in pkgutil.iter_modules(loads.__path__)} - {"base"}
    return [*_FIRST, *sorted(found - {*_FIRST, *_LAST}), *_LAST]


def _members() -> Iterator[type[Load]]:
    for name in _files():
        module = import_module(f"{loads.__name__}.{name}")
        here = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Load)]
        yield from (one for one in here if one.__module__ == module.__name__ and isinstance(_kind_of(one), str))


def _kind_of(member: type[Load]) -> Any:
    """The name in a spec; empty for what several kinds share."""
    return member.model_fields["kind"].default


KINDS: dict[str, type[Load]] = {_kind_of(member): member for member in _members()}
"""Each kind of workload, by its name in a spec."""


def _with_kind(workload: object) -> object:
    """Adds the default kind, random inserts, to a table that names none."""
    return {"kind": next(iter(KINDS)), **workload} if isinstance(workload, Mapping) else workload


if TYPE_CHECKING:
    Workload = Load
else:
    Workload = Annotated[reduce(or_, KINDS.values()), Field(discriminator="kind"), BeforeValidator(_with_kind)]
"""A workload; its kind selects which one."""
