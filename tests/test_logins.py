"""Logins to a server that already runs: the forms of its address, the refusals with the server's own message, the
rights and settings that a login needs; and no password is ever shown.
"""

import os
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

import pymysql
import pytest
import real_mariadb
from each_engine import TCP_PASSWORD, cell, checked, each_engine, inventory, opens, refused
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from psycopg import sql
from psycopg.conninfo import make_conninfo
from real_mariadb import PASSWORD, needs_mariadb
from real_servers import (
    ROWS,
    ask,
    connect,
    free_port,
    key_and_certificate,
    measure,
    run_of,
    running,
    server_folders,
    site_at,
    small,
    until,
)  # fmt: skip
from test_running_servers import generated

from storagelab.engines.mariadb import connect as mariadb
from storagelab.engines.postgres import connect as postgres
from storagelab.engines.postgres.preflight import read_facts
from storagelab.engines.postgres.server import USER
from storagelab.model.config import Config, TargetConfig
from storagelab.model.loads.pgbench import Pgbench

CREATE, CHECKPOINT = "CREATE ON DATABASE postgres", "pg_checkpoint"
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")


# --- a password ------------------------------------------------------------------------------------------------------


def test_neither_dsn_nor_password_stands_in_what_is_stored(server, login, scratch, monkeypatch):
    dsn = login(*server.rights)
    monkeypatch.setenv("LAB", dsn)
    config = cell(server, scratch, dsn_env="LAB")
    assert "attached" in checked(config, scratch).server, "just these rights are enough"
    run = run_of(config, scratch)
    assert (run.status, run.measurement.rows) == ("ok", ROWS)
    for secret in (PASSWORD, dsn, server.dsn):
        assert secret not in run.model_dump_json()


def test_a_password_from_the_environment_opens_a_server_on_tcp(on_tcp, scratch, monkeypatch):
    monkeypatch.setenv("LAB", on_tcp)
    assert measure(small(scratch, dsn_env="LAB", rows_per_connection=100), site_at(scratch)).rows == 400


@pytest.mark.parametrize("wrong", ["wr0ng-horse", "pass%20word", "p@ss"])
def test_a_wrong_password_is_refused_by_key_and_never_shown(server, login, on_tcp, scratch, monkeypatch, wrong):
    dsn, words = on_tcp.replace(TCP_PASSWORD, wrong), 'password authentication failed for user "lab"'
    if server.engine == "mariadb":
        dsn, words = login("USAGE ON *.*").replace(quote(PASSWORD, safe=""), wrong), "Access denied for user 'plain'"
    monkeypatch.setenv("LAB", dsn)
    error = refused(cell(server, scratch, dsn_env="LAB"), scratch)
    assert error.key == "target.dsn_env"
    if wrong == "wr0ng-horse":  # the others are words of the server's, too, so these are hidden
        assert words in str(error)
    assert not [secret for secret in (wrong, TCP_PASSWORD, "postgresql://lab", dsn) if secret in str(error)]


# --- an address ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "dsn"),
    [
        *(("postgres", dsn) for dsn in (
            "postgresql://lab:s3cret@[::1/db", "host=x pasword=s3cret", "s3cret", "postgresql://lab:s3cret@h:port/db",
        )),
        *(("mariadb", dsn) for dsn in (
            "", "postgresql://a@b", "mysql:///nobody", "mysql://u@h:port/", "mysql://u@h/?color=red",
            "mysql://u@h/?ssl=maybe",
        )),
    ],
)  # fmt: skip
def test_a_dsn_that_can_not_be_read_is_refused_without_being_shown(scratch, monkeypatch, engine, dsn):
    monkeypatch.setenv("LAB", dsn)
    error = refused(small(scratch, engine=engine, dsn_env="LAB"), scratch)
    assert error.key == "target.dsn_env"
    assert "s3cret" not in str(error)
    assert not dsn or dsn not in str(error)


@each_engine
def test_a_variable_that_is_not_set_is_named_with_an_example(scratch, monkeypatch, engine):
    monkeypatch.delenv("LAB", raising=False)
    example = {"postgres": "postgresql://user:password@host/database", "mariadb": "mysql://user:password@host/"}
    assert str(refused(small(scratch, engine=engine, dsn_env="LAB"), scratch)) == (
        f"target.dsn_env: the environment variable LAB is not set\n  for example: export LAB={example[engine]}"
    )


def test_a_server_that_is_not_there_is_said_with_what_to_check(scratch):
    error = refused(small(scratch, dsn=f"host={scratch} user=lab dbname=postgres"), scratch)
    assert str(error).startswith(f"target.dsn: can't connect to {scratch}, port 5432 as lab: ")
    assert "No such file or directory" in str(error)
    assert "check host, port" in error.hint
    error = refused(small(scratch, engine="mariadb", dsn="mysql://root@127.0.0.1:1/"), scratch)
    to = "127.0.0.1, port 1 as root"
    assert error.problem == f"can't connect to {to}: nobody answers: Connection refused (error 2003)"
    assert "check host, port" in error.hint


def test_files_that_a_dsn_names_and_that_never_end_are_not_waited_for(scratch):
    os.mkfifo(scratch / "fifo")
    dsn = f"host={scratch} user=lab dbname=postgres passfile={scratch}/fifo"
    assert refused(small(scratch, dsn=dsn), scratch).problem == "its passfile is a FIFO"
    dsn = f"mysql://root@127.0.0.1:1/?ssl_ca={scratch}/fifo"
    assert "is not a regular file" in refused(small(scratch, engine="mariadb", dsn=dsn), scratch).problem


def test_a_server_that_is_too_old_is_refused_with_its_version(server, scratch, monkeypatch):
    """No server that old is at hand, so the bound is moved."""
    name, title, oldest = {
        "postgres": ("OLDEST_MAJOR", "PostgreSQL", 99), "mariadb": ("OLDEST", "MariaDB", (99, 1)),
    }[server.engine]  # fmt: skip
    monkeypatch.setattr(f"storagelab.engines.{server.engine}.preflight.{name}", oldest)
    error = refused(cell(server, scratch), scratch)
    version = server.said("SHOW server_version" if name == "OLDEST_MAJOR" else "SELECT version()")[0][0]
    assert error.problem == f"the server is {title} {version.split()[0].split('-')[0]}, which is too old"
    assert error.hint == f"storagelab measures {title} {'99' if name == 'OLDEST_MAJOR' else '99.1'} and later"


# --- TLS -------------------------------------------------------------------------------------------------------------


def built_with_tls(folder) -> bool:
    said = subprocess.run(["ldd", folder / "postgres"], capture_output=True, text=True, check=False).stdout
    return "libssl" in said


WITH_TLS = [folder for folder in server_folders() if built_with_tls(folder)]


@needs_openssl
@pytest.mark.skipif(
    not WITH_TLS, reason="no PostgreSQL here is built with TLS (Debian's is: apt-get install postgresql)"
)
def test_a_postgresql_that_demands_tls_is_given_it(scratch, monkeypatch):
    keys, port = key_and_certificate(scratch), free_port()
    settings = {"ssl": "on", "ssl_key_file": keys[0], "ssl_cert_file": keys[1], "listen_addresses": "127.0.0.1"}
    settings["ssl_ca_file"] = keys[1]
    with running(scratch / "tls", bin_dir=str(WITH_TLS[0]), port=port, **settings) as server:
        rules = server.data_folder / "pg_hba.conf"
        rules.write_text("local all all trust\nhostssl all all 127.0.0.1/32 trust\n")
        with connect(server) as connection:
            connection.execute("SELECT pg_reload_conf()")
        dsn = f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        until(lambda: opens(dsn))
        # A server that demands TLS gets it unasked.
        for mode in ("", "?sslmode=require"):
            checked(small(scratch, dsn=dsn + mode), scratch)
        with postgres.connect(TargetConfig(engine="postgres", dsn=dsn)) as connection:
            assert ask(connection, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        error = refused(small(scratch, dsn=dsn + "?sslmode=disable"), scratch)
        assert "no pg_hba.conf entry" in error.problem
        assert "sslmode=require" in error.hint
        # The load's own program works in another folder, where it does not find this file.
        monkeypatch.chdir(scratch)
        with_file = f"{dsn}?sslmode=verify-ca&sslrootcert={Path(keys[1]).name}"
        checked(small(scratch, dsn=with_file), scratch)
        load = {"kind": "pgbench", "connections": 1, "duration_s": 1.0}
        error = refused(Config.model_validate({"target": {"engine": "postgres", "dsn": with_file}, "volumes": {},
                                               "layout": {}, "workload": load}), scratch)  # fmt: skip
        assert error.problem.startswith("the load can't begin: pgbench can't log in: ")
        assert "cert.pem" in error.problem
        rules.write_text("local all all trust\nhostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n")
        with connect(server) as connection:
            connection.execute("SELECT pg_reload_conf()")
        until(lambda: not opens(dsn))
        assert "sslcert=" in refused(small(scratch, dsn=dsn), scratch).hint


@needs_mariadb
@needs_openssl
def test_a_mariadb_that_demands_tls_is_given_it(scratch):
    keys = key_and_certificate(scratch)
    options = ("--ssl=ON", f"--ssl-key={keys[0]}", f"--ssl-cert={keys[1]}", "--require-secure-transport=ON")
    with real_mariadb.running(scratch / "tls", *options) as server:
        server.said("CREATE USER far IDENTIFIED BY 'x'", "GRANT ALL ON *.* TO far")
        plain = server.dsn("far", "x")
        # If a server demands TLS, it gets TLS without an option. The DSN decides whether the certificate is checked.
        for dsn in (plain, plain + "?ssl=required"):
            checked(real_mariadb.mariadb(scratch, dsn=dsn), scratch)
            with mariadb.connect(TargetConfig(engine="mariadb", dsn=dsn)) as connection:
                assert mariadb.ask(connection, "SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
        error = refused(real_mariadb.mariadb(scratch, dsn=plain + "?ssl=verified"), scratch)
        assert "certificate verify failed" in error.problem
        # sysbench can't encrypt without a certificate of its own, so its load is refused before anything is made.
        for dsn, words in (
            (plain, "error 1045: Access denied for user 'far'"), (plain + "?ssl=required", "error 2026: "),
        ):  # fmt: skip
            error = refused(generated(scratch, dsn), scratch)
            assert error.problem.startswith(f"the load can't begin: sysbench can't log in: {words}")
            assert "certificate" in error.hint


# --- rights and limits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shared", "without", "words", "way_out"),
    [
        ("postgres", "CREATE ON DATABASE postgres", "right CREATE on the database", "GRANT CREATE ON DATABASE"),
        ("postgres", "pg_checkpoint", "role pg_checkpoint", "between_runs.checkpoint = false"),
        ("postgres", "", "right SUPERUSER, which is needed to put data files on volumes", "leave [volumes] out"),
        *(pytest.param("mariadb", without, without, way_out, marks=needs_mariadb) for without, way_out in (
            ("CREATE ROUTINE", "GRANT CREATE ROUTINE ON `storagelab\\_0badcafe`.*"), ("DROP", "GRANT DROP ON"),
            ("PROCESS", "GRANT PROCESS ON *.*"), ("RELOAD", "between_runs.checkpoint = false"),
            ("FILE", "leave [volumes] out"),
        )),
        pytest.param("mariadb", "SELECT ON performance_schema.*", "right SELECT on performance_schema",
                     "measure.waits = false", marks=needs_mariadb),
    ],
    indirect=["shared"],
)  # fmt: skip
def test_a_missing_right_is_named_with_the_way_to_get_it(server, login, scratch, without, words, way_out):
    rights = [one for one in server.rights if one != without]
    if server.engine == "mariadb":
        rights = [f"{one}".replace(f"{without}, ", "").replace(f", {without} ON", " ON") for one in rights]
    superuser = "SUPERUSER" in words or server.engine == "mariadb"
    error = refused(cell(server, scratch, dsn=login(*rights), volumes=["a"] if superuser else []), scratch)
    assert error.key == "target.dsn"
    assert f"lacks the {words}" in error.problem or f"lacks the right {words}" in error.problem
    assert way_out in error.hint


@pytest.mark.parametrize("shared", ["postgres"], indirect=True)
def test_a_login_without_the_right_to_checkpoint_measures_all_but_the_checkpoint(server, login, scratch):
    measured = measure(cell(server, scratch, dsn=login(CREATE), checkpoint=False), site_at(scratch))
    assert measured.rows == ROWS
    assert measured.checkpoint_s is None


@pytest.mark.parametrize("shared", ["postgres"], indirect=True)
@pytest.mark.parametrize("load", [None, Pgbench(scale=1, connections=2, duration_s=1.0)], ids=["inserts", "pgbench"])
def test_what_a_role_sets_that_could_only_end_a_load_does_not_hold(server, login, scratch, load):
    sets = {
        "statement_timeout": "1ms", "lock_timeout": "1ms", "idle_session_timeout": "1ms",
        "default_transaction_read_only": "on", "default_tablespace": "pg_global", "role": "pg_checkpoint",
        "app.token": "hush",
    }  # fmt: skip
    dsn = login(CREATE, CHECKPOINT)
    server.said(*(f"ALTER ROLE plain SET {name} = '{text}'" for name, text in sets.items()))
    config = small(scratch, dsn=dsn)
    config = config if load is None else config.model_copy(update={"workload": load})
    (kept,) = [note for note in checked(config, scratch).notes if "the load keeps" in note]
    assert {*kept.partition("the load keeps: ")[2].split(", ")} == {"app.token", "default_tablespace"}
    assert "hush" not in kept
    assert measure(config, site_at(scratch)).unverified == ()


def test_a_server_without_room_for_all_connections_says_how_many_are_free(server, login, scratch):
    number, free, needed = {"postgres": (120, "119", 124), "mariadb": (4096, "", 4100)}[server.engine]
    error = refused(cell(server, scratch, connections=number, rows_per_connection=100), scratch)
    assert error.problem.startswith(f"the server has room for {free}")
    assert f"more connections, {needed} are needed" in error.problem
    assert "workload.connections" in error.hint
    if server.engine == "postgres":  # three are kept for superusers
        dsn = login(CREATE, CHECKPOINT)
        error = refused(cell(server, scratch, dsn=dsn, connections=113, rows_per_connection=100), scratch)
        assert "the server has room for 116 more connections, 117 are needed" in str(error)


# --- settings --------------------------------------------------------------------------------------------------------

NOT_FOR_A_SESSION = "it can't be set for a session"


@pytest.mark.parametrize(
    ("shared", "settings", "words", "hint"),
    [
        ("postgres", {"shared_buffers": "64MB"}, f"{NOT_FOR_A_SESSION} (its context is postmaster)", "private"),
        ("postgres", {"checkpoint_timeout": "2min"}, f"{NOT_FOR_A_SESSION} (its context is sighup)", ""),
        ("postgres", {"wrok_mem": "4MB"}, "the server has no such setting", "did you mean work_mem?"),
        ("postgres", {"work_mem": "lots", "jit": True}, 'refuses it: invalid value for parameter "work_mem"', ""),
        *(pytest.param("mariadb", settings, words, "", marks=needs_mariadb) for settings, words in (
            ({"innodb_page_size": 4096}, "read only variable"), ({"innodb_io_capacity": 400}, "GLOBAL variable"),
            ({"nonsense": 1}, "the server has no such setting"),
            ({"sql_mode": "NONSENSE"}, "can't be set to the value of 'NONSENSE'"),
            ({"sql_mode": "1"}, "can't be set to the value of '1'"),
            ({"sort_buffer_size": "65536"}, "Incorrect argument type"),
        )),
    ],
    indirect=["shared"],
)  # fmt: skip
def test_a_setting_that_a_session_can_not_have_is_refused_by_key(server, scratch, settings, words, hint):
    error = refused(cell(server, scratch, settings=settings), scratch)
    assert error.key == f"target.settings.{next(iter(settings))}"
    assert words in error.problem
    assert hint in error.hint


# --- names that mean something to SQL --------------------------------------------------------------------------------

AWKWARD = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=15
)


@hypothesis_settings(max_examples=25)
@given(name=AWKWARD)
@example(name="o'brien\"\\%s; DROP DATABASE postgres; --")
@example(name=" ")
def test_any_login_and_database_can_be_written_in_a_dsn(shared_server, name):
    """Names longer than 63 bytes PostgreSQL cuts off by itself; none of these is."""
    with connect(shared_server) as own:
        own.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
        try:
            target = TargetConfig(engine="postgres", dsn=make_conninfo(shared_server.conninfo, user=name))
            with postgres.connect(target) as connection:
                assert ask(connection, "SELECT current_user::text") == name
                assert not read_facts(connection).superuser
        finally:
            own.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@given(name=AWKWARD, password=AWKWARD)
@example(name="o'brien`\"\\%s", password="%41'; DROP DATABASE mysql; --")
def test_any_login_can_be_written_in_a_dsn_of_mariadb(name, password):
    dsn = f"mysql://{quote(name, safe='')}:{quote(password, safe='')}@host/"
    address = mariadb.parse_dsn(dsn, "target.dsn_env")
    assert (address.user, address.password) == (name, password)


@hypothesis_settings(max_examples=50)
@given(name=AWKWARD, value=AWKWARD)
@example(name="x = 1; DROP TABLE pg_class; --", value="'; DROP DATABASE mysql; --")
@example(name="work_mem", value="'1'; DROP TABLE pg_class; --")
@example(name="`", value="\\'")
def test_no_setting_can_say_more_than_a_setting(shared, name, value):
    preflight = import_module(f"storagelab.engines.{shared.engine}.preflight")
    engine = import_module(f"storagelab.engines.{shared.engine}.connect")
    before = inventory(shared)
    with engine.connect(TargetConfig(engine=shared.engine, dsn=shared.dsn)) as connection:
        facts = preflight.read_facts(connection)
        with pytest.raises(preflight.PreflightError):
            preflight.check_session_settings(connection, facts, {name: value})
        if shared.engine == "mariadb":
            with pytest.raises(pymysql.MySQLError):
                mariadb.set_for_session(connection, {name: value})
    assert inventory(shared) == before
