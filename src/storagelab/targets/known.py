"""What is known about engines without loading their drivers, for code that reads what runs left behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from storagelab.model.durability import Durability
from storagelab.model.waits import BenignList
from storagelab.targets.mariadb import durability as mariadb
from storagelab.targets.postgres import durability as postgres
from storagelab.targets.sqlserver import durability as sqlserver
from storagelab.targets.sqlserver.facts import BENIGN, latch_note


class Known(NamedTuple):
    """`judge` gives the verdict on durability from the settings that a server shows and the text of its version."""

    judge: Callable[[Mapping[str, str], str], Durability]
    benign: BenignList | None = None
    note_on_files: Callable[[int], str] | None = None
    """What to bear in mind when comparing numbers of data files, by the server's major version."""


KNOWN = {
    "postgres": Known(postgres.judge),
    "mariadb": Known(mariadb.judge),
    "sqlserver": Known(sqlserver.judge, BENIGN, latch_note),
}
BENIGN_LISTS = tuple(engine.benign for engine in KNOWN.values() if engine.benign is not None)
BENIGN_WAITS = frozenset[str]().union(*(one.wait_types for one in BENIGN_LISTS))
