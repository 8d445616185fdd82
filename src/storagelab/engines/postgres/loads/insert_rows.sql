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
$body$
