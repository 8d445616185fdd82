"""Private servers, on every one at hand: a cell is set up, loaded, measured, read back and removed."""

import json
import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from each_engine import each_engine
from real_mariadb import mariadb, needs_mariadb
from real_servers import ROWS, ask, cell_of, connect, got, left_behind, measure, run_of, server_folders, site_at, small

from storagelab.engines.mariadb import connect as of_mariadb
from storagelab.engines.mariadb.meanings import DECIDING, GATE
from storagelab.engines.mariadb.server import Server as MariaDBServer
from storagelab.engines.postgres.engine import opened
from storagelab.engines.postgres.server import Server
from storagelab.errors import RunFailed
from storagelab.model.waits import UNINSTRUMENTED, CountedWaits, conservation, normalise, wait_table
from storagelab.run.engine import open_target
from storagelab.run.one_run import OneRun

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may drop the page cache")


# --- the whole of it, on every server --------------------------------------------------------------------------------


SETTINGS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "postgres": (
        {"shared_buffers": "32MB", "wal_compression": True, "max_wal_size": "1024MB"},
        {"shared_buffers": "32MB", "max_wal_size": "1GB"},
    ),
    "mariadb": (
        {"innodb_buffer_pool_size": "32M", "innodb_adaptive_hash_index": True, "innodb-io-capacity": 500},
        {"innodb_buffer_pool_size": str(32 * 2**20), "innodb_adaptive_hash_index": "ON", "innodb_io_capacity": "500"},
    ),
}
"""Settings as they are asked for and as they are shown."""


@pytest.mark.parametrize(
    ("engine", "folder"),
    [
        *(pytest.param("postgres", str(folder), id="/".join(folder.parts[-4:-1])) for folder in server_folders()),
        pytest.param("mariadb", None, marks=needs_mariadb),
    ],
)
def test_a_cell_is_set_up_measured_verified_and_removed(scratch, engine, folder):
    asked, shown = SETTINGS[engine]
    config = small(
        scratch, engine=engine, volumes=["a", "b"], data_files=3, rows_per_connection=5_000, log="b", settings=asked,
        bin_dir=folder,
    )  # fmt: skip
    with open_target(config, site_at(scratch)) as target:
        places = {
            name: sorted(path.name[-4:] for path in target.system.folders[name].glob("data-file-*")) for name in "ab"
        }
        assert places == {"a": ["0001", "0003"], "b": ["0002"]}
        assert any((target.system.folders["b"] / "log").glob("0000*" if engine == "postgres" else "ib_logfile0"))
        filled = sorted(path.parent.parent.name for path in scratch.rglob("my_big_table#*.ibd"))
        assert filled == ([f"data-file-000{number}" for number in (1, 2, 3)] if engine == "mariadb" else [])
        seen: list[int] = []
        measured = target.run(cell_of(config), 1, 1, seen.append)
    assert left_behind(scratch) == []
    assert os.listdir(scratch / "a") == os.listdir(scratch / "b") == os.listdir(scratch / "tmp") == []

    assert measured.rows == 20_000
    assert seen == sorted(seen)
    assert seen[-1] <= 20_000
    assert len(measured.connection_s) == 4
    assert measured.elapsed_s >= max(measured.connection_s) > 0
    assert measured.checkpoint_s > 0
    assert measured.unverified == ()
    found = got(measured)
    assert found["data files"] == ("3", True)
    assert found["place of the log"] == (str(scratch / "b" / "storagelab-tested-0badcafe" / "log"), True)
    assert {name: found[f"target.settings.{name}"] for name in shown} == {
        name: (text, True) for name, text in shown.items()
    }
    assert set(measured.environment["volumes"]) == {"a", "b"}
    assert json.loads(json.dumps(measured.environment)) == measured.environment
    assert any(name.startswith("volume.a.") for name in measured.counters["volumes"])
    assert measured.observer.ticks > 0

    server = measured.environment["server"]
    if engine == "mariadb":
        assert server["settings"]["innodb_flush_log_at_trx_commit"] == "1"
        assert set(DECIDING) <= set(server["settings"])
        assert measured.counters["log"]["innodb_os_log_written"] > 20_000 * 100
        assert any(name.startswith("data_file_") for name in measured.counters["data files"])
        return
    assert found["target.settings.wal_compression"][1] is True
    assert server["version"].split(".")[0].isdigit()
    assert server["settings"]["fsync"] == "on"
    assert measured.durability.promise == "each commit is on the disk, half-written pages are mended"
    assert measured.counters["wal"]["wal_bytes"] > 20_000 * 100
    assert measured.counters["database"]["tup_inserted"] >= 20_000
    assert 0.5 < conservation(measured.waits).explained < 1.6
    rows = wait_table(normalise(measured.waits))
    assert rows
    assert all(row.wait_s == pytest.approx(row.resource_s + row.signal_s) for row in rows)


@each_engine
def test_the_series_of_rows_adds_up_to_all_rows(scratch, engine):
    measured = measure(
        small(scratch, engine=engine, rows_per_connection=8_000, rows_per_transaction=200), site_at(scratch)
    )
    ends = measured.series.at_s
    lengths = [ends[0], *(after - before for before, after in pairwise(ends))]
    rates = measured.series.columns["rows_per_s"]
    assert sum(rate * length for rate, length in zip(rates, lengths, strict=True)) == pytest.approx(32_000, rel=0.1)
    assert all(len(column) == len(ends) for column in measured.series.columns.values())


@each_engine
def test_each_row_of_a_sequential_insert_has_a_page_of_its_own(scratch, engine):
    measured = measure(small(scratch, engine=engine, kind="sequential-insert", data_files=2), site_at(scratch))
    pages, ok = got(measured)["one row a page" if engine == "postgres" else "one page a row"]
    assert ok, pages
    assert int(pages.split()[0]) >= ROWS
    assert engine == "mariadb" or int(pages.split()[0]) <= 1.2 * ROWS + 256


@each_engine
def test_a_mixed_workload_reads_rows_that_are_there(scratch, engine):
    measured = measure(small(scratch, engine=engine, kind="mixed", read_fraction=0.75, data_files=2), site_at(scratch))
    assert got(measured)["point reads"] == (f"{3 * ROWS} reads, {3 * ROWS} of existing rows", True)
    assert measured.counters["workload"] == {"reads": 3 * ROWS}
    assert measured.rows == ROWS


@each_engine
def test_many_data_files_and_many_connections_need_no_setting_by_hand(scratch, engine):
    config = small(
        scratch, engine=engine, connections=32, rows_per_connection=64, rows_per_transaction=64, data_files=64
    )
    measured = measure(config, site_at(scratch))
    assert measured.rows == 32 * 64
    assert measured.unverified == ()


@each_engine
def test_waits_that_are_not_asked_for_are_not_sampled(scratch, engine):
    measured = measure(small(scratch, engine=engine, waits=False, rows_per_connection=10_000), site_at(scratch))
    assert measured.waits is None
    assert measured.unverified == ()
    assert any(measured.series.columns["rows_per_s"])


@needs_mariadb
def test_waits_and_cpu_and_what_has_no_timer_make_up_the_connections_time(scratch):
    waits = measure(mariadb(scratch, rows_per_connection=12_000, data_files=4), site_at(scratch)).waits
    assert isinstance(waits, CountedWaits)
    rows = normalise(waits)
    assert all(row.resource_s is None or row.wait_s == pytest.approx(row.resource_s + row.signal_s) for row in rows)
    assert not any("table/sql/handler" in row.wait_type or row.wait_type == GATE for row in rows)
    # What counts acquisitions is never shown as a number of waits.
    assert all(row.wait_count is None for row in rows if row.wait_type.startswith("wait/synch/"))
    assert sum(row.wait_s for row in rows) / waits.busy_s == pytest.approx(1.0, abs=0.1)
    assert {row.method for row in rows if row.wait_type == UNINSTRUMENTED} <= {"derived"}
    assert conservation(waits).explained == pytest.approx(1.0, abs=0.25)
    assert wait_table(rows)


@needs_mariadb
def test_a_commit_for_each_row_shows_waits_for_the_log_though_no_timer_knows_of_it(scratch):
    measured = measure(mariadb(scratch, rows_per_connection=2_000, rows_per_transaction=1), site_at(scratch))
    commits = [row for row in normalise(measured.waits) if row.wait_type == "state/Commit"]
    assert [(row.category, row.method, row.analogue) for row in commits] == [("commit", "sampled", "WRITELOG")]
    assert commits[0].wait_s > 0


@needs_mariadb
@pytest.mark.parametrize("page_size", ["4k", "16k", "64k"])
def test_the_page_size_is_a_factor_and_a_log_that_is_not_forced_to_the_disk_is_said(scratch, page_size):
    settings = {
        "innodb_page_size": page_size, "innodb_buffer_pool_size": "64M", "innodb_flush_method": "nosync",
        "log_bin": "changes", "sync_binlog": 1,
    }  # fmt: skip
    measured = measure(mariadb(scratch, settings=settings, kind="sequential-insert"), site_at(scratch))
    assert Path(got(measured)["target.settings.log_bin"][0]).name == "changes"
    assert got(measured)["target.settings.innodb_page_size"] == (str(int(page_size[:-1]) * 1024), True)
    assert measured.unverified == ()
    assert measured.durability.promise == "nothing is forced to the disk, half-written pages are mended"


@needs_root
def test_what_is_asked_for_between_runs_is_done(scratch):
    began = time.monotonic()
    measured = measure(small(scratch, drop_page_cache=True, pause_s=0.5), site_at(scratch))
    assert time.monotonic() - began > 0.5
    assert measured.unverified == ()


# --- what is not as asked makes the run unverified -------------------------------------------------------------------


@pytest.fixture
def meddle(monkeypatch):
    """Changes the server's settings between set-up and run."""

    def before_the_run(*statements: str) -> None:
        enter = OneRun.__enter__

        def entered(self):
            target = enter(self)
            if target.config.target.engine == "mariadb":
                [of_mariadb.ask(target.server.own, statement) for statement in statements]
                return target
            with connect(target.server.process) as other:
                for statement in statements:
                    other.execute(statement)
            return target

        monkeypatch.setattr(OneRun, "__enter__", entered)

    return before_the_run


def test_a_data_file_in_the_wrong_place_makes_the_run_unverified(scratch, meddle):
    meddle("ALTER TABLE storagelab_0badcafe.my_big_table_p2 SET TABLESPACE pg_default")
    run = run_of(small(scratch, data_files=2), scratch)
    assert run.status == "unverified"
    assert run.reason.startswith("place of the data files: asked ")
    assert run.reason.endswith("got data file 2: default")
    assert run.usable


CHANGES = {
    "postgres": (
        ("ALTER SYSTEM SET checkpoint_timeout = '77s'", "SELECT pg_reload_conf()", "SELECT pg_sleep(0.2)"),
        ("checkpoint_timeout", "2min", "77s"),
    ),
    "mariadb": (("SET GLOBAL innodb_io_capacity = 777",), ("innodb_io_capacity", 300, "777")),
}  # fmt: skip


@each_engine
def test_a_setting_that_was_changed_makes_the_run_unverified(scratch, meddle, engine):
    statements, (name, asked, found) = CHANGES[engine]
    meddle(*statements)
    run = run_of(small(scratch, engine=engine, settings={name: asked}), scratch)
    assert run.status == "unverified"
    assert run.reason == f"target.settings.{name}: asked {asked}, got {found}"


def test_a_setting_that_the_server_does_not_show_makes_the_run_unverified(scratch):
    run = run_of(small(scratch, settings={"my.own": "thing"}), scratch)
    assert run.status == "unverified"
    assert run.reason == "target.settings.my.own: asked thing, got nothing: the server does not show it"


def test_settings_are_compared_by_what_they_mean(scratch):
    settings = {
        "shared_buffers": ("65536kB", "64MB"), "work_mem": (4096, "4MB"), "fsync": (True, "on"),
        "Checkpoint_Timeout": ("120s", "2min"), "timezone": ("utc", "UTC"), "autovacuum_work_mem": (-1, "-1"),
        "log_line_prefix": ("%m [%p] ", "%m [%p] "), "wal_buffers": (-1, "the server chose "),
    }  # fmt: skip
    run = run_of(small(scratch, settings={name: value for name, (value, _) in settings.items()}), scratch)
    assert (run.status, run.reason) == ("ok", "")
    found = got(run.measurement)
    for name, (_, shown) in settings.items():
        assert found[f"target.settings.{name}"][0].startswith(shown), name


def test_watching_that_broke_off_makes_the_run_unverified(scratch, during):
    sampler = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'storagelab sampler'"

    def end_the_sampler(target) -> None:
        with connect(target.server.process) as other:
            ask(other, sampler)

    during(end_the_sampler)
    run = run_of(small(scratch, rows_per_connection=20_000), scratch)
    assert run.status == "unverified"
    assert run.reason.startswith("watching: asked the whole run, got sampling stopped early: ")


def test_rows_that_are_missing_fail_the_run(scratch, meddle):
    meddle("CREATE RULE lost AS ON INSERT TO storagelab_0badcafe.my_big_table DO INSTEAD NOTHING")
    run = run_of(small(scratch), scratch)
    assert (run.status, run.reason) == ("failed", f"the table holds 0 rows instead of {ROWS}")


# --- set-up and teardown that go wrong -------------------------------------------------------------------------------


def test_a_set_up_that_breaks_leaves_nothing_behind(scratch):
    (scratch / "bin").mkdir()
    for name, lines in {
        "postgres": "echo 'postgres (PostgreSQL) 18.4'",
        "initdb": "echo 'no space' >&2; exit 1",
    }.items():
        (scratch / "bin" / name).write_text(f"#!/bin/sh\n{lines}\n")
        (scratch / "bin" / name).chmod(0o755)
    config = small(scratch, bin_dir="bin", settings={"max_connections": 100, "max_locks_per_transaction": 64})
    run = run_of(config, scratch)
    assert run.status == "failed"
    assert "initdb failed: no space" in run.reason
    assert left_behind(scratch) == []


@each_engine
def test_the_servers_reason_is_said_when_the_set_up_fails(scratch, monkeypatch, engine):
    monkeypatch.setattr(f"storagelab.engines.{engine}.loads.inserts.procedure", lambda *_: "CREATE nonsense")
    words = {"postgres": "syntax error at or near", "mariadb": "You have an error in your SQL syntax"}[engine]
    with pytest.raises(RunFailed, match=f"can't set up the layout: .*{words}"):
        measure(small(scratch, engine=engine), site_at(scratch))
    assert left_behind(scratch) == []


def test_an_interruption_is_not_lost_when_the_teardown_fails(scratch, monkeypatch):
    monkeypatch.setattr(Server, "stop", lambda self, stop=Server.stop: (stop(self), _fail())[0])
    with pytest.raises(KeyboardInterrupt), opened(small(scratch), site_at(scratch)):
        raise KeyboardInterrupt


def _fail() -> None:
    raise RunFailed("no")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_amid_the_teardown_waits_for_its_end(scratch, monkeypatch, number):
    def stop(self, stop=Server.stop):
        os.kill(os.getpid(), number)
        stop(self)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "stop", stop)
    before = signal.signal(signal.SIGTERM, interrupted)
    try:
        with pytest.raises(KeyboardInterrupt), opened(small(scratch), site_at(scratch)):
            pass
    finally:
        signal.signal(signal.SIGTERM, before)
    assert left_behind(scratch) == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@each_engine
def test_an_interruption_amid_the_set_up_leaves_nothing_behind(scratch, monkeypatch, engine):
    server = {"postgres": Server, "mariadb": MariaDBServer}[engine]

    def start(self, start=server.start):
        start(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "start", start)
    with pytest.raises(KeyboardInterrupt):
        measure(small(scratch, engine=engine), site_at(scratch))
    assert left_behind(scratch) == []
    assert list(Path(scratch / "tmp").iterdir()) == []
