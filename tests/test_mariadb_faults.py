"""MariaDB faults: the run fails with the engine's own message, and nothing is left behind."""

import os
import signal

import pytest
from real_mariadb import DATABASE, mariadb, needs_mariadb, running
from real_servers import cell_of, left_behind, measure, plan_of, server_processes, site_at, until

from storagelab.errors import PreflightError, RunFailed
from storagelab.targets import preflight, sweep, temporary, try_starting
from storagelab.targets.mariadb.connecting import ask
from storagelab.targets.mariadb.engine import opened

pytestmark = needs_mariadb
needs_another_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")


def test_a_server_that_is_killed_mid_run_fails_the_run_and_leaves_nothing(scratch, during):
    during(lambda target: os.kill(target.server.process.pid, signal.SIGKILL))
    with pytest.raises(RunFailed, match=r"the server died: .*\n?.*a connection was lost: Lost connection"):
        measure(mariadb(scratch, rows_per_connection=200_000), site_at(scratch))
    assert left_behind(scratch) == []


def test_a_connection_that_is_killed_fails_the_run_in_the_servers_words(scratch, during):
    def kill_one(target):
        busy = "SELECT id FROM information_schema.processlist WHERE info LIKE 'INSERT%' OR info LIKE 'COMMIT%' LIMIT 1"
        ask(target.server.own, f"KILL {until(lambda: ask(target.server.own, busy))[0][0]}")

    during(kill_one)
    with pytest.raises(RunFailed, match=r"a connection was lost: .*(killed|Lost connection)"):
        measure(mariadb(scratch, rows_per_connection=200_000), site_at(scratch))
    assert left_behind(scratch) == []


def test_a_timeout_for_a_lock_fails_the_run_in_the_servers_words(scratch, during):
    """Another session holds the gap that every insert needs."""
    others = []

    def lock_all(target):
        other = target.server.reach.connect()
        others.append(other)
        ask(other, "START TRANSACTION")
        ask(other, f"SELECT count(*) FROM {DATABASE}.my_big_table WHERE c4 = 1 FOR UPDATE")

    during(lock_all)
    config = mariadb(
        scratch, rows_per_connection=100_000, rows_per_transaction=1, settings={"innodb_lock_wait_timeout": 1}
    )
    with pytest.raises(RunFailed, match="a connection failed: Lock wait timeout exceeded"):
        measure(config, site_at(scratch))
    others[0].close()


def test_a_deadlock_fails_the_run_in_the_servers_words(scratch, monkeypatch):
    statement = (
        "CREATE PROCEDURE {}.insert_rows(a BIGINT, b BIGINT, c BIGINT, d BIGINT, worker BIGINT, f DOUBLE) BEGIN "
        "DECLARE n BIGINT; SELECT count(*) INTO n FROM {}.gate; COMMIT; SET autocommit = 0; "
        "WHILE TRUE DO "
        "UPDATE {}.my_big_table SET c4 = c4 + 1 WHERE c1 = LPAD(IF(worker % 2, 'a', 'b'), 16, 'x'); "
        "UPDATE {}.my_big_table SET c4 = c4 + 1 WHERE c1 = LPAD(IF(worker % 2, 'b', 'a'), 16, 'x'); COMMIT; "
        "END WHILE; END"
    )
    monkeypatch.setattr(
        "storagelab.targets.mariadb.loads.inserts.procedure", lambda _, schema, __: statement.format(*[schema] * 4)
    )
    with opened(mariadb(scratch, connections=4), site_at(scratch)) as target:
        ask(
            target.server.own,
            f"INSERT INTO {DATABASE}.my_big_table (c1) VALUES ('xxxxxxxxxxxxxxxa'), ('xxxxxxxxxxxxxxxb')",
        )
        with pytest.raises(RunFailed, match="a connection failed: Deadlock found when trying to get lock"):
            target.run(cell_of(target.config), 1, 1, lambda _: None)
    assert left_behind(scratch) == []


def test_after_kill_9_the_next_run_stops_the_server_that_was_left(scratch, monkeypatch):
    config = mariadb(scratch)
    target = opened(config, site_at(scratch))
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


def test_a_folder_that_the_server_can_not_write_fails_the_set_up_in_its_words(scratch):
    with running(scratch / "s") as server:
        config = mariadb(scratch, dsn=server.socket_dsn, volumes=["a"])
        target = opened(config, site_at(scratch))
        make = target.system.layout.make_folders

        def made_for_another(owner=None):
            make((0, 0))
            for folder in target.system.folders["a"].glob("data-file-*"):
                os.chown(folder, 12345, 12345)
                folder.chmod(0o500)

        target.system.layout.make_folders = made_for_another
        with pytest.raises(RunFailed, match=r"can't set up the layout: .*(denied|[Cc]an't create)"):
            target.__enter__()
    assert left_behind(scratch) == []


@needs_another_user
def test_a_volume_that_is_not_writable_is_refused_by_key(scratch):
    config = mariadb(scratch)
    (scratch / "a").chmod(0o500)
    with pytest.raises(PreflightError, match="is not writable") as caught:
        preflight(None, plan_of(config), site_at(scratch))
    assert caught.value.key == "volumes.a.path"


def test_a_server_that_does_not_start_is_found_out_before_anything_is_stored(scratch):
    config = mariadb(scratch, settings={"innodb_data_file_path": "ibdata1:nonsense"})
    with pytest.raises(PreflightError, match=r"innodb_data_file_path|syntax") as caught:
        try_starting(plan_of(config), site_at(scratch))
    assert caught.value.key == "target.settings"
    assert left_behind(scratch) == []
    assert os.listdir(scratch / "tmp") == []
