"""The meaning of a server's waits: the category that groups them across engines, and SQL Server's name.

Each engine lists its waits in its module `events`: one line has all facts about one wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from storagelab.model.durability import Durability
from storagelab.model.waits import NO_EVENT, BenignList, Category


class Kind(NamedTuple):
    """The meaning of a wait. `analogue` is SQL Server's wait type, or "" if there is none."""

    analogue: str
    category: Category


PAGE_READ = Kind("PAGEIOLATCH_*", "data-read")
EVICTION = Kind("(lazy writer)", "data-write")
CHECKPOINT = Kind("CHKPT", "data-write")
FILE_GROWTH = Kind("PREEMPTIVE_OS_WRITEFILEGATHER", "file-growth")
OTHER_READ = Kind("IO_COMPLETION", "data-read")
OTHER_WRITE = Kind("IO_COMPLETION", "data-write")
OTHER_IO = Kind("IO_COMPLETION", "other")
LOG_WRITE = Kind("WRITELOG", "commit")
STANDBY = Kind("HADR_SYNC_COMMIT", "commit")
LOG_BUFFER = Kind("LOGBUFFER", "log-buffer")
ALLOCATION = Kind("PAGELATCH_UP on PFS/GAM/SGAM", "allocation")
PAGE_LATCH = Kind("PAGELATCH_*", "page-latch")
LATCH = Kind("LATCH_EX", "latch")
SPINLOCK = Kind("SOS_SCHEDULER_YIELD (spinlock back-off)", "latch")
LOCK = Kind("LCK_M_*", "lock")
NETWORK = Kind("ASYNC_NETWORK_IO", "network")
PARALLELISM = Kind("CXPACKET", "other")
MEMORY = Kind("MEMORY_ALLOCATION_EXT", "other")
SLEEP = Kind("WAITFOR", "other")
NOTHING = Kind("", "other")


class Event(NamedTuple):
    """One wait. `resource` describes the resource, if the server does not name it. `in_io`: the server reports this
    wait for a whole call into the kernel, including CPU time inside the call.
    """

    kind: Kind
    resource: str = ""
    in_io: bool = False

    @property
    def analogue(self) -> str:
        return self.kind.analogue

    @property
    def category(self) -> Category:
        return self.kind.category


def io(kind: Kind, resource: str) -> Event:
    """A wait inside a call into the kernel."""
    return Event(kind, resource, in_io=True)


UNKNOWN = Event(NOTHING)


class WaitEvents:
    """The waits of one engine. A wait that is not `listed` gets the meaning of the first of the `rules` (regular
    expressions) that matches part of its name, so a wait of a later version gets a sensible class.

    `spelt` unifies the spellings of a name, both in the list and in the server's output.
    """

    def __init__(
        self, listed: Mapping[str, Event], rules: Mapping[str, Event], spelt: Callable[[str], str] = str
    ) -> None:
        self._spelt = spelt
        self._known = {spelt(name): event for name, event in listed.items()}
        self._rules = [(re.compile(pattern), event) for pattern, event in rules.items()]

    def __call__(self, wait_type: str) -> Event:
        """The meaning of a wait; `UNKNOWN` for `NO_EVENT` and for waits that match nothing."""
        if wait_type == NO_EVENT:
            return UNKNOWN
        name = self._spelt(wait_type)
        if name not in self._known:
            self._known[name] = next((event for rule, event in self._rules if rule.search(name)), UNKNOWN)
        return self._known[name]


# --- knowledge -------------------------------------------------------------------------------------------------------
#
# Facts that need no driver, from an engine's module `known`.


class Knowledge(NamedTuple):
    """Facts about an engine that need no driver. `judge` gives the verdict on durability, from the server's settings
    and version.
    """

    judge: Callable[[Mapping[str, str], str], Durability]
    benign: BenignList | None = None
    note_on_files: Callable[[int], str] | None = None
    """A caution for comparisons of numbers of data files, by the major version."""
