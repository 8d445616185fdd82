"""Finds the modules of a package that has no list of them."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType


def modules_of(name: str, path: Sequence[str]) -> Sequence[ModuleType]:
    """The modules of the package `name`, by their names; `path` is its `__path__`."""
    return _modules_of(name, tuple(path))


@functools.lru_cache  # the folder is read once, not for each cell
def _modules_of(name: str, path: tuple[str, ...]) -> Sequence[ModuleType]:
    return [import_module(one.name) for one in pkgutil.iter_modules(path, f"{name}.")]
