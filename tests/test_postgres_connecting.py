"""Connections to a PostgreSQL that runs already: what it refuses, in its own words, and whatever names are."""

import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from psycopg import sql
from psycopg.conninfo import make_conninfo
from real_servers import (
    ask,
    connect,
    free_port,
    key_and_certificate,
    plan_of,
    running,
    server_folders,
    site_at,
    small,
    until,
)  # fmt: skip

from storagelab.engines.postgres import preflight
from storagelab.engines.postgres.connect import connect as connect_to
from storagelab.engines.postgres.preflight import check, check_session_settings, read_facts
from storagelab.engines.postgres.server import USER
from storagelab.errors import PreflightError
from storagelab.model.config import Config, TargetConfig


def built_with_tls(folder) -> bool:
    said = subprocess.run(["ldd", folder / "postgres"], capture_output=True, text=True, check=False).stdout
    return "libssl" in said


WITH_TLS = [folder for folder in server_folders() if built_with_tls(folder)]


def refused(config, scratch) -> PreflightError:
    with pytest.raises(PreflightError) as caught:
        check(plan_of(config), site_at(scratch))
    return caught.value


def test_a_database_that_there_is_not_is_refused_in_the_servers_words(attached, scratch):
    error = refused(small(scratch, dsn=make_conninfo(attached.conninfo, dbname="no'where")), scratch)
    assert error.key == "target.dsn"
    assert 'database "no\'where" does not exist' in error.problem


def test_a_server_that_is_too_old_is_refused_with_its_version(attached, scratch, monkeypatch):
    """No server that old is at hand, so the bound is moved."""
    monkeypatch.setattr(preflight, "OLDEST_MAJOR", 99)
    error = refused(small(scratch, dsn=attached.conninfo), scratch)
    with connect(attached) as connection:
        version = ask(connection, "SHOW server_version").split()[0]
    assert error.problem == f"the server is PostgreSQL {version}, which is too old"
    assert error.hint == "storagelab measures PostgreSQL 99 and later"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
@pytest.mark.skipif(
    not WITH_TLS, reason="no PostgreSQL here is built with TLS (Debian's is: apt-get install postgresql)"
)
def test_a_server_that_demands_tls_is_given_it(scratch, monkeypatch):
    keys = key_and_certificate(scratch)
    port = free_port()
    settings = {"ssl": "on", "ssl_key_file": keys[0], "ssl_cert_file": keys[1], "listen_addresses": "127.0.0.1"}
    settings["ssl_ca_file"] = keys[1]
    with running(scratch / "tls", bin_dir=str(WITH_TLS[0]), port=port, **settings) as server:
        rules = server.data_folder / "pg_hba.conf"
        rules.write_text("local all all trust\nhostssl all all 127.0.0.1/32 trust\n")
        with connect(server) as connection:
            connection.execute("SELECT pg_reload_conf()")
        dsn = f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        until(lambda: _answers(dsn))
        # A server that demands TLS gets it unasked.
        for mode in ("", "?sslmode=require"):
            check(plan_of(small(scratch, dsn=dsn + mode)), site_at(scratch))
        with connect_to(TargetConfig(engine="postgres", dsn=dsn)) as connection:
            assert ask(connection, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        error = refused(small(scratch, dsn=dsn + "?sslmode=disable"), scratch)
        assert "no pg_hba.conf entry" in error.problem
        assert "sslmode=require" in error.hint
        # The load's own program works in another folder, where it does not find this file.
        monkeypatch.chdir(scratch)
        with_file = f"{dsn}?sslmode=verify-ca&sslrootcert={Path(keys[1]).name}"
        check(plan_of(small(scratch, dsn=with_file)), site_at(scratch))
        load = {"kind": "pgbench", "connections": 1, "duration_s": 1.0}
        error = refused(Config.model_validate({"target": {"engine": "postgres", "dsn": with_file}, "volumes": {},
                                               "layout": {}, "workload": load}), scratch)  # fmt: skip
        assert error.problem.startswith("the load can't begin: pgbench can't log in: ")
        assert "cert.pem" in error.problem
        rules.write_text("local all all trust\nhostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n")
        with connect(server) as connection:
            connection.execute("SELECT pg_reload_conf()")
        until(lambda: not _answers(dsn))
        assert "sslcert=" in refused(small(scratch, dsn=dsn), scratch).hint


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_server_without_tls_is_refused_where_the_dsn_asks_for_it(scratch):
    port = free_port()
    with running(scratch / "open", port=port, listen_addresses="127.0.0.1"):
        error = refused(small(scratch, dsn=f"postgresql://u@127.0.0.1:{port}/postgres?sslmode=require"), scratch)
    assert "server does not support SSL, but SSL was required" in error.problem


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
            with connect_to(target) as connection:
                assert ask(connection, "SELECT current_user::text") == name
                assert not read_facts(connection).superuser
        finally:
            own.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@hypothesis_settings(max_examples=50)
@given(name=AWKWARD, value=AWKWARD)
@example(name="x = 1; DROP TABLE pg_class; --", value="'; DROP TABLE pg_class; --")
@example(name="work_mem", value="'1'; DROP TABLE pg_class; --")
def test_no_setting_can_say_more_than_a_setting(shared_server, name, value):
    with connect(shared_server) as connection:
        before = ask(connection, "SELECT count(*) FROM pg_class")
        facts = read_facts(connection)
        with pytest.raises(PreflightError):
            check_session_settings(connection, facts, {name: value})
        assert ask(connection, "SELECT count(*) FROM pg_class") == before
