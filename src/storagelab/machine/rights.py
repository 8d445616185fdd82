"""The rights of a server. Its programs run without root's rights and in their own folders, and end with storagelab.
Also finds settings of a spec that would give a server more rights.

If root runs storagelab, the server programs run as the user `nobody`. The accounts `postgres` and `mysql` are not used,
because they may own the databases of other servers on this machine. A spec's settings must not reach those.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import re
import signal
import stat
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from storagelab.errors import PreflightError, shown
from storagelab.model.config import Config
from storagelab.model.plan import Plan
from storagelab.model.values import Frozen, Scalar

# --- access through closed folders -----------------------------------------------------------------------------------
#
# Lets a server without root's rights use folders below a folder that only root may enter, such as a checkout in /root.
# Nothing on the disk changes. The server gets its own mount namespace. In it, an empty and open folder is mounted over
# each closed folder on the server's path. This empty folder contains only the next folder of the path. So all paths
# stay the same, and the server can't see the other files of the closed folder.
#
# Without this, `storagelab demo` in root's home (mode 0700, as distributions make it) ended with "/root is closed to
# the server". So README's first command would fail for everybody who works as root.


_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_SLAVE = 2, 4, 4096, 16384, 1 << 19
_MOUNT_OPTIONS = "mode=0711,size=64k"


class Cover(Frozen):
    """A closed folder, and those of its children that the server can still see."""

    folder: Path
    children: tuple[Path, ...]


def covers(reach: Iterable[Path], uid: int, gid: int) -> tuple[Cover, ...]:
    """The folders to cover so that a user reaches the folders `reach`. They are sorted by path. Usually no folder must
    be covered.

    If a path contains links, both paths are checked: the path as written, and the path with its links resolved.
    """
    steps: dict[Path, dict[Path, None]] = {}
    for path in dict.fromkeys(way for folder in reach for way in (folder.absolute(), folder.resolve())):
        way = [*reversed(path.parents), path]
        for closed in shut_to(way[:-1], uid, gid):
            step = way[way.index(closed) + 1]
            steps.setdefault(closed, {}).update({step: None} if step.exists() else {})
    return tuple(Cover(folder=folder, children=tuple(steps[folder])) for folder in sorted(steps))


def shut_to(folders: Iterable[Path], uid: int, gid: int) -> list[Path]:
    """The folders that a user may not enter. Only the mode is read, so an access control list counts only if the mode
    shows its effect.
    """
    found = []
    for folder in (one for one in folders if one.exists()):
        facts = folder.stat()
        shift = 6 if facts.st_uid == uid else 3 if facts.st_gid == gid else 0
        if not facts.st_mode >> shift & 1:
            found.append(folder)
    return found


@cache
def may_cover() -> bool:
    """Whether this process may give a child its own mount namespace. In a container this is usually forbidden."""
    try:
        subprocess.run(["true"], check=True, preexec_fn=_unshare)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


# --- in the child ----------------------------------------------------------------------------------------------------


def cover(ways: Sequence[Cover]) -> None:
    """Covers the folders, for this process and its children only. Raises OSError."""
    if not ways:
        return
    _unshare()
    for one in ways:
        kept = [(child, os.open(child, os.O_PATH)) for child in one.children]  # the mount below hides these folders
        _mount("storagelab", one.folder, "tmpfs", _MS_NOSUID | _MS_NODEV, _MOUNT_OPTIONS)
        for child, handle in kept:
            child.mkdir(mode=0o711)
            _mount(f"/proc/self/fd/{handle}", child, None, _MS_BIND | _MS_REC, None)
            os.close(handle)


def _unshare() -> None:
    """Gives this process its own mount namespace. Unmounts outside have an effect inside, but mounts inside have none
    outside. Raises OSError.
    """
    if _LIBC.unshare(_CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "the process gets no mount namespace of its own")
    _mount(None, Path("/"), None, _MS_REC | _MS_SLAVE, None)


def _mount(source: str | None, target: Path, kind: str | None, flags: int, options: str | None) -> None:
    texts = [text.encode() if text is not None else None for text in (source, kind, options)]
    if _LIBC.mount(texts[0], os.fsencode(target), texts[1], ctypes.c_ulong(flags), texts[2]) != 0:
        raise OSError(ctypes.get_errno(), "can't be covered", str(target))


_ACCOUNT = "nobody"
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_LIBC = ctypes.CDLL(None, use_errno=True)


class Unprivileged(Frozen):
    """The user that runs a server program. `owner` is the (uid, gid) that gets the server's folders. It is None if the
    current user runs the program. `how` describes the user in messages.
    """

    owner: tuple[int, int] | None = None
    how: str = "as the current user"


@cache
def unprivileged() -> Unprivileged:
    """The user that runs server programs. This is the current user. If the current user is root, it is `nobody`. Raises
    PreflightError if root can't run programs as `nobody`.
    """
    if os.geteuid() != 0:
        return Unprivileged()
    try:
        account = pwd.getpwnam(_ACCOUNT)
        owner = (account.pw_uid, account.pw_gid)
        subprocess.run(["true"], check=True, preexec_fn=partial(_become, owner, ()))
    except (KeyError, OSError, subprocess.SubprocessError) as error:
        raise PreflightError(
            f"database servers refuse to run as root, and root may not run them as {_ACCOUNT} here",
            hint="run storagelab as an ordinary user",
        ) from error
    return Unprivileged(owner=owner, how=f"as {_ACCOUNT}")


def as_server(*reach: Path) -> Callable[[], None]:
    """The `preexec_fn` of a server program that must reach the folders `reach`.

    If only root may enter a folder above one of them, such as /root, the program sees in this folder only the path to
    `reach`. Raises PreflightError, which names the folder, if this can't be arranged.
    """
    if (owner := unprivileged().owner) is None:
        return end_with_parent
    ways = covers(reach, *owner)
    if ways and not may_cover():
        raise _closed(ways[0].folder)
    return partial(_become, owner, ways)


def check_may_enter(folder: Path, key: str | None = None) -> None:
    """Checks whether a server, which runs without root's rights, can reach files in this folder. Raises PreflightError
    if it can't. The error names the closed folder and the spec's `key`.
    """
    try:
        tried = subprocess.run(["test", "-x", str(folder)], check=False, preexec_fn=as_server(folder / "to be made"))
        if tried.returncode != 0:
            raise _closed(shut_out_at(folder) or folder)
    except PreflightError as error:
        raise PreflightError(error.problem, key=key, hint=error.hint) from error


def shut_out_at(path: Path) -> Path | None:
    """The first folder on the path, including `path`, that a server may not enter, or None if it may enter all."""
    owner = unprivileged().owner
    return next(iter(shut_to([*reversed(path.parents), path], *owner)), None) if owner else None


def _closed(folder: Path) -> PreflightError:
    return PreflightError(
        f"{folder} is closed to the server, which is started {unprivileged().how}",
        hint=f"let others enter it (chmod o+x {folder}), name another folder, or run storagelab as an "
        "ordinary user who owns this folder",
    )


def give_to_server(*paths: Path) -> None:
    """Gives files and folders to the server. Name a folder last: its new owner could replace its files by links."""
    give(unprivileged().owner, *paths)


def give(owner: tuple[int, int] | None, *paths: Path) -> None:
    """Changes the owner of the paths to `owner` (uid, gid). Does nothing if `owner` is None."""
    if owner is not None:
        for path in paths:
            os.chown(path, *owner, follow_symlinks=False)


def make_folder(folder: Path, owner: tuple[int, int] | None = None) -> None:
    """Makes an empty folder with mode 0700, which PostgreSQL demands. It belongs to `owner` (uid, gid) or, without
    `owner`, to the server's user.
    """
    folder.mkdir(mode=0o700, parents=True)
    give(owner or unprivileged().owner, folder)


# --- in the child ----------------------------------------------------------------------------------------------------


def _become(owner: tuple[int, int], ways: Sequence[Cover]) -> None:
    """Gives up root's rights for good: not even a setuid program such as sudo can restore them. Raises OSError."""
    cover(ways)
    uid, gid = owner
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError("the process can regain root's rights")
    end_with_parent()


def end_with_parent(by: signal.Signals = signal.SIGQUIT) -> None:
    """Makes Linux send the signal `by` to this program when storagelab ends, so that no program keeps running."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, by)


# --- settings that do more than configure -----------------------------------------------------------------------------

RUNS_PROGRAM = "makes the server run a program"
LOADS_CODE = "makes the server load code"
GOES_ELSEWHERE = "makes the server use files outside its own folders"
FLAG = "--allow-commands"

# An absolute path, or a path with "..", also inside a list.
_ELSEWHERE = re.compile(r"(?:^|[\s:;,='\"])(?:[/~]|[A-Za-z]:\\)|(?:^|[\s:;,='\"/])\.\.(?:/|$)")

PrivilegeOf = Callable[[str, Scalar], str | None]
"""A function of the engine: describes what a setting with this name and value does besides configuring the server.
Returns None if it does nothing else.
"""


class Privilege(Frozen):
    """A key of the spec whose value does more than configure the server. `does` describes what it does."""

    key: str
    value: Scalar
    does: str

    @property
    def text(self) -> str:
        return f"{self.key} = {shown(self.value)} {self.does}"


def by_value(value: Scalar) -> str | None:
    """What this value does besides configuring the server, whatever the setting's name is, or None if nothing."""
    return GOES_ELSEWHERE if isinstance(value, str) and _ELSEWHERE.search(value) else None


def privileged_settings(plan: Plan, of_engine: Callable[[Config], PrivilegeOf]) -> tuple[Privilege, ...]:
    """The privileged settings of all cells, each once. A program folder counts too, if others may have changed its
    programs.
    """
    found: dict[Privilege, None] = {}
    for config in (cell.config for cell in plan.cells):
        if (folder := config.target.bin_dir) and (why := _whose_programs(Path(folder).expanduser())):
            found[Privilege(key="target.bin_dir", value=folder, does=why)] = None
        for name, value in config.target.settings.items():
            does = of_engine(config)(name, value) if value != "" else None
            if does is not None:
                found[Privilege(key=f"target.settings.{name}", value=value, does=does)] = None
    return tuple(found)


def _whose_programs(folder: Path) -> str:
    """Why others may have changed the programs of a folder, or "" if only root and this user can have done so."""
    if not folder.is_absolute():
        return "starts programs from a folder beside the spec"
    real = folder.resolve()
    for place in (*real.glob("*"), real, *real.parents):
        with suppress(OSError):
            facts = place.lstat()
            open_to_all = facts.st_mode & 0o002 and not (facts.st_mode & stat.S_ISVTX or stat.S_ISLNK(facts.st_mode))
            if open_to_all or facts.st_uid not in (0, os.geteuid()):
                return f"starts programs that others may change: check who may write to {place}"
    return ""


def refuse_privileged(found: tuple[Privilege, ...]) -> None:
    """Refuses privileged settings. Raises a PreflightError that lists all of them."""
    if not found:
        return
    first, *others = found
    also = "".join(f"\n  and {other.text}" for other in others)
    raise PreflightError(
        f"{shown(first.value)} {first.does}{also}",
        key=first.key,
        hint=f"If you know who wrote this spec, and trust it: add {FLAG}. Its settings then take effect "
        f"{unprivileged().how}, or with the account of a server that runs already.",
    )
