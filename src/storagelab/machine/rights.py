"""The rights of a server: its programs run without root's rights, in their own folders, and end with storagelab. This
module also finds the additional rights that a spec's settings would give them.

Under root they run as another user, `nobody`. storagelab does not use the accounts `postgres` and `mysql`, because they
may own the databases of other servers on this machine. A spec's settings must not reach those databases.
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

# --- passage ---------------------------------------------------------------------------------------------------------
#
# Lets a server without root's rights pass through folders that only root may enter, such as a checkout below /root.
# Nothing on the disk changes. The server gets its own view of the file system (a mount namespace). There, each closed
# folder on the server's path is covered by an empty, open folder that contains only the next folder of the path. So all
# paths stay the same, and the rest of the closed folder stays hidden.
#
# Without this, `storagelab demo` in root's home (mode 0700, as distributions make it) ended with "/root is closed to
# the server". So README's first command would fail for everybody who works as root.


_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_SLAVE = 2, 4, 4096, 16384, 1 << 19
_MOUNT_OPTIONS = "mode=0711,size=64k"


class Cover(Frozen):
    """A closed folder, and the children that stay visible."""

    folder: Path
    children: tuple[Path, ...]


def covers(reach: Iterable[Path], uid: int, gid: int) -> tuple[Cover, ...]:
    """The folders to cover so that a user reaches the folders `reach`, from the root downward; usually none.

    A path with links leads to a folder in two ways: as written, and with its links resolved.
    """
    steps: dict[Path, dict[Path, None]] = {}
    for path in dict.fromkeys(way for folder in reach for way in (folder.absolute(), folder.resolve())):
        way = [*reversed(path.parents), path]
        for closed in shut_to(way[:-1], uid, gid):
            step = way[way.index(closed) + 1]
            steps.setdefault(closed, {}).update({step: None} if step.exists() else {})
    return tuple(Cover(folder=folder, children=tuple(steps[folder])) for folder in sorted(steps))


def shut_to(folders: Iterable[Path], uid: int, gid: int) -> list[Path]:
    """The folders that a user may not pass. Access control lists count only as far as the mode shows them."""
    found = []
    for folder in (one for one in folders if one.exists()):
        facts = folder.stat()
        shift = 6 if facts.st_uid == uid else 3 if facts.st_gid == gid else 0
        if not facts.st_mode >> shift & 1:
            found.append(folder)
    return found


@cache
def may_cover() -> bool:
    """Whether this process may give a child its own view of the file system. In a container it usually may not."""
    try:
        subprocess.run(["true"], check=True, preexec_fn=_unshare)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


# --- in the child ----------------------------------------------------------------------------------------------------


def cover(ways: Sequence[Cover]) -> None:
    """Covers the folders, only for this process and its children. Raises OSError."""
    if not ways:
        return
    _unshare()
    for one in ways:
        kept = [(child, os.open(child, os.O_PATH)) for child in one.children]  # opened before the mounts hide them
        _mount("storagelab", one.folder, "tmpfs", _MS_NOSUID | _MS_NODEV, _MOUNT_OPTIONS)
        for child, handle in kept:
            child.mkdir(mode=0o711)
            _mount(f"/proc/self/fd/{handle}", child, None, _MS_BIND | _MS_REC, None)
            os.close(handle)


def _unshare() -> None:
    """Gives this process its own view of the file system. Unmounts elsewhere reach this view, but mounts in the view
    stay inside.
    """
    if _LIBC.unshare(_CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "no view of its own")
    _mount(None, Path("/"), None, _MS_REC | _MS_SLAVE, None)


def _mount(source: str | None, target: Path, kind: str | None, flags: int, options: str | None) -> None:
    texts = [text.encode() if text is not None else None for text in (source, kind, options)]
    if _LIBC.mount(texts[0], os.fsencode(target), texts[1], ctypes.c_ulong(flags), texts[2]) != 0:
        raise OSError(ctypes.get_errno(), "can't be covered", str(target))


_ACCOUNT = "nobody"
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_LIBC = ctypes.CDLL(None, use_errno=True)


class Unprivileged(Frozen):
    """The user of a server program. `owner` is the (uid, gid) that receives its folders; None if the current user runs
    it.
    """

    owner: tuple[int, int] | None = None
    how: str = "as the current user"


@cache
def unprivileged() -> Unprivileged:
    """The user that runs server programs: the current one or, under root, another. Raises PreflightError if root
    can't become one.
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

    If only root may enter a folder above one of them, such as /root, the program sees that folder empty except for its
    path. Raises PreflightError, which names the folder, if this is impossible.
    """
    if (owner := unprivileged().owner) is None:
        return end_with_parent
    ways = covers(reach, *owner)
    if ways and not may_cover():
        raise _closed(ways[0].folder)
    return partial(_become, owner, ways)


def check_may_enter(folder: Path, key: str | None = None) -> None:
    """Tests whether a server can reach files in this folder: root can reach them, but the server runs without root's
    rights. Raises PreflightError that names the obstructing folder, and the spec's `key`.
    """
    try:
        tried = subprocess.run(["test", "-x", str(folder)], check=False, preexec_fn=as_server(folder / "to be made"))
        if tried.returncode != 0:
            raise _closed(shut_out_at(folder) or folder)
    except PreflightError as error:
        raise PreflightError(error.problem, key=key, hint=error.hint) from error


def shut_out_at(path: Path) -> Path | None:
    """The first folder on the path, including the last, that a server may not enter; None if it may enter all."""
    owner = unprivileged().owner
    return next(iter(shut_to([*reversed(path.parents), path], *owner)), None) if owner else None


def _closed(folder: Path) -> PreflightError:
    return PreflightError(
        f"{folder} is closed to the server, which is started {unprivileged().how}",
        hint=f"open the way through it (chmod o+x {folder}), name another folder, or run storagelab as an "
        "ordinary user whose folder it is",
    )


def give_to_server(*paths: Path) -> None:
    """Gives files and folders to the server. A folder comes last, because its owner may replace its files by links."""
    give(unprivileged().owner, *paths)


def give(owner: tuple[int, int] | None, *paths: Path) -> None:
    """Changes the owner to the user and the group `owner`, if given."""
    if owner is not None:
        for path in paths:
            os.chown(path, *owner, follow_symlinks=False)


def make_folder(folder: Path, owner: tuple[int, int] | None = None) -> None:
    """Makes an empty folder for the server, with mode 0700 as PostgreSQL demands, for `owner` (uid, gid) if given."""
    folder.mkdir(mode=0o700, parents=True)
    give(owner or unprivileged().owner, folder)


# --- in the child ----------------------------------------------------------------------------------------------------


def _become(owner: tuple[int, int], ways: Sequence[Cover]) -> None:
    """Gives up root's rights permanently: not even a setuid program such as sudo can restore them."""
    cover(ways)
    uid, gid = owner
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError("the process can regain root's rights")
    end_with_parent()


def end_with_parent(by: signal.Signals = signal.SIGQUIT) -> None:
    """Makes Linux stop the program at once if storagelab is killed, so that nothing continues to run."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, by)


# --- settings that do more than configure -----------------------------------------------------------------------------

RUNS_PROGRAM = "makes the server run a program"
LOADS_CODE = "makes the server load code"
GOES_ELSEWHERE = "makes the server use files outside its own folders"
FLAG = "--allow-commands"

# An absolute path, or a path that leads out of its folder; also inside a list.
_ELSEWHERE = re.compile(r"(?:^|[\s:;,='\"])(?:[/~]|[A-Za-z]:\\)|(?:^|[\s:;,='\"/])\.\.(?:/|$)")

PrivilegeOf = Callable[[str, Scalar], str | None]
"""The effect of a setting with this name and value beyond configuration, from the engine; None if it has none."""


class Privilege(Frozen):
    """A key of the spec whose value has an effect beyond configuration: `does` describes it."""

    key: str
    value: Scalar
    does: str

    @property
    def text(self) -> str:
        return f"{self.key} = {shown(self.value)} {self.does}"


def by_value(value: Scalar) -> str | None:
    """The effect of such a value in any setting."""
    return GOES_ELSEWHERE if isinstance(value, str) and _ELSEWHERE.search(value) else None


def privileged_settings(plan: Plan, of_engine: Callable[[Config], PrivilegeOf]) -> tuple[Privilege, ...]:
    """The privileged settings of all cells, each once, and folders of programs that others may have written."""
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
    """The reason why others may have written the programs of a folder; "" if only root and the current user can have
    written them."""
    if not folder.is_absolute():
        return "starts programs of a folder beside the spec"
    real = folder.resolve()
    for place in (*real.glob("*"), real, *real.parents):
        with suppress(OSError):
            facts = place.lstat()
            open_to_all = facts.st_mode & 0o002 and not (facts.st_mode & stat.S_ISVTX or stat.S_ISLNK(facts.st_mode))
            if open_to_all or facts.st_uid not in (0, os.geteuid()):
                return f"starts programs that others may change: see who may write {place}"
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
        hint=f"If you know who wrote this spec, and trust it: add {FLAG}. What its settings ask for is then done "
        f"{unprivileged().how}, or by the account of a server that runs already.",
    )
