CREATE PROCEDURE {schema}.insert_rows(
    row_count BIGINT, rows_per_transaction BIGINT, rows_per_report BIGINT,
    seed BIGINT, worker BIGINT, reads_per_row DOUBLE)
    COMMENT '{ownership}'
BEGIN
    DECLARE done, gate, reads_done, reads_found, found BIGINT DEFAULT 0;
    DECLARE wanted BINARY(16);
    DECLARE reads_due DOUBLE DEFAULT 0;
    DECLARE started_s DECIMAL(20, 6);
    SET @{progress} = 0;
    -- All connections wait here until the gate's holder lets them go together.
    SELECT count(*) INTO gate FROM {schema}.gate;
    COMMIT AND NO CHAIN NO RELEASE;
    SET started_s = UNIX_TIMESTAMP(SYSDATE(6));
    SET autocommit = 0;
    WHILE done < row_count DO
            {insert}{reads}
        SET done = done + 1;
        IF done % rows_per_transaction = 0 THEN
            COMMIT AND NO CHAIN NO RELEASE;
            IF done % rows_per_report = 0 THEN
                SET @{progress} = done;
            END IF;
        END IF;
    END WHILE;
    COMMIT AND NO CHAIN NO RELEASE;
    SET autocommit = 1, @{progress} = done;
    SELECT started_s, UNIX_TIMESTAMP(SYSDATE(6)), reads_done, reads_found;
END
