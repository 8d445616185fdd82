"""The sessions of a load that inserts rows. Each session runs a loop inside the server."""

from __future__ import annotations

import contextlib
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Generic

from storagelab.errors import RunFailed
from storagelab.machine.processes import until
from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.measurement import Check
from storagelab.servers.interfaces import GATE_TIMEOUT_S, POLL_S, C, Sessions, Work
from storagelab.watching.counters import Clocks, Loop
from storagelab.watching.sampler import Observation


class Worker(Generic[C]):
    """One connection, and the thread that waits for its answer. A thread is needed because the driver's calls block."""

    def __init__(self, connection: C) -> None:
        self.connection = connection
        self.loop: Loop | None = None
        self.error: Exception | None = None
        self._thread: threading.Thread | None = None

    def call(self, loop: Callable[[C], Loop]) -> None:
        self._thread = threading.Thread(target=self._run, args=(loop,), name="storagelab-worker", daemon=True)
        self._thread.start()

    def _run(self, loop: Callable[[C], Loop]) -> None:
        try:
            self.loop = loop(self.connection)
        except Exception as error:  # noqa: BLE001 - the main thread raises it again, as the run's reason
            self.error = error

    @property
    def working(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def join(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)


class InsertingSessions(Sessions[C]):
    """The sessions of an engine whose driver returns from a call only when the loop has ended. `count_rows` returns the
    number of rows that the server has.
    """

    driver_error: ClassVar[type[Exception]]
    close_timeout_s: ClassVar[float] = 5.0

    def __init__(
        self, connect: Callable[[], C], workload: InsertLoad, count_rows: Callable[[], int], seed: int
    ) -> None:
        self._connect, self.workload, self._count_rows, self.seed = connect, workload, count_rows, seed
        self._workers: list[Worker[C]] = []

    @property
    def first(self) -> C:
        return self._workers[0].connection

    def _words(self, error: BaseException) -> str:
        """Returns the server's message from an error of the driver."""
        return str(error)

    @abstractmethod
    def _close_gate(self) -> None: ...

    @abstractmethod
    def _all_at_gate(self) -> bool: ...

    @abstractmethod
    def _loop(self, connection: C, number: int) -> Loop:
        """Runs the loop of one worker until it ends. `number` is the number of the worker. The first worker has the
        number 1.
        """

    @abstractmethod
    def _failed(self, error: Exception) -> str:
        """Returns the reason why a connection failed. The connection may have been lost."""

    @abstractmethod
    def _stop(self, working: Sequence[C]) -> None:
        """Ends statements of these connections that still run on the server."""

    def open(self) -> None:
        """Opens all connections. Raises RunFailed with the server's message if one can't be opened."""
        try:
            for _ in range(self.workload.connections):
                self._workers.append(Worker(self._connect()))
        except self.driver_error as error:
            number = len(self._workers) + 1
            raise RunFailed(f"connection {number} could not be opened: {self._words(error)}") from error

    def gather(self) -> None:
        """Closes the gate, starts each connection's loop, and returns when all loops wait at the gate. Raises RunFailed
        if this takes too long, or if a connection can't get there.
        """

        def ready() -> bool:
            if self._all_at_gate():
                return True
            self._raise_if_one_failed()
            if any(worker.loop is not None for worker in self._workers):
                raise RunFailed("a connection did not wait at the start gate")
            return False

        self._close_gate()
        for number, worker in enumerate(self._workers, start=1):
            worker.call(partial(self._loop, number=number))
        if not until(ready, GATE_TIMEOUT_S, 0.005):
            raise RunFailed(f"after {GATE_TIMEOUT_S:.0f} s not all connections were ready to start")

    def _raise_if_one_failed(self) -> None:
        error = next((worker.error for worker in self._workers if worker.error is not None), None)
        if error is not None:
            raise RunFailed(self._failed(error)) from error

    def wait(self, on_poll: Callable[[], None]) -> list[Loop]:
        """Waits until all loops have ended, and calls `on_poll` a few times per second.

        Raises RunFailed with the server's message as soon as a connection fails.
        """
        while working := [worker for worker in self._workers if worker.working]:
            working[0].join(POLL_S)
            self._raise_if_one_failed()
            on_poll()
        self._raise_if_one_failed()
        return [worker.loop for worker in self._workers if worker.loop is not None]

    def done(self, loops: list[Loop], seen: Observation, clocks: Clocks) -> Work:
        rows = self._count_rows()
        if rows != self.workload.rows:
            raise RunFailed(f"the table holds {rows} rows instead of {self.workload.rows}")
        reads = sum(loop.reads_done for loop in loops)
        return Work(
            elapsed_s=max(loop.finished_s for loop in loops) - min(loop.started_s for loop in loops),
            connection_s=tuple(loop.finished_s - loop.started_s for loop in loops),
            checks=(*clocks.checks(loops), *_check_reads(self.workload, loops)),
            counters={"workload": {"reads": float(reads)}} if reads else {}, series=seen.series, rows=rows,
        )  # fmt: skip

    def close(self) -> None:
        """Closes all connections, and stops loops that still run. Never raises, because it is also called after
        errors."""
        workers, self._workers = self._workers, []
        if working := [worker.connection for worker in workers if worker.working]:
            with contextlib.suppress(Exception):
                self._stop(working)
        deadline = time.monotonic() + self.close_timeout_s
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
            if not worker.working:  # otherwise the thread still uses the connection
                with contextlib.suppress(Exception):
                    worker.connection.close()


def _check_reads(workload: InsertLoad, loops: Sequence[Loop]) -> list[Check]:
    """Checks that a mixed load made its reads, and that each read found a row. Other loads have no such check."""
    if not workload.with_reads:
        return []
    made, found = sum(loop.reads_done for loop in loops), sum(loop.reads_found for loop in loops)
    wanted = len(loops) * round(workload.reads_per_row * workload.rows_per_connection)
    # The share of reads is added up row by row, so a connection may make one read more or one less than expected.
    ok = found == made and abs(made - wanted) <= len(loops)
    return [
        Check(
            name="point reads", asked=f"{wanted} reads of existing rows",
            got=f"{made} reads, {found} of existing rows", ok=ok, read_from="the loops",
        )
    ]  # fmt: skip
