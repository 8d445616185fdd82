"""The connections of a run, on a real server: ready first, started together, every row in."""

import time

import pytest
from real_servers import ask, connect, site_at, small, until

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


def test_nobody_inserts_before_the_gate_is_opened(load):
    loaded = load()
    loaded.workers.open()
    loaded.workers.gather()
    time.sleep(0.2)
    assert loaded.layout.count_rows(loaded.own) == 0
    opened_s = ask(loaded.own, "SELECT extract(epoch FROM clock_timestamp())::float8")
    loaded.workers.release()
    assert min(loop.started_s for loop in loaded.workers.wait(lambda: None)) >= opened_s


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
