"""`--only carried-over`: simulates carry-over on a drive with limited credits. Each run of one layout slows down the
next run, whatever the layout of the next run is.

The log of a real PostgreSQL is on a throttled volume (`throttled`). One layout has its table on the same volume, the
other layout on a volume in memory. While a run is timed, both layouts do the same: the server writes only the log to
the drive. After the run, the server's checkpoint writes the table. A thread counts the drive's credits, as clouds do.
Each written byte costs one credit, and the drive earns a fixed number of credits per second. Without credits, the drive
is slow. The throttle does not apply to the checkpointer, as if the drive's cache accepted its writes. So the
checkpointer spends more credits than are left. Each run after a run of the first layout is slow, but the first layout
itself is not slower.

The same layouts run in two orders: in rounds that are shuffled independently, as in campaigns of earlier versions, and
in balanced rounds. The first order may give a false winner. The second order must not.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from bench import throttled
from bench.figures import Figure
from bench.throttled import Throttled
from storagelab.engines.postgres.connect import connect_private, value
from storagelab.findings.analysis import analyse
from storagelab.findings.cautions.changing import CarryOver
from storagelab.findings.model import Findings
from storagelab.run import stored
from storagelab.run.store import Store
from storagelab.spec import reading

MIB = 2**20
FAST, SLOW = {"write_bytes_per_s": 24 * MIB}, {"write_bytes_per_s": 6 * MIB}
DRIVE_BYTES = 2304 * MIB
EARNED_PER_S = 5 * MIB
MOST_CREDITS = 20 * MIB
MOST_OVERDRAWN = 20 * MIB
ROWS = 600
"""The rows of each of four connections. They make about 20 MiB of log, and a table of the same size."""
PAUSE_S = 3.0
REPETITIONS = 10
SETTINGS = {
    "shared_buffers": "256MB", "max_wal_size": "4GB", "min_wal_size": "640MB", "checkpoint_timeout": "1h",
    "debug_io_direct": "wal", "full_page_writes": False, "wal_init_zero": False, "bgwriter_lru_maxpages": 0,
}  # fmt: skip
_POLL_S = 0.02
_SECTOR_BYTES = 512
_SERVER = """if True:
    import json, sys
    from pathlib import Path
    from storagelab.engines.postgres.server import Server
    from storagelab.engines.postgres.server import find_binaries
    server = Server(find_binaries(None), data_folder=Path(sys.argv[1]), log_folder=Path(sys.argv[2]),
                    settings=json.loads(sys.argv[3]))
    try:
        server.start()
        print(server.conninfo, flush=True)
        sys.stdin.read()
    finally:
        server.stop()
"""


class Credits:
    """Sets a volume's speed by its credits until the context ends."""

    def __init__(self, drive: Throttled) -> None:
        self._drive = drive
        self._file = Path(f"/sys/dev/block/{drive.number}/stat")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Credits:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _written(self) -> int:
        return int(self._file.read_text().split()[6]) * _SECTOR_BYTES

    def _keep(self) -> None:
        left, speed = float(MOST_CREDITS), FAST
        at_s, written = time.monotonic(), self._written()
        self._drive.limit(speed)
        while not self._stop.wait(_POLL_S):
            now_s, now_written = time.monotonic(), self._written()
            left += EARNED_PER_S * (now_s - at_s) - (now_written - written)
            left = max(-MOST_OVERDRAWN, min(MOST_CREDITS, left))
            at_s, written = now_s, now_written
            wanted = FAST if left > 0 else SLOW
            if wanted is not speed:
                speed = wanted
                self._drive.limit(speed)


@contextlib.contextmanager
def _server(drive: Throttled, folder: Path) -> Iterator[str]:
    """Starts a PostgreSQL inside the throttled group, with its log on the drive. Yields its connection string."""

    words = [sys.executable, "-c", _SERVER, str(folder / "server"), str(drive.path / "log"), json.dumps(SETTINGS)]
    with subprocess.Popen(
        drive.command(words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            dsn = process.stdout.readline().strip()
            with connect_private(dsn) as connection:
                pid = value(connection, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
            drive.free(int(pid))
            yield dsn
        finally:
            process.stdin.close()
            process.wait()


def _spec(dsn: str, drive: Throttled, memory: Path, seed: int, repetitions: int) -> str:
    places = f'drive = {{ path = "{drive.path}/data" }}, memory = {{ path = "{memory}" }}'
    return (
        f'repetitions = {repetitions}\nseed = {seed}\ntarget = {{ engine = "postgres", dsn = "{dsn}" }}\n'
        f'volumes = {{ {places} }}\nbetween_runs = {{ pause = "{PAUSE_S:g}s" }}\n'
        f'workload = {{ kind = "sequential-insert", connections = 4, rows_per_connection = {ROWS} }}\n'
        '[factors]\n"layout.data" = [["drive"], ["memory"]]\n'
    )


def campaign(folder: Path, seed: int, *, balanced: bool, repetitions: int = REPETITIONS) -> stored.Results:
    """Makes one campaign in `folder`, with balanced or shuffled rounds, and returns its results."""
    with (
        throttled.volume(folder, DRIVE_BYTES) as drive,
        tempfile.TemporaryDirectory(prefix="slab-", dir="/dev/shm") as memory,
        Credits(drive),
    ):
        for place in (Path(memory), drive.path):
            place.chmod(0o777)
        for place in (Path(memory) / "data", drive.path / "data"):
            place.mkdir()
        with _server(drive, Path(memory)) as dsn:
            spec = folder / "carried.toml"
            spec.write_text(_spec(dsn, drive, Path(memory) / "data", seed, repetitions), encoding="utf-8")
            # The order is stored when the campaign begins, so the command below continues in this order.
            with Store.writing(folder / "carried", reading.load(spec).model_copy(update={"balanced": balanced})):
                pass
            words = [sys.executable, "-m", "storagelab", "run", str(spec), "--results", str(folder)]
            done = subprocess.run(
                drive.command(words), cwd=folder, capture_output=True, text=True, check=False,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            )  # fmt: skip
            if done.returncode != 0:
                raise SystemExit(f"bench: the campaign failed:\n{done.stderr}")
            return stored.read("carried", folder)


def figures(folder: Path, campaigns: int, repetitions: int = REPETITIONS) -> Iterator[Figure]:
    if reason := throttled.why_not():
        print(f"carried over is left out: {reason}")
        return
    for seed in range(1, campaigns + 1):
        for balanced in (False, True):
            place = folder / f"carried-{seed}-{balanced}"
            place.mkdir(parents=True)
            found = campaign(place, seed, balanced=balanced, repetitions=repetitions)
            yield _figure(found, analyse(found.experiment, found.plan, found.runs), seed, balanced=balanced)


def _figure(found: stored.Results, findings: Findings, seed: int, *, balanced: bool) -> Figure:
    after = _after(found)
    left = next((one for one in findings.cautions if isinstance(one, CarryOver)), None)
    told = "no caution" if left is None else f"caution: {left.change:+.0%} after {left.levels}"
    order = "balanced" if balanced else "shuffled"
    row = next((one for one in findings.comparisons if one.tested), None)
    ratio = math.nan if row is None else row.ratio.value
    best = findings.cell(findings.fastest).levels if findings.fastest else "-"
    means = ", ".join(f"{key} {value:.2f} s" for key, value in after.items())
    return Figure(
        f"{order}, seed {seed}: verdict {findings.verdict}, fastest {best}", ratio, "times", "no winner",
        None if not balanced else findings.verdict != "winner",
        None if row is None else row.ratio.low, None if row is None else row.ratio.high, f"{told}; {means}",
    )  # fmt: skip


def _after(found: stored.Results) -> dict[str, float]:
    """Returns the mean time of each layout after a run of each layout."""
    made = sorted((run for run in found.runs if run.measurement is not None), key=lambda run: run.sequence)
    name = {cell.cell_id: next(iter(cell.levels.values())) for cell in found.plan.cells}
    times: dict[str, list[float]] = {}
    for before, run in itertools.pairwise(made):
        assert run.measurement is not None
        key = f"{name[run.cell_id]} after {name[before.cell_id]}"
        times.setdefault(key, []).append(run.measurement.elapsed_s)
    return {key: fmean(values) for key, values in sorted(times.items())}
