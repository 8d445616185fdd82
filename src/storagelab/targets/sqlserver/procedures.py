"""The loading loop as a stored procedure: each connection waits at the gate, inserts its rows, and reports its times."""

from __future__ import annotations

from storagelab.model.loads.inserts import InsertLoad
from storagelab.targets.loops import GATE_TIMEOUT_S

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
