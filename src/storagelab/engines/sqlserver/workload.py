"""The loop of inserts as a stored procedure, and the connections that run it: all are opened first, then start
together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from storagelab.engines.sqlserver import connecting
from storagelab.engines.sqlserver.connecting import DriverError, Session, words_of
from storagelab.errors import RunFailed
from storagelab.loads.inserting import ThreadedSessions
from storagelab.model.loads.inserts import InsertLoad
from storagelab.servers.interfaces import GATE_TIMEOUT_S, rows_per_report
from storagelab.watching.clocks import Loop

TABLE = "MyBigTable"

# A worker's key number n is a digest of the worker and n. To the server it is as random as any key, and storagelab can
# compute an existing key again for a point read.
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

# The gate is a lock in a mode in which no insert ever waits, so that waits at the gate are distinct from the run's. A
# session publishes its progress in its context, which other sessions can read while it works.
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
"""The clock that the loops use for their times."""

_CLOSE_GATE = """
DECLARE @answer int;
EXEC @answer = sys.sp_getapplock @Resource = {gate}, @LockMode = N'Exclusive', @LockOwner = N'Session',
    @LockTimeout = 0;
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


class Workers(ThreadedSessions[Session]):
    """The connections of one run. `gate` names an application lock of storagelab's own database, which `gatekeeper`
    holds. `stop` ends what still runs on the server.
    """

    driver_error = DriverError
    close_timeout_s = 30.0

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
        super().__init__(connect, workload, count_rows, seed)
        self.gate, self._gatekeeper, self._stop_all = gate, gatekeeper, stop

    @property
    def ids(self) -> list[int]:
        """Ids of the server's sessions, one per connection."""
        return [worker.connection.spid for worker in self._workers]

    def _words(self, error: BaseException) -> str:
        return words_of(error)

    def _close_gate(self) -> None:
        answer = self._gatekeeper.value(_CLOSE_GATE.format(gate=connecting.text(self.gate)))
        if answer is None or answer < 0:
            raise RunFailed(f"can't close the start gate: sp_getapplock answers {answer}")

    def _all_at_gate(self) -> bool:
        question = _AT_GATE.format(sessions=connecting.integers(self.ids))
        return bool(self._gatekeeper.value(question) == len(self._workers))

    def release(self) -> None:
        """Open the gate: the server wakes all connections at once."""
        self._gatekeeper.execute(_OPEN_GATE.format(gate=connecting.text(self.gate)))

    def _loop(self, connection: Session, number: int) -> Loop:
        started_us, finished_us, done, found = connection.rows(call(self.workload, self.gate, self.seed, number))[0]
        return Loop(
            started_s=started_us / 1e6, finished_s=finished_us / 1e6, reads_done=int(done), reads_found=int(found)
        )

    def _failed(self, error: Exception) -> str:
        reason = words_of(error) if isinstance(error, DriverError) else f"{type(error).__name__}: {error}"
        return f"a connection failed: {reason}"

    def _stop(self, working: Sequence[Session]) -> None:
        self._stop_all()

    def _disconnect(self, connection: Session) -> None:
        connection.close()
