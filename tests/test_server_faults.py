"""Faults during a run: the run is `failed` with a clear reason in the server's own words, nothing remains, and other
runs continue.
"""

import os
import signal

import pytest
import real_mariadb
from each_engine import SCHEMA, each_engine
from real_mariadb import needs_mariadb
from real_servers import (
    ask,
    cell_of,
    connect,
    left_behind,
    mounted,
    needs_root,
    plan_of,
    run_of,
    server_processes,
    site_at,
    small,
    until,
)  # fmt: skip

from storagelab.engines.mariadb import connect as mariadb
from storagelab.errors import PreflightError, RunFailed
from storagelab.machine import temporary
from storagelab.run.engine import open_target, sweep, try_starting

LONG = {"rows_per_connection": 200_000, "rows_per_transaction": 1_000}


def worker_of(server) -> int:
    with connect(server) as connection:
        return ask(connection, "SELECT pid FROM pg_stat_activity WHERE query LIKE 'CALL %' LIMIT 1")


def end_session(target) -> None:
    if target.config.target.engine == "mariadb":
        busy = "SELECT id FROM information_schema.processlist WHERE info LIKE 'INSERT%' OR info LIKE 'COMMIT%' LIMIT 1"
        number = until(lambda: mariadb.ask(target.server.own, busy))[0][0]
        mariadb.ask(target.server.own, f"KILL {number}")
    else:
        with connect(target.server.process) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", [worker_of(target.server.process)])


# --- amid a run ------------------------------------------------------------------------------------------------------


@each_engine
def test_a_server_killed_amid_a_run_fails_that_run_and_the_next_one_is_well(scratch, during, engine):
    during(lambda target: os.kill(target.server.process.pid, signal.SIGKILL))
    run = run_of(small(scratch, engine=engine, **LONG), scratch)
    assert (run.status, run.measurement) == ("failed", None)
    assert run.reason.startswith("the server died: it was killed by signal 9 (SIGKILL)")
    assert "connection" in run.reason.splitlines()[0]
    if engine == "mariadb":
        assert "a connection was lost: Lost connection" in run.reason
    assert left_behind(scratch) == []
    assert run.wall_s < 30
    assert run_of(small(scratch, engine=engine), scratch).status == "ok"


@pytest.mark.parametrize(
    ("engine", "how", "words"),
    [
        ("postgres", "killed", "was terminated by signal 9: Killed"),
        ("postgres", "ended", "terminating connection due to administrator command"),
        ("postgres", "shut down", "terminating connection due to administrator command"),
        pytest.param("mariadb", "ended", "a connection was lost: ", marks=needs_mariadb),
    ],
)
def test_a_session_that_is_lost_is_told_by_the_server(scratch, during, engine, how, words):
    does = {
        "killed": lambda target: os.kill(worker_of(target.server.process), signal.SIGKILL), "ended": end_session,
        "shut down": lambda target: os.kill(target.server.process.pid, signal.SIGINT),
    }  # fmt: skip
    during(does[how])
    run = run_of(small(scratch, engine=engine, **LONG), scratch)
    assert run.status == "failed"
    assert words in (run.reason.splitlines()[0] if how == "ended" else run.reason)
    assert "connection" in run.reason.splitlines()[0]
    if engine == "mariadb":
        assert "killed" in run.reason or "Lost connection" in run.reason
    assert left_behind(scratch) == []


DEADLOCKS = {
    "postgres": """
        CREATE PROCEDURE {schema}.insert_rows(
            a bigint, b bigint, c bigint, gate bigint, seed bigint, worker bigint, r float8,
            INOUT x float8 DEFAULT 0, INOUT y float8 DEFAULT 0, INOUT n bigint DEFAULT 0, INOUT m bigint DEFAULT 0)
        LANGUAGE plpgsql AS $body$
        BEGIN
            PERFORM pg_advisory_lock_shared(gate); PERFORM pg_advisory_unlock_shared(gate); COMMIT;
            LOOP
                PERFORM pg_advisory_xact_lock(100 + worker % 2);
                PERFORM pg_advisory_xact_lock(101 - worker % 2);
                COMMIT;
            END LOOP;
        END
        $body$""",
    "mariadb": f"""
        CREATE PROCEDURE {SCHEMA}.insert_rows(a BIGINT, b BIGINT, c BIGINT, d BIGINT, worker BIGINT, f DOUBLE) BEGIN
            DECLARE n BIGINT; SELECT count(*) INTO n FROM {SCHEMA}.gate; COMMIT; SET autocommit = 0;
            WHILE TRUE DO
                UPDATE {SCHEMA}.my_big_table SET c4 = c4 + 1 WHERE c1 = LPAD(IF(worker % 2, 'a', 'b'), 16, 'x');
                UPDATE {SCHEMA}.my_big_table SET c4 = c4 + 1 WHERE c1 = LPAD(IF(worker % 2, 'b', 'a'), 16, 'x');
                COMMIT;
            END WHILE;
        END""",
}
"""Procedures that take locks in opposite orders instead of inserting rows."""


@each_engine
def test_a_deadlock_fails_the_run_in_the_servers_words(scratch, monkeypatch, engine):
    procedure = f"storagelab.engines.{engine}.loads.inserts.procedure"
    monkeypatch.setattr(procedure, lambda *_: DEADLOCKS[engine])
    settings = {"deadlock_timeout": "50ms"} if engine == "postgres" else {}
    words = "a connection failed: (ERROR: +deadlock detected|Deadlock found when trying to get lock)"
    with open_target(small(scratch, engine=engine, settings=settings), site_at(scratch)) as target:
        if engine == "mariadb":
            keys = "('xxxxxxxxxxxxxxxa'), ('xxxxxxxxxxxxxxxb')"
            mariadb.ask(target.server.own, f"INSERT INTO {SCHEMA}.my_big_table (c1) VALUES {keys}")
        with pytest.raises(RunFailed, match=words):
            target.run(cell_of(target.config), 1, 1, lambda _: None)
    assert left_behind(scratch) == []


@needs_root
@pytest.mark.parametrize("full", ["data", "log"])
def test_a_disk_that_fills_up_fails_that_run_and_is_empty_afterwards(scratch, full, fresh_databases):
    sizes = {"data": "size=72m", "log": "size=36m"}
    with mounted(scratch / ("a" if full == "data" else "b"), "-o", sizes[full]) as drive:
        os.chmod(drive, 0o755)
        settings = {"max_wal_size": "32MB" if full == "data" else "2GB", "min_wal_size": "32MB"}
        config = small(scratch, volumes=["a", "b"], data=["a"], log="b", settings=settings, **LONG)
        run = run_of(config, scratch)
        assert run.status == "failed"
        assert "No space left on device" in run.reason
        assert os.listdir(drive) == []
        assert left_behind(scratch) == []
        assert run_of(config.model_copy(update={"workload": small(scratch).workload}), scratch).status == "ok"


# --- before it -------------------------------------------------------------------------------------------------------


@needs_mariadb
def test_a_server_that_does_not_start_is_found_out_before_anything_is_stored(scratch):
    config = real_mariadb.mariadb(scratch, settings={"innodb_data_file_path": "ibdata1:nonsense"})
    with pytest.raises(PreflightError, match=r"innodb_data_file_path|syntax") as caught:
        try_starting(plan_of(config), site_at(scratch))
    assert caught.value.key == "target.settings"
    assert left_behind(scratch) == []
    assert os.listdir(scratch / "tmp") == []


@needs_mariadb
def test_after_kill_9_the_next_run_stops_the_server_that_was_left(scratch):
    config = real_mariadb.mariadb(scratch)
    target = open_target(config, site_at(scratch))
    target.__enter__()
    assert until(lambda: server_processes(scratch))
    target.server.own.close()
    process, target.server.process._process = target.server.process._process, None  # nobody knows it any more
    removed = sweep(plan_of(config), site_at(scratch))
    process.wait()
    folder = scratch / "a" / "storagelab-tested-0badcafe"
    assert removed == [f"stopped the server left running in {folder}", f"removed {folder}, left behind by a killed run"]
    own = temporary.path("socket").parent  # of this process, which lives: nobody else's to sweep
    assert [place for place in left_behind(scratch) if place != str(own)] == []
