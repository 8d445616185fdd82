"""The way of a server without root's rights through folders that are root's alone, such as a checkout below /root.

Nothing on the disk is changed for it. The server gets a view of the file system of its own (a mount namespace), in which
each closed folder on its way is covered by an empty one, open to pass, that holds nothing but the next step of the way. So
every path is what it was, and the rest of the closed folder stays out of sight.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import Path

from storagelab.model.values import Frozen

_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_SLAVE = 2, 4, 4096, 16384, 1 << 19
_ROOM = "mode=0711,size=64k"
_LIBC = ctypes.CDLL(None, use_errno=True)


class Cover(Frozen):
    """A closed folder, and what of it stays in sight."""

    folder: Path
    children: tuple[Path, ...]


def covers(reach: Iterable[Path], uid: int, gid: int) -> tuple[Cover, ...]:
    """What must be covered for a user to come to the folders `reach`, from the root downward; nothing as a rule.

    A path with links in it has two ways: as it is written, and as it is.
    """
    steps: dict[Path, dict[Path, None]] = {}
    for path in dict.fromkeys(way for folder in reach for way in (folder.absolute(), folder.resolve())):
        way = [*reversed(path.parents), path]
        for closed in shut_to(way[:-1], uid, gid):
            step = way[way.index(closed) + 1]
            steps.setdefault(closed, {}).update({step: None} if step.exists() else {})
    return tuple(Cover(folder=folder, children=tuple(steps[folder])) for folder in sorted(steps))


def shut_to(folders: Iterable[Path], uid: int, gid: int) -> list[Path]:
    """Those that a user may not pass through. Of lists of access rights only what shows in the mode counts."""
    return [folder for folder in folders if folder.exists() and not _may_pass(folder, uid, gid)]


def _may_pass(folder: Path, uid: int, gid: int) -> bool:
    facts = folder.stat()
    shift = 6 if facts.st_uid == uid else 3 if facts.st_gid == gid else 0
    return bool(facts.st_mode >> shift & 1)


@cache
def may_lay() -> bool:
    """May this process give a child a view of its own? In a container as a rule not."""
    try:
        subprocess.run(["true"], check=True, preexec_fn=partial(_unshare))
    except (OSError, subprocess.SubprocessError):
        return False
    return True


# --- in the child ----------------------------------------------------------------------------------------------------


def lay(ways: Sequence[Cover]) -> None:
    """Cover the folders, for this process and its children alone. Raises OSError."""
    if not ways:
        return
    _unshare()
    for cover in ways:
        kept = [(child, os.open(child, os.O_PATH)) for child in cover.children]  # they are about to be out of reach
        _mount("storagelab", cover.folder, "tmpfs", _MS_NOSUID | _MS_NODEV, _ROOM)
        for child, handle in kept:
            child.mkdir(mode=0o711)
            _mount(f"/proc/self/fd/{handle}", child, None, _MS_BIND | _MS_REC, None)
            os.close(handle)


def _unshare() -> None:
    """A view of its own. What is unmounted outside goes from it, too; what is done in it stays in it."""
    if _LIBC.unshare(_CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "no view of its own")
    _mount(None, Path("/"), None, _MS_REC | _MS_SLAVE, None)


def _mount(source: str | None, target: Path, kind: str | None, flags: int, options: str | None) -> None:
    texts = [text.encode() if text is not None else None for text in (source, kind, options)]
    if _LIBC.mount(texts[0], os.fsencode(target), texts[1], ctypes.c_ulong(flags), texts[2]) != 0:
        raise OSError(ctypes.get_errno(), "can't be covered", str(target))
