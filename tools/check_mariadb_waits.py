"""Checks MariaDB's waits against a kernel trace: `python tools/check_mariadb_waits.py` (Linux, root, some minutes).

It starts private servers and runs short loads with 1, 4 and 16 data files, which commit every row or every 100 rows. It
samples their waits just as a run does. At the same time the kernel traces every switch, wake-up and system call of the
worker threads. The trace has the true times. A thread waits for a commit during a call on the redo log, or while it
sleeps on a futex in its own thread-local memory. On this futex InnoDB lets a session sleep while another session writes
the log for both. During a call on a data file, a thread waits for that file. On any other futex it waits for a latch.
See docs/reference/waits-mariadb.md.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from check_wait_estimator import why_not_here
from kernel_trace import NO_CLASS, Trace, Truth, read_truth

from storagelab.engines.mariadb.connect import Connection, ask, close
from storagelab.engines.mariadb.loads.inserts import Tables, Workers
from storagelab.engines.mariadb.sampler import Sampler
from storagelab.engines.mariadb.server import Server, find_binaries
from storagelab.model.config import Config, LayoutConfig, TargetConfig
from storagelab.model.loads.inserts import RandomInsert
from storagelab.model.values import Scalar
from storagelab.model.waits import UNINSTRUMENTED, CountedWaits, WaitStat, conservation, normalise

CONNECTIONS = 16
SETTINGS: dict[str, Scalar] = {"innodb_buffer_pool_size": "64M", "innodb_log_file_size": "2G"}
SCHEMA = "storagelab_check"
COMMIT, DATA, LATCH, CLIENT, OTHER = "commit", "data file", "latch", "client", "other"
CLASSES = (COMMIT, DATA, LATCH, OTHER, NO_CLASS)
FUTEX, FUTEX_WAITS = 202, (0, 9)
ON_FILES = {0, 1, 17, 18, 19, 20, 74, 75, 77, 285, 295, 296}
OF_CLIENT = {7, 45, 44, 271}


@dataclass(frozen=True)
class Load:
    data_files: int
    rows_per_transaction: int
    rows_per_connection: int

    @property
    def config(self) -> Config:
        return Config(
            target=TargetConfig(engine="mariadb"),
            layout=LayoutConfig(data_files=self.data_files),
            workload=RandomInsert(
                connections=CONNECTIONS, rows_per_connection=self.rows_per_connection,
                rows_per_transaction=self.rows_per_transaction,
            ),
        )  # fmt: skip

    @property
    def name(self) -> str:
        return f"{self.data_files} files, {self.rows_per_transaction} rows"


LOADS = [Load(files, batch, rows) for batch, rows in ((1, 2_000), (100, 8_000)) for files in (1, 4, 16)]


@dataclass(frozen=True)
class Checked:
    load: Load
    raw: CountedWaits
    truth: Truth
    observer_share: float


class Caller:
    """Classifies a system call of the server's threads by its arguments."""

    def __init__(self, pid: int, threads: Sequence[int]) -> None:
        self._files = {int(link.name): _class_of_file(os.readlink(link)) for link in Path(f"/proc/{pid}/fd").iterdir()}
        self._own = {thread: _stack_of(pid, thread) for thread in threads}

    def __call__(self, thread: int, number: int, arguments: Sequence[int]) -> str:
        if number == FUTEX and arguments[1] & 0x7F in FUTEX_WAITS:
            low, high = self._own[thread]
            return COMMIT if low <= arguments[0] < high else LATCH
        if number in ON_FILES:
            return self._files.get(arguments[0], OTHER)
        return CLIENT if number in OF_CLIENT else NO_CLASS


def _class_of_file(target: str) -> str:
    name = Path(target).name
    if name.startswith("ib_logfile"):
        return COMMIT
    if name.startswith("socket:"):
        return CLIENT
    return DATA if name.endswith(".ibd") or name.startswith(("ibdata", "undo")) else OTHER


def _stack_of(pid: int, thread: int) -> tuple[int, int]:
    """Returns the memory mapping with a sleeping thread's stack. Thread-local data are at its upper end."""
    stack_pointer = int(Path(f"/proc/{pid}/task/{thread}/syscall").read_text(encoding="utf-8").split()[-2], 16)
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
        found = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if found and int(found[1], 16) <= stack_pointer < int(found[2], 16):
            return int(found[1], 16), int(found[2], 16)
    raise RuntimeError(f"no mapping holds the stack of thread {thread}")


# --- one run ---------------------------------------------------------------------------------------------------------


def check(load: Load, bin_dir: str | None) -> Checked:
    """Makes one traced run on its own server."""
    folder = Path(tempfile.mkdtemp(prefix="storagelab-check-"))
    folder.chmod(0o711)
    server = Server(find_binaries(bin_dir), data_folder=folder / "data", log_folder=folder / "log", settings=SETTINGS)
    try:
        server.start()
        own = server.connect()
        layout = Tables(load.config, SCHEMA, None)
        layout.create(own)
        layout.write_out(own)
        return _watch(load, server, own, layout)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _watch(load: Load, server: Server, own: Connection, layout: Tables) -> Checked:
    workers = Workers(server.connect, layout, own, 1)
    assert server.pid is not None
    try:
        workers.open()
        sampler = Sampler(server.connect, workers.ids, load.config.measure, server_pid=server.pid, paths={}, probe=dict)
        sampler.prepare()
        threads = _threads(own, workers.ids)
        workers.gather()
        caller = Caller(server.pid, threads)
        with Trace(threads) as trace:
            sampler.baseline()
            sampler.start()
            workers.release()
            loops = workers.wait(lambda: None)
            sampled = sampler.stop()
            trace.stop()
            shift_s = time.time() - time.monotonic()  # the server uses the time of day, the trace the monotonic clock
            windows = {
                thread: (loop.started_s - shift_s, loop.finished_s - shift_s)
                for thread, loop in zip(threads, loops, strict=True)
            }
            truth = read_truth(trace.lines(), windows, caller)
    finally:
        workers.close()
        close(own)
    if sampled.error:
        raise RuntimeError(sampled.error)
    elapsed_s = max(loop.finished_s for loop in loops) - min(loop.started_s for loop in loops)
    raw = sampled.waits(elapsed_s, sum(loop.finished_s - loop.started_s for loop in loops), len(loops))
    assert isinstance(raw, CountedWaits)
    observer_s = sampled.observer.sampler_cpu_s + (sampled.observer.session_cpu_s or 0.0)
    return Checked(load, raw, truth, observer_s / elapsed_s)


def _threads(own: Connection, ids: Sequence[int]) -> list[int]:
    """Returns the kernel's numbers of the sessions' threads, in the order of `ids`."""
    rows = ask(own, "SELECT processlist_id, thread_os_id FROM performance_schema.threads")
    return [int(dict(rows)[one]) for one in ids]


# --- the comparison --------------------------------------------------------------------------------------------------


def class_of(row: WaitStat) -> str:
    """Returns the trace's name for a wait's class. Sleep on page latches has no timer, so time without a timer counts
    as it."""
    if row.category == "commit":
        return COMMIT
    if row.wait_type.startswith("wait/io/file/innodb/innodb_data_file"):
        return DATA
    if row.wait_type.startswith("wait/synch/") or row.wait_type == UNINSTRUMENTED:
        return LATCH
    return OTHER if row.wait_type.startswith("wait/io/") else NO_CLASS


Pair = tuple[float, float]


def comparison(checked: Checked) -> list[tuple[str, Pair, Pair, float]]:
    """Returns for each class its RESOURCE and SIGNAL, each as estimate and truth, and the CPU time inside its system
    calls. All are in % of connection time."""
    resource_s, signal_s = defaultdict[str, float](float), defaultdict[str, float](float)
    for row in normalise(checked.raw):
        if row.is_wait:
            resource_s[class_of(row)] += row.resource_s or 0.0
            signal_s[class_of(row)] += row.signal_s or 0.0
    truth, whole_s = checked.truth, checked.raw.busy_s / 100
    return [
        (
            name,
            (resource_s[name] / whole_s, truth.blocked_s[name] / whole_s),
            (signal_s[name] / whole_s, truth.queued_s[name] / whole_s),
            truth.running_s[name] / whole_s,
        )
        for name in CLASSES
    ]


def show(checked: Checked) -> None:
    raw, truth = checked.raw, checked.truth
    assert raw.cpu_s is not None
    assert raw.runqueue_s is not None
    name = checked.load.name
    for kind, resource, signal, cpu in comparison(checked):
        if max(*resource, *signal) >= 0.5:
            print(
                f"| {name} | {kind} | {resource[0]:.1f} / {resource[1]:.1f} | {signal[0]:.1f} / {signal[1]:.1f} "
                f"| {cpu if kind in (COMMIT, DATA) else 0.0:.1f} |"
            )
            name = ""
    by_kernel = (raw.busy_s - raw.cpu_s - raw.runqueue_s, raw.runqueue_s, raw.cpu_s)
    by_trace = [sum(seconds.values()) for seconds in (truth.blocked_s, truth.queued_s, truth.running_s)]
    both = " | ".join(
        " / ".join(f"{100 * seconds / raw.busy_s:.1f}" for seconds in found) for found in (by_kernel, by_trace)
    )
    print(f"| | asleep / queued / CPU: schedstat, trace | {both} | |", flush=True)


def show_sums(results: Sequence[Checked]) -> None:
    """Prints whether all times add up to the connections' time, and which waits have no timer."""
    print(
        "\n| load | rows/s | looks | rows of the table, "
        "sum | explained without the residual | UNINSTRUMENTED | timers |"
    )
    print("|---|---|---|---|---|---|---|")
    for checked in results:
        raw = checked.raw
        rows = normalise(raw)
        whole_s = raw.busy_s / 100
        untimed_s = sum(row.wait_s for row in rows if row.wait_type == UNINSTRUMENTED)
        timers_s = sum(row.wait_ns for row in raw.rows) / 1e9
        print(
            f"| {checked.load.name} | {checked.load.config.database_load.rows / raw.elapsed_s:,.0f} | {raw.passes} | "
            f"{sum(row.wait_s for row in rows) / whole_s:.1f} % | {100 * (conservation(raw).explained or 0.0):.0f} % | "
            f"{untimed_s / whole_s:.1f} % | {timers_s / whole_s:.1f} % | "
            f"{100 * checked.observer_share:.1f} % of a core |"
        )


def show_errors(results: Sequence[Checked]) -> None:
    rows = [row for checked in results for row in comparison(checked) if max(*row[1], *row[2]) >= 0.5]
    for title, of_kind in (("commit", (COMMIT,)), ("data file", (DATA,)), ("latch", (LATCH,)), ("all", CLASSES)):
        for name, column in (("RESOURCE", 1), ("SIGNAL", 2)):
            errors = [row[column][0] - row[column][1] for row in rows if row[0] in of_kind]  # type: ignore[index]
            if errors:
                mean = sum(map(abs, errors)) / len(errors)
                print(f"{name} of {title}: mean error {mean:.1f} points, from {min(errors):+.1f} to {max(errors):+.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--bin-dir", help="folder of the server's programs (default: as storagelab finds them)")
    parser.add_argument("--only", default="", help="only loads whose name holds this")
    options = parser.parse_args()
    reason = why_not_here()
    if reason:
        print(reason, file=sys.stderr)
        return 2
    print(
        f"MariaDB {find_binaries(options.bin_dir).version}, {CONNECTIONS} connections, {os.cpu_count()} CPUs, "
        f"load {os.getloadavg()[0]:.1f}; % of the connections' time\n"
    )
    print("| load | class | RESOURCE est / truth | SIGNAL est / truth | CPU inside such calls |\n|---|---|---|---|---|")
    results = []
    for load in LOADS:
        if options.only in load.name:
            results.append(check(load, options.bin_dir))
            show(results[-1])
    show_sums(results)
    print()
    show_errors(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
