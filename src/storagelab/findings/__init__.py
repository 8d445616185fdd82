"""Runs -> findings: statistics, verdicts, effects, cautions. Pure."""

import functools
import pkgutil
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Literal

FitKind = Literal["robust", "least-squares"]
"""The ways to fit the means of cells, defined here because the command line needs them before it loads statistics.
"""


@functools.lru_cache  # the folder is read once, not for each cell
def modules_of(name: str, path: tuple[str, ...]) -> Sequence[ModuleType]:
    """The modules of the package `name`, by their names; `path` is its `__path__`."""
    return [import_module(one.name) for one in pkgutil.iter_modules(path, f"{name}.")]
