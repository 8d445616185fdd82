"""What is known of engines without their drivers, for those who read what runs left behind."""

from __future__ import annotations

from importlib import import_module

from storagelab.model.engines import ENGINES
from storagelab.targets.knowledge import Known


def _known(folder: str) -> Known:
    found: Known = import_module(f"storagelab.targets.{folder}.known").KNOWN
    return found


KNOWN = {name: _known(engine.folder) for name, engine in ENGINES.items() if engine.provenance == "measured"}
BENIGN_LISTS = tuple(engine.benign for engine in KNOWN.values() if engine.benign is not None)
BENIGN_WAITS = frozenset[str]().union(*(one.wait_types for one in BENIGN_LISTS))
