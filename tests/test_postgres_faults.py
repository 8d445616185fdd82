"""Faults during a run: that run is `failed` with a reason that a tired person understands, nothing is left, others go
on."""

import os
import signal
import threading
from pathlib import Path

import pytest
from real_servers import ROWS, ask, connect, left_behind, measure, run_of, site_at, small
from test_postgres_preflight import mounted, needs_root

from storagelab.errors import RunFailed

SCHEMA = "storagelab_0badcafe"
LONG = {"rows_per_connection": 200_000, "rows_per_transaction": 1_000}


def worker_of(server) -> int:
    with connect(server) as connection:
        return ask(connection, "SELECT pid FROM pg_stat_activity WHERE query LIKE 'CALL %' LIMIT 1")


def test_a_server_killed_amid_a_run_fails_that_run_and_the_next_one_is_well(scratch, during):
    during(lambda target: os.kill(target.server.process.pid, signal.SIGKILL))
    run = run_of(small(scratch, **LONG), scratch)
    assert run.status == "failed"
    assert run.reason.startswith("the server died: it was killed by signal 9 (SIGKILL)")
    assert "connection" in run.reason.splitlines()[0]
    assert run.measurement is None
    assert left_behind(scratch) == []
    assert run.wall_s < 30
    assert run_of(small(scratch), scratch).status == "ok"


def test_a_session_killed_amid_a_run_is_told_by_the_servers_log(scratch, during):
    during(lambda target: os.kill(worker_of(target.server.process), signal.SIGKILL))
    run = run_of(small(scratch, **LONG), scratch)
    assert run.status == "failed"
    assert "connection" in run.reason.splitlines()[0]
    assert "was terminated by signal 9: Killed" in run.reason
    assert left_behind(scratch) == []


def test_a_session_ended_amid_a_run_is_told_in_the_servers_words(scratch, during):
    def end(target) -> None:
        with connect(target.server.process) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", [worker_of(target.server.process)])

    during(end)
    run = run_of(small(scratch, **LONG), scratch)
    assert run.status == "failed"
    assert "terminating connection due to administrator command" in run.reason.splitlines()[0]
    assert left_behind(scratch) == []


def test_a_server_shut_down_amid_a_run_says_so(scratch, during):
    during(lambda target: os.kill(target.server.process.pid, signal.SIGINT))
    run = run_of(small(scratch, **LONG), scratch)
    assert run.status == "failed"
    assert "terminating connection due to administrator command" in run.reason
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


@needs_root
def test_a_disk_too_full_to_set_up_fails_the_run_and_is_empty_afterwards(scratch, fresh_databases):
    with mounted(scratch / "a", "-o", "size=8m") as drive:
        os.chmod(drive, 0o755)
        run = run_of(small(scratch), scratch)
        assert run.status == "failed"
        assert "initdb failed" in run.reason
        assert "No space left on device" in run.reason
        assert os.listdir(drive) == []


def test_a_server_that_does_not_start_shows_its_logs_last_lines(scratch):
    run = run_of(small(scratch, settings={"shared_preload_libraries": "nonsense"}), scratch)
    assert run.status == "failed"
    assert run.reason.splitlines()[0].startswith("the server did not start: FATAL:")
    assert 'FATAL:  could not access file "nonsense"' in run.reason
    assert left_behind(scratch) == []
    assert list(Path(scratch / "tmp").iterdir()) == []


def test_settings_that_do_not_go_together_show_the_servers_words(scratch):
    run = run_of(small(scratch, settings={"wal_level": "minimal", "max_wal_senders": 10}), scratch)
    assert run.status == "failed"
    assert "WAL streaming" in run.reason
    assert left_behind(scratch) == []


def test_a_timeout_for_a_lock_fails_the_run_in_the_servers_words(attached, scratch, during):
    others = []

    def lock_all(_):
        others.append(connect(attached))
        others[0].execute("BEGIN")
        others[0].execute(f"LOCK TABLE {SCHEMA}.my_big_table IN SHARE MODE")

        # It has to be let go again before the table can be dropped; by then the run has failed.
        threading.Timer(3.0, others[0].close).start()

    during(lock_all)
    config = small(
        scratch, dsn=attached.conninfo, rows_per_connection=500_000, rows_per_transaction=10,
        settings={"lock_timeout": "300ms"},
    )  # fmt: skip
    with pytest.raises(RunFailed, match=r"a connection failed: ERROR: +canceling statement due to lock timeout"):
        measure(config, site_at(scratch))
    with connect(attached) as connection:
        assert ask(connection, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'storagelab%'") == 0
    assert measure(small(scratch, dsn=attached.conninfo), site_at(scratch)).rows == ROWS


def test_a_deadlock_fails_the_run_in_the_servers_words(scratch, monkeypatch):
    statement = """
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
        $body$"""
    monkeypatch.setattr("storagelab.targets.postgres.loads.inserts.procedure", lambda _: statement)
    config = small(scratch, connections=4, settings={"deadlock_timeout": "50ms"})
    with pytest.raises(RunFailed, match=r"a connection failed: ERROR: +deadlock detected"):
        measure(config, site_at(scratch))
    assert left_behind(scratch) == []
