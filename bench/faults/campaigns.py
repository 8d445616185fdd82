"""Small campaigns of each kind, which are killed and stopped. Each is a `storagelab run` in its own folder. This module
also finds the remains that it must not leave.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import psycopg

from storagelab.engines.postgres.server import Server, find_binaries
from storagelab.errors import StoragelabError
from storagelab.model.measurement import Run
from storagelab.run.progress import LOG_FILE
from storagelab.run.store import Store
from storagelab.spec import matrix, reading

Kind = Literal[
    "simulated", "postgres", "mariadb", "raw-io", "pgbench", "template", "attached", "replay", "made", "made-for-block",
    "capture", "fit",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)
PATIENCE_S = 600.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_KEPT = {"experiment.sqlite", ".lock", "run.log", "report.html", "state"}
"""The files that a results folder may contain at the end."""
_ENDING_S = 1.0
"""Processes that are about to end may take this long."""
_SIMULATED = """
    repetitions = 2
    [target]
    engine = "simulated"
    scale = 256
    [server]
    cores = 4
    memory = "4GB"
    [drives.ssd]
    profile = "iodrive-320"
    driver = "2.2.3"
    sector_bytes = 512
    [volumes.a]
    drives = ["ssd"]
    [workload]
    connections = 16
    rows_per_connection = 1_000_000
    [factors]
    "drives.ssd.format" = ["basic", "maximum-write"]
    "layout.data_files" = [1, 4]
    """
_INSERTS = """
    repetitions = 3
    [target]
    {target}
    [volumes.a]
    path = "a"
    {volume}
    [workload]
    connections = 4
    rows_per_connection = 10_000
    [factors]
    "layout.data_files" = [1, 4]
    """
_PGBENCH = """
    repetitions = 3
    {between}
    [target]
    engine = "postgres"
    [volumes.a]
    path = "a"
    {volume}
    [workload]
    kind = "pgbench"
    scale = 1
    connections = 4
    duration = "1s"
    warm_up = "0s"
    [factors]
    "layout.data_files" = [1, 2]
    """
_RAW_IO = """
    repetitions = 3
    [target]
    engine = "raw-io"
    [volumes.a]
    path = "a"
    [layout]
    data_size = "16MiB"
    [workload]
    operation = "read"
    pattern = "random"
    block = "8KiB"
    outstanding = 2
    duration = "1s"
    [factors]
    "workload.block" = ["8KiB", "16KiB"]
    """
_REPLAY = """
    repetitions = 3
    [target]
    engine = "raw-io"
    [volumes.a]
    path = "a"
    [layout]
    data_size = "16MiB"
    [workload]
    kind = "replay"
    trace = "requests.iolog"
    [factors]
    "workload.outstanding" = [2, 4]
    """
_TRACE = "\n".join([
    "fio version 3 iolog", "0 /drive add", "0 /drive open",
    *(f"{at * 10_000} /drive read {at * 8192} 4096" for at in range(100)),
    "1000000 /drive close", "",
])  # fmt: skip
_FILE = 'file = "512MiB"'
_SPECS: dict[Kind, str] = {
    "simulated": _SIMULATED,
    "postgres": _INSERTS.format(target='engine = "postgres"', volume=""),
    "mariadb": _INSERTS.format(target='engine = "mariadb"', volume=""),
    "raw-io": _RAW_IO,
    "pgbench": _PGBENCH.format(between="", volume=""),
    "template": _PGBENCH.format(between='between_runs = { data = "template" }', volume=""),
    "attached": _INSERTS.format(target='engine = "postgres"\n    dsn_env = "STORAGELAB_BENCH_DSN"', volume=""),
    "replay": _REPLAY,
    "made": _INSERTS.format(target='engine = "postgres"', volume=_FILE),
    "made-for-block": _INSERTS.format(target='engine = "postgres"', volume=_FILE + '\n    made_for = "block"'),
}
"""The specs, for the kinds that have one."""
_DSN = "STORAGELAB_BENCH_DSN"
_STORED = re.compile(rb"^\S+ \S+ \[ *\d+/\d+\] ", re.MULTILINE)
_BEGUN = b"runs to make"
_OF_THE_MOMENT = {"started_at", "finished_at", "wall_s", "created_at", "exported_at"}


class World:
    """The environment of all campaigns of a kind: their folder and, for attached campaigns, a server that already runs.
    If `own_view`, no other process uses this process's shared memory.
    """

    def __init__(self, folder: Path, kind: Kind, *, own_view: bool) -> None:
        self.folder, self.kind, self._own_view = folder, kind, own_view
        self._server: Server | None = None

    @contextlib.contextmanager
    def open(self) -> Iterator[World]:
        if self.kind in ("attached", "capture"):
            place = self.folder / "attached"
            place.mkdir()
            place.chmod(0o755)
            self._server = Server(
                find_binaries(None), data_folder=place / "server", log_folder=place / "log", settings={}
            )
        try:
            if self._server is not None:
                self._server.start()
            self._segments_before = self._segments()
            with self._load() if self.kind == "capture" else contextlib.nullcontext():
                yield self
        finally:
            if self._server is not None:
                self._server.stop()
                shutil.rmtree(self.folder / "attached", ignore_errors=True)

    @contextlib.contextmanager
    def _load(self) -> Iterator[None]:
        """Runs work on the server for the captures."""
        assert self._server is not None
        pgbench = [self._server.programs.program("pgbench"), self._server.conninfo]
        subprocess.run([*pgbench, "-i", "-q"], check=True, capture_output=True)
        with subprocess.Popen([*pgbench, "-n", "-c", "2", "-R", "20", "-T", "100000"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as load:  # fmt: skip
            try:
                yield
            finally:
                load.terminate()

    @property
    def environment(self) -> dict[str, str]:
        return {} if self._server is None else {_DSN: self._server.conninfo}

    def left(self) -> list[str]:
        """Returns the objects and sessions left on the server, and the segments of shared memory."""
        found: list[str] = []
        deadline = time.monotonic() + _ENDING_S
        while (found := [*self._on_server(), *sorted(self._segments() - self._segments_before)]) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.05)
        return found

    def _segments(self) -> set[str]:
        if not self._own_view:
            return set()
        of_system_v = Path("/proc/sysvipc/shm").read_text(encoding="ascii").splitlines()[1:]
        return {str(file) for file in Path("/dev/shm").iterdir()} | {
            f"System V segment {line.split()[1]}" for line in of_system_v
        }

    def _on_server(self) -> list[str]:
        if self._server is None:
            return []
        with psycopg.connect(self._server.conninfo, autocommit=True) as connection:
            return [
                name
                for (name,) in connection.execute(
                    "SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname LIKE 'storagelab%' UNION ALL "
                    "SELECT 'database ' || datname FROM pg_database WHERE datname LIKE 'storagelab%' UNION ALL "
                    "SELECT 'tablespace ' || spcname FROM pg_tablespace WHERE spcname LIKE 'storagelab%' UNION ALL "
                    "SELECT 'session ' || pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                    "AND pid <> pg_backend_pid() AND application_name <> 'pgbench'"
                )
            ]


class Campaign:
    """A `storagelab run` in its own folder, with its own temporary folder."""

    def __init__(self, world: World, home: Path, seed: int) -> None:
        self.world, self.home, self.kind = world, home, world.kind
        for folder in (home / "tmp", home / "a"):
            folder.mkdir(parents=True)
        for folder in (home, home / "tmp", home / "a"):
            folder.chmod(0o755)  # a server's user must be able to enter it
        self._prepare(seed)

    def _prepare(self, seed: int) -> None:
        home = self.home
        (home / "requests.iolog").write_text(_TRACE, encoding="ascii")
        lines = [line.strip() for line in _SPECS[self.kind].splitlines()]
        text = "\n".join(['name = "faults"', f"seed = {seed}", *lines])
        (home / "faults.toml").write_text(text, encoding="utf-8")
        self.planned = len(matrix.expand(reading.load(home / "faults.toml")).runs)

    def __str__(self) -> str:
        return f"{self.kind} campaign {self.home.name}"

    @property
    def results(self) -> Path:
        return self.home / "results" / "faults"

    def start(self) -> subprocess.Popen[str]:
        return self._started(self._command("run", "faults.toml", *(["-j", "2"] if self.kind == "simulated" else [])))

    def _started(self, command: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=self.home, env=self._environment, text=True, process_group=0, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, preexec_fn=_hear_signals,
        )  # fmt: skip

    def log(self) -> Log:
        """Returns the log of the next start."""
        return Log(self)

    def done(self, code: int, said: str) -> bool:  # noqa: ARG002 - subclasses use what it said
        """Whether this exit code means that the campaign is complete."""
        return code == 0

    def export(self) -> Any:
        """Returns the export without times of day and values that depend on them, or the error as text."""
        said = subprocess.run(
            self._command("export", "faults"), cwd=self.home, env=self._environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        return timeless(json.loads(said.stdout)) if said.returncode == 0 else said.stderr

    def stored(self) -> tuple[Run, ...]:
        """Returns the stored runs. The result is empty if there is no store yet, or an incomplete one."""
        with contextlib.suppress(StoragelabError), Store.reading(self.results) as store:
            return store.runs()
        return ()

    def left(self, *, done: bool = True) -> list[str]:
        """Returns files, processes and other things that should be gone. Until the campaign is `done`, the drives of
        its blocks may be kept.
        """
        files = [*(self.home / "tmp").iterdir(), *(self.home / "a").iterdir()]
        if done and self.results.exists():
            files += [file for file in self.results.iterdir() if file.name not in _KEPT]
            state = self.results / "state"
            files += state.iterdir() if state.exists() else []
        processes = (f"process {pid}: {words}" for pid, words in self._processes().items())
        made = below_in_kernel(self.home)
        return [f"{self}: {what}" for what in (*map(str, files), *processes, *made, *self.world.left())]

    def _processes(self) -> dict[int, str]:
        """Returns the processes that work in the campaign's folders, with their commands."""
        deadline = time.monotonic() + _ENDING_S
        while (found := working_below(self.home)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "storagelab", *words]

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self.home / "tmp"), **self.world.environment}


class Log:
    """The log that one `storagelab run` has written so far."""

    def __init__(self, campaign: Campaign) -> None:
        self._file = campaign.results / LOG_FILE
        self._offset = self._file.stat().st_size if self._file.exists() else 0

    def _text(self) -> bytes:
        try:
            with self._file.open("rb") as file:
                file.seek(self._offset)
                return file.read()
        except OSError:
            return b""

    @property
    def begun(self) -> bool:
        """Whether the call makes runs, or has found that no run is left."""
        return _BEGUN in self._text()

    @property
    def stored(self) -> int:
        return len(_STORED.findall(self._text()))


def timeless(export: Any) -> Any:
    """Returns an export without the values that differ between campaigns: times of day, and the machine's state."""
    if isinstance(export, dict):
        return {name: timeless(value) for name, value in export.items() if name not in _OF_THE_MOMENT}
    return [timeless(value) for value in export] if isinstance(export, list) else export


def _hear_signals() -> None:
    """Restores the default action of signals, which nohup or a shell's background may have set to be ignored."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def working_below(folder: Path) -> dict[int, str]:
    """Returns processes whose working folder is inside this folder, or whose command names it."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if f"{folder}/" in words or Path(os.readlink(process / "cwd").removesuffix(" (deleted)")).is_relative_to(
                folder
            ):
                found[int(process.name)] = words[:120]
    return found


def below_in_kernel(folder: Path) -> list[str]:
    """Returns the file systems mounted inside this folder, and the loop devices of files in it."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
    found = [f"mounted: {mount}" for mount in mounts if mount.startswith(f"{folder}/")]
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if (file := backing.read_text(encoding="utf-8").strip()).startswith(f"{folder}/"):
                found.append(f"loop device of {file}")
    return found


def descendants(pid: int) -> list[int]:
    """Returns the process numbers of its children, of their children, and so on."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(stat.parent.name))
    found, look = [], [pid]
    while look:
        children = parents.get(look.pop(), [])
        found += children
        look += children
    return found
