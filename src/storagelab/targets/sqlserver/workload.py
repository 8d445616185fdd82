"""The loop of inserts as a stored procedure, and the connections that run it: opened first, they start together."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from storagelab.errors import RunFailed
from storagelab.model.loads.inserts import InsertLoad
from storagelab.targets.inserting import InsertingSessions
from storagelab.targets.sqlserver import connecting
from storagelab.targets.sqlserver.connecting import DriverError, Session, words_of
from storagelab.targets.steps import GATE_TIMEOUT_S, POLL_S, Loop, await_gate, rows_per_report

TABLE = "MyBigTable"

# A worker's key number n is a digest of the worker and n: to the server it is as random as any, and storagelab can compute
# an existing key again for a point read.
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

# The gate is a lock in a mode that no insert ever waits in, so that waits at the gate are distinct from the run's.
# A session publishes its progress in its context, which other sessions can read while it works.
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


def procedure(workload: InsertLoad) -> str:
    """The statement that creates the procedure."""
    insert, reads = (_INSERT_KNOWN_KEY, _READS) if workload.with_reads else (_INSERT, "")
    return _PROCEDURE.replace("<insert>", insert).replace("<reads>", reads)


NOW_US = "SELECT DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())"
"""The clock that the loops take their times from."""
STOP_TIMEOUT_S = 30.0

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


def call(workload: InsertLoad, gate: str, seed: int, worker: int) -> str:
    """The call sent to each connection; `worker` is its number."""
    return _CALL.format(
        rows=workload.rows_per_connection, per_transaction=workload.rows_per_transaction,
        per_report=rows_per_report(workload), gate=connecting.text(gate), seed=int(seed), worker=worker,
        reads_per_row=workload.reads_per_row,
    )  # fmt: skip


class _Worker:
    """One connection and the thread that waits for its answer, since the driver has no other way to wait."""

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
            self.problem = f"a connection failed: {words_of(error)}"
        except Exception as error:  # noqa: BLE001 - the main thread raises it again, as the run's reason
            self.problem = f"a connection failed: {type(error).__name__}: {error}"

    @property
    def working(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def join_for(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def close(self, patience_s: float) -> None:
        """One thread at a time uses a session: a session whose thread does not finish stays open until the program ends."""
        if self._thread is not None:
            self._thread.join(patience_s)
        if not self.working:
            self.session.close()


class Workers(InsertingSessions[Session]):
    """The connections of one run. `gate` names an application lock of storagelab's own database, which `gatekeeper` holds;
    `stop` ends what still runs on the server."""

    driver_error = DriverError

    def __init__(
        self,
        connect: Callable[[], Session],
        workload: InsertLoad,
        gate: str,
        gatekeeper: Session,
        stop: Callable[[], None],
        count_rows: Callable[[], int],
        seed: int,
    ) -> None:
        super().__init__(workload, count_rows)
        self._connect, self.gate, self.seed = connect, gate, seed
        self._gatekeeper, self._stop = gatekeeper, stop
        self._workers: list[_Worker] = []

    @property
    def ids(self) -> list[int]:
        """Ids of the server's sessions, one per connection."""
        return [worker.session.spid for worker in self._workers]

    @property
    def first(self) -> Session:
        return self._workers[0].session

    def _add(self) -> None:
        self._workers.append(_Worker(self._connect()))

    def _words(self, error: BaseException) -> str:
        return words_of(error)

    def gather(self) -> None:
        """Close the gate, send every connection's call, and return once all of them stand at the gate."""
        answer = self._gatekeeper.value(_CLOSE_GATE.format(gate=connecting.text(self.gate)))
        if answer is None or answer < 0:
            raise RunFailed(f"can't close the start gate: sp_getapplock answers {answer}")
        for number, worker in enumerate(self._workers, start=1):
            worker.send(call(self.workload, self.gate, self.seed, number))
        await_gate(self._all_at_gate, self._raise_if_one_passed, pause_s=0.005)

    def _all_at_gate(self) -> bool:
        question = _AT_GATE.format(sessions=connecting.integers(self.ids))
        return bool(self._gatekeeper.value(question) == len(self._workers))

    def _raise_if_one_passed(self) -> None:
        self._raise_if_one_failed()
        if any(worker.loop is not None for worker in self._workers):
            raise RunFailed("a connection did not wait at the start gate")

    def release(self) -> None:
        """Open the gate: the server wakes all connections at once."""
        self._gatekeeper.execute(_OPEN_GATE.format(gate=connecting.text(self.gate)))

    def wait(self, on_poll: Callable[[], None]) -> list[Loop]:
        """Wait until every loop is done; call `on_poll` a few times a second.

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

    def close(self) -> None:
        """Close all, stopping what still runs. Never raises, since it is also called after errors."""
        workers, self._workers = self._workers, []
        if any(worker.working for worker in workers):
            with contextlib.suppress(Exception):
                self._stop()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for worker in workers:
            worker.close(max(0.0, deadline - time.monotonic()))
