"""A server that already runs: what it must allow is checked first, and everything made on it is dropped again."""

import os
import signal
import time
from pathlib import Path

import psycopg
import pytest
from real_servers import (
    ROWS,
    ask,
    cell_of,
    connect,
    free_port,
    left_behind,
    measure,
    plan_of,
    run_of,
    running,
    site_at,
    small,
    until,
)  # fmt: skip

from storagelab.engines.postgres.connect import connect as connect_to
from storagelab.engines.postgres.engine import opened
from storagelab.engines.postgres.preflight import check, check_session_settings, read_facts
from storagelab.engines.postgres.server import Server
from storagelab.errors import PreflightError
from storagelab.model.waits import normalise
from storagelab.run.engine import sweep

PASSWORD = "tr0ub4dor-and-3"
SCHEMA = "storagelab_0badcafe"


def refused(config, scratch) -> PreflightError:
    with pytest.raises(PreflightError) as caught:
        check(plan_of(config), site_at(scratch))
    return caught.value


@pytest.fixture
def login(attached):
    """Makes a login without any right but those granted; gives its DSN."""
    made = []

    def make(*grants: str, name: str = "plain") -> str:
        with connect(attached) as connection:
            connection.execute(f"CREATE ROLE {name} LOGIN")
            made.append(name)
            for grant in grants:
                connection.execute(grant)
        return psycopg.conninfo.make_conninfo(attached.conninfo, user=name)

    yield make
    with connect(attached) as connection:
        for name in made:
            connection.execute(f"DROP OWNED BY {name}")
            connection.execute(f"DROP ROLE {name}")


CREATE = "GRANT CREATE ON DATABASE postgres TO plain"
CHECKPOINT = "GRANT pg_checkpoint TO plain"


# --- a run -----------------------------------------------------------------------------------------------------------


def test_a_run_on_a_running_server_is_measured_and_leaves_nothing_on_it(attached, scratch):
    measured = measure(small(scratch, dsn=attached.conninfo, settings={"synchronous_commit": False}), site_at(scratch))
    assert measured.rows == ROWS
    assert measured.unverified == ()
    found = {check.name: check.got for check in measured.checks}
    assert found["target.settings.synchronous_commit"] == "off"
    assert found["place of the data files"] == "default"
    assert measured.environment["server"]["how"] == "attached"
    assert measured.environment["server"]["settings"]["synchronous_commit"] == "off"
    assert measured.environment["volumes"]["server"]["path"] == str(attached.data_folder)
    assert "client" not in measured.environment
    assert all(row.resource_s is not None for row in normalise(measured.waits) if row.wait_type != "ON_CPU")
    with connect(attached) as connection:
        assert ask(connection, "SHOW synchronous_commit") == "on"


def test_a_server_on_another_machine_is_not_described_by_the_clients_cpus(attached, scratch, monkeypatch):
    monkeypatch.setattr("storagelab.engines.postgres.preflight._owner_on_this_machine", lambda *_: None)
    with opened(small(scratch, dsn=attached.conninfo), site_at(scratch)) as target:
        environment = target.describe()
    assert environment["host"] == {}
    assert environment["client"]["cpu_count"] >= 1
    assert environment["volumes"] == {}


def test_neither_dsn_nor_password_stands_in_what_is_stored(attached, scratch, monkeypatch):
    monkeypatch.setenv("LAB", attached.conninfo + f" password={PASSWORD}")
    text = run_of(small(scratch, dsn_env="LAB"), scratch).model_dump_json()
    assert '"status":"ok"' in text
    assert PASSWORD not in text
    assert attached.conninfo not in text


def test_data_files_go_to_volumes_when_the_login_is_a_superuser_on_the_same_machine(attached, scratch):
    config = small(scratch, dsn=attached.conninfo, volumes=["a", "b"], data_files=3)
    assert check(plan_of(config), site_at(scratch)).server.endswith("attached, on this machine")
    with opened(config, site_at(scratch)) as target, connect(attached) as connection:
        names = "SELECT array_agg(spcname::text ORDER BY 1) FROM pg_tablespace WHERE spcname !~ '^pg_'"
        assert ask(connection, names) == [f"{SCHEMA}_f000{number}" for number in (1, 2, 3)]
        measured = target.run(cell_of(config), 1, 1, lambda _: None)
    assert measured.unverified == ()
    assert left_behind(scratch) == []


def test_a_login_without_the_right_to_checkpoint_measures_all_but_the_checkpoint(login, scratch):
    measured = measure(small(scratch, dsn=login(CREATE), checkpoint=False), site_at(scratch))
    assert measured.rows == ROWS
    assert measured.checkpoint_s is None


def test_a_server_in_another_pid_namespace_has_no_resource_and_signal_and_says_why(scratch, monkeypatch):
    command = Server._command
    elsewhere = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--pid", "--fork", "--kill-child")
    monkeypatch.setattr(Server, "_command", lambda self: [*elsewhere, *command(self)])
    with running(scratch / "elsewhere") as server:
        config = small(scratch, dsn=server.conninfo)
        assert check(plan_of(config), site_at(scratch)).server.endswith("(nothing tells): no resource/signal split")
        with opened(config, site_at(scratch)) as target:
            measured = target.run(cell_of(config), 1, 1, lambda _: None)
        assert measured.rows == ROWS
        rows = [row for row in normalise(measured.waits) if row.wait_type != "ON_CPU"]
        assert rows
        assert {(row.resource_s, row.signal_s) for row in rows} == {(None, None)}
        assert measured.waits.no_split_reason == "the server's processes can't be seen from here"
        on_volumes = small(scratch, dsn=server.conninfo, volumes=["a"])
        assert str(refused(on_volumes, scratch)).startswith(
            "volumes.a.path: the server does not run on this machine, so storagelab can't make "
            "data folders on its volumes"
        )
        # Its own signal, as `unshare` would kill it, and it would leave its shared memory.
        (child,) = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGINT)
        assert until(server.died, 20)


# --- connecting ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_tcp(tmp_path_factory):
    """A server on a port of this machine that asks for a password."""
    folder = tmp_path_factory.mktemp("tcp")
    port = free_port()
    with running(folder, listen_addresses="127.0.0.1", port=port) as server:
        with connect(server) as connection:
            connection.execute(f"CREATE ROLE lab LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
            rules = server.data_folder / "pg_hba.conf"
            rules.write_text("local all all trust\nhost all lab 127.0.0.1/32 scram-sha-256\n")
            connection.execute("SELECT pg_reload_conf()")
        yield f"postgresql://lab:{PASSWORD}@127.0.0.1:{port}/postgres"


def test_a_password_from_the_environment_opens_a_server_on_tcp(on_tcp, scratch, monkeypatch):
    monkeypatch.setenv("LAB", on_tcp)
    config = small(scratch, dsn_env="LAB", rows_per_connection=100)
    until(lambda: check(plan_of(config), site_at(scratch)))
    assert measure(config, site_at(scratch)).rows == 400


@pytest.mark.parametrize("wrong", ["wr0ng-horse", "pass%20word", "p@ss"])
def test_a_wrong_password_is_refused_by_key_and_never_shown(on_tcp, scratch, monkeypatch, wrong):
    dsn = on_tcp.replace(PASSWORD, wrong)
    monkeypatch.setenv("LAB", dsn)
    error = refused(small(scratch, dsn_env="LAB"), scratch)
    assert error.key == "target.dsn_env"
    if wrong == "wr0ng-horse":  # the others are words of the server's, too, so these are hidden
        assert 'password authentication failed for user "lab"' in str(error)
    assert wrong not in str(error)
    assert PASSWORD not in str(error)
    assert "postgresql://lab" not in str(error)


@pytest.mark.parametrize(
    "dsn", ["postgresql://lab:s3cret@[::1/db", "host=x pasword=s3cret", "s3cret", "postgresql://lab:s3cret@h:port/db"]
)
def test_a_dsn_that_can_not_be_read_is_refused_without_being_shown(scratch, monkeypatch, dsn):
    monkeypatch.setenv("LAB", dsn)
    error = refused(small(scratch, dsn_env="LAB"), scratch)
    assert error.key == "target.dsn_env"
    assert "s3cret" not in str(error)


def test_a_variable_that_is_not_set_is_named_with_an_example(scratch, monkeypatch):
    monkeypatch.delenv("LAB", raising=False)
    error = refused(small(scratch, dsn_env="LAB"), scratch)
    assert str(error).startswith("target.dsn_env: the environment variable LAB is not set\n  for example: export LAB=")


def test_a_server_that_is_not_there_is_said_with_what_to_check(scratch):
    error = refused(small(scratch, dsn=f"host={scratch} user=lab dbname=postgres"), scratch)
    assert str(error).startswith(f"target.dsn: can't connect to {scratch}, port 5432 as lab: ")
    assert "No such file or directory" in str(error)
    assert "check host, port" in error.hint


def test_a_file_of_passwords_that_never_ends_is_not_waited_for(scratch):
    os.mkfifo(scratch / "pass")
    error = refused(small(scratch, dsn=f"host={scratch} user=lab dbname=postgres passfile={scratch}/pass"), scratch)
    assert error.problem == "its passfile is a FIFO"


# --- rights and limits -----------------------------------------------------------------------------------------------


def test_a_login_that_may_not_create_is_told_the_right_it_lacks(login, scratch):
    error = refused(small(scratch, dsn=login(CHECKPOINT)), scratch)
    assert error.key == "target.dsn"
    assert "lacks the right CREATE on the database" in str(error)
    assert "GRANT CREATE ON DATABASE" in error.hint


def test_a_login_that_is_no_superuser_can_not_use_volumes(login, scratch):
    error = refused(small(scratch, dsn=login(CREATE, CHECKPOINT), volumes=["a"]), scratch)
    assert "lacks the right SUPERUSER, needed for CREATE TABLESPACE" in str(error)


def test_a_login_that_may_not_checkpoint_is_told_both_ways_out(login, scratch):
    error = refused(small(scratch, dsn=login(CREATE)), scratch)
    assert "lacks the role pg_checkpoint" in str(error)
    assert "between_runs.checkpoint = false" in error.hint


def test_a_login_with_just_the_rights_named_is_accepted(login, scratch):
    config = small(scratch, dsn=login(CREATE, CHECKPOINT))
    assert "attached" in check(plan_of(config), site_at(scratch)).server
    assert measure(config, site_at(scratch)).rows == ROWS


def test_a_server_without_room_for_all_connections_says_how_many_are_free(attached, login, scratch):
    error = refused(small(scratch, dsn=attached.conninfo, connections=120, rows_per_connection=100), scratch)
    assert "the server has room for 119 more connections, 124 are needed" in str(error)
    assert "workload.connections" in error.hint
    # Three are kept for superusers.
    error = refused(small(scratch, dsn=login(CREATE, CHECKPOINT), connections=113, rows_per_connection=100), scratch)
    assert "the server has room for 116 more connections, 117 are needed" in str(error)


@pytest.mark.parametrize(
    ("settings", "key", "words", "hint"),
    [
        (
            {"shared_buffers": "64MB"},
            "shared_buffers",
            "it can't be set for a session (its context is postmaster)",
            "private",
        ),
        (
            {"checkpoint_timeout": "2min"},
            "checkpoint_timeout",
            "it can't be set for a session (its context is sighup)",
            "",
        ),
        ({"wrok_mem": "4MB"}, "wrok_mem", "the server has no such setting", "did you mean work_mem?"),
        (
            {"jit": True, "work_mem": "lots"},
            "work_mem",
            'the server refuses it: invalid value for parameter "work_mem"',
            "",
        ),
    ],
)
def test_a_setting_that_a_session_can_not_have_is_refused_by_key(attached, scratch, settings, key, words, hint):
    error = refused(small(scratch, dsn=attached.conninfo, settings=settings), scratch)
    assert error.key == f"target.settings.{key}"
    assert words in str(error)
    assert hint in error.hint


def test_a_setting_for_superusers_is_refused_to_others(login, scratch):
    error = refused(small(scratch, dsn=login(CREATE, CHECKPOINT), settings={"log_min_messages": "error"}), scratch)
    assert "its context is superuser" in str(error)


def test_checks_of_settings_are_taken_back_and_touch_nothing(attached, scratch):
    config = small(scratch, dsn=attached.conninfo, settings={"work_mem": "77MB"})
    with connect_to(config.target) as connection:
        facts = read_facts(connection)
        check_session_settings(connection, facts, {"work_mem": "77MB"})
        assert ask(connection, "SHOW work_mem") == "4MB"


# --- what was there before -------------------------------------------------------------------------------------------


def test_a_schema_of_the_same_name_stops_everything_before_it_is_touched(attached, scratch):
    config = small(scratch, dsn=attached.conninfo)
    with connect(attached) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
        connection.execute(f"CREATE TABLE {SCHEMA}.my_big_table AS SELECT 42 AS answer")
        try:
            assert "did not make it" in str(refused(config, scratch))
            with pytest.raises(PreflightError, match="did not make it"):
                sweep(plan_of(config), site_at(scratch))
            run = run_of(config, scratch)
            assert run.status == "failed"
            assert "did not make it" in run.reason
            assert ask(connection, f"SELECT answer FROM {SCHEMA}.my_big_table") == 42
        finally:
            connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def test_tables_of_the_same_name_elsewhere_are_not_touched(attached, scratch):
    with connect(attached) as connection:
        connection.execute("CREATE TABLE public.my_big_table AS SELECT 42 AS answer")
        assert measure(small(scratch, dsn=attached.conninfo), site_at(scratch)).rows == ROWS
        assert ask(connection, "SELECT answer FROM public.my_big_table") == 42
        connection.execute("DROP TABLE public.my_big_table")


def test_what_a_killed_run_left_on_the_server_is_swept_and_said(attached, scratch):
    config = small(scratch, dsn=attached.conninfo, volumes=["a"], data_files=2)
    opened(config, site_at(scratch)).__enter__().server.own.close()
    swept = sweep(plan_of(config), site_at(scratch))
    assert [line.split(",")[0] for line in swept] == [
        f"dropped schema {SCHEMA}",
        f"dropped tablespace {SCHEMA}_f0001",
        f"dropped tablespace {SCHEMA}_f0002",
        f"removed {scratch}/a/storagelab-tested-0badcafe",
    ]
    assert left_behind(scratch) == []
    assert sweep(plan_of(config), site_at(scratch)) == []


def test_what_another_cell_left_is_swept_as_well(attached, scratch):
    left = small(scratch, dsn=attached.conninfo, volumes=["a"], data_files=2)
    other = small(scratch, dsn=attached.conninfo, data_files=1)
    opened(left, site_at(scratch)).__enter__().server.own.close()
    assert len(sweep(plan_of(other, left), site_at(scratch))) == 4
    assert left_behind(scratch) == []


# --- trouble mid-run -------------------------------------------------------------------------------------------------


def test_a_connection_that_is_ended_fails_that_run_and_the_next_one_is_well(attached, scratch, during):
    config = small(scratch, dsn=attached.conninfo, rows_per_connection=30_000, volumes=["a"])

    def end_one(_) -> None:
        with connect(attached) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CALL %' LIMIT 1"
            )

    during(end_one)
    run = run_of(config, scratch)
    assert run.status == "failed"
    assert run.reason.splitlines()[0] == (
        "a connection failed: FATAL:  terminating connection due to administrator command"
    )
    assert left_behind(scratch) == []
    assert run_of(config, scratch).status == "ok"


def test_when_all_connections_are_ended_what_was_made_is_dropped_all_the_same(attached, scratch, during):
    def end_all(_) -> None:
        with connect(attached) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'storagelab%'"
            )

    during(end_all)
    run = run_of(small(scratch, dsn=attached.conninfo, rows_per_connection=30_000, volumes=["a"]), scratch)
    assert run.status == "failed"
    assert left_behind(scratch) == []


def test_a_crash_of_the_server_fails_that_run_and_the_next_one_is_well(scratch, during):
    (scratch / "other").mkdir(mode=0o755)
    with running(scratch / "other") as server:
        config = small(scratch, dsn=server.conninfo, rows_per_connection=30_000, volumes=["a"])

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
    (scratch / "other").mkdir(mode=0o755)
    with running(scratch / "other") as server:
        config = small(scratch, dsn=server.conninfo, rows_per_connection=30_000, volumes=["a"])
        rules = server.data_folder / "pg_hba.conf"
        open_to_all = rules.read_text()

        def shut_out(_) -> None:
            with connect(server) as connection:
                rules.write_text("local all all reject\n")
                connection.execute("SELECT pg_reload_conf()")
                time.sleep(0.3)
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                )

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
