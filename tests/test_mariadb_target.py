"""What MariaDB alone does as a target; `test_postgres_target` has what both engines do."""

import pytest
from real_mariadb import DATABASE, mariadb, needs_mariadb
from real_servers import got, left_behind, measure, run_in, run_of, site_at

from storagelab.errors import RunFailed
from storagelab.model.waits import UNINSTRUMENTED, CountedWaits, conservation, normalise, wait_table
from storagelab.targets.composed import Composed
from storagelab.targets.mariadb.connecting import ask
from storagelab.targets.mariadb.engine import opened
from storagelab.targets.mariadb.events import GATE

pytestmark = needs_mariadb


def test_waits_and_cpu_and_what_has_no_timer_make_up_the_connections_time(scratch):
    measured = measure(mariadb(scratch, rows_per_connection=12_000, data_files=4), site_at(scratch))
    waits = measured.waits
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


def test_a_commit_for_each_row_shows_waits_for_the_log_though_no_timer_knows_of_it(scratch):
    measured = measure(mariadb(scratch, rows_per_connection=2_000, rows_per_transaction=1), site_at(scratch))
    commits = [row for row in normalise(measured.waits) if row.wait_type == "state/Commit"]
    assert [(row.category, row.method, row.analogue) for row in commits] == [("commit", "sampled", "WRITELOG")]
    assert commits[0].wait_s > 0


@pytest.mark.parametrize("page_size", ["4k", "16k", "64k"])
def test_the_page_size_is_a_factor(scratch, page_size):
    settings = {"innodb_page_size": page_size, "innodb_buffer_pool_size": "64M"}
    measured = measure(mariadb(scratch, settings=settings, kind="sequential-insert"), site_at(scratch))
    assert got(measured)["target.settings.innodb_page_size"] == (str(int(page_size[:-1]) * 1024), True)
    assert measured.unverified == ()


def test_a_server_that_forces_nothing_to_the_disk_has_a_verdict_that_says_so(scratch):
    measured = measure(mariadb(scratch, settings={"innodb_flush_method": "nosync"}), site_at(scratch))
    assert measured.durability.promise == "nothing is forced to the disk, half-written pages are mended"


def test_random_keys_are_spread_evenly_over_the_data_files(scratch):
    config = mariadb(scratch, data_files=8, rows_per_connection=4_000)
    with opened(config, site_at(scratch)) as target:
        run_in(target)
        counts = [
            ask(target.server.own, f"SELECT count(*) FROM {DATABASE}.my_big_table PARTITION (p{number})")[0][0]
            for number in range(1, 9)
        ]
    assert sum(counts) == 16_000
    assert max(counts) < 1.15 * 2_000


def test_a_setting_that_the_server_does_not_have_in_the_end_makes_the_run_unverified(scratch, monkeypatch):
    enter = Composed.__enter__

    def meddled(self):
        target = enter(self)
        ask(target.server.own, "SET GLOBAL innodb_io_capacity = 777")
        return target

    monkeypatch.setattr(Composed, "__enter__", meddled)
    run = run_of(mariadb(scratch, settings={"innodb_io_capacity": 300}), scratch)
    assert run.status == "unverified"
    assert "777" in run.reason


def test_the_first_reason_is_said_when_the_set_up_fails(scratch, monkeypatch):
    monkeypatch.setattr("storagelab.targets.mariadb.loads.inserts.procedure", lambda *_: "CREATE nonsense")
    with pytest.raises(RunFailed, match="can't set up the layout: You have an error in your SQL syntax"):
        measure(mariadb(scratch), site_at(scratch))
    assert left_behind(scratch) == []
