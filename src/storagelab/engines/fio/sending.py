"""Sends the requests of a run of raw I/O: generated requests, or the requests of a trace."""

from __future__ import annotations

import contextlib
import ctypes
import json
import signal
import subprocess
import sys
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from storagelab import __version__
from storagelab.errors import RunFailed
from storagelab.loads import fio
from storagelab.loads.fio import Direction, Fio, Job, Outcome, Place, Requests
from storagelab.loads.traces import Trace, late_figures, read, replay_figures
from storagelab.machine import temporary
from storagelab.machine.rights import end_with_parent
from storagelab.model.config import Config
from storagelab.model.loads.base import Load, of_class
from storagelab.model.loads.raw_io import RawIo
from storagelab.model.loads.replay import Replay
from storagelab.model.measurement import latency_of_table
from storagelab.servers.programs import environment, run
from storagelab.volumes.folders import Site

Tell = Callable[[], None]
Places = Sequence[Place]
"""One place on each volume of the layout. The data's volume is the first."""


class Sender(Protocol):
    """Sends the load of a run."""

    @property
    def block_bytes(self) -> int:
        """The size in bytes of the requests that test the file."""

    @property
    def direct(self) -> bool:
        """Whether requests bypass the page cache."""

    def facts(self, program: Fio, engine: str) -> Mapping[str, object]:
        """Facts about the program that sends the load."""

    def warm_up(self, program: Fio, places: Places, engine: str, seed: int, tell: Tell) -> None:
        """Sends the requests of the warm-up. Raises RunFailed if this fails."""

    def send(self, program: Fio, places: Places, engine: str, seed: int, tell: Tell) -> Outcome:
        """Sends the measured requests. Raises RunFailed if this fails."""


def sender_of(config: Config, site: Site) -> Sender:
    """The sender of this cell's load. Raises PreflightError if its trace can't be read."""
    return _SENDERS[type(config.workload)](config, site)


class FioSender:
    """Sends generated requests of one size by fio."""

    def __init__(self, load: RawIo) -> None:
        self._load = load

    @property
    def block_bytes(self) -> int:
        return self._load.block_bytes

    @property
    def direct(self) -> bool:
        return self._load.direct

    def facts(self, program: Fio, engine: str) -> Mapping[str, object]:
        return {"engine": "raw I/O by fio", "version": program.version, "io_engine": engine}

    def warm_up(self, program: Fio, places: Places, engine: str, seed: int, tell: Tell) -> None:
        if self._load.warm_up_s:
            fio.make(program, places[0], self._job(self._load.warm_up_s, seed), engine, tell, logged=False)

    def send(self, program: Fio, places: Places, engine: str, seed: int, tell: Tell) -> Outcome:
        counted_s = self._load.duration_s - self._load.warm_up_s
        return fio.make(program, places[0], self._job(counted_s, seed + 1), engine, tell)

    def _job(self, seconds: float, seed: int) -> Job:
        load = self._load
        return Job(
            operation=load.operation, pattern=load.pattern, block_bytes=load.block_bytes, seconds=seconds,
            threads=load.threads, outstanding=load.outstanding,
            read_fraction=0.5 if load.read_fraction is None else load.read_fraction, seed=seed, sync=load.sync,
        )  # fmt: skip


class TraceSender:
    """Sends the requests of a trace."""

    direct = True

    def __init__(self, load: Replay, trace: Trace) -> None:
        self._load, self._trace = load, trace

    @cached_property
    def block_bytes(self) -> int:
        return max(one.bytes for one in self._trace.requests)

    def facts(self, program: Fio, engine: str) -> Mapping[str, object]:
        return {"engine": "a trace by storagelab", "version": __version__}

    def warm_up(self, program: Fio, places: Places, engine: str, seed: int, tell: Tell) -> None:
        pass

    def send(self, program: Fio, places: Places, engine: str, seed: int, tell: Tell) -> Outcome:
        return replay(places, self._trace, self._load, tell)


def _traced(config: Config, site: Site) -> Sender:
    load = of_class(config.workload, Replay)
    return TraceSender(load, read(site.spec_folder / Path(load.trace).expanduser(), config))


_SENDERS: Mapping[type[Load], Callable[[Config, Site], Sender]] = {
    RawIo: lambda config, _: FioSender(config.raw_load), Replay: _traced,
}  # fmt: skip


# --- a trace ---------------------------------------------------------------------------------------------------------
#
# A separate process (`sender.py`) sends the trace to a file on each volume. It uses threads of the Rust core
# (crates/replay).
#
# The separate process has three advantages: its CPU time is counted separately, a drive that does not answer can't
# block storagelab, and the process ends when storagelab ends.


_SENDER = Path(__file__).with_name("sender.py")
_STARTING_S, _TIMES_AS_LONG = 60, 10
_PR_SET_TIMERSLACK = 29


def replay(places: Places, trace: Trace, load: Replay, tell: Callable[[], None]) -> Outcome:
    """Sends the trace in a separate process. Raises RunFailed if the process fails or takes too long."""
    threads = min(load.outstanding, len(trace.requests))
    with temporary.folder("trace") as folder:
        asked = folder / "trace.json"
        bytes_each = places[0].size_bytes
        asked.write_text(json.dumps({"pace": load.pace, "requests": trace.asked(bytes_each)}), encoding="ascii")
        files = [str(place.folder / place.name) for place in places]
        command = [sys.executable, "-P", str(_SENDER), str(asked), str(threads), str(bytes_each), *files]
        timeout_s = trace.seconds * _TIMES_AS_LONG + _STARTING_S
        try:
            ended = run(command, _in_child, environment=environment("PYTHONPATH"), timeout_s=timeout_s, meanwhile=tell)
        except subprocess.TimeoutExpired as error:
            raise RunFailed(
                f"the trace did not end in {timeout_s:.0f} s: the drive needs more than {_TIMES_AS_LONG} times the "
                "trace's own duration, or it does not answer"
            ) from error
        except OSError as error:
            raise RunFailed(f"can't send the trace: {error.strerror}") from error
    if ended.returncode < 0:
        raise RunFailed(f"the sender of the trace was ended by {signal.Signals(-ended.returncode).name}")
    if ended.returncode:
        raise RunFailed(ended.stderr.strip().rpartition("\n")[2])
    return _outcome(json.loads(ended.stdout), trace, load)


def _in_child() -> None:
    """Makes the sender end when storagelab ends. Makes the kernel wake the sender on time, not up to 50 us late."""
    end_with_parent(signal.SIGKILL)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def _outcome(sent: Mapping[str, Any], trace: Trace, load: Replay) -> Outcome:
    ways: tuple[Direction, ...] = ("read", "write")
    done = {way: sent[way] for way in ways if sent[way]["latency"]["count"]}
    elapsed_s = sent["elapsed_ns"] / 1e9
    io_time_s = sum(one["latency"]["mean_ns"] * one["latency"]["count"] for one in done.values()) / 1e9
    counted_us = [one.at_us for one in trace.requests if one.what != "s"]
    due = [bisect(counted_us, second * 1_000_000) for second in range(1, int(elapsed_s) + 1)]
    seconds = {way: [*one["seconds"], *[(0, 0)] * int(elapsed_s)][: int(elapsed_s)] for way, one in done.items()}
    return Outcome(
        elapsed_s=elapsed_s,
        done={
            way: Requests(one["latency"]["count"], one["bytes"], latency_of_table(one["latency"]))
            for way, one in done.items()
        },
        cpu_s=sent["cpu_s"],
        per_s={way: tuple(float(count) for count, _ in each) for way, each in seconds.items()},
        mean_s={way: tuple(ns / count / 1e9 if count else None for count, ns in each) for way, each in seconds.items()},
        due=due if load.paced else None,
        figures={**replay_figures(trace.seconds, elapsed_s, io_time_s), **late_figures(sent["late"]["late"])},
    )
