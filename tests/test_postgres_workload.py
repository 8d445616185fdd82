"""The connections of a run, on a real server: ready first, started together, every row in."""

import threading
import time

import pytest
from real_servers import ROWS, ask, connect, site_at, small, until

from storagelab.engines.postgres.loads.inserts import Tables, Workers
from storagelab.errors import RunFailed
from storagelab.servers.interfaces import REPORT_ROWS, rows_per_report

SCHEMA = "storagelab_0badcafe"


class Loaded:
    """A workload on the shared server, step by step."""

    def __init__(self, server, scratch, **changes) -> None:
        config = small(scratch, dsn="-", **changes)
        self.server = server
        self.own = connect(server)
        self.layout = Tables(config, site_at(scratch).prefix, None)
        self.layout.create(self.own)
        self.workers = Workers(lambda: connect(server, application_name="storagelab 0"), self.layout, self.own, 1)

    def run(self):
        self.workers.open()
        self.workers.gather()
        self.workers.release()
        return self.workers.wait(lambda: None)

    def close(self) -> None:
        self.workers.close()
        self.own.execute("SELECT pg_advisory_unlock_all()")
        self.layout.drop(self.own)
        self.own.close()


@pytest.fixture
def load(attached, scratch):
    made = []

    def make(**changes) -> Loaded:
        made.append(Loaded(attached, scratch, **changes))
        return made[-1]

    yield make
    for loaded in made:
        loaded.close()


def test_every_row_that_was_asked_for_is_in(load):
    loaded = load()
    loops = loaded.run()
    assert len(loops) == 4
    assert loaded.layout.count_rows(loaded.own) == ROWS


@pytest.mark.parametrize("connections", [1, 64])
def test_one_connection_or_many_are_all_served(load, connections):
    loaded = load(connections=connections, rows_per_connection=30, rows_per_transaction=10)
    loops = loaded.run()
    assert len(loops) == connections
    assert loaded.layout.count_rows(loaded.own) == connections * 30
    # Started together: the last is off long before a session could have been opened after the first.
    assert max(loop.started_s for loop in loops) - min(loop.started_s for loop in loops) < 1.0


def test_connections_start_together_and_not_as_they_are_opened(load):
    loaded = load(connections=16)
    loops = loaded.run()
    starts = sorted(loop.started_s for loop in loops)
    assert starts[-1] - starts[0] < max(0.25, 0.5 * (max(loop.finished_s for loop in loops) - starts[0]))


@pytest.mark.parametrize(
    ("rows", "per_transaction", "commits"),
    [(500, 100, 5), (500, 300, 2), (500, 500, 1), (7, 3, 3), (5, 1, 5), (1, 1, 1)],
)
def test_a_loop_commits_after_so_many_rows_and_once_more_for_the_rest(load, rows, per_transaction, commits):
    loaded = load(connections=2, rows_per_connection=rows, rows_per_transaction=per_transaction)
    loaded.run()
    assert loaded.layout.count_rows(loaded.own) == 2 * rows
    # Rows of one transaction carry one transaction id.
    transactions = ask(loaded.own, f"SELECT count(DISTINCT xmin::text) FROM {SCHEMA}.my_big_table")
    assert transactions == 2 * commits


def test_the_loop_runs_inside_the_server_as_one_call(load):
    loaded = load(rows_per_connection=200)
    loaded.workers.open()
    loaded.workers.gather()
    rows = loaded.own.execute(
        "SELECT query, wait_event FROM pg_stat_activity WHERE pid = ANY(%s)", [loaded.workers.ids]
    ).fetchall()
    assert {query for query, _ in rows} == {
        f'CALL "{SCHEMA}".insert_rows(200, 100, 200, {loaded.workers.gate}, 1, {worker}, 0.0)'
        for worker in (1, 2, 3, 4)
    }
    assert {wait_event for _, wait_event in rows} == {"advisory"}
    loaded.workers.release()
    loaded.workers.wait(lambda: None)


def test_nobody_inserts_before_the_gate_is_opened(load):
    loaded = load()
    loaded.workers.open()
    loaded.workers.gather()
    time.sleep(0.2)
    assert loaded.layout.count_rows(loaded.own) == 0
    opened_s = ask(loaded.own, "SELECT extract(epoch FROM clock_timestamp())::float8")
    loaded.workers.release()
    loops = loaded.workers.wait(lambda: None)
    assert min(loop.started_s for loop in loops) >= opened_s


def test_rows_done_are_published_while_the_loop_runs(load):
    loaded = load(connections=1, rows_per_connection=6_000, rows_per_transaction=50)
    seen = set()
    watcher = connect(loaded.server)
    watching = threading.Event()

    def watch() -> None:
        while not watching.is_set():
            seen.add(
                ask(
                    watcher,
                    "SELECT coalesce(max(application_name), '') FROM pg_stat_activity WHERE pid = ANY(%s)",
                    pids,
                )
            )

    loaded.workers.open()
    pids = loaded.workers.ids
    loaded.workers.gather()
    thread = threading.Thread(target=watch)
    thread.start()
    loaded.workers.release()
    loaded.workers.wait(lambda: None)
    watching.set()
    thread.join()
    done = {int(name.split()[1]) for name in seen if name.startswith("storagelab ")}
    assert len(done) > 2
    assert all(rows % 200 == 0 for rows in done)
    assert ask(watcher, "SELECT application_name FROM pg_stat_activity WHERE pid = %s", pids[0]) == "storagelab 6000"
    watcher.close()


@pytest.mark.parametrize(("per_transaction", "published"), [(1, 200), (100, 200), (150, 300), (1000, 1000)])
def test_progress_is_published_in_whole_transactions(scratch, per_transaction, published):
    workload = small(scratch, rows_per_connection=10_000, rows_per_transaction=per_transaction).workload
    assert rows_per_report(workload) == published
    assert published >= REPORT_ROWS


def test_a_connection_that_can_not_be_had_is_said_by_its_number(load):
    loaded = load()
    loaded.own.execute("CREATE ROLE storagelab_two LOGIN CONNECTION LIMIT 2")
    try:
        loaded.workers._connect = lambda: connect(loaded.server, user="storagelab_two")
        with pytest.raises(RunFailed, match=r"^connection 3 could not be opened: .*too many connections for role"):
            loaded.workers.open()
        loaded.workers.close()
    finally:
        loaded.own.execute("DROP ROLE storagelab_two")


def test_a_loop_that_breaks_fails_the_run_in_the_servers_words(load):
    loaded = load()
    loaded.own.execute(f"ALTER TABLE {SCHEMA}.my_big_table ADD CONSTRAINT never CHECK (c4 <> 1)")
    with pytest.raises(RunFailed, match=r'a connection failed: ERROR: .*violates check constraint "never"'):
        loaded.run()


def test_a_call_that_breaks_before_the_start_is_not_waited_for(load):
    loaded = load()
    loaded.own.execute(f"DROP PROCEDURE {SCHEMA}.insert_rows")
    began = time.monotonic()
    with pytest.raises(RunFailed, match=r"a connection failed: ERROR: .*insert_rows.* does not exist"):
        loaded.run()
    assert time.monotonic() - began < 10


def test_closing_stops_loops_that_still_run(load):
    loaded = load(rows_per_connection=1_000_000, rows_per_transaction=1_000)
    loaded.workers.open()
    pids = loaded.workers.ids
    loaded.workers.gather()
    loaded.workers.release()
    loaded.workers.close()
    loaded.workers.close()
    at_work = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)"
    until(lambda: ask(loaded.own, at_work, pids) == 0)


def test_counters_of_the_sessions_are_handed_in_when_asked(load):
    loaded = load()
    loaded.run()
    loaded.workers.settle()
    loaded.own.execute("SELECT pg_stat_clear_snapshot()")
    counted = f"SELECT sum(n_tup_ins) FROM pg_stat_all_tables WHERE schemaname = '{SCHEMA}'"
    assert ask(loaded.own, counted) == ROWS


def test_a_broken_session_does_not_keep_the_others_from_being_closed(load):
    loaded = load()
    loaded.workers.open()
    loaded.workers.first.close()
    loaded.workers.close()
    assert loaded.workers.ids == []
