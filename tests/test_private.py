"""A private server ignores the variables and option files of the user; one that already runs respects them."""

import os

import psycopg
import pytest
from real_mariadb import needs_mariadb
from real_servers import ask, connect, left_behind, measure, running, site_at, small

from storagelab.engines.mariadb import server as mariadb_server
from storagelab.engines.mariadb.server import find_binaries as find_mariadb
from storagelab.engines.postgres.connect import connect as connect_to
from storagelab.engines.postgres.connect import connect_private
from storagelab.engines.postgres.server import Server, find_binaries
from storagelab.model.config import TargetConfig
from storagelab.servers import private

pytestmark = pytest.mark.usefixtures("fresh_databases")

ODD_VALUES = {
    "PGAPPNAME": "mine", "PGCHANNELBINDING": "require", "PGCLIENTENCODING": "nonsense", "PGCONNECT_TIMEOUT": "nonsense",
    "PGDATA": "/nowhere", "PGDATABASE": "nowhere", "PGDATESTYLE": "nonsense", "PGGEQO": "nonsense",
    "PGGSSDELEGATION": "1",
    "PGGSSENCMODE": "require", "PGGSSLIB": "nonsense", "PGHOST": "203.0.113.1", "PGHOSTADDR": "127.0.0.1",
    "PGKRBSRVNAME": "nobody", "PGLOADBALANCEHOSTS": "nonsense", "PGMAXPROTOCOLVERSION": "nonsense",
    "PGMINPROTOCOLVERSION": "nonsense", "PGOPTIONS": "-c synchronous_commit=off", "PGPASSFILE": "/nowhere",
    "PGPASSWORD": "nonsense", "PGPORT": "1", "PGREQUIREAUTH": "scram-sha-256", "PGREQUIREPEER": "nobody-of-that-name",
    "PGREQUIRESSL": "1", "PGSERVICE": "nowhere", "PGSERVICEFILE": "/nowhere", "PGSSLCERT": "/nowhere",
    "PGSSLCERTMODE": "require", "PGSSLCRL": "/nowhere", "PGSSLKEY": "/nowhere", "PGSSLMAXPROTOCOLVERSION": "nonsense",
    "PGSSLMINPROTOCOLVERSION": "nonsense", "PGSSLMODE": "verify-full", "PGSSLNEGOTIATION": "direct",
    "PGSSLROOTCERT": "/nowhere", "PGSSLSNI": "nonsense", "PGSYSCONFDIR": "/nowhere",
    "PGTARGETSESSIONATTRS": "read-only",
    "PGTZ": "Nowhere/Nothing", "PGUSER": "nobody-of-that-name", "PG_OOM_ADJUST_FILE": "/nowhere",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(ODD_VALUES))
def test_no_variable_comes_between_storagelab_and_its_own_server(shared_server, monkeypatch, name):
    monkeypatch.setenv(name, ODD_VALUES[name])
    assert shared_server._refusal() is None
    with connect_private(shared_server.conninfo) as connection:
        assert ask(connection, "SHOW synchronous_commit") == "on"
        assert ask(connection, "SHOW TimeZone") != ODD_VALUES["PGTZ"]
    assert os.environ[name] == ODD_VALUES[name]


def test_with_all_variables_at_once_a_server_is_made_measured_and_removed(scratch, monkeypatch):
    for name, value in ODD_VALUES.items():
        monkeypatch.setenv(name, value)
    measured = measure(small(scratch, data_files=2), site_at(scratch))
    assert measured.unverified == ()
    assert measured.waits is not None
    assert left_behind(scratch) == []


def test_no_variable_leads_to_another_server(shared_server, scratch, monkeypatch):
    """Where a schema would be made and left."""
    address = psycopg.conninfo.conninfo_to_dict(shared_server.conninfo)
    service = scratch / "services"
    service.write_text("[other]\n" + "".join(f"{name}={value}\n" for name, value in address.items()))
    for name, value in {"PGSERVICE": "other", "PGSERVICEFILE": str(service), "PGHOST": address["host"]}.items():
        monkeypatch.setenv(name, str(value))
    with running(scratch / "own") as own, connect(own) as connection:
        assert ask(connection, "SHOW unix_socket_directories") != address["host"]


def test_a_server_that_runs_already_heeds_them(shared_server, scratch, monkeypatch):
    address = psycopg.conninfo.conninfo_to_dict(shared_server.conninfo)
    service = scratch / "services"
    service.write_text("[other]\n" + "".join(f"{name}={value}\n" for name, value in address.items()))
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")
    with connect_to(TargetConfig(engine="postgres", dsn="service=other")) as connection:
        assert ask(connection, "SHOW unix_socket_directories") == address["host"]
        assert ask(connection, "SHOW TimeZone") == "Asia/Tokyo"


def test_a_server_that_is_up_and_refuses_connections_is_not_said_not_to_have_started(scratch, monkeypatch):
    monkeypatch.setattr(private, "START_TIMEOUT_S", 30.0)
    folders = {"data_folder": scratch / "s", "log_folder": scratch / "l"}
    server = Server(find_binaries(None), **folders, settings={"session_preload_libraries": "nonsense"})
    with pytest.raises(private.StartFailed) as caught:
        server.start()
    server.stop()
    assert str(caught.value).startswith("the server has started, but refuses connections: ")
    assert 'could not access file "nonsense"' in str(caught.value)
    assert left_behind(scratch) == []


@needs_mariadb
def test_mariadbs_variables_and_option_files_change_nothing(scratch, monkeypatch):
    home = scratch / "home"
    home.mkdir()
    options = "port=1\nsocket=/nowhere\nuser=nobody-of-that-name\npassword=nonsense\nmax_connections=17\n"
    for name in (".my.cnf", "my.cnf", ".mylogin.cnf"):
        (home / name).write_text(
            "".join(f"[{group}]\n{options}" for group in ("client", "mysqld", "server", "mariadb"))
        )
    values = {
        "HOME": str(home), "MYSQL_HOME": str(home), "MARIADB_HOME": str(home), "MYSQL_TCP_PORT": "1", "UMASK": "0777",
        "MYSQL_UNIX_PORT": "/nowhere", "MYSQL_PWD": "nonsense", "MYSQL_HOST": "203.0.113.1", "UMASK_DIR": "0777",
        "MYSQL_GROUP_SUFFIX": "_x", "MARIADB_GROUP_SUFFIX": "_x", "LIBMYSQL_PLUGINS": "nonsense",
        "MYSQL_TEST_LOGIN_FILE": "x",
        "LIBMYSQL_ENABLE_CLEARTEXT_PLUGIN": "1", "MYSQL_DEBUG": "d:t:o,/nowhere", "MYSQL_HISTFILE": "/nowhere",
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    measured = measure(small(scratch, engine="mariadb", settings={"max_connections": 77}), site_at(scratch))
    assert measured.unverified == ()
    assert {check.got for check in measured.checks if check.name.endswith("max_connections")} == {"77"}
    assert left_behind(scratch) == []


@needs_mariadb
def test_a_mariadb_that_is_up_and_refuses_connections_is_not_said_not_to_have_started(scratch, monkeypatch):
    monkeypatch.setattr(mariadb_server, "USER", "nobody-of-that-name")
    folders = {"data_folder": scratch / "s", "log_folder": scratch / "l"}
    server = mariadb_server.Server(find_mariadb(None), **folders, settings={})
    with pytest.raises(private.StartFailed, match="has started, but refuses connections: Access denied"):
        server.start()
    server.stop()
    assert left_behind(scratch) == []
