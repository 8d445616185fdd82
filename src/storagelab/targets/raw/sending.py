"""What a run of raw I/O sends to its file: drawn requests, or those of a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Protocol

from storagelab.model.config import Config
from storagelab.model.loads.base import Load, of_class
from storagelab.model.loads.raw_io import RawIo
from storagelab.model.loads.replay import Replay
from storagelab.targets import Site
from storagelab.targets.raw import fio, replaying
from storagelab.targets.raw.fio import Fio, Job
from storagelab.targets.raw.outcome import Outcome, Place
from storagelab.targets.traces import Trace, read
from storagelab.version import __version__

Tell = Callable[[], None]


class Sender(Protocol):
    """The load of a run."""

    @property
    def block_bytes(self) -> int:
        """The size of a request by which the file is tried."""

    def facts(self, program: Fio, engine: str) -> Mapping[str, object]:
        """What sends it."""

    def warm_up(self, program: Fio, place: Place, engine: str, seed: int, tell: Tell) -> None:
        """Sends what doesn't count. Raises RunFailed."""

    def send(self, program: Fio, place: Place, engine: str, seed: int, tell: Tell) -> Outcome:
        """Sends what counts. Raises RunFailed."""


def sender_of(config: Config, site: Site) -> Sender:
    """Raises PreflightError for a trace that can't be read."""
    return _SENDERS[type(config.workload)](config, site)


class Drawn:
    """Requests of one size."""

    def __init__(self, load: RawIo) -> None:
        self._load = load

    @property
    def block_bytes(self) -> int:
        return self._load.block_bytes

    def facts(self, program: Fio, engine: str) -> Mapping[str, object]:
        return {"engine": "raw I/O by fio", "version": program.version, "io_engine": engine}

    def warm_up(self, program: Fio, place: Place, engine: str, seed: int, tell: Tell) -> None:
        if self._load.warm_up_s:
            fio.make(program, place, self._job(self._load.warm_up_s, seed), engine, tell, logged=False)

    def send(self, program: Fio, place: Place, engine: str, seed: int, tell: Tell) -> Outcome:
        counted_s = self._load.duration_s - self._load.warm_up_s
        return fio.make(program, place, self._job(counted_s, seed + 1), engine, tell)

    def _job(self, seconds: float, seed: int) -> Job:
        load = self._load
        return Job(
            operation=load.operation, pattern=load.pattern, block_bytes=load.block_bytes, seconds=seconds,
            threads=load.threads, outstanding=load.outstanding,
            read_fraction=0.5 if load.read_fraction is None else load.read_fraction, seed=seed, sync=load.sync,
        )  # fmt: skip


class Traced:
    """The requests of a trace."""

    def __init__(self, load: Replay, trace: Trace) -> None:
        self._load, self._trace = load, trace

    @cached_property
    def block_bytes(self) -> int:
        return max(one.bytes for one in self._trace.requests)

    def facts(self, program: Fio, engine: str) -> Mapping[str, object]:  # noqa: ARG002 - as of drawn requests
        return {"engine": "a trace by storagelab", "version": __version__}

    def warm_up(self, program: Fio, place: Place, engine: str, seed: int, tell: Tell) -> None:
        pass

    def send(self, program: Fio, place: Place, engine: str, seed: int, tell: Tell) -> Outcome:  # noqa: ARG002 - all is in the trace
        return replaying.replay(place, self._trace, self._load, tell)


def _drawn(config: Config, site: Site) -> Sender:  # noqa: ARG001 - as of a trace
    return Drawn(config.raw_load)


def _traced(config: Config, site: Site) -> Sender:
    load = of_class(config.workload, Replay)
    return Traced(load, read(site.spec_folder / Path(load.trace).expanduser()))


_SENDERS: Mapping[type[Load], Callable[[Config, Site], Sender]] = {RawIo: _drawn, Replay: _traced}
