"""Lets a server without root's rights through folders that only root may enter, such as a checkout below /root.

Nothing on the disk changes. The server gets its own view of the file system (a mount namespace), in which an empty
folder, open to all, covers each closed folder on its way and holds only the next step of the way. So all paths stay
the same, and the rest of the closed folder stays out of sight.
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
    """A closed folder, and the children that stay in sight."""

    folder: Path
    children: tuple[Path, ...]


def covers(reach: Iterable[Path], uid: int, gid: int) -> tuple[Cover, ...]:
    """The folders to cover so that a user reaches the folders `reach`, from the root downward; as a rule none.

    A path with links has two ways: as written, and with its links resolved.
    """
    steps: dict[Path, dict[Path, None]] = {}
    for path in dict.fromkeys(way for folder in reach for way in (folder.absolute(), folder.resolve())):
        way = [*reversed(path.parents), path]
        for closed in shut_to(way[:-1], uid, gid):
            step = way[way.index(closed) + 1]
            steps.setdefault(closed, {}).update({step: None} if step.exists() else {})
    return tuple(Cover(folder=folder, children=tuple(steps[folder])) for folder in sorted(steps))


def shut_to(folders: Iterable[Path], uid: int, gid: int) -> list[Path]:
    """The folders that a user may not pass. Of access control lists only what shows in the mode counts."""
    return [folder for folder in folders if folder.exists() and not _may_pass(folder, uid, gid)]


def _may_pass(folder: Path, uid: int, gid: int) -> bool:
    facts = folder.stat()
    shift = 6 if facts.st_uid == uid else 3 if facts.st_gid == gid else 0
    return bool(facts.st_mode >> shift & 1)


@cache
def may_lay() -> bool:
    """Whether this process may give a child its own view. In a container it usually may not."""
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
    """Gives this process its own view: unmounts outside reach it, but its own mounts stay inside."""
    if _LIBC.unshare(_CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "no view of its own")
    _mount(None, Path("/"), None, _MS_REC | _MS_SLAVE, None)


def _mount(source: str | None, target: Path, kind: str | None, flags: int, options: str | None) -> None:
    texts = [text.encode() if text is not None else None for text in (source, kind, options)]
    if _LIBC.mount(texts[0], os.fsencode(target), texts[1], ctypes.c_ulong(flags), texts[2]) != 0:
        raise OSError(ctypes.get_errno(), "can't be covered", str(target))
