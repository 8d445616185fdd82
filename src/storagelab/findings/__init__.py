"""Derives findings from runs: statistics, verdicts, effects and cautions. The functions are pure."""

import functools
import pkgutil
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Literal

FitKind = Literal["robust", "least-squares"]
"""The ways to fit the means of cells. They are defined here because the command line needs them before it loads
statistics.
"""


@functools.lru_cache  # the folder is read once, not for each cell
def modules_of(name: str, path: tuple[str, ...]) -> Sequence[ModuleType]:
    """The modules of the package `name`, sorted by name. `path` is the package's `__path__`."""
    return [import_module(one.name) for one in pkgutil.iter_modules(path, f"{name}.")]
