"""The modules of a package that has no list of them: a module is found by being there."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType


def modules_of(name: str, path: Iterable[str]) -> list[ModuleType]:
    """The modules of the package `name`, by their names; `path` is its `__path__`."""
    return [import_module(one.name) for one in pkgutil.iter_modules(path, f"{name}.")]
