"""What a run of raw I/O sends to its file: drawn requests, or those of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Protocol

from storagelab.model.config import Config
from storagelab.model.loads.base import Load, of_class
from storagelab.model.loads.raw_io import RawIo
from storagelab.model.loads.replay import Replay
from storagelab.targets import Site, temporary
from storagelab.targets.raw import fio
from storagelab.targets.raw.fio import Fio, Job, Outcome, Place
from storagelab.targets.traces import Request, Trace, read, replay_figures

REPLAYED_BY = "psync"
"""fio's engine for traces: each thread waits for each of its requests."""
Tell = Callable[[], None]


class Sender(Protocol):
    """The load of a run."""

    @property
    def block_bytes(self) -> int:
        """The size of a request by which the file is tried."""

    @property
    def engine(self) -> str | None:
        """fio's I/O engine; None for any that keeps several requests in progress."""

    def warm_up(self, program: Fio, place: Place, engine: str, seed: int, tell: Tell) -> None:
        """Sends what doesn't count. Raises RunFailed."""

    def send(self, program: Fio, place: Place, engine: str, seed: int, tell: Tell) -> Outcome:
        """Sends what counts. Raises RunFailed."""

    def figures(self, outcome: Outcome) -> Mapping[str, float]:
        """Results beside those of every run."""


def sender_of(config: Config, site: Site) -> Sender:
    """Raises PreflightError for a trace that can't be read."""
    return _SENDERS[type(config.workload)](config, site)


class Drawn:
    """Requests of one size."""

    engine = None

    def __init__(self, load: RawIo) -> None:
        self._load = load

    @property
    def block_bytes(self) -> int:
        return self._load.block_bytes

    def warm_up(self, program: Fio, place: Place, engine: str, seed: int, tell: Tell) -> None:
        if self._load.warm_up_s:
            fio.make(program, place, self._job(self._load.warm_up_s, seed), engine, tell, logged=False)

    def send(self, program: Fio, place: Place, engine: str, seed: int, tell: Tell) -> Outcome:
        counted_s = self._load.duration_s - self._load.warm_up_s
        return fio.make(program, place, self._job(counted_s, seed + 1), engine, tell)

    def figures(self, outcome: Outcome) -> Mapping[str, float]:  # noqa: ARG002 - as of a trace
        return {}

    def _job(self, seconds: float, seed: int) -> Job:
        load = self._load
        return Job(
            operation=load.operation, pattern=load.pattern, block_bytes=load.block_bytes, seconds=seconds,
            threads=load.threads, outstanding=load.outstanding,
            read_fraction=0.5 if load.read_fraction is None else load.read_fraction, seed=seed,
        )  # fmt: skip


class Traced:
    """The requests of a trace: they take turns on as many threads as there may be requests in progress."""

    engine = REPLAYED_BY

    def __init__(self, load: Replay, trace: Trace) -> None:
        self._load, self._trace = load, trace

    @cached_property
    def block_bytes(self) -> int:
        return max(one.bytes for one in self._trace.requests)

    def warm_up(self, program: Fio, place: Place, engine: str, seed: int, tell: Tell) -> None:
        pass

    def send(self, program: Fio, place: Place, engine: str, seed: int, tell: Tell) -> Outcome:  # noqa: ARG002 - all is in the trace
        threads = min(self._load.outstanding, len(self._trace.requests))
        with temporary.folder("trace") as folder:
            logs = [folder / f"{number}.iolog" for number in range(threads)]
            for number, log in enumerate(logs):
                _write(log, place.name, self._trace.requests[number::threads])
            return fio.replay(
                program,
                place,
                logs,
                paced=self._load.paced,
                seconds=self._trace.seconds,
                io_engine=engine,
                progress=tell,
            )

    def figures(self, outcome: Outcome) -> Mapping[str, float]:
        total_ns = outcome.latency.total_ns if outcome.latency is not None else 0
        return replay_figures(self._trace.seconds, outcome.elapsed_s, total_ns / 1e9)


_ACTIONS = {"r": "read", "w": "write"}


def _write(log: Path, name: str, requests: Iterable[Request]) -> None:
    """An iolog of version 3 for one thread."""
    with log.open("w", encoding="utf-8") as file:
        file.write(f"fio version 3 iolog\n0 {name} add\n0 {name} open\n")
        end = 0
        for end, what, offset, length in requests:
            file.write(f"{end} {name} sync\n" if what == "s" else f"{end} {name} {_ACTIONS[what]} {offset} {length}\n")
        file.write(f"{end} {name} close\n")


def _drawn(config: Config, site: Site) -> Sender:  # noqa: ARG001 - as of a trace
    return Drawn(config.raw_load)


def _traced(config: Config, site: Site) -> Sender:
    load = of_class(config.workload, Replay)
    return Traced(load, read(site.spec_folder / Path(load.trace).expanduser()))


_SENDERS: Mapping[type[Load], Callable[[Config, Site], Sender]] = {RawIo: _drawn, Replay: _traced}
