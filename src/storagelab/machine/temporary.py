"""Temporary folders and programs of one storagelab process.

Each process keeps its files in one folder, whose name identifies the process and the machine. Each program that the
process starts inherits a mark with the same name in its environment. So no notes are needed to clean up after a kill:
if the process has ended, the next run of any experiment removes its folder and ends its programs.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import secrets
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.machine import descriptors
from storagelab.machine.disks import HERE, read_text
from storagelab.machine.processes import JUST_STOPPED_S, stat_fields, until
from storagelab.machine.rights import unprivileged
from storagelab.stopping import uninterrupted

_LONGEST_SOCKET = 107
_IN_SOCKET_FOLDER = "/.s.PGSQL.65535"
"""The longest name that a server gives its socket."""
_SHORT = Path("/tmp")  # noqa: S108
_OWNED = re.compile(r"storagelab-(?P<pid>[0-9a-f]+)-(?P<start>[0-9a-f]+)-(?P<boot>[0-9a-f]{8})-(?P<world>[0-9a-f]+)")


def path(kind: str) -> Path:
    """A path for a file of this kind. Call `prepare` before using it, and `remove` at the end, even after an error."""
    return Path(tempfile.gettempdir()) / own_name() / f"{kind}-{secrets.token_hex(4)}"


def short_path(kind: str) -> Path:
    """A path for a socket. It is short even if the path of the temporary folder is long."""
    place = path(kind)
    fits = len(os.fsencode(place)) + len(_IN_SOCKET_FOLDER) <= _LONGEST_SOCKET
    return place if fits else _SHORT / place.parent.name / place.name


def prepare(place: Path) -> None:
    """Makes the folder of this process, in which `place` will be. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        place.parent.mkdir(mode=0o700)
    try:
        with _own(place.parent) as opened:
            os.fchmod(opened, 0o711)  # whatever the umask is: servers of another user must be able to enter it
    except (NotADirectoryError, PermissionError) as error:
        raise PermissionError(f"{place.parent} is in the way, and another user made it") from error


def remove(place: Path) -> None:
    """Removes `place`, and the folder around it if that is then empty. Never raises."""
    with contextlib.suppress(OSError), _own(place.parent) as opened:
        with contextlib.suppress(OSError):
            descriptors.remove(place.name, opened)
        place.parent.rmdir()


@contextlib.contextmanager
def folder(kind: str) -> Iterator[Path]:
    """An empty folder that other users may enter. It is removed at the end of the `with` block. Raises OSError."""
    place = path(kind)
    try:
        prepare(place)
        place.mkdir(mode=0o711)
        yield place
    finally:
        with uninterrupted():
            remove(place)


# --- what ended processes left ---------------------------------------------------------------------------------------


def left_behind() -> list[Path]:
    """The temporary folders of this user whose storagelab process has ended."""
    found = []
    for base in sorted({Path(tempfile.gettempdir()), _SHORT}):
        with contextlib.suppress(OSError):
            for place in filter(lambda place: is_nobodys(place.name), sorted(base.glob("storagelab-*"))):
                with contextlib.suppress(OSError), _own(place):
                    found.append(place)
    return found


def remove_left_behind(place: Path) -> bool:
    """Removes such a folder. Tries several times, because a server that is about to end may still write to it. Returns
    False if the folder remains.
    """

    def is_gone() -> bool:
        with contextlib.suppress(OSError), _own(place) as opened:
            descriptors.empty(opened)
            place.rmdir()
        return not os.path.lexists(place)

    return until(is_gone, JUST_STOPPED_S)


@contextlib.contextmanager
def _own(place: Path) -> Iterator[int]:
    """The descriptor of a folder that belongs to this user. Raises OSError for any other path."""
    with descriptors.folder(place) as opened:
        if os.fstat(opened).st_uid != os.geteuid():
            raise PermissionError(f"{place} is another user's")
        yield opened


def is_nobodys(name: str) -> bool:
    """Whether the process with this name has ended. Returns False if this process can't find that out."""
    owner = _OWNED.fullmatch(name)
    if owner is None:
        return False
    if owner["boot"] != _boot():
        return True
    if owner["world"] != _world():
        return False  # e.g. a process of a container: there, processes have other numbers
    return _name(int(owner["pid"], 16)) != name


def own_name() -> str:
    """The name of this process. No other process ever has the same name."""
    return _name(os.getpid())


def _name(pid: int) -> str:
    """The name of a process: its number, start time, boot and PID namespace. If it does not exist, its start is 0."""
    fields = stat_fields(Path(f"/proc/{pid}"))
    started_ticks = int(fields[19]) if fields and fields[0] not in "ZX" else 0
    return f"storagelab-{pid:x}-{started_ticks:x}-{_boot()}-{_world()}"


def _boot() -> str:
    return read_text(HERE.proc / "sys/kernel/random/boot_id")[:8] or "0" * 8


def _world() -> str:
    """The PID namespace. Each container has its own."""
    with contextlib.suppress(OSError):
        return f"{os.stat('/proc/self/ns/pid').st_ino:x}"
    return "0"


# --- programs ---------------------------------------------------------------------------------------------------------

MARK_VARIABLE = "STORAGELAB_MARK"
_LIBC = ctypes.CDLL(None)


def new_mark() -> str:
    """A mark for one program and all programs that it starts."""
    return f"{own_name()}/{secrets.token_hex(8)}"


def end_marked(mark: str) -> None:
    """Kills all programs with this mark that still run."""
    _kill_marked(lambda found: found == mark)


def end_left_running() -> list[str]:
    """Kills programs with the mark of a storagelab process that has ended. Returns a sentence for each of them."""
    ended = _kill_marked(lambda found: is_nobodys(found.partition("/")[0]))
    return [f"stopped the program {name} (process {pid}), left running by a killed run" for pid, name in ended.items()]


def _kill_marked(is_meant: Callable[[str], bool]) -> dict[int, str]:
    """Kills the programs whose mark is meant. Repeats this until none is left, because a program may have started
    another one meanwhile. Gives up after JUST_STOPPED_S. Returns the PIDs and names of the killed programs.
    """
    ended: dict[int, str] = {}

    def none_is_left() -> bool:
        found = [(pid, name) for pid, name, mark in _marked_programs() if is_meant(mark)]
        for pid, name in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                ended[pid] = name
        return not found

    until(none_is_left, JUST_STOPPED_S)
    return ended


def _marked_programs() -> Iterator[tuple[int, str, str]]:
    """The PID, name and mark of every program with a mark that runs as this user or as a server's user. A process that
    has ended has no environment, so it is not included.
    """
    owners = {os.geteuid(), *(owner[:1] if (owner := _servers_owner()) else ())}
    marked = re.compile(rb"(?:^|\0)%b=([^\0]*)" % MARK_VARIABLE.encode())
    for number in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{number}").st_uid not in owners or int(number) == os.getpid():
                continue
            if (mark := marked.search(_environment_of(number))) is not None:
                name = Path(f"/proc/{number}/comm").read_text("utf-8", "replace").strip()
                yield int(number), name, mark[1].decode("utf-8", "replace")


def _environment_of(number: str) -> bytes:
    """The environment of a process. In a container, root may not read it, but the user of the process may. Raises
    OSError.
    """
    file = f"/proc/{number}/environ"
    try:
        return Path(file).read_bytes()
    except PermissionError:
        if (owner := _servers_owner()) is None:
            raise
        with _eyes_of(owner):
            return Path(file).read_bytes()


def _servers_owner() -> tuple[int, int] | None:
    with contextlib.suppress(PreflightError):
        return unprivileged().owner
    return None


@contextlib.contextmanager
def _eyes_of(owner: tuple[int, int]) -> Iterator[None]:
    """Lets this thread read files with the rights of another user."""
    own = os.geteuid(), os.getegid()
    _LIBC.setfsgid(owner[1])
    _LIBC.setfsuid(owner[0])
    try:
        yield
    finally:
        _LIBC.setfsuid(own[0])
        _LIBC.setfsgid(own[1])
