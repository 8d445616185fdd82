"""Cautions, which are reasons to trust a result less: each module has the class of a caution, or of a few related
cautions, and their checks.

A new caution is a new module here, which has its figures, texts, group, and check (a function `check_...`). All modules
of this package are found automatically.
"""

from __future__ import annotations

from storagelab.findings import modules_of
from storagelab.findings.basis import Evidence
from storagelab.findings.model import Caution


def kinds() -> list[type[Caution]]:
    """The classes of all cautions, as a report orders them."""
    names = {module.__name__ for module in modules_of(__name__, tuple(__path__))}
    return sorted((one for one in Caution.__subclasses__() if one.__module__ in names), key=lambda one: one.rank())


def cautions_of(evidence: Evidence) -> tuple[Caution, ...]:
    """Every caution, those before notes, and by group."""
    every = [of for module in modules_of(__name__, tuple(__path__)) for of in vars(module).items()]
    found = [caution for name, check in every if name.startswith("check_") for caution in check(evidence)]
    return tuple(sorted(found, key=lambda one: (one.severity == "note", one.rank())))


kinds()  # so that cautions read from a file get their classes
