"""The kernel's accounts of a server's sessions: each session's state now, and what all of them spent in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from storagelab.machine.procfs import SchedStat, Switches, TaskView
from storagelab.model.waits import NS


class Totals(NamedTuple):
    """What all sessions together spent in the run."""

    cpu_s: float
    runqueue_s: float
    switches: Switches


_Reading = tuple[SchedStat, Switches]


class Accounts:
    """The accounts of one run. Call in order: `open`, `begin` while the sessions sleep at the gate, `end`, `totals`, `close`.

    Unless they are opened there are no states and no totals, and `reason` says why.
    """

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        self._views: dict[int, TaskView] = {}
        self._own: TaskView | None = None
        self._began: list[_Reading | None] = []
        self._ended: list[_Reading | None] = []

    def open(self, views: Mapping[int, TaskView], own: TaskView | None) -> None:
        """Opens the kernel's views: `views` are the sessions', by the server's ids; `own` is the sampler's."""
        self._views, self._own = dict(views), own

    def states(self) -> dict[int, str]:
        """The state of each session, as the kernel's letter."""
        return {session: view.state() for session, view in self._views.items()}

    def turns(self) -> dict[int, int]:
        """How often each session has been put on a CPU so far."""
        scheds = {session: view.sched() for session, view in self._views.items()}
        return {session: sched.timeslices for session, sched in scheds.items() if sched is not None}

    def own_cpu_s(self) -> float | None:
        """CPU time so far of the sampler's own session."""
        sched = self._own.sched() if self._own else None
        return None if sched is None else sched.cpu_ns * NS

    def begin(self) -> None:
        self._began = self._read()

    def end(self) -> None:
        self._ended = self._read()

    def _read(self) -> list[_Reading | None]:
        readings = ((view.sched(), view.switches()) for view in self._views.values())
        return [None if sched is None or switches is None else (sched, switches) for sched, switches in readings]

    def totals(self) -> Totals | None:
        """The sums; None, with the reason noted, if one session's totals are missing."""
        if not self._views:
            return None
        cpu_ns = runqueue_ns = voluntary = involuntary = 0
        for began, ended in zip(self._began or [None], self._ended, strict=False):
            if began is None or ended is None:
                self.reason = "a session ended before its totals could be read from the kernel"
                return None
            cpu_ns += ended[0].cpu_ns - began[0].cpu_ns
            runqueue_ns += ended[0].runqueue_ns - began[0].runqueue_ns
            voluntary += ended[1].voluntary - began[1].voluntary
            involuntary += ended[1].involuntary - began[1].involuntary
        self.reason = ""
        return Totals(cpu_ns * NS, runqueue_ns * NS, Switches(voluntary, involuntary))

    def close(self) -> None:
        for view in (*([self._own] if self._own else []), *self._views.values()):
            view.close()
