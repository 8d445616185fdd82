"""Findings other than verdicts, effects and waits. Each module has one kind of finding.

To add a kind, add a module here. It needs a class with the fields for the export, the short and the long text, and the
place in the answer. It also needs a check, which is a function: `find` for an experiment, or `find_in_cell` for the
runs of a cell. All modules of this package are found automatically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from storagelab.findings import modules_of
from storagelab.findings.basis import Evidence
from storagelab.findings.model import Finding
from storagelab.model.config import Config
from storagelab.model.measurement import Measurement

_Found = dict[str, tuple[Finding, ...]]


def kinds() -> list[type[Finding]]:
    """The classes of all kinds, sorted by weight."""
    names = {module.__name__ for module in modules_of(__name__, tuple(__path__))}
    return sorted((one for one in Finding.__subclasses__() if one.__module__ in names), key=lambda one: one.weight)


def found_in(evidence: Evidence) -> _Found:
    """The findings about an experiment, by kind."""
    return _by_kind(one for find in _finders("find") for one in find(evidence))


def found_in_cell(runs: Sequence[Measurement], config: Config) -> _Found:
    """The findings about the runs of one cell, by kind."""
    return _by_kind(one for find in _finders("find_in_cell") for one in find(runs, config))


def _finders(name: str) -> list[Callable[..., Iterable[Finding]]]:
    return [getattr(module, name) for module in modules_of(__name__, tuple(__path__)) if hasattr(module, name)]


def _by_kind(found: Iterable[Finding]) -> _Found:
    of_kind: dict[str, list[Finding]] = {}
    for one in found:
        of_kind.setdefault(one.kind, []).append(one)
    return {kind: tuple(those) for kind, those in of_kind.items()}


kinds()  # loads all classes, so that findings that are read from a file get their classes
