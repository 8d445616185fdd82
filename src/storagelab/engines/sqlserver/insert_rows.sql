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
        @LockTimeout = <gate_timeout_ms>;
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
END
