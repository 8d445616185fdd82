"""Captures of real servers under a known load: their figures, the data that they keep, and their end."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psycopg
import pytest
from real_mariadb import needs_mariadb
from real_mariadb import running as running_mariadb
from real_servers import connect, open_folder, running, until
from recorded_sqlserver import recorded

from storagelab.capture import folder, taking
from storagelab.capture.attribution import Attribution, File, Files, Iolog, kernel_device
from storagelab.capture.folder import Thing
from storagelab.capture.tracing import _FORM, READ, NoTracing, open_tracefs
from storagelab.engines.mariadb.capture import watched as watched_mariadb
from storagelab.engines.postgres.capture import watched as watched_postgres
from storagelab.engines.sqlserver.capture import watched as watched_sqlserver
from storagelab.errors import PreflightError
from storagelab.run.contract import target_of

MARKER = "zebra-in-the-tables-4711"


def _traceable():
    try:
        os.close(open_tracefs())
    except NoTracing:
        return False
    return True


traced = pytest.mark.skipif(not _traceable(), reason="the kernel's trace points are for root")


@contextlib.contextmanager
def at_work(work):
    """A session that works until the end."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def sums(capture):
    found = {}
    for row in capture.io:
        key = row.object, row.operation
        requests, size = found.get(key, (0, 0))
        found[key] = requests + row.requests, size + row.bytes
    return found


def taken(watched, out, seconds, told=lambda *_: None, **wanted):
    try:
        taking.take(watched, out, taking.Window(seconds, **wanted), told)
    finally:
        watched.close()
    return folder.read(out)


@traced
@pytest.mark.slow
def test_a_capture_of_postgres_shows_who_does_what_and_keeps_no_data(tmp_path):
    with open_folder() as place, running(place, shared_buffers="1MB") as server, connect(server) as session:
        session.execute("CREATE TABLE big AS SELECT i, repeat('x', 400) AS filler FROM generate_series(1, 40000) i")
        session.execute("CREATE UNIQUE INDEX big_key ON big (i)")
        session.execute("CREATE TABLE short (i int)")
        session.execute("CREATE TABLE history (t text)")
        session.execute("CHECKPOINT")

        def work(ended):
            with connect(server) as own:
                for turn in range(100_000):
                    if ended.is_set():
                        return
                    own.execute("UPDATE big SET i = i WHERE i = %s", [turn * 7919 % 40000 + 1])
                    own.execute("INSERT INTO history VALUES (repeat(%s, 20))", [MARKER])

        def change(gone_s, _):
            if gone_s < 2:
                session.execute("VACUUM FULL big")
                session.execute("DROP TABLE IF EXISTS short")

        with at_work(work):
            capture = taken(watched_postgres(target_of(server.conninfo)), tmp_path, 3, change, requests=True)
    found, manifest = sums(capture), capture.manifest
    assert manifest.complete
    assert manifest.sources.trace
    assert manifest.transactions > 10
    assert manifest.unit == "transaction"
    assert 0 < manifest.machine.busy_cpus <= manifest.machine.cpus + 0.1
    assert manifest.machine.run_queue > 0
    assert found["public.big", "read"][1] > 2**20
    assert found["public.big_key", "read"][0] > 5
    assert found["log", "sync"][0] > 10
    assert manifest.transactions / 2 < manifest.write_transactions <= manifest.transactions
    assert any("track_io_timing" in note for note in manifest.notes)
    # A thread waits for one sync at a time, and only the trace tells for how long.
    syncs = [row for row in capture.io if row.object == "log" and row.operation == "sync"]
    assert 0 < sum(row.seconds or 0 for row in syncs) < manifest.seconds * (manifest.connections + 2)
    # Each sync of the log is a write without data for the device.
    assert all(volume.flush_writes > 10 for volume in manifest.volumes if volume.device)
    changes = " ".join(change.what for change in manifest.changes)
    assert "public.big was rewritten" in changes
    assert "public.short was dropped" in changes
    kept = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert kept.keys() == {"manifest.json", "io.csv", "devices.csv", "requests.iolog"}
    assert not any(MARKER in text or "UPDATE" in text for text in kept.values())
    lines = [line.split() for line in kept["requests.iolog"].splitlines()[1:]]
    asked = [line for line in lines if line[2] in ("read", "write")]
    # `merged` rows and the log are of the same requests, but for those before the first interval's end.
    assert len(asked) == sum(row.requests for row in capture.io if row.operation != "sync")
    assert not any("/" in line[1] for line in lines)
    assert int(lines[-1][0]) == pytest.approx(manifest.seconds * 1e6, rel=0.5), "microseconds, as fio's"


@pytest.mark.slow
def test_without_a_trace_the_servers_own_counters_tell_what_they_can(tmp_path):
    timed = {"shared_buffers": "1MB", "track_io_timing": "on"}
    with open_folder() as place, running(place, **timed) as server, connect(server) as session:
        session.execute("CREATE TABLE short (i int)")
        session.execute("CREATE TABLE big AS SELECT i, repeat('x', 400) AS filler FROM generate_series(1, 40000) i")

        def work(ended):
            ends = time.monotonic() + 3
            with connect(server) as own:
                while not ended.is_set() and time.monotonic() < ends:
                    own.execute("SELECT count(*) FROM big")  # again and again: the first may be over before the window
                    for _ in range(200):
                        own.execute("INSERT INTO short VALUES (1)")

        with at_work(work):
            capture = taken(watched_postgres(target_of(server.conninfo)), tmp_path, 7, trace=False)
        session.execute("CREATE ROLE clerk LOGIN PASSWORD 'x'")
        with pytest.raises(PreflightError, match="lacks the role pg_monitor"):
            watched_postgres(target_of(psycopg.conninfo.make_conninfo(server.conninfo, user="clerk", password="x")))
    assert sums(capture)["public.big", "read"][1] > 2**20
    assert all(row.seconds is not None for row in capture.io if row.object == "public.big")
    assert not any("track_io_timing" in note for note in capture.manifest.notes)
    assert {one.id: one.kind for one in capture.manifest.objects}["log"] == "log"  # a layout can move it
    assert capture.manifest.storage_read_bytes is not None
    assert 2 <= capture.manifest.idle_seconds <= 6
    assert any("No session worked for" in note for note in capture.manifest.notes)
    assert capture.manifest.sources.trace is None
    assert any("the writes of single tables are not known" in note for note in capture.manifest.notes)


@pytest.mark.slow
def test_names_that_look_alike_are_tables_folders_and_files_of_their_own():
    with open_folder() as place, running(place) as server, connect(server) as session:
        for name in ("data", "log"):
            (place / f"of-{name}").mkdir()
            shutil.chown(place / f"of-{name}", (place / "server").owner())
            session.execute(f"CREATE TABLESPACE {name} LOCATION '{place}/of-{name}'")
        twins = '"a.b".c', 'a."b.c"', '"таблица"', '"двойник"'
        session.execute('CREATE SCHEMA a; CREATE SCHEMA "a.b"')
        for name in (*twins, "t"):
            session.execute(f"CREATE TABLE {name} (i int)")
        watched = watched_postgres(target_of(server.conninfo))
        folders = watched.folders()
        assert folders["data"] == (place / "server").resolve()
        assert len(set(folders.values())) == 4
        named = {thing.name: thing for name, thing in watched.things().items() if not name.startswith("pg_")}
        log = io.BytesIO()
        iolog = Iolog(log, watched, 0)
        for name in ("c", "b.c", "таблица", "двойник"):
            iolog.add(np.array([(1, 1, 1, 1, 0, 8192, READ, 0)], _FORM), [File(named[name].files, named[name])])
        session.execute("ALTER TABLE t RENAME TO old")
        session.execute("CREATE TABLE t (i int)")
        things = watched.things()
        watched.close()
    assert [line.split()[1] for line in log.getvalue().decode().splitlines() if line.endswith("add")] == [
        "_a.b_.c", "a._b.c_", "public._", "public._#1",
    ]  # fmt: skip
    assert named["c"].id == '"a.b".c'
    assert things["public.t"].name == "old"  # it is the same table
    assert [thing.name for name, thing in things.items() if name.startswith("public.t#")] == ["t"]


@pytest.mark.slow
def test_a_capture_keeps_what_it_has_if_it_is_stopped_or_killed_or_if_its_server_ends(tmp_path):
    with open_folder() as place, running(place) as server:

        def started(out):
            command = [sys.executable, "-m", "storagelab", "capture", server.conninfo, "--for", "10min", "-o", str(out)]
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        killed, stopped, left_alone = (started(tmp_path / name) for name in ("killed", "stopped", "alone"))
        for process, name in ((killed, "killed"), (stopped, "stopped"), (left_alone, "alone")):
            until(lambda of=tmp_path / name, it=process: (of / folder.IO).exists() or it.poll() is not None, 120)
        time.sleep(1.5)
        killed.kill()
        killed.communicate()
        stopped.send_signal(signal.SIGINT)
        said, told = stopped.communicate()
        assert stopped.returncode == 0, told
    _, told = left_alone.communicate()
    assert left_alone.returncode == 0, told
    alone = folder.read(tmp_path / "alone").manifest
    assert alone.complete
    assert "The server was gone" in " ".join(alone.notes)
    assert not folder.read(tmp_path / "killed").manifest.complete
    left = folder.read(tmp_path / "stopped").manifest
    assert left.complete
    assert 1 <= left.seconds < 60
    assert "ended the window early" in " ".join(left.notes)
    assert '[volumes."data"]' in (tmp_path / "stopped" / "volumes.toml").read_text()
    assert "The server was idle" in " ".join(said.split())


def test_requests_to_files_that_are_gone_count_unless_another_server_asked():
    class Server:
        def __init__(self, mine):
            self.mine = mine

        def things(self):
            return {}

        def folders(self):
            return {"data": here}

        def thing_of(self, _path):
            return Thing("other files", None, "", "other", here)

        def has(self, _thread):
            return self.mine

        def by(self, _thread):
            return "session"

    here = Path(__file__).parent
    device = kernel_device(here.stat().st_dev)
    own = Path(__file__).stat().st_ino
    ended = 2**22  # no thread has this number

    def asked(server, *inodes, device=device):
        some = np.array([(1, ended, device, inode, 0, 8192, READ, 0) for inode in inodes], _FORM)
        return [row.object for row in Attribution(server, Files(server), 0, 1.0).of(some).rows]

    gone = 2**40
    assert asked(Server(mine=True), gone) == ["unknown files"]
    assert asked(Server(mine=False), gone) == []
    # A thread that no sample saw counts as the server's if it used another file of the server.
    assert asked(Server(mine=False), own, gone) == ["other files", "unknown files"]
    assert asked(Server(mine=True), gone, device=device + 1) == []


@traced
@needs_mariadb
@pytest.mark.slow
def test_a_capture_of_mariadb_agrees_with_its_own_counts_by_file(tmp_path):
    read = (
        "SELECT count_read, sum_number_of_bytes_read FROM performance_schema.file_summary_by_instance"
        " WHERE file_name LIKE '%/d/big.ibd'"
    )
    # The data folder lies below that of temporary files.
    options = "--innodb-buffer-pool-size=6M", "--tmpdir=/tmp"
    with open_folder() as place, running_mariadb(place, *options) as server:
        server.said(
            "CREATE DATABASE d",
            "CREATE TABLE d.big (i int PRIMARY KEY, filler char(250)) ENGINE=InnoDB",
            "INSERT INTO d.big SELECT seq, repeat('x', 200) FROM d.seq_1_to_60000",
        )

        def work(ended):
            while not ended.is_set():
                server.said("SELECT sum(length(filler)) FROM d.big")

        watched = watched_mariadb(target_of(server.socket_dsn))
        assert watched.thing_of("/tmp/another-server/ib_logfile0") is None
        before = server.said(read)[0]
        with at_work(work):
            capture = taken(watched, tmp_path, 4)
            after = server.said(read)[0]
    requests, size = sums(capture)["d.big", "read"]
    assert size > 2**20
    # The server was read a moment before the window and a moment after it.
    assert requests <= after[0] - before[0]
    assert size > 0.6 * (after[1] - before[1])


@needs_mariadb
@pytest.mark.slow
def test_commits_and_changes_that_commit_by_themselves_count_and_are_called_units(tmp_path):
    change, read = "UPDATE d.t SET v = v + 1", "SELECT * FROM d.t"
    with open_folder() as place, running_mariadb(place) as server:
        server.said("CREATE DATABASE d", "CREATE TABLE d.t (v int)", "INSERT INTO d.t VALUES (0)")

        def counted(*statements):
            watched = watched_mariadb(target_of(server.socket_dsn))
            first = watched.counters(objects=False)
            server.said(*statements)
            now = watched.counters(objects=False)
            watched.close()
            return now.transactions - first.transactions, now.write_transactions - first.write_transactions, now.unit

        mixed = "BEGIN", change, change, "COMMIT", *[change] * 4
        assert counted(*mixed) == (5, 5, "unit")
        assert counted(change, read, read) == (3, 1, "transaction")
        # A program that commits now and then beside many reads does not hide them.
        assert counted("BEGIN", read, "COMMIT", *[read] * 150)[0] > 150
        server.said("UPDATE performance_schema.setup_instruments SET enabled = 'YES' WHERE name = 'transaction'")
        assert counted(*mixed, read) == (6, 5, "transaction")


@pytest.mark.slow
def test_a_capture_of_sql_server_is_by_file_and_says_so(tmp_path):
    with recorded() as server:
        capture = taken(watched_sqlserver(target_of(server.dsn())), tmp_path, 2)
    found = sums(capture)
    assert found["shop.shop_data", "read"][0] > 100
    assert found["shop.shop_log", "write"][1] > 100 * 4096
    assert found.keys() == {("shop.shop_data", "read"), ("shop.shop_log", "write")}
    assert {one.id: one.kind for one in capture.manifest.objects} == {"shop.shop_data": "other", "shop.shop_log": "log"}
    assert capture.manifest.connections == 2
    assert any("by file, not by table" in note for note in capture.manifest.notes)
