"""The meaning of a server's waits. The meaning is a category, which groups the waits of all engines, and the name of
the most similar wait type of SQL Server.

Each engine lists its waits in its module `events`. Each line there has all facts about one wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from storagelab.model.durability import Durability
from storagelab.model.waits import NO_EVENT, BenignList, Category


class Kind(NamedTuple):
    """The meaning of a wait. `analogue` is the most similar wait type of SQL Server, or "" if there is none."""

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
    """The facts about one wait. `resource` describes what is waited for, if the server does not name it. `in_io`: the
    server reports this wait during a whole call into the kernel, so the wait includes the CPU time of the call.
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
    """The waits of one engine. If a wait is not `listed`, the first of the `rules` (regular expressions) that matches a
    part of its name decides its meaning. So waits of later versions get a plausible category.

    `spelt` converts each name to one spelling. It is used for the list and for the server's output.
    """

    def __init__(
        self, listed: Mapping[str, Event], rules: Mapping[str, Event], spelt: Callable[[str], str] = str
    ) -> None:
        self._spelt = spelt
        self._known = {spelt(name): event for name, event in listed.items()}
        self._rules = [(re.compile(pattern), event) for pattern, event in rules.items()]

    def __call__(self, wait_type: str) -> Event:
        """Returns the meaning of a wait. Returns `UNKNOWN` for `NO_EVENT` and for waits that match no entry."""
        if wait_type == NO_EVENT:
            return UNKNOWN
        name = self._spelt(wait_type)
        if name not in self._known:
            self._known[name] = next((event for rule, event in self._rules if rule.search(name)), UNKNOWN)
        return self._known[name]


# --- knowledge -------------------------------------------------------------------------------------------------------
#
# Facts about an engine that need no driver. Each engine has them in its module `known`.


class Knowledge(NamedTuple):
    """Facts about an engine that need no driver. `judge` returns what the server promises after a crash, from its
    settings and version.
    """

    judge: Callable[[Mapping[str, str], str], Durability]
    benign: BenignList | None = None
    note_on_files: Callable[[int], str] | None = None
    """A caution for comparisons of different numbers of data files. The argument is the server's major version."""
