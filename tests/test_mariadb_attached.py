"""A MariaDB that already runs: measured through a DSN, refused by name where it can't be, and left as it was found."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from urllib.parse import quote

import pymysql
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from real_mariadb import DATABASE, PASSWORD, Elsewhere, mariadb, needs_mariadb, running
from real_servers import ROWS, got, key_and_certificate, left_behind, measure, open_folder, plan_of, run_in, site_at

from storagelab.engines.mariadb import preflight
from storagelab.engines.mariadb.connect import address_of, ask, connect, parse_dsn, set_for_session
from storagelab.engines.mariadb.engine import opened
from storagelab.engines.mariadb.preflight import check, check_session_settings, read_facts
from storagelab.errors import PreflightError, RunFailed
from storagelab.model.config import Config, TargetConfig
from storagelab.run.engine import sweep

pytestmark = [needs_mariadb, pytest.mark.slow]

IN_DATABASE = "CREATE, DROP, INSERT, SELECT, CREATE ROUTINE, EXECUTE, LOCK TABLES"
ON_ALL = ("PROCESS", "FILE", "RELOAD")


@pytest.fixture(scope="module")
def shared() -> Iterator[Elsewhere]:
    with open_folder() as folder, running(folder / "s", "--sql-mode=ANSI_QUOTES,STRICT_ALL_TABLES") as server:
        yield server


@pytest.fixture(scope="module")
def blind() -> Iterator[Elsewhere]:
    """Without performance_schema, as a server runs by default; with a user who may do everything."""
    with open_folder() as folder, running(folder / "s", "--performance-schema=OFF") as server:
        server.said("CREATE USER far@'%' IDENTIFIED BY 'x'", "GRANT ALL ON *.* TO far@'%'")
        yield server


@pytest.fixture
def elsewhere(shared) -> Iterator[Elsewhere]:
    """The shared server, with a check that the test left nothing of storagelab's on it."""
    yield shared
    assert shared.said("SHOW DATABASES LIKE 'storagelab%'") == []


@pytest.fixture
def login(elsewhere):
    """Makes a login with the given rights and a password that needs quoting everywhere."""
    made = []

    def with_rights(*grants: str, name: str = "plain") -> str:
        connection = elsewhere.connect()
        user = f"{connection.escape(name)}@'%'"
        made.append(user)
        ask(connection, f"CREATE USER {user} IDENTIFIED BY {connection.escape(PASSWORD)}")
        for grant in grants:
            ask(connection, f"GRANT {grant} TO {user}")
        connection.close()
        return elsewhere.dsn(name, PASSWORD)

    yield with_rights
    for user in made:
        elsewhere.said(f"DROP USER {user}")


def generated(scratch, dsn: str, layout=None, **changes) -> Config:
    load = {"kind": "sysbench", "connections": 2, "duration_s": 1.0, "table_size": 100, **changes}
    return Config.model_validate({
        "target": {"engine": "mariadb", "dsn": dsn}, "volumes": {}, "layout": layout or {}, "measure": {"waits": False},
        "workload": {name: value for name, value in load.items() if value is not None},
    })  # fmt: skip


def refused(config, scratch) -> PreflightError:
    with pytest.raises(PreflightError) as caught:
        check(plan_of(config), site_at(scratch))
    assert PASSWORD not in str(caught.value)
    return caught.value


# --- measured --------------------------------------------------------------------------------------------------------


def test_a_running_server_is_measured_and_left_as_it_was(elsewhere, scratch):
    before = elsewhere.said("SHOW DATABASES")
    config = mariadb(scratch, dsn=elsewhere.socket_dsn, settings={"sort_buffer_size": 65_536})
    assert check(plan_of(config), site_at(scratch)).server.endswith("attached, on this machine")
    measured = measure(config, site_at(scratch))
    assert measured.rows == ROWS
    assert measured.unverified == ()
    assert got(measured)["target.settings.sort_buffer_size"] == ("65536", True)
    assert measured.waits.cpu_s > 0
    assert elsewhere.said("SHOW DATABASES") == before


def test_data_files_go_to_volumes_when_the_server_runs_on_this_machine(elsewhere, scratch):
    config = mariadb(scratch, dsn=elsewhere.socket_dsn, volumes=["a", "b"], data_files=3)
    assert check(plan_of(config), site_at(scratch)).server.endswith("attached, on this machine")
    with opened(config, site_at(scratch)) as target:
        assert len(list((scratch / "a").rglob("*.ibd"))) == 2
        measured = run_in(target)
    assert measured.unverified == ()
    assert left_behind(scratch) == []


def test_neither_dsn_nor_password_stands_in_what_is_stored(login, elsewhere, scratch, monkeypatch):
    rights = (f"{IN_DATABASE} ON `storagelab\\_%`.*", "SELECT ON performance_schema.*", "PROCESS, RELOAD ON *.*")
    monkeypatch.setenv("LAB", login(*rights))
    config = mariadb(scratch, dsn_env="LAB")
    check(plan_of(config), site_at(scratch))
    measured = measure(config, site_at(scratch))
    assert measured.unverified == ()
    for hidden in (PASSWORD, elsewhere.dsn("plain", PASSWORD), str(elsewhere.port)):
        assert hidden not in measured.model_dump_json()


def test_a_server_on_another_machine_has_no_resource_and_signal_and_says_why(elsewhere, scratch, monkeypatch):
    monkeypatch.setattr(preflight, "_pid_on_this_machine", lambda *_, **__: None)
    config = mariadb(scratch, dsn=elsewhere.socket_dsn)
    assert check(plan_of(config), site_at(scratch)).server.endswith("(nothing tells): no resource/signal split")
    measured = measure(config, site_at(scratch))
    assert measured.waits.cpu_s is None
    assert measured.waits.no_split_reason == "the server's threads can't be seen from here"
    assert measured.environment["host"] == {}


@pytest.mark.parametrize("line", ["socket", "loopback", "loopback as another user", "pid file"])
def test_a_server_that_names_none_of_its_threads_is_found_on_this_machine(scratch, blind, monkeypatch, line):
    age_s = preflight.process_age_s
    if line == "loopback as another user":
        monkeypatch.setattr(os, "readlink", barred)
    elif line == "pid file":  # another process has opened the socket, as systemd does
        monkeypatch.setattr(preflight, "holds_other_end", lambda *_: False)
    dsn = blind.dsn("far", "x") if line.startswith("loopback") else blind.socket_dsn
    # One of the same user that other tests started within these seconds could as well be it.
    monkeypatch.setattr(
        preflight, "process_age_s", lambda one, names: age_s(one, names) if one.name == str(blind.pid) else None
    )
    config = mariadb(scratch, dsn=dsn, waits=False)
    assert check(plan_of(config), site_at(scratch)).server.endswith("attached, on this machine")
    with connect(config.target) as connection:
        assert read_facts(connection).pid == blind.pid


def barred(*_):
    raise PermissionError


ODD = (
    "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,NO_ZERO_DATE,STRICT_ALL_TABLES", "--autocommit=0", "--wait-timeout=3",
    "--completion-type=CHAIN", "--transaction-isolation=SERIALIZABLE", "--default-storage-engine=MyISAM",
    "--default-time-zone=+05:00", "--init-connect=SET sql_safe_updates = 1, sql_select_limit = 1, "
    "sql_quote_show_create = 0, foreign_key_checks = 0, alter_algorithm = 'INSTANT', auto_increment_increment = 7, "
    "lock_wait_timeout = 0, tx_read_only = 1, max_statement_time = 0.01",
)  # fmt: skip


def test_a_servers_and_a_logins_defaults_hinder_no_set_up_and_are_the_loads_own(scratch):
    with running(scratch / "odd", *ODD) as server:
        server.said("CREATE USER far@'%' IDENTIFIED BY 'x'", "GRANT ALL ON *.* TO far@'%'")
        server.said("REVOKE SUPER, CONNECTION ADMIN ON *.* FROM far@'%'")  # whom init_connect spares
        dsn = server.dsn("far", "x")
        inserts = mariadb(scratch, dsn=dsn)
        (note,) = [one for one in check(plan_of(inserts), site_at(scratch)).notes if "the load keeps" in one]
        for name in ("sql_mode", "autocommit", "completion_type", "tx_isolation", "sql_safe_updates", "time_zone"):
            assert name in note
        assert not any(name in note for name in ("max_statement_time", "tx_read_only"))  # they would only end it
        assert measure(inserts, site_at(scratch)).unverified == ()
        # Without an index, sysbench leaves the commit of its rows to autocommit.
        load = generated(scratch, dsn, script="oltp_read_only", options={"create_secondary": False}, duration_s=4.0)
        with opened(load, site_at(scratch)) as target:
            own = target.server.own
            assert ask(own, "SELECT @@max_statement_time") == [(0,)]
            assert ask(own, f"SELECT count(*), max(id) FROM {DATABASE}.sbtest1") == [(100, 100)]
            with contextlib.closing(target.server.reach.connect_worker()) as worker:
                assert ask(worker, "SELECT @@tx_isolation") == [("SERIALIZABLE",)]
            assert run_in(target).unverified == ()
        (scratch / "schema.sql").write_text(
            "CREATE TABLE orders (id int PRIMARY KEY, day date DEFAULT '0000-00-00', who varchar(9));\n"
            "INSERT INTO orders (id, who) SELECT seq, 'o\\'brien' FROM seq_1_to_500 LIMIT 500;\n"
        )
        (scratch / "order.sql").write_text("SELECT count(*) FROM orders;\n")
        layout = {"data_files": 2, "spread": ("orders",)}
        files = {"setup": ("schema.sql",), "transactions": ({"file": "order.sql"},), "kind": "sql", "table_size": None}
        assert measure(generated(scratch, dsn, layout, **files), site_at(scratch)).unverified == ()


def test_the_settings_asked_for_are_those_of_the_load_s_own_program(elsewhere, scratch):
    (scratch / "mine.lua").write_text(
        "require('oltp_common')\nfunction prepare_statements() end\nfunction event()\n"
        "  local size, mode = con:query_row('SELECT @@sort_buffer_size, @@sql_mode')\n"
        "  if size ~= '65536' or mode ~= 'ANSI_QUOTES' then error('not set: ' .. size .. mode) end\nend\n"
    )
    config = generated(scratch, elsewhere.socket_dsn, script="mine.lua")
    target = config.target.model_copy(update={"settings": {"sort_buffer_size": 65_536, "sql_mode": "ANSI_QUOTES"}})
    assert measure(config.model_copy(update={"target": target}), site_at(scratch)).transactions > 0


def test_a_server_that_leads_clients_to_a_schema_with_tables_of_the_same_names_is_refused(scratch):
    with running(scratch / "led") as server:
        server.said("CREATE USER far@'%' IDENTIFIED BY 'x'", "GRANT ALL ON *.* TO far@'%'",
                    "REVOKE SUPER, CONNECTION ADMIN ON *.* FROM far@'%'", "CREATE DATABASE shop",
                    "CREATE TABLE shop.sbtest1 (id INT PRIMARY KEY, k INT, c CHAR(120), pad CHAR(60))",
                    "INSERT INTO shop.sbtest1 VALUES (1, 0, '', '')")  # fmt: skip
        config = generated(scratch, server.dsn("far", "x"))
        check(plan_of(config), site_at(scratch))
        with opened(config, site_at(scratch)) as target:
            server.said("SET GLOBAL init_connect = 'USE shop'")
            with pytest.raises(RunFailed, match="sysbench would work in shop, not in storagelab's own"):
                run_in(target)
        error = refused(config, scratch)
        assert error.problem.startswith("the load can't begin: sysbench would work in shop, not in storagelab's own")
        with pytest.raises(RunFailed, match="sysbench would work in shop"):
            measure(config, site_at(scratch))
        assert server.said("SELECT * FROM shop.sbtest1") == [(1, 0, "", "")]
        assert server.said("SHOW DATABASES LIKE 'storagelab%'") == []


def test_a_server_that_takes_no_writes_is_refused_in_words(scratch):
    with running(scratch / "replica", "--read-only") as server:
        assert refused(mariadb(scratch, dsn=server.socket_dsn), scratch).problem.startswith("the server is read-only")


def test_an_error_of_the_server_in_the_checks_is_told_in_its_words(elsewhere, scratch, monkeypatch):
    monkeypatch.setattr(preflight, "_times_waits", lambda own: ask(own, "SELECT nope"))
    error = refused(mariadb(scratch, dsn=elsewhere.socket_dsn), scratch)
    assert (error.key, error.problem.partition(" in ")[0]) == ("target.dsn", "the server says: Unknown column 'nope'")


# --- refused by name -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "way_out"),
    [
        ("CREATE ROUTINE", "GRANT CREATE ROUTINE ON `storagelab\\_0badcafe`.*"), ("DROP", "GRANT DROP ON"),
        ("PROCESS", "GRANT PROCESS ON *.*"), ("RELOAD", "between_runs.checkpoint = false"),
        ("FILE", "leave [volumes] out"), ("SELECT on performance_schema", "measure.waits = false"),
    ],
)  # fmt: skip
def test_a_missing_right_is_named_with_the_way_to_get_it(login, scratch, missing, way_out):
    in_database = ", ".join(right for right in IN_DATABASE.split(", ") if right != missing)
    on_all = ", ".join(right for right in ON_ALL if right != missing)
    grants = [f"{in_database} ON `storagelab\\_0badcafe`.*", f"{on_all} ON *.*"]
    grants += [] if "performance_schema" in missing else ["SELECT ON performance_schema.*"]
    error = refused(mariadb(scratch, dsn=login(*grants), volumes=["a"]), scratch)
    assert (error.key, missing in error.problem) == ("target.dsn", True)
    assert way_out in error.hint


def test_a_wrong_password_is_refused_by_key_and_never_shown(login, scratch, monkeypatch):
    monkeypatch.setenv("LAB", login("USAGE ON *.*").replace("geh", "nope"))
    error = refused(mariadb(scratch, dsn_env="LAB"), scratch)
    assert error.key == "target.dsn_env"
    assert "Access denied for user 'plain'" in error.problem
    assert "nope" not in str(error)


def test_a_database_that_there_is_not_is_refused_in_the_servers_words(elsewhere, scratch):
    error = refused(mariadb(scratch, dsn=elsewhere.dsn(database="nowhere", unix_socket="")), scratch)
    assert "Unknown database 'nowhere'" in error.problem


def test_a_certificate_that_never_ends_is_not_waited_for(scratch):
    os.mkfifo(scratch / "ca.pem")
    error = refused(mariadb(scratch, dsn=f"mysql://root@127.0.0.1:1/?ssl_ca={scratch}/ca.pem"), scratch)
    assert "is not a regular file" in error.problem


def test_nobody_at_the_address_is_said_plainly(scratch):
    error = refused(mariadb(scratch, dsn="mysql://root@127.0.0.1:1/"), scratch)
    to = "127.0.0.1, port 1 as root"
    assert error.problem == f"can't connect to {to}: nobody answers: Connection refused (error 2003)"


def test_a_driver_that_lacks_what_a_password_needs_is_said_with_the_way_out(elsewhere, scratch, monkeypatch):
    def lacking(connection, sock=None):
        raise RuntimeError("'cryptography' package is required for caching_sha2_password")

    monkeypatch.setattr(pymysql.connections.Connection, "connect", lacking)
    error = refused(mariadb(scratch, dsn=elsewhere.dsn()), scratch)
    assert "'cryptography' package is required" in error.problem
    assert "?ssl=required" in error.problem


@pytest.mark.parametrize(
    "dsn",
    [
        "", "postgresql://a@b", "mysql:///nobody", "mysql://u@h:port/", "mysql://u@h/?color=red",
        "mysql://u@h/?ssl=maybe",
    ],
)  # fmt: skip
def test_a_dsn_that_can_not_be_read_is_refused_without_being_shown(dsn):
    with pytest.raises(PreflightError) as caught:
        parse_dsn(dsn, "target.dsn_env")
    assert caught.value.key == "target.dsn_env"
    assert not dsn or dsn not in str(caught.value)


def test_a_server_that_is_too_old_is_refused_with_its_version(scratch):
    with running(scratch / "old", "--version=10.3.39-MariaDB") as old:
        error = refused(mariadb(scratch, dsn=old.socket_dsn), scratch)
    assert error.problem == "the server is MariaDB 10.3.39, which is too old"
    assert "MariaDB 10.11 and later" in error.hint


def test_a_server_that_times_no_waits_is_refused_with_the_operators_step(scratch, blind):
    error = refused(mariadb(scratch, dsn=blind.socket_dsn), scratch)
    assert "performance_schema = ON" in error.hint
    unwatched = mariadb(scratch, dsn=blind.socket_dsn, waits=False)
    check(plan_of(unwatched), site_at(scratch))
    assert measure(unwatched, site_at(scratch)).rows == ROWS
    with running(scratch / "half", waits=False) as half:
        error = refused(mariadb(scratch, dsn=half.socket_dsn), scratch)
        step = error.hint.split("run: ")[1].split("; or set")[0]
        half.said(*step.split("; "))
        check(plan_of(mariadb(scratch, dsn=half.socket_dsn)), site_at(scratch))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
def test_a_server_that_demands_tls_is_given_it(scratch):
    keys = key_and_certificate(scratch)
    options = ("--ssl=ON", f"--ssl-key={keys[0]}", f"--ssl-cert={keys[1]}", "--require-secure-transport=ON")
    with running(scratch / "tls", *options) as server:
        server.said("CREATE USER far IDENTIFIED BY 'x'", "GRANT ALL ON *.* TO far")
        plain = server.dsn("far", "x")
        # A server that demands TLS gets it unasked; the certificate's owner is checked where the DSN asks for it.
        for dsn in (plain, plain + "?ssl=required"):
            check(plan_of(mariadb(scratch, dsn=dsn)), site_at(scratch))
            with connect(TargetConfig(engine="mariadb", dsn=dsn)) as connection:
                assert ask(connection, "SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
        error = refused(mariadb(scratch, dsn=plain + "?ssl=verified"), scratch)
        assert "certificate verify failed" in error.problem
        # sysbench can't encrypt without a certificate of its own, so its load is refused before anything is made.
        for dsn, words in (
            (plain, "error 1045: Access denied for user 'far'"),
            (plain + "?ssl=required", "error 2026: "),
        ):
            error = refused(generated(scratch, dsn), scratch)
            assert error.problem.startswith(f"the load can't begin: sysbench can't log in: {words}")
            assert "certificate" in error.hint


def test_a_server_without_tls_is_refused_where_the_dsn_asks_for_it(elsewhere, scratch):
    error = refused(mariadb(scratch, dsn=elsewhere.dsn(ssl="required")), scratch)
    assert "SSL" in error.problem


def test_too_few_connections_are_said_in_numbers(elsewhere, scratch):
    error = refused(mariadb(scratch, dsn=elsewhere.socket_dsn, connections=4096), scratch)
    assert "4100 are needed" in error.problem


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"innodb_page_size": 4096}, "read only variable"),
        ({"innodb_io_capacity": 400}, "GLOBAL variable"),
        ({"nonsense": 1}, "the server has no such setting"),
        ({"sql_mode": "NONSENSE"}, "can't be set to the value of 'NONSENSE'"),
        ({"sql_mode": "1"}, "can't be set to the value of '1'"),
        ({"sort_buffer_size": "65536"}, "Incorrect argument type"),
    ],
)
def test_a_setting_that_no_session_can_have_is_refused_in_the_servers_words(elsewhere, scratch, settings, words):
    error = refused(mariadb(scratch, dsn=elsewhere.socket_dsn, settings=settings), scratch)
    assert error.key == f"target.settings.{next(iter(settings))}"
    assert words in error.problem


# --- what is not storagelab's ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inside", [(), ("CREATE TABLE {}.my_big_table (x INT)", "INSERT INTO {}.my_big_table VALUES (7)")]
)
def test_a_database_of_that_name_that_is_not_ours_is_not_touched(elsewhere, scratch, inside):
    elsewhere.said(f"CREATE DATABASE {DATABASE}", *(statement.format(DATABASE) for statement in inside))
    try:
        config = mariadb(scratch, dsn=elsewhere.socket_dsn)
        assert "storagelab did not make it" in refused(config, scratch).problem
        with pytest.raises(PreflightError, match="storagelab did not make it"):
            sweep(plan_of(config), site_at(scratch))
        if inside:
            assert elsewhere.said(f"SELECT x FROM {DATABASE}.my_big_table") == [(7,)]
    finally:
        elsewhere.said(f"DROP DATABASE {DATABASE}")


def test_a_table_that_somebody_put_into_our_database_is_not_dropped_with_it(elsewhere, scratch):
    config = mariadb(scratch, dsn=elsewhere.socket_dsn)
    target = opened(config, site_at(scratch))
    target.__enter__()
    elsewhere.said(f"CREATE TABLE {DATABASE}.theirs (x INT)")
    with pytest.raises(PreflightError, match="the table theirs in the database"):
        sweep(plan_of(config), site_at(scratch))
    elsewhere.said(f"DROP TABLE {DATABASE}.theirs")
    target.__exit__(None, None, None)


def test_what_a_killed_run_left_is_swept_and_nothing_else(elsewhere, scratch):
    config = mariadb(scratch, dsn=elsewhere.socket_dsn, volumes=["a"])
    target = opened(config, site_at(scratch))
    target.__enter__()  # and is killed without leaving it
    elsewhere.said("CREATE DATABASE storagelab_other")
    removed = sweep(plan_of(config), site_at(scratch))
    assert removed == [
        f"dropped database {DATABASE}, left on the server by a killed run",
        f"removed {scratch}/a/storagelab-tested-0badcafe, left behind by a killed run",
    ]
    assert elsewhere.said("SHOW DATABASES LIKE 'storagelab%'") == [("storagelab_other",)]
    elsewhere.said("DROP DATABASE storagelab_other")
    assert sweep(plan_of(config), site_at(scratch)) == []
    target.server.own.close()


# --- names that mean something to SQL --------------------------------------------------------------------------------

AWKWARD = st.text(
    st.characters(codec="utf-8", exclude_characters="\0/\n\r", exclude_categories=["Cs"]), min_size=1, max_size=20
).filter(lambda text: text.strip(". ") and len(text.encode()) < 60)


@given(name=AWKWARD, password=AWKWARD)
@example(name="o'brien`\"\\%s", password="%41'; DROP DATABASE mysql; --")
def test_any_login_can_be_written_in_a_dsn(name, password):
    dsn = f"mysql://{quote(name, safe='')}:{quote(password, safe='')}@host/"
    address = parse_dsn(dsn, "target.dsn_env")
    assert (address.user, address.password) == (name, password)


@given(name=AWKWARD, value=AWKWARD)
@example(name="x = 1; DROP DATABASE mysql; --", value="'; DROP DATABASE mysql; --")
@example(name="`", value="\\'")
def test_no_setting_can_say_more_than_a_setting(shared, name, value):
    with connect(TargetConfig(engine="mariadb", dsn=shared.socket_dsn)) as connection:
        before = ask(connection, "SHOW DATABASES")
        facts = read_facts(connection)
        with pytest.raises(PreflightError):
            check_session_settings(connection, facts, {name: 1})
        with pytest.raises(pymysql.MySQLError):
            set_for_session(connection, {name: value})
        assert ask(connection, "SHOW DATABASES") == before


def test_the_address_of_an_unset_variable_is_asked_for_with_an_example(monkeypatch):
    monkeypatch.delenv("LAB", raising=False)
    with pytest.raises(PreflightError, match="LAB is not set") as caught:
        address_of(TargetConfig(engine="mariadb", dsn_env="LAB"))
    assert "mysql://user:password@host/" in caught.value.hint
