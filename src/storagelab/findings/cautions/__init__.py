"""Cautions, which are reasons to trust a result less. Each module has the classes of one or a few related cautions, and
their checks.

To add a caution, add a module here. It needs a class with the figures, the texts and the group, and a check, which is a
function `check_...`. All modules of this package are found automatically.
"""

from __future__ import annotations

from storagelab.findings import modules_of
from storagelab.findings.basis import Evidence
from storagelab.findings.model import Caution


def kinds() -> list[type[Caution]]:
    """The classes of all cautions, in the order of reports."""
    names = {module.__name__ for module in modules_of(__name__, tuple(__path__))}
    return sorted((one for one in Caution.__subclasses__() if one.__module__ in names), key=lambda one: one.rank())


def cautions_of(evidence: Evidence) -> tuple[Caution, ...]:
    """All cautions of an experiment. Notes come last. Within cautions and within notes, the order is that of groups."""
    every = [of for module in modules_of(__name__, tuple(__path__)) for of in vars(module).items()]
    found = [caution for name, check in every if name.startswith("check_") for caution in check(evidence)]
    return tuple(sorted(found, key=lambda one: (one.severity == "note", one.rank())))


kinds()  # loads all classes, so that cautions that are read from a file get their classes
