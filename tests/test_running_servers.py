"""A server that already runs is measured and left unchanged. Objects of others are not touched, and remains of a killed
run are dropped.
"""

import contextlib
import os
import socket
import subprocess
import time
from pathlib import Path

import psycopg
import pytest
import real_mariadb
from each_engine import SCHEMA, cell, checked, inventory, on_mariadb, refused
from real_mariadb import needs_mariadb
from real_servers import (
    ROWS,
    ask,
    connect,
    free_port,
    got,
    left_behind,
    measure,
    plan_of,
    run_in,
    run_of,
    running,
    site_at,
    small,
    until,
)  # fmt: skip

from storagelab.engines.mariadb import connect as mariadb
from storagelab.engines.mariadb import preflight as mariadb_preflight
from storagelab.engines.postgres.capture import found
from storagelab.engines.postgres.engine import server_facts
from storagelab.errors import PreflightError, RunFailed
from storagelab.machine.rights import give_to_server
from storagelab.model.config import Config
from storagelab.model.loads.pgbench import Pgbench
from storagelab.model.waits import normalise
from storagelab.run.engine import open_target, sweep

SETTING = {"postgres": ("synchronous_commit", False, "off"), "mariadb": ("sort_buffer_size", 65_536, "65536")}
"""A setting that a session can have: what is asked for, and what is shown."""


# --- a run -----------------------------------------------------------------------------------------------------------


def test_a_run_is_measured_with_the_settings_asked_for_and_leaves_the_server_as_it_was(server, scratch):
    name, value, shown = SETTING[server.engine]
    server.said("CREATE SCHEMA IF NOT EXISTS public", "CREATE TABLE public.my_big_table AS SELECT 42 AS answer")
    config, before = cell(server, scratch, settings={name: value}), inventory(server)
    assert checked(config, scratch).server.endswith("attached, on this machine")
    measured = measure(config, site_at(scratch))
    assert (measured.rows, measured.unverified) == (ROWS, ())
    assert got(measured)[f"target.settings.{name}"] == (shown, True)
    assert got(measured)["place of the data files"] == ("default", True)
    environment = measured.environment
    assert (environment["server"]["how"], environment["server"]["settings"][name]) == ("attached", shown)
    assert Path(environment["volumes"]["server"]["path"]) == server.data_folder
    assert "client" not in environment
    assert measured.waits.cpu_s > 0
    if server.engine == "postgres":
        assert all(row.resource_s is not None for row in normalise(measured.waits) if row.wait_type != "ON_CPU")
    assert inventory(server) == before
    assert server.said("SELECT answer FROM public.my_big_table") == [(42,)]
    server.said("DROP TABLE public.my_big_table")


def test_a_server_on_another_machine_is_not_described_by_this_one_and_says_why_it_has_no_signal(
    server, scratch, monkeypatch
):
    whom, seen = {"postgres": ("_owner", "processes"), "mariadb": ("_pid", "threads")}[server.engine]
    asked = f"storagelab.engines.{server.engine}.preflight.{whom}_on_this_machine"
    monkeypatch.setattr(asked, lambda *_, **__: None)
    config = cell(server, scratch)
    assert checked(config, scratch).server.endswith("(this is unknown): no resource/signal split")
    measured = measure(config, site_at(scratch))
    assert (measured.environment["host"], measured.environment["volumes"]) == ({}, {})
    assert measured.environment["client"]["cpu_count"] >= 1
    assert measured.waits.cpu_s is None
    assert measured.waits.no_split_reason == f"the server's {seen} can't be seen from here"


def barred(*_):
    raise PermissionError


@needs_mariadb
@pytest.mark.parametrize("line", ["socket", "loopback", "loopback as another user", "pid file"])
def test_a_server_that_names_none_of_its_threads_is_found_on_this_machine(scratch, blind, monkeypatch, line):
    age_s = mariadb_preflight.attached.process_age_s
    if line == "loopback as another user":
        monkeypatch.setattr(os, "readlink", barred)
    elif line == "pid file":  # another process has opened the socket, as systemd does
        monkeypatch.setattr(mariadb_preflight.attached, "holds_other_end", lambda *_: False)
    # One of the same user that other tests started within these seconds could as well be it.
    fits = lambda one, names: age_s(one, names) if one.name == str(blind.pid) else None  # noqa: E731
    monkeypatch.setattr(mariadb_preflight.attached, "process_age_s", fits)
    dsn = blind.dsn("far", "x") if line.startswith("loopback") else blind.socket_dsn
    config = real_mariadb.mariadb(scratch, dsn=dsn, waits=False)
    assert checked(config, scratch).server.endswith("attached, on this machine")
    with mariadb.connect(config.target) as connection:
        assert mariadb_preflight.read_facts(connection).pid == blind.pid


@pytest.fixture(scope="module")
def blind(tmp_path_factory):
    """A MariaDB without performance_schema, as it runs by default; with a user who may do everything."""
    with real_mariadb.running(tmp_path_factory.mktemp("blind") / "s", "--performance-schema=OFF") as server:
        server.said("CREATE USER far@'%' IDENTIFIED BY 'x'", "GRANT ALL ON *.* TO far@'%'")
        yield server


@needs_mariadb
def test_a_server_that_times_no_waits_is_refused_with_the_operators_step(scratch, blind):
    error = refused(real_mariadb.mariadb(scratch, dsn=blind.socket_dsn), scratch)
    assert "performance_schema = ON" in error.hint
    unwatched = real_mariadb.mariadb(scratch, dsn=blind.socket_dsn, waits=False)
    checked(unwatched, scratch)
    assert measure(unwatched, site_at(scratch)).rows == ROWS
    with real_mariadb.running(scratch / "half", waits=False) as half:
        error = refused(real_mariadb.mariadb(scratch, dsn=half.socket_dsn), scratch)
        step = error.hint.split("run: ")[1].split("; or set")[0]
        half.said(*step.split("; "))
        checked(real_mariadb.mariadb(scratch, dsn=half.socket_dsn), scratch)


# --- what the server sets for a login --------------------------------------------------------------------------------


ODD = (
    "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,NO_ZERO_DATE,STRICT_ALL_TABLES", "--autocommit=0", "--wait-timeout=3",
    "--completion-type=CHAIN", "--transaction-isolation=SERIALIZABLE", "--default-storage-engine=MyISAM",
    "--default-time-zone=+05:00", "--init-connect=SET sql_safe_updates = 1, sql_select_limit = 1, "
    "sql_quote_show_create = 0, foreign_key_checks = 0, alter_algorithm = 'INSTANT', auto_increment_increment = 7, "
    "lock_wait_timeout = 0, tx_read_only = 1, max_statement_time = 0.01",
)  # fmt: skip
FAR = (
    "CREATE USER far@'%' IDENTIFIED BY 'x'", "GRANT ALL ON *.* TO far@'%'",
    "REVOKE SUPER, CONNECTION ADMIN ON *.* FROM far@'%'",  # whom init_connect spares
)  # fmt: skip


def generated(scratch: Path, dsn: str, layout=None, **changes) -> Config:
    """A cell with a load of sysbench on a MariaDB that runs."""
    load = {"kind": "sysbench", "connections": 2, "duration_s": 1.0, "table_size": 100, **changes}
    return Config.model_validate({
        "target": {"engine": "mariadb", "dsn": dsn}, "volumes": {}, "layout": layout or {}, "measure": {"waits": False},
        "workload": {name: value for name, value in load.items() if value is not None},
    })  # fmt: skip


@needs_mariadb
def test_a_servers_and_a_logins_defaults_hinder_no_set_up_and_are_the_loads_own(scratch):
    with real_mariadb.running(scratch / "odd", *ODD) as server:
        server.said(*FAR)
        dsn = server.dsn("far", "x")
        inserts = real_mariadb.mariadb(scratch, dsn=dsn)
        (note,) = [one for one in checked(inserts, scratch).notes if "the load keeps" in one]
        for name in ("sql_mode", "autocommit", "completion_type", "tx_isolation", "sql_safe_updates", "time_zone"):
            assert name in note
        assert not any(name in note for name in ("max_statement_time", "tx_read_only"))  # they would only end it
        assert measure(inserts, site_at(scratch)).unverified == ()
        # Without an index, sysbench leaves the commit of its rows to autocommit.
        load = generated(scratch, dsn, script="oltp_read_only", options={"create_secondary": False}, duration_s=4.0)
        with open_target(load, site_at(scratch)) as target:
            own = target.server.own
            assert mariadb.ask(own, "SELECT @@max_statement_time") == [(0,)]
            assert mariadb.ask(own, f"SELECT count(*), max(id) FROM {SCHEMA}.sbtest1") == [(100, 100)]
            with contextlib.closing(target.server.reach.connect_worker()) as worker:
                assert mariadb.ask(worker, "SELECT @@tx_isolation") == [("SERIALIZABLE",)]
            assert run_in(target).unverified == ()
        (scratch / "schema.sql").write_text(
            "CREATE TABLE orders (id int PRIMARY KEY, day date DEFAULT '0000-00-00', who varchar(9));\n"
            "INSERT INTO orders (id, who) SELECT seq, 'o\\'brien' FROM seq_1_to_500 LIMIT 500;\n"
        )
        (scratch / "order.sql").write_text("SELECT count(*) FROM orders;\n")
        layout = {"data_files": 2, "spread": ("orders",)}
        files = {"setup": ("schema.sql",), "transactions": ({"file": "order.sql"},), "kind": "sql", "table_size": None}
        assert measure(generated(scratch, dsn, layout, **files), site_at(scratch)).unverified == ()


@on_mariadb
def test_the_settings_asked_for_are_those_of_the_load_s_own_program(server, scratch):
    (scratch / "mine.lua").write_text(
        "require('oltp_common')\nfunction prepare_statements() end\nfunction event()\n"
        "  local size, mode = con:query_row('SELECT @@sort_buffer_size, @@sql_mode')\n"
        "  if size ~= '65536' or mode ~= 'ANSI_QUOTES' then error('not set: ' .. size .. mode) end\nend\n"
    )
    config = generated(scratch, server.dsn, script="mine.lua")
    target = config.target.model_copy(update={"settings": {"sort_buffer_size": 65_536, "sql_mode": "ANSI_QUOTES"}})
    assert measure(config.model_copy(update={"target": target}), site_at(scratch)).transactions > 0


@pytest.mark.parametrize("engine", ["postgres", pytest.param("mariadb", marks=needs_mariadb)])
def test_a_server_that_takes_no_writes_is_refused_in_words_whatever_its_defaults(scratch, engine):
    if engine == "mariadb":
        with real_mariadb.running(scratch / "replica", "--read-only") as server:
            error = refused(real_mariadb.mariadb(scratch, dsn=server.socket_dsn), scratch)
            assert error.problem.startswith("the server is read-only")
        return
    with running(scratch, default_transaction_isolation="serializable") as server:
        server.shut_down()
        (server.data_folder / "standby.signal").touch()
        give_to_server(server.data_folder / "standby.signal")
        server.start_again()
        assert "hot standby" in str(refused(small(scratch, dsn=server.conninfo), scratch))
        assert found(small(scratch, dsn=server.conninfo).target).title.startswith("PostgreSQL ")


def test_settings_that_may_hold_secrets_are_not_shown(scratch):
    secrets = ("archive_cleanup_command", "recovery_end_command", "archive_command", "cluster_name")
    with running(scratch, **dict.fromkeys(secrets, "hush")) as server, connect(server) as connection:
        assert "hush" not in repr(server_facts(connection))


# --- what leads a load's program elsewhere ---------------------------------------------------------------------------


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(not Path("/usr/sbin/pgbouncer").exists(), reason="no pgbouncer")
@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
@pytest.mark.parametrize("ignored", ["extra_float_digits", "options"])
def test_a_pooler_is_refused_before_a_generator_or_a_clean_up_touches_tables_of_the_same_names(
    attached, scratch, mode, ignored
):
    known, port = psycopg.conninfo.conninfo_to_dict(attached.conninfo), free_port()
    owner = os.stat(str(known["host"]))
    (scratch / "pool.ini").write_text(
        f"[databases]\n* = host={known['host']} port={known['port']} user={known['user']}\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n"
        f"ignore_startup_parameters = {ignored}\n"
    )
    config = small(scratch, dsn=f"postgresql://{known['user']}@127.0.0.1:{port}/postgres")
    load = Pgbench(scale=1, connections=2, duration_s=1.0)
    pooler = subprocess.Popen(
        ["/usr/sbin/pgbouncer", "--quiet", str(scratch / "pool.ini")], user=owner.st_uid, group=owner.st_gid,
        extra_groups=[],
    )  # fmt: skip
    try:
        until(lambda: listens(port))
        with connect(attached) as own:
            own.execute("CREATE TABLE public.pgbench_accounts AS SELECT 7 AS mine")
            assert "the server's own port" in str(refused(config, scratch))
            with pytest.raises(RunFailed, match="the server's own port"):
                measure(config.model_copy(update={"workload": load}), site_at(scratch))
            with pytest.raises(PreflightError, match="the server's own port"):
                sweep(plan_of(config), site_at(scratch))
            assert ask(own, "SELECT mine FROM public.pgbench_accounts") == 7
    finally:
        pooler.terminate()
        pooler.wait()
        with connect(attached) as own:
            own.execute("DROP TABLE IF EXISTS public.pgbench_accounts")


@needs_mariadb
def test_a_server_that_leads_clients_to_a_schema_with_tables_of_the_same_names_is_refused(scratch):
    with real_mariadb.running(scratch / "led") as server:
        server.said(*FAR, "CREATE DATABASE shop",
                    "CREATE TABLE shop.sbtest1 (id INT PRIMARY KEY, k INT, c CHAR(120), pad CHAR(60))",
                    "INSERT INTO shop.sbtest1 VALUES (1, 0, '', '')")  # fmt: skip
        config = generated(scratch, server.dsn("far", "x"))
        checked(config, scratch)
        with open_target(config, site_at(scratch)) as target:
            server.said("SET GLOBAL init_connect = 'USE shop'")
            with pytest.raises(RunFailed, match="sysbench would work in shop, not in storagelab's own"):
                run_in(target)
        error = refused(config, scratch)
        assert error.problem.startswith("the load can't begin: sysbench would work in shop, not in storagelab's own")
        with pytest.raises(RunFailed, match="sysbench would work in shop"):
            measure(config, site_at(scratch))
        assert server.said("SELECT * FROM shop.sbtest1") == [(1, 0, "", "")]
        assert server.said("SHOW DATABASES LIKE 'storagelab%'") == []


# --- what was there before -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("full", [True, False])
def test_what_has_the_name_that_storagelab_needs_stops_everything_before_it_is_touched(server, scratch, full):
    table = (f"CREATE TABLE {SCHEMA}.my_big_table AS SELECT 42 AS answer",) if full else ()
    server.said(f"CREATE SCHEMA {SCHEMA}", *table)
    try:
        config = cell(server, scratch)
        assert "storagelab did not make it" in refused(config, scratch).problem
        with pytest.raises(PreflightError, match="storagelab did not make it"):
            sweep(plan_of(config), site_at(scratch))
        run = run_of(config, scratch)
        assert run.status == "failed"
        assert "did not make it" in run.reason
        if full:
            assert server.said(f"SELECT answer FROM {SCHEMA}.my_big_table") == [(42,)]
    finally:
        server.said(f"DROP TABLE IF EXISTS {SCHEMA}.my_big_table", f"DROP SCHEMA {SCHEMA}")


@on_mariadb
def test_a_table_that_somebody_put_into_our_database_is_not_dropped_with_it(server, scratch):
    config = cell(server, scratch)
    with open_target(config, site_at(scratch)):
        server.said(f"CREATE TABLE {SCHEMA}.theirs (x INT)")
        with pytest.raises(PreflightError, match="the table theirs in the database"):
            sweep(plan_of(config), site_at(scratch))
        server.said(f"DROP TABLE {SCHEMA}.theirs")


@pytest.mark.parametrize("of", ["the same cell", "another cell"])
def test_what_a_killed_run_left_on_the_server_is_swept_and_said_and_nothing_else(server, scratch, of):
    left = cell(server, scratch, volumes=["a"], data_files=2)
    open_target(left, site_at(scratch)).__enter__().server.own.close()  # and is killed without leaving it
    server.said("CREATE SCHEMA storagelab_other")
    plan = plan_of(left) if of == "the same cell" else plan_of(cell(server, scratch, data_files=1), left)
    made = [f"schema {SCHEMA}", *(f"tablespace {SCHEMA}_f000{number}" for number in (1, 2))]
    assert [line.split(",")[0] for line in sweep(plan, site_at(scratch))] == [
        *(f"dropped {what}" for what in (made if server.engine == "postgres" else [f"database {SCHEMA}"])),
        f"removed {scratch}/a/storagelab-tested-0badcafe",
    ]
    assert left_behind(scratch) == []
    assert sweep(plan, site_at(scratch)) == []
    assert server.left() == [("storagelab_other",)]
    server.said("DROP SCHEMA storagelab_other")


# --- trouble amid a run ----------------------------------------------------------------------------------------------

LONG = {"rows_per_connection": 30_000, "volumes": ["a"]}
END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "


def test_a_crash_of_the_server_fails_that_run_and_the_next_one_is_well(scratch, during):
    with running(scratch / "other") as server:
        config = small(scratch, dsn=server.conninfo, **LONG)

        def crash(_) -> None:
            with connect(server) as connection:
                pid = ask(connection, "SELECT pid FROM pg_stat_activity WHERE query LIKE 'CALL %' LIMIT 1")
            os.kill(pid, 9)
            time.sleep(0.2)

        during(crash)
        run = run_of(config, scratch)
        assert run.status == "failed"
        assert "connection" in run.reason.splitlines()[0]
        assert os.listdir(scratch / "a") == []
        following = run_of(config, scratch)
        assert (following.status, following.reason) == ("ok", "")
        with connect(server) as connection:
            assert ask(connection, "SELECT count(*) FROM pg_tablespace") == 2


def test_folders_stay_while_an_unreachable_server_may_still_use_them_and_go_later(scratch, during):
    with running(scratch / "other") as server:
        config = small(scratch, dsn=server.conninfo, **LONG)
        rules = server.data_folder / "pg_hba.conf"
        open_to_all = rules.read_text()

        def shut_out(_) -> None:
            with connect(server) as connection:
                rules.write_text("local all all reject\n")
                connection.execute("SELECT pg_reload_conf()")
                time.sleep(0.3)
                connection.execute(f"{END} pid <> pg_backend_pid()")

        during(shut_out)
        run = run_of(config, scratch)
        assert run.status == "failed"
        assert "can't drop what was made on the server" in run.reason.splitlines()[-1]
        assert os.listdir(scratch / "a") == ["storagelab-tested-0badcafe"]
        during(lambda _: None)
        shut = run_of(config, scratch)
        assert shut.status == "failed"
        assert "can't connect" in shut.reason
        rules.write_text(open_to_all)
        server._process.send_signal(1)
        time.sleep(0.3)
        again = run_of(config, scratch)
        assert (again.status, again.reason) == ("ok", "")
        assert os.listdir(scratch / "a") == []
