"""The connections: opened first, started together, each running its loop inside the server."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from storagelab.errors import RunFailed
from storagelab.model.workload import DatabaseLoad
from storagelab.targets.loops import Loop, rows_per_report
from storagelab.targets.sqlserver import tsql
from storagelab.targets.sqlserver.connection import DriverError, Session, words

TABLE = "MyBigTable"
NOW_US = "SELECT DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())"
"""The clock that the loops tell their times by."""
POLL_S = 0.2
GATE_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

# A worker's key number n is a digest of who it is and n: as random as any to the server, and known again when one of the
# keys that are there is wanted for a point read.
_DIGEST = "HASHBYTES('SHA2_256', CONCAT(@seed, N'/', @worker, N'/', {number}))"
_KEY = f"CAST(CAST({_DIGEST} AS binary(16)) AS uniqueidentifier)"
_ANY_OF_THOSE = "CAST(FLOOR(RAND() * (@done + 1)) AS bigint)"
_INSERT = f"INSERT INTO dbo.{TABLE} DEFAULT VALUES;"
_INSERT_KNOWN_KEY = f"INSERT INTO dbo.{TABLE} (c1) VALUES ({_KEY.format(number='@done')});"
_READS = f"""
        SET @reads_due += @reads_per_row;
        WHILE @reads_due >= 1
        BEGIN
            SET @found = NULL;
            SET @wanted = {_KEY.format(number=_ANY_OF_THOSE)};
            SELECT @found = c6 FROM dbo.{TABLE} WHERE c1 = @wanted;
            SET @reads_due -= 1;
            SET @reads_done += 1;
            SET @reads_found += CASE WHEN @found = 42 THEN 1 ELSE 0 END;
        END;"""

# The gate is asked for in a mode that no insert ever waits in, so that waiting at it can be told from the run's waits.
# Progress goes to the session's context, which other sessions can read while this one works.
_PROCEDURE = f"""
CREATE PROCEDURE dbo.insert_rows
    @row_count bigint, @rows_per_transaction bigint, @rows_per_report bigint, @gate nvarchar(255),
    @seed bigint, @worker bigint, @reads_per_row float
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @done bigint = 0, @answer int, @started datetime2(7), @finished datetime2(7), @progress varbinary(128);
    DECLARE @reads_due float = 0, @reads_done bigint = 0, @reads_found bigint = 0, @found bigint;
    DECLARE @wanted uniqueidentifier;
    EXEC @answer = sys.sp_getapplock @Resource = @gate, @LockMode = N'IntentShared', @LockOwner = N'Session',
        @LockTimeout = {int(GATE_TIMEOUT_S * 2000)};
    IF @answer < 0
    BEGIN
        THROW 50000, N'the start gate did not open', 1;
    END;
    EXEC sys.sp_releaseapplock @Resource = @gate, @LockOwner = N'Session';
    SET @started = SYSUTCDATETIME();
    WHILE @done < @row_count
    BEGIN
        IF @done % @rows_per_transaction = 0
            BEGIN TRANSACTION;
        <insert><reads>
        SET @done += 1;
        IF @done % @rows_per_transaction = 0
        BEGIN
            COMMIT TRANSACTION;
            IF @done % @rows_per_report = 0
            BEGIN
                SET @progress = CAST(@done AS binary(8));
                SET CONTEXT_INFO @progress;
            END;
        END;
    END;
    IF @@TRANCOUNT > 0
        COMMIT TRANSACTION;
    SET @finished = SYSUTCDATETIME();
    SET @progress = CAST(@done AS binary(8));
    SET CONTEXT_INFO @progress;
    SELECT DATEDIFF_BIG(microsecond, '19700101', @started) AS started_us,
           DATEDIFF_BIG(microsecond, '19700101', @finished) AS finished_us,
           @reads_done AS reads_done, @reads_found AS reads_found;
END"""
_CLOSE_GATE = """
DECLARE @answer int;
EXEC @answer = sys.sp_getapplock @Resource = {gate}, @LockMode = N'Exclusive', @LockOwner = N'Session', @LockTimeout = 0;
SELECT @answer"""
_OPEN_GATE = "EXEC sys.sp_releaseapplock @Resource = {gate}, @LockOwner = N'Session'"
_AT_GATE = """
SELECT COUNT(DISTINCT session_id) FROM sys.dm_os_waiting_tasks
WHERE resource_description LIKE N'applicationlock%' AND session_id IN ({sessions})"""
_CALL = """
EXEC dbo.insert_rows @row_count = {rows}, @rows_per_transaction = {per_transaction}, @rows_per_report = {per_report},
    @gate = {gate}, @seed = {seed}, @worker = {worker}, @reads_per_row = {reads_per_row!r}"""


def procedure(workload: DatabaseLoad) -> str:
    """The statement that makes the loop."""
    insert, reads = (_INSERT_KNOWN_KEY, _READS) if workload.kind == "mixed" else (_INSERT, "")
    return _PROCEDURE.replace("<insert>", insert).replace("<reads>", reads)


def call(workload: DatabaseLoad, gate: str, seed: int, worker: int) -> str:
    """What each connection is sent; `worker` is its number."""
    return _CALL.format(
        rows=workload.rows_per_connection, per_transaction=workload.rows_per_transaction,
        per_report=rows_per_report(workload), gate=tsql.text(gate), seed=int(seed), worker=worker,
        reads_per_row=workload.reads_per_row,
    )  # fmt: skip


class _Worker:
    """One connection and the thread that waits for its answer, as the driver knows no other way to wait."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.loop: Loop | None = None
        self.problem = ""
        self._thread: threading.Thread | None = None

    def send(self, statement: str) -> None:
        self._thread = threading.Thread(target=self._run, args=(statement,), name="storagelab-worker", daemon=True)
        self._thread.start()

    def _run(self, statement: str) -> None:
        try:
            started_us, finished_us, done, found = self.session.rows(statement)[0]
            self.loop = Loop(
                started_s=started_us / 1e6, finished_s=finished_us / 1e6, reads_done=int(done), reads_found=int(found)
            )
        except DriverError as error:
            self.problem = f"a connection failed: {words(error)}"
        except Exception as error:  # noqa: BLE001 - it is raised again in the main thread, as the reason of the run
            self.problem = f"a connection failed: {type(error).__name__}: {error}"

    @property
    def working(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def join_for(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def close(self, patience_s: float) -> None:
        """A session is used by one thread at a time: one that does not come back stays open till the program ends."""
        if self._thread is not None:
            self._thread.join(patience_s)
        if not self.working:
            self.session.close()


class Workers:
    """The connections of one run. `gate` names an application lock of storagelab's own database."""

    def __init__(self, connect: Callable[[], Session], workload: DatabaseLoad, gate: str, seed: int) -> None:
        self._connect, self.workload, self.gate, self.seed = connect, workload, gate, seed
        self._workers: list[_Worker] = []

    @property
    def sessions(self) -> list[int]:
        """Ids of the server's sessions, one a connection."""
        return [worker.session.spid for worker in self._workers]

    def open(self) -> None:
        """Raises RunFailed with the server's words if a connection can't be had."""
        try:
            for _ in range(self.workload.connections):
                self._workers.append(_Worker(self._connect()))
        except DriverError as error:
            raise RunFailed(f"connection {len(self._workers) + 1} could not be opened: {words(error)}") from error

    def gather(self, gatekeeper: Session) -> None:
        """Close the gate, send every connection's call, and return once all of them stand at the gate."""
        answer = gatekeeper.value(_CLOSE_GATE.format(gate=tsql.text(self.gate)))
        if answer is None or answer < 0:
            raise RunFailed(f"the start gate could not be closed: sp_getapplock answers {answer}")
        for number, worker in enumerate(self._workers, start=1):
            worker.send(call(self.workload, self.gate, self.seed, number))
        deadline = time.monotonic() + GATE_TIMEOUT_S
        question = _AT_GATE.format(sessions=tsql.integers(self.sessions))
        while time.monotonic() < deadline:
            if gatekeeper.value(question) == len(self._workers):
                return
            self._raise_if_one_failed()
            if any(worker.loop is not None for worker in self._workers):
                raise RunFailed("a connection did not wait at the start gate")
            time.sleep(0.005)
        raise RunFailed(f"after {GATE_TIMEOUT_S:.0f} s not all connections were ready to start")

    def release(self, gatekeeper: Session) -> None:
        """Open the gate: the server wakes all connections at once."""
        gatekeeper.execute(_OPEN_GATE.format(gate=tsql.text(self.gate)))

    def wait(self, on_poll: Callable[[], None]) -> list[Loop]:
        """Until every loop is done; `on_poll` is called a few times a second.

        Raises RunFailed with the server's words as soon as one connection fails.
        """
        while any(worker.working for worker in self._workers):
            next((worker for worker in self._workers if worker.working), self._workers[0]).join_for(POLL_S)
            self._raise_if_one_failed()
            on_poll()
        self._raise_if_one_failed()
        return [worker.loop for worker in self._workers if worker.loop is not None]

    def _raise_if_one_failed(self) -> None:
        for worker in self._workers:
            if worker.problem:
                raise RunFailed(worker.problem)

    def close(self, stop: Callable[[], None]) -> None:
        """Close all; `stop` ends on the server what still runs there. Never raises: it is called when things went wrong."""
        workers, self._workers = self._workers, []
        if any(worker.working for worker in workers):
            with contextlib.suppress(Exception):
                stop()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for worker in workers:
            worker.close(max(0.0, deadline - time.monotonic()))
