"""A private PostgreSQL that storagelab makes, starts, stops and removes; only a socket leads to it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg.pq import PGconn, Ping

from storagelab.engines.postgres import connecting
from storagelab.engines.postgres.settings import (
    Binaries,
    accepts,
    check_settings,
    find_binaries,
    own_words,
    private_settings,
    settings_text,
)
from storagelab.errors import RunFailed
from storagelab.machine import descriptors
from storagelab.machine.processes import JUST_STOPPED_S, STOP_TIMEOUT_S, lives, until
from storagelab.model.values import Scalar
from storagelab.servers.private import PrivateServer, Refusal, runs_as, stop_process
from storagelab.servers.programs import installation
from storagelab.servers.starting import Starter

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
        """The connection string for `connecting.connect_private`."""
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
        with connecting.without_variables():
            is_up = PGconn.ping(self.conninfo.encode()) == Ping.OK
        try:
            connecting.connect_private(self.conninfo).close()
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
