"""Locks the volumes of a campaign: two campaigns that use one volume at the same time disturb each other.

The kernel locks the volume's folder or device itself. The lock leaves nothing behind and ends with its process, however
that ends. A volume that can't be locked, such as a folder of a network file system, is used without a lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.machine.processes import until
from storagelab.model.plan import Plan
from storagelab.volumes.folders import Site, experiments_on

_PATIENCE_S = 1.0
"""A storagelab that was just killed may hold its locks for a moment; the system, too, may look at a device briefly."""


@contextlib.contextmanager
def volumes_locked(plan: Plan, site: Site) -> Iterator[None]:
    """Holds the locks of all volumes of this machine that the plan names. Raises PreflightError that names the
    volume and who uses it.

    Two volumes of the plan that share a folder share its lock. Child programs do not inherit it.
    """
    with locked(_places(plan, site)):
        yield


@contextlib.contextmanager
def locked(places: Mapping[Path, str]) -> Iterator[None]:
    """Holds the locks of folders and devices, each with the key that names it. Raises PreflightError."""
    with contextlib.ExitStack() as locks:
        held = set[tuple[int, int]]()
        for path, key in sorted(places.items()):
            with contextlib.suppress(OSError):  # not readable; or it is gone, and a run will say so
                opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                locks.callback(os.close, opened)
                facts = os.fstat(opened)
                if (facts.st_dev, facts.st_ino) not in held:
                    held.add((facts.st_dev, facts.st_ino))
                    _lock(opened, path, key)
        yield


def _places(plan: Plan, site: Site) -> dict[Path, str]:
    """Folders and devices, each with the key that names it."""
    found: dict[Path, str] = {}
    for config in (cell.config for cell in plan.cells):
        for name, path in site.volume_paths(config).items():
            found.setdefault(path, f"volumes.{name}.path")
        for name, volume in config.volumes.items():
            if volume.device is not None:
                found.setdefault(Path(volume.device).resolve(), f"volumes.{name}.device")
    return found


def _lock(opened: int, path: Path, key: str) -> None:
    """Raises OSError if the file can't be locked."""
    if until(partial(_is_locked, opened), _PATIENCE_S):
        return
    names, holders = experiments_on(path), _holders(os.fstat(opened))
    known = [f"experiment {name}" for name in names if len(names) == 1] + [f"process {pid}" for pid in holders]
    raise PreflightError(
        f"{path} is in use by another storagelab" + (f" ({', '.join(known)})" if known else ""),
        key=key,
        hint="wait until its campaign has ended, or name another place: two campaigns on one volume disturb each other",
    )


def _is_locked(opened: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _holders(facts: os.stat_result) -> list[int]:
    """The processes that hold a lock on this file, as far as the kernel shows them."""
    with contextlib.suppress(OSError):
        wanted = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}:{facts.st_ino}"
        lines = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
        return [int(line[4]) for line in lines if line[1:2] == ["FLOCK"] and line[5:6] == [wanted] and int(line[4]) > 0]
    return []
