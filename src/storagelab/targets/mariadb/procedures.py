"""The loading loop as a stored procedure: each connection waits at the gate, inserts its rows, and reports its times."""

from __future__ import annotations

from storagelab.model.loads.inserts import InsertLoad

TABLE = "my_big_table"
PROGRESS = "storagelab_rows"
"""The user variable in which a session publishes how many rows it has committed."""

# A worker's key number n is a digest of the worker and n: to the server it is as random as any, and storagelab can compute
# an existing key again for a point read. Not MD5, which MySQL has moved into a component by 9.7.
_KEY = "UNHEX(LEFT(SHA2(CONCAT_WS('/', seed, worker, {number}), 256), 32))"
_ANY_OF_THOSE = "FLOOR(RAND() * (done + 1))"
_INSERT = "INSERT INTO {table} () VALUES ();"
_INSERT_KNOWN_KEY = f"INSERT INTO {{table}} (c1) VALUES ({_KEY.format(number='done')});"
_READS = f"""
            SET reads_due = reads_due + reads_per_row;
            WHILE reads_due >= 1 DO
                SET found = NULL;
                -- Apart, or every row would be compared with another key.
                SET wanted = {_KEY.format(number=_ANY_OF_THOSE)};
                SELECT c6 INTO found FROM {{table}} WHERE c1 = wanted;
                SET reads_due = reads_due - 1, reads_done = reads_done + 1;
                SET reads_found = reads_found + COALESCE(found = 42, 0);
            END WHILE;"""

_PROCEDURE = """
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
    COMMIT;
    SET started_s = UNIX_TIMESTAMP(SYSDATE(6));
    SET autocommit = 0;
    WHILE done < row_count DO
            {insert}{reads}
        SET done = done + 1;
        IF done % rows_per_transaction = 0 THEN
            COMMIT;
            IF done % rows_per_report = 0 THEN
                SET @{progress} = done;
            END IF;
        END IF;
    END WHILE;
    COMMIT;
    SET autocommit = 1, @{progress} = done;
    SELECT started_s, UNIX_TIMESTAMP(SYSDATE(6)), reads_done, reads_found;
END"""


def procedure(workload: InsertLoad, schema: str, ownership: str) -> str:
    """The statement that creates the procedure; `schema` is quoted already."""
    table = f"{schema}.{TABLE}"
    mixed = workload.with_reads
    return _PROCEDURE.format(
        schema=schema, ownership=ownership, progress=PROGRESS,
        insert=(_INSERT_KNOWN_KEY if mixed else _INSERT).format(table=table),
        reads=_READS.format(table=table) if mixed else "",
    )  # fmt: skip
