"""The watcher of one run: the sampler, the drives, the clocks, the counters of server and machine, and raw I/O beside it."""

from __future__ import annotations

from types import TracebackType
from typing import Generic, Self

from storagelab.errors import RunFailed
from storagelab.machine.devices import DeviceCounters
from storagelab.model.measurement import Check
from storagelab.targets.clocks import Clocks
from storagelab.targets.machine_counters import MachineCounters
from storagelab.targets.parts import C, Sampler, Sessions, System
from storagelab.targets.raw import beside
from storagelab.targets.recording import Seen
from storagelab.targets.servers import Server
from storagelab.targets.steps import Counters


class Watcher(Generic[C]):
    """In order: `ready`; entered while all sessions wait at the gate, left when the last one is done; `counted`."""

    seen: Seen
    _sampler: Sampler
    _machine: MachineCounters

    def __init__(self, system: System[C], server: Server[C], sessions: Sessions[C]) -> None:
        self._system, self._server, self._sessions = system, server, sessions

    def ready(self) -> None:
        """Finds the drives, before sessions gather."""
        self._process = self._server.reach.process(self._server.own)
        self._devices = DeviceCounters(self._server.volumes(), process=self._process or "self")
        self.clocks = Clocks(lambda: self._system.time_s(self._server.own))

    def __enter__(self) -> Self:
        system, server, sessions = self._system, self._server, self._sessions
        self._sampler = system.sampler(server.own, server.reach, sessions, self._devices.read)
        try:
            self._sampler.prepare()
            self._passed = system.count(server.own, server.reach, sessions)
            self._machine = MachineCounters(self._devices, self._process)
            self._sampler.baseline()
            self._sampler.start()
            self.clocks.begin()
        except BaseException:
            self._sampler.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.clocks.end()
        finally:
            self.seen = self._sampler.stop()
        if kind is None:
            self._machine.end()

    def look(self) -> int:
        """The work done so far; to be called now and then."""
        self._machine.look()
        return self._sessions.so_far(self._sampler.progress())

    def counted(self) -> Counters:
        """The server's counters; its sessions' are known to it."""
        return self._passed()

    def of_machine(self, elapsed_s: float, *, with_checkpoint: bool) -> tuple[Counters, list[Check]]:
        """This machine's counters and checks, if they say something about the run."""
        if not self._system.counts_this_machine:
            return {}, []
        return self._machine.counted(with_checkpoint=with_checkpoint), self._machine.checks(elapsed_s)

    def raw_io(self, moment: str, seed: int) -> tuple[Counters, list[Check]]:
        """What the volumes take, if it is to be measured at this moment; a check that fails where it can't be."""
        system = self._system
        if system.config.measure.raw != moment:
            return {}, []
        try:
            folders = {name: system.folders[name] for name in system.volumes}
            return beside.measure(system.config, folders, system.page_bytes(self._server.own), seed), []
        except RunFailed as error:
            asked = "four tests on each volume"
            return {}, [Check(name="raw I/O beside the load", asked=asked, got=str(error), ok=False, read_from="fio")]
