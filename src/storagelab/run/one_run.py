"""One run on a database, from set-up to removal. It connects a server, the sessions of a load, and a watcher."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Any, Generic, Self

from storagelab import __version__
from storagelab.errors import RunFailed
from storagelab.loads import fio
from storagelab.machine import host
from storagelab.machine.counts import DeviceCounters
from storagelab.model.config import Config
from storagelab.model.measurement import LOAD, Check, Measurement
from storagelab.model.plan import RESTORED, Cell
from storagelab.model.target import Progress
from storagelab.model.waits import SampledWaits
from storagelab.servers.attached import hidden
from storagelab.servers.durability import judged
from storagelab.servers.interfaces import C, Sessions, System, Work, prepare_machine
from storagelab.servers.server import Server, server_of
from storagelab.servers.space import SpaceWatch
from storagelab.stopping import uninterrupted
from storagelab.watching.counters import Clocks, Counters, MachineCounters
from storagelab.watching.pace import check_watching
from storagelab.watching.sampler import Observation, SessionSampler

# --- watcher ---------------------------------------------------------------------------------------------------------
# The watcher of one run. It reads samples of the sessions, the drives, the clocks, and the counters of the server and
# the machine. It also measures raw I/O beside the run.


class Watcher(Generic[C]):
    """Observes one run. Call `ready` first. Enter the context while all sessions wait for the start, and leave it when
    the last session has finished. Then call `counted`.
    """

    seen: Observation
    _sampler: SessionSampler
    _machine: MachineCounters

    def __init__(self, system: System[C], server: Server[C], sessions: Sessions[C]) -> None:
        self._system, self._server, self._sessions = system, server, sessions

    def ready(self) -> None:
        """Finds the drives. Call it before the sessions are gathered for the start."""
        self._process = self._server.reach.process(self._server.own)
        self._devices = DeviceCounters(self._server.volumes(), process=self._process or "self")
        self.clocks = Clocks(lambda: self._system.time_s(self._server.own))

    def __enter__(self) -> Self:
        own, reach = self._server.own, self._server.reach
        self._sampler = self._system.sampler(own, reach, self._sessions, self._devices.read)
        try:
            self._sampler.prepare()
            self._passed = self._system.count(own, reach, self._sessions)
            self._machine = MachineCounters(self._devices, self._process)
            self._sampler.baseline()
            self._sampler.start()
            self.clocks.begin()
        except BaseException:
            self._sampler.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.clocks.end()
        finally:
            self.seen = self._sampler.stop()
        if kind is None:
            self._machine.end()

    def look(self) -> int:
        """Returns the work done so far. Must be called from time to time."""
        self._machine.look()
        return self._sessions.so_far(self._sampler.progress())

    @property
    def stood_s(self) -> float:
        """The time, in seconds, for which the run stood still."""
        return self._machine.standstill.seconds

    def counted(self) -> Counters:
        """Returns the server's counters. Before this call, each session must have reported its own counters to the
        server.
        """
        return self._passed()

    def of_machine(self, elapsed_s: float, *, with_checkpoint: bool) -> tuple[Counters, list[Check]]:
        """Returns the counters and checks of this machine. Both are empty if the server runs elsewhere."""
        if not self._system.counts_this_machine:
            return {}, []
        return self._machine.counted(with_checkpoint=with_checkpoint), self._machine.checks(elapsed_s)

    def raw_io(self, moment: str, seed: int) -> tuple[Counters, list[Check]]:
        """If the spec wants it at this moment, measures raw I/O on the volumes. Returns counters, or a failed check if
        raw I/O can't be measured.
        """
        system = self._system
        if system.config.measure.raw != moment:
            return {}, []
        folders = {name: system.folders[name] for name in system.volumes}
        try:
            return fio.measure_beside(system.config, folders, system.page_bytes(self._server.own), seed), []
        except RunFailed as error:
            asked = "four tests on each volume"
            return {}, [Check(name="raw I/O beside the load", asked=asked, got=str(error), ok=False, read_from="fio")]


class OneRun(Generic[C]):
    """A context manager for one run. Entering sets everything up, or raises RunFailed. Leaving removes everything that
    was made.
    """

    def __init__(self, system: System[C], server: Server[C] | None = None) -> None:
        self.system, self.server = system, server or server_of(system)
        self.setup_s = 0.0
        self._errors: tuple[type[BaseException], ...] = (RunFailed, *system.foreign_errors)

    @property
    def config(self) -> Config:
        return self.system.config

    # --- set-up and teardown -----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        began = time.perf_counter()
        try:
            self._set_up()
        except self.system.foreign_errors as error:
            reason = f"can't set up the layout: {self._reason(error)}"
            self.__exit__(type(error), error, None)
            raise RunFailed(reason) from error
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self.setup_s = time.perf_counter() - began
        return self

    def _set_up(self) -> None:
        self.server.open()
        with SpaceWatch(self.server.volumes()) as filling:
            try:
                self.server.prepare()
            except self._errors as error:
                log, folder = self.server.whole_log()
                words = hidden(self._message(error), self.config.target)
                if (full := filling.explain(words, log, self.config, folder)) is None:
                    raise
                raise full from error

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Removes what was made. Raises RunFailed if something could not be removed. If another error is already being
        raised, this failure is only written to the log.
        """
        with uninterrupted():
            try:
                self.server.close()
            except RunFailed as failure:
                if kind is None:
                    raise
                logging.getLogger("storagelab").info("not all was removed: %s", failure)

    def _message(self, error: BaseException) -> str:
        return str(error).strip() if isinstance(error, RunFailed) else self.system.message_of(error)

    def _reason(self, error: BaseException) -> str:
        """Returns the message for an error, with lines of the server's log, but without secrets."""
        return hidden(self.server.with_log(self._message(error)), self.config.target)

    # --- a run -------------------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, object]:
        """Returns the run's environment. It never includes passwords and connection strings."""
        with contextlib.closing(self.server.reach.connect_worker()) as connection:
            return self._environment(connection)

    def _environment(self, connection: C) -> dict[str, object]:
        """Returns the environment as a session of the load finds it. On an attached server, only the load's sessions
        have the requested settings.
        """
        system, server, here = self.system, self.server, host.describe_host()
        process = server.reach.process(server.own) or "self"
        volumes = {name: host.describe_volume(path, process=process) for name, path in server.volumes().items()}
        state = "rebuilt" if server.restored is None else f"{RESTORED}{server.restored.how}"
        return {
            **({"host": {}, "client": here} if server.elsewhere else {"host": here}),
            "volumes": {**volumes, **system.remote_volumes(connection)},
            "server": {
                "engine": system.name,
                "how": server.how,
                "origin": server.origin,
                **system.facts_of(connection),
            },
            **({"data": {"state": state}} if self.config.generated else {}),
            "storagelab": {"version": __version__},
        }

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:
        """Runs the load once and measures it. Raises RunFailed with the server's message. After an error, the layout
        can't be used again."""
        try:
            return self._run(seed, progress)
        except self._errors as error:
            raise RunFailed(self._reason(error)) from error

    def _run(self, seed: int, progress: Progress) -> Measurement:
        system, server = self.system, self.server
        sessions = system.layout.sessions(server.own, server.reach, seed)
        watcher = Watcher(system, server, sessions)
        try:
            sessions.open()
            environment = self._environment(sessions.first)
            raw, raw_checks = watcher.raw_io("before", seed)
            prepare_machine(self.config.between_runs, system.volumes, lambda: system.write_out(server.own))
            watcher.ready()
            began_s = time.monotonic()
            if self.config.generated:  # these sessions begin their work as they gather
                progress(0)
            sessions.gather()
            with watcher:
                counts_s = time.monotonic()
                if not self.config.generated:
                    progress(0)
                    began_s = counts_s
                sessions.release()
                loops = sessions.wait(lambda: self._on_poll(progress, watcher.look()))
            sessions.settle()
            counters = watcher.counted()
            done = sessions.done(loops, watcher.seen, watcher.clocks)
            checks = [*done.checks, *server.reach.check_settings(server.own, sessions.first)]
        finally:
            sessions.close()
        checkpoint_s = self._checkpoint()
        machine, machine_checks = watcher.of_machine(done.elapsed_s, with_checkpoint=checkpoint_s is not None)
        after, after_checks = watcher.raw_io("after", seed)
        checks += [*machine_checks, *raw_checks, *after_checks]
        counters |= done.counters | machine | raw | {LOAD: {"counts_after_s": counts_s - began_s}}
        return self._measured(
            done, watcher.seen, watcher.stood_s, checkpoint_s=checkpoint_s, environment=environment,
            counters=counters | after, checks=(*self._layout_checks(), *checks),
        )  # fmt: skip

    def _on_poll(self, progress: Progress, work: int) -> None:
        self.server.refuse_if_dead()
        progress(work)

    def _checkpoint(self) -> float | None:
        """Makes the server write out the table after the load. Returns the seconds that this takes, or None if the
        login may not request it."""
        if not self.server.reach.may_write_out:
            return None
        began = time.perf_counter()
        self.system.write_out(self.server.own)
        return time.perf_counter() - began

    def _measured(
        self, done: Work, seen: Observation, stood_s: float, *, checks: Sequence[Check], **rest: Any
    ) -> Measurement:
        busy_s, connections = sum(done.connection_s), len(done.connection_s)
        observer = seen.observed(done.elapsed_s)
        waits = seen.waits(done.elapsed_s, busy_s, connections) if self.config.measure.waits else None
        passes = waits.passes if isinstance(waits, SampledWaits) else None
        return Measurement(
            provenance="measured", elapsed_s=done.elapsed_s, rows=done.rows, transactions=done.transactions,
            connection_s=done.connection_s, latency=done.latency, turns=done.turns,
            waiting_tasks=seen.waiting_tasks, series=done.series, waits=waits, observer=observer,
            checks=(*checks, *check_watching(seen.error, observer, done.elapsed_s, passes, stood_s)),
            durability=judged(rest["environment"]), setup_s=self.setup_s, **rest,
        )  # fmt: skip

    def _layout_checks(self) -> list[Check]:
        """Returns the checks of the files that the server made, and of their places."""
        own, layout, server = self.server.own, self.system.layout, self.server
        return [
            *layout.read_back(own), *self.system.check_remote_volumes(own), *server.reach.check_log_place(own),
            *(server.restored.checks() if server.restored is not None else ()), *layout.check_after(own),
        ]  # fmt: skip
