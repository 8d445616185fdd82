"""The loading loop as a stored procedure: each connection waits at the gate, inserts its rows, and reports its times."""

from __future__ import annotations

from storagelab.model.loads.inserts import InsertLoad

TABLE = "my_big_table"

# A worker's key number n is a digest of the worker and n: to the server it is as random as any, and storagelab can compute
# an existing key again for a point read.
_KEY = "md5(concat_ws('/', seed, worker, {number}))::uuid"
_ANY_OF_THOSE = "floor(random() * (done + 1))::bigint"
_INSERT = "INSERT INTO {schema}.{table} DEFAULT VALUES;"
_INSERT_KNOWN_KEY = f"INSERT INTO {{schema}}.{{table}} (c1) VALUES ({_KEY.format(number='done')});"
_READS = f"""
        reads_due := reads_due + reads_per_row;
        WHILE reads_due >= 1 LOOP
            -- Apart, or every row would be compared with another key.
            wanted := {_KEY.format(number=_ANY_OF_THOSE)};
            SELECT c6 INTO found FROM {{schema}}.{{table}} WHERE c1 = wanted;
            reads_due := reads_due - 1;
            reads_done := reads_done + 1;
            reads_found := reads_found + (found IS NOT DISTINCT FROM 42)::int;
        END LOOP;"""
_PROCEDURE = """
CREATE PROCEDURE {schema}.insert_rows(
    row_count bigint, rows_per_transaction bigint, rows_per_report bigint, gate bigint,
    seed bigint, worker bigint, reads_per_row float8,
    INOUT started_s float8 DEFAULT NULL, INOUT finished_s float8 DEFAULT NULL,
    INOUT reads_done bigint DEFAULT 0, INOUT reads_found bigint DEFAULT 0)
LANGUAGE plpgsql AS $body$
DECLARE
    done bigint := 0;
    found bigint;
    wanted uuid;
    reads_due float8 := 0;
BEGIN
    -- All connections wait here until the gate's holder lets them go together.
    PERFORM pg_advisory_lock_shared(gate);
    PERFORM pg_advisory_unlock_shared(gate);
    COMMIT;
    started_s := extract(epoch FROM clock_timestamp());
    WHILE done < row_count LOOP
        <insert><reads>
        done := done + 1;
        IF done % rows_per_transaction = 0 THEN
            COMMIT;
            IF done % rows_per_report = 0 THEN
                PERFORM set_config('application_name', 'storagelab ' || done, false);
            END IF;
        END IF;
    END LOOP;
    COMMIT;
    finished_s := extract(epoch FROM clock_timestamp());
    PERFORM set_config('application_name', 'storagelab ' || done, false);
END
$body$"""


def procedure(workload: InsertLoad) -> str:
    """The statement that creates the procedure, with places for `schema` and `table`."""
    insert, reads = (_INSERT_KNOWN_KEY, _READS) if workload.with_reads else (_INSERT, "")
    return _PROCEDURE.replace("<insert>", insert).replace("<reads>", reads)
