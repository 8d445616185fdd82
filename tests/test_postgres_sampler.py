"""The sampler on a real server: what it sees of a load, and what it does when things break under it."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from real_servers import ask, keeps_schedstat, until

from storagelab.engines.postgres.sampler import LockWait, Sampler, waiting_tasks
from storagelab.engines.postgres.server import Server, find_binaries
from storagelab.model.config import MeasureConfig
from storagelab.model.measurement import WaitingTask
from storagelab.model.waits import NO_EVENT, ON_CPU, RUNNABLE_NO_EVENT, conservation, normalise
from storagelab.watching.pace import check_watching
from storagelab.watching.sampler import Observation

pytestmark = pytest.mark.slow

Connection = psycopg.Connection[Any]
GATE = 42
KERNEL = keeps_schedstat()
needs_kernel = pytest.mark.skipif(not KERNEL, reason="this kernel keeps no schedstat of its tasks")

LOOP = """
DO $$
BEGIN
  PERFORM pg_advisory_lock_shared(42);
  PERFORM pg_advisory_unlock_shared(42);
  COMMIT;
  FOR done IN 1..{rows} LOOP
    INSERT INTO t DEFAULT VALUES;
    IF done % 50 = 0 THEN
      COMMIT;
      PERFORM set_config('application_name', 'storagelab ' || done, false);
    END IF;
  END LOOP;
END $$"""


@pytest.fixture(scope="module", params=["newest", "oldest"])
def server(
    request: pytest.FixtureRequest, postgres_bin_dirs: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    found = sorted((find_binaries(str(folder)) for folder in postgres_bin_dirs), key=lambda each: each.major)
    with _started(found[-1] if request.param == "newest" else found[0], tmp_path_factory) as started:
        yield started


@contextlib.contextmanager
def _started(binaries: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("sampler")
    server = Server(
        binaries, data_folder=folder / "data", log_folder=folder / "log", settings={"shared_buffers": "16MB"}
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _connect(server: Server) -> Connection:
    connection = psycopg.connect(server.conninfo, autocommit=True)
    connection.prepare_threshold = None
    return connection


class Generous(Sampler):
    """May cost more, so that a few short runs have enough looks."""

    budget = 0.2


class Stage:
    """Some worker sessions at the barrier, and a sampler that watches them."""

    def __init__(self, server: Server, workers: int) -> None:
        self.server = server
        self.own = _connect(server)
        self.own.execute("DROP TABLE IF EXISTS t")
        self.own.execute("CREATE TABLE t (c1 uuid PRIMARY KEY DEFAULT gen_random_uuid(), c3 char(111) DEFAULT 'a')")
        self.workers = [_connect(server) for _ in range(workers)]
        self.threads: list[threading.Thread] = []
        self.began_s = 0.0

    def sampler(self, watcher: type[Sampler] = Generous, **changes: Any) -> Sampler:
        oid = self.own.execute("SELECT 't'::regclass::oid::bigint").fetchone()
        arguments: dict[str, Any] = {
            "connect": lambda: _connect(self.server), "pids": [each.info.backend_pid for each in self.workers],
            "measure": MeasureConfig(sample_hz=50), "kernel_view": KERNEL,
            "relations": {oid[0] if oid else 0: ("t", 1)},
            "probe": lambda: {"clock_s": time.monotonic()},
        }  # fmt: skip
        return watcher(**arguments | changes)

    def begun(self, rows: int = 0, **changes: Any) -> Sampler:
        """A sampler that looks at the workers, which insert so many rows each once they are released."""
        sampler = self.sampler(**changes)
        sampler.prepare()
        if rows:
            self.gather(rows)
        sampler.baseline()
        sampler.start()
        return sampler

    def gather(self, rows: int) -> None:
        self.own.execute("SELECT pg_advisory_lock(%s)", [GATE])
        for worker in self.workers:
            thread = threading.Thread(target=self._work, args=(worker, rows), daemon=True)
            thread.start()
            self.threads.append(thread)
        at_the_barrier = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        until(lambda: ask(self.own, at_the_barrier) == len(self.workers))

    @staticmethod
    def _work(worker: Connection, rows: int) -> None:
        with contextlib.suppress(psycopg.Error):
            worker.execute(LOOP.format(rows=rows))

    def release(self) -> None:
        self.began_s = time.monotonic()
        self.own.execute("SELECT pg_advisory_unlock(%s)", [GATE])

    def finish(self) -> float:
        """Seconds from the release to the last worker's end."""
        for thread in self.threads:
            thread.join(60)
        return time.monotonic() - self.began_s

    def close(self) -> None:
        for connection in (*self.workers, self.own):
            with contextlib.suppress(psycopg.Error):
                connection.close()
        for thread in self.threads:
            thread.join(10)


@pytest.fixture
def stage(server: Server) -> Iterator[Callable[[int], Stage]]:
    made: list[Stage] = []

    def make(workers: int) -> Stage:
        made.append(Stage(server, workers))
        return made[-1]

    yield make
    for each in made:
        each.close()


def _watched(stage: Stage, rows: int, **changes: Any) -> tuple[Observation, float]:
    sampler = stage.begun(rows, **changes)
    stage.release()
    elapsed_s = stage.finish()
    return sampler.stop(), elapsed_s


@needs_kernel
def test_a_load_is_explained_by_its_waits_and_its_cpu(stage):
    sampled, elapsed_s = _watched(stage(8), 30_000)
    raw = sampled.waits(elapsed_s, 8 * elapsed_s, 8)
    assert sampled.error == ""
    assert raw.passes > 10
    assert 0 < sum(event.ticks for event in raw.events) <= 8 * raw.passes
    assert 0 < raw.cpu_s + raw.runqueue_s < 8 * elapsed_s
    assert raw.voluntary_switches > 0
    rows = normalise(raw)
    assert sum(row.wait_s for row in rows) == pytest.approx(8 * elapsed_s, rel=0.02), "resource + queue + CPU = all"
    assert {ON_CPU, RUNNABLE_NO_EVENT} <= {row.wait_type for row in rows}
    assert 0.6 < conservation(raw).explained < 1.4
    assert any(event.category == "commit" for event in raw.events)


def test_no_idle_or_waiting_at_the_barrier_is_counted_as_work(stage):
    stood = stage(3)
    sampler = stood.begun(10)
    time.sleep(0.4)
    stood.release()
    stood.finish()
    time.sleep(0.4)  # all are done now, and wait for their client
    sampled = sampler.stop()
    assert not {"Lock:advisory", "Client:ClientRead"} & {event.wait_type for event in sampled.events}
    assert sampled.passes <= sampled.observer.ticks // 2


def test_pids_that_are_not_the_servers_own_sessions_are_not_believed(stage):
    sampler = stage(1).begun(pids=[os.getpid()])
    time.sleep(0.1)
    sampled = sampler.stop()
    assert sampled.totals is None
    assert "PID namespace" in sampled.no_split_reason or not KERNEL


def test_who_waits_for_whose_extension_or_transaction_is_named(stage):
    held = stage(2)
    oid = held.own.execute("SELECT 't'::regclass::oid::bigint").fetchone()
    sampler = held.sampler(relations={oid[0]: ("my_big_table_p7", 7)})
    holder, waiter = held.workers
    holder.execute("BEGIN")
    holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
    waiting = threading.Thread(target=waiter.execute, args=("SELECT count(*) FROM t",), daemon=True)
    held.threads.append(waiting)
    sampler.prepare()
    sampler.baseline()
    waiting.start()
    sampler.start()
    time.sleep(1.2)
    holder.execute("COMMIT")
    waiting.join(10)
    sampled = sampler.stop()
    assert sampled.error == ""
    tasks = [task for task in sampled.waiting_tasks if task.wait_type == "Lock:relation"]
    assert 1 <= len(tasks) <= 4, "twice a second"
    assert {(task.resource.text, task.data_file, task.sessions) for task in tasks} == {
        ("my_big_table_p7 (data file 7)", 7, 1)
    }
    assert {task.held_by for task in tasks} == {"a session outside the workload"}, "an idle one does no work of the run"


def test_a_session_that_ends_in_the_middle_leaves_what_was_seen_of_the_others(stage):
    broken = stage(3)
    sampler = broken.begun(20_000)
    broken.own.execute("SELECT pg_terminate_backend(%s)", [broken.workers[0].info.backend_pid])
    broken.release()
    broken.finish()
    sampled = sampler.stop()
    assert sampled.error == ""
    assert sampled.passes > 0
    assert sampled.totals is None
    assert sampled.no_split_reason


def test_a_probe_that_breaks_ends_the_watching_and_not_the_run(stage):
    def probe() -> Mapping[str, float]:
        raise OSError("no such device")

    sampled, _ = _watched(stage(1), 100, probe=probe)
    assert "no such device" in sampled.error
    assert "\n" not in sampled.error


@needs_kernel
def test_watching_sixteen_sessions_fifty_times_a_second_stays_below_its_budget(stage):
    sampled, elapsed_s = _watched(stage(16), 6_000, watcher=Sampler)
    observer = sampled.observer
    assert (observer.sampler_cpu_s + observer.session_cpu_s) / elapsed_s < 0.045
    assert sampled.passes >= 10


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_dies_or_freezes_neither_hangs_nor_breaks_the_sampler(
    kind: signal.Signals, postgres_bin_dirs: list[Path], tmp_path_factory: pytest.TempPathFactory
):
    with _started(find_binaries(str(postgres_bin_dirs[-1])), tmp_path_factory) as server:
        struck = Stage(server, 2)
        sampler = struck.begun(10_000_000)
        struck.release()
        time.sleep(0.6)
        backends = [each.info.backend_pid for each in struck.workers]
        victims = _family(server.pid)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, kind)
        time.sleep(0.2)
        began = time.monotonic()
        sampled = sampler.stop()
        took_s = time.monotonic() - began
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        struck.close()
    assert took_s < 8
    assert "sampling stopped early" in sampled.error
    assert sampled.passes > 0, "what was seen before is kept"
    assert {event.wait_type for event in sampled.events} - {NO_EVENT}
    assert set(backends) <= set(victims)


def _family(postmaster: int | None) -> list[int]:
    """The server's processes: its sessions last."""
    assert postmaster is not None
    children = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError, ValueError):
            if folder.name.isdigit() and (folder / "stat").read_text().rpartition(")")[2].split()[1] == str(postmaster):
                children.append(int(folder.name))
    return [postmaster, *children]


@needs_kernel
def test_sessions_that_had_ended_before_they_were_watched_are_said_to_have_ended(server):
    with _connect(server) as ended:
        pid = ended.info.backend_pid
    until(lambda: not Path(f"/proc/{pid}").exists())
    sampler = Sampler(
        lambda: _connect(server), [pid], MeasureConfig(sample_hz=50), kernel_view=True, relations={}, probe=dict,
        of_generator=True,
    )  # fmt: skip
    sampler.prepare()
    sampler.baseline()
    sampler.start()
    time.sleep(1)
    seen = sampler.stop()
    waits = seen.waits(1.0, 1.0, 1)
    assert waits.no_split_reason == "a session had ended before its state could be read from the kernel"
    [check] = check_watching(seen.error, seen.observed(1.0), 1.0, waits.passes)
    assert not check.ok
    assert "no session of the load in " in check.got


# --- what sessions wait for at one moment ----------------------------------------------------------------------------

RELATIONS = {1000: ("my_big_table_p3", 3), 1001: ("my_big_table_p3_pkey", 3), 2000: ("my_big_table", None)}


def _wait(pid: int, locktype: str, relation: int | None = None, holder: int | None = None, **more: str) -> LockWait:
    return LockWait(pid, locktype, relation, more.get("page", ""), more.get("tuple_", ""), more.get("xid", ""), holder)


def _said(tasks: tuple[WaitingTask, ...]) -> list[tuple[str, str, int, int | None, str]]:
    return [(task.wait_type, task.resource.text, task.sessions, task.data_file, task.held_by) for task in tasks]


def test_sessions_that_extend_one_file_are_one_line_with_what_the_holder_does():
    seen = {1: "Lock:extend", 2: "Lock:extend", 3: "IO:DataFileExtend"}
    locks = [_wait(1, "extend", 1000, 3), _wait(2, "extend", 1000, 3)]
    assert _said(waiting_tasks(0.5, seen, locks, RELATIONS)) == [
        ("Lock:extend", "extension of my_big_table_p3 (data file 3)", 2, 3, "IO:DataFileExtend"),
        ("IO:DataFileExtend", "new pages of a data file", 1, None, ""),
    ]


def test_rows_pages_transactions_and_unknown_relations_have_names_too():
    seen = dict.fromkeys(range(1, 6), "Lock:tuple")
    locks = [
        _wait(1, "tuple", 1000, 9, page="7", tuple_="2"), _wait(2, "page", 1001, None, page="8"),
        _wait(3, "transactionid", None, 9, xid="755"), _wait(4, "relation", 2000), _wait(5, "extend", 77),
    ]  # fmt: skip
    tasks = waiting_tasks(1.0, seen, locks, RELATIONS)
    assert {(task.resource.text, task.held_by) for task in tasks} == {
        ("row 7/2 of my_big_table_p3 (data file 3)", "a session outside the workload"),
        ("page 8 of my_big_table_p3_pkey (data file 3)", ""),
        ("end of transaction 755", "a session outside the workload"),
        ("my_big_table", ""),
        ("extension of relation 77", ""),
    }


def test_sessions_outside_the_workload_and_those_at_the_barrier_are_left_out():
    locks = [_wait(99, "extend", 1000), _wait(1, "advisory")]
    assert waiting_tasks(0.0, {1: NO_EVENT}, locks, RELATIONS) == ()
