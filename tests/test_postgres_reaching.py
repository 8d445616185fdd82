"""What stands between storagelab and a server that runs, such as a pooler; and what the server sets for a login."""

import os
import socket
import subprocess
from pathlib import Path

import psycopg
import pytest
from real_servers import ask, connect, free_port, measure, plan_of, running, site_at, small, until
from test_postgres_attached import CHECKPOINT, CREATE, SCHEMA, login, refused
from test_sysbench import cell, needs_sysbench

from storagelab.engines.postgres.capture import found
from storagelab.engines.postgres.connect import _options, client_environment, refuse_elsewhere
from storagelab.engines.postgres.engine import opened, server_facts
from storagelab.engines.postgres.preflight import check
from storagelab.errors import PreflightError, RunFailed
from storagelab.loads.generator import Clients
from storagelab.machine.rights import give_to_server
from storagelab.model.loads.pgbench import Pgbench
from storagelab.run.engine import sweep
from storagelab.servers.places import tables_of

__all__ = ["login"]  # a fixture


def _answers(port: int) -> bool:
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
        until(lambda: _answers(port))
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


def test_a_client_that_would_work_outside_our_schema_is_not_started(attached, scratch):
    environment = client_environment(attached.conninfo, {}, private=False)
    with pytest.raises(RunFailed, match=r"would work in postgres\.public, not in postgres\.storagelab_0badcafe"):
        refuse_elsewhere(environment, small(scratch, dsn=attached.conninfo).target, SCHEMA)


@needs_sysbench
def test_so_is_sysbench_by_its_own_answer(attached, scratch):
    config = cell(scratch, "postgres", dsn=attached.conninfo)
    environment = client_environment(attached.conninfo, {}, private=False)
    clients = Clients(environment, options=_options(environment))
    with pytest.raises(RunFailed, match="sysbench would work in public, not in storagelab's own"):
        tables_of(config)(config, SCHEMA, None).refuse_elsewhere(clients, SCHEMA)


def test_a_roles_defaults_hinder_no_set_up_and_are_the_loads_own(attached, login, scratch):
    sets = {
        "default_transaction_isolation": "serializable", "default_transaction_read_only": "on", "datestyle": "SQL, DMY",
        "statement_timeout": "1ms", "search_path": "nowhere", "client_encoding": "SQL_ASCII", "lock_timeout": "1ms",
        "app.token": "hush", "idle_session_timeout": "1s", "transaction_timeout": "1s",
    }  # fmt: skip
    dsn = login(CREATE, CHECKPOINT, *(f"ALTER ROLE plain SET {name} = '{text}'" for name, text in sets.items()))
    config = small(scratch, dsn=dsn)
    (kept,) = [note for note in check(plan_of(config), site_at(scratch)).notes if "the load keeps" in note]
    assert "app.token" in kept
    assert "hush" not in kept
    with opened(config, site_at(scratch)) as target, target.server.reach.connect_worker() as worker:
        assert ask(worker, "SHOW transaction_isolation") == "serializable"
        assert ask(target.server.own, "SHOW transaction_isolation") == "read committed"
        assert ask(target.server.own, "SHOW transaction_timeout") == "0"
        assert target.server.reach.for_set_up["transaction_timeout"] == "0"
        assert ask(worker, "SHOW idle_session_timeout") == "0"


@pytest.mark.parametrize("load", [None, Pgbench(scale=1, connections=2, duration_s=1.0)], ids=["inserts", "pgbench"])
def test_what_a_role_sets_that_could_only_end_a_load_does_not_hold(attached, login, scratch, load):
    sets = {
        "statement_timeout": "1ms", "lock_timeout": "1ms", "idle_session_timeout": "1ms",
        "default_transaction_read_only": "on", "default_tablespace": "pg_global", "role": "pg_checkpoint",
    }  # fmt: skip
    dsn = login(CREATE, CHECKPOINT, *(f"ALTER ROLE plain SET {name} = '{text}'" for name, text in sets.items()))
    config = small(scratch, dsn=dsn)
    config = config if load is None else config.model_copy(update={"workload": load})
    (kept,) = [note for note in check(plan_of(config), site_at(scratch)).notes if "the load keeps" in note]
    assert kept.endswith("the load keeps: default_tablespace")
    assert measure(config, site_at(scratch)).unverified == ()


def test_a_hot_standby_is_refused_in_words_whatever_its_defaults(scratch):
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
