"""Makes, recognises, locks and removes storagelab's own folders on the user's volumes. Changes no other folder."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from storagelab.errors import PreflightError, RunFailed, shown
from storagelab.machine import descriptors
from storagelab.machine.processes import JUST_STOPPED_S, is_locked, until
from storagelab.model.config import Config
from storagelab.model.plan import Plan
from storagelab.model.values import Frozen

if TYPE_CHECKING:
    from storagelab.profiles import Shelf

_MARKER = ".storagelab.json"
_LONGEST_MARKER_BYTES = 4096


class Site(Frozen):
    """One experiment on this machine. `identity` differs between experiments with the same name whose results are in
    different folders. Relative paths of volumes start at `spec_folder`.
    """

    experiment: str
    identity: str
    spec_folder: Path
    despite_space: bool = False
    """Whether storagelab starts runs although a volume may have too little space."""
    results: Path | None = None
    """The folder of the experiment's results. None on a machine that does not store runs."""
    texts: dict[str, str] | None = None
    """The texts of the user's drive profiles, by their names in the spec. A machine without the spec's folder needs
    this value. On the spec's own machine, it is None.
    """

    @property
    def profiles(self) -> Shelf:
        return self.spec_folder if self.texts is None else self.texts

    @property
    def prefix(self) -> str:
        """The prefix of every name that storagelab makes for this experiment."""
        return f"storagelab_{self.identity}"

    def volume_paths(self, config: Config) -> dict[str, Path]:
        """The absolute paths of the volumes that have a folder on this machine. Simulated drives have no folder, and
        remote volumes have none here.
        """
        return {
            name: self.place(volume.path, f"volumes.{name}.path")
            for name, volume in config.volumes.items()
            if volume.path is not None and not volume.remote
        }

    def place(self, path: str, key: str) -> Path:
        """The absolute path for a path in the spec. Raises PreflightError, e.g. if it begins with the home of a user
        who does not exist.
        """
        try:
            place = (self.spec_folder / Path(path).expanduser()).resolve()
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                place.stat()  # raises OSError if a name is too long
        except (RuntimeError, OSError) as error:
            problem = f"{shown(path)}: {getattr(error, 'strerror', None) or error}"
            raise PreflightError(problem, key=key, hint="write the folder's whole path") from error
        return place


class Folders:
    """The folders of an experiment: one folder on each volume. The folder's name contains the experiment's name. A
    marker file in the folder also names the experiment. If a folder is not for runs, its name also contains its
    `purpose`.
    """

    def __init__(self, site: Site, volumes: Mapping[str, Path], purpose: str = "") -> None:
        self.site = site
        own = "-".join(filter(None, ("storagelab", site.experiment, site.identity, purpose)))
        self._folders = {name: path / own for name, path in volumes.items()}

    def __getitem__(self, volume: str) -> Path:
        return self._folders[volume]

    def inside(self, name: str) -> dict[str, Path]:
        """The paths of the subfolder `name` in each of these folders, by the volume's name."""
        return {volume: folder / name for volume, folder in self._folders.items()}

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(sorted(set(self._folders.values())))

    @contextlib.contextmanager
    def held(self, folder: Path) -> Iterator[int]:
        """The descriptor of one of the folders. Raises OSError if this experiment did not make the folder: another
        program may have put a folder or a link there.
        """
        with descriptors.folder(folder) as opened:
            if not _is_ours(opened, self.site):
                raise FileExistsError(errno.EEXIST, "this experiment did not make it", str(folder))
            yield opened

    def content(self, folder: int) -> list[str]:
        """The names in a folder that was opened with `held`, without the marker."""
        return sorted(name for name in os.listdir(folder) if name != _MARKER)

    def make(self, *, again: bool = False) -> None:
        """Makes the folders. Volumes with the same path share a folder. With `again`, folders may exist already.
        Without it, folders that an earlier run could not remove are removed first. Raises RunFailed, with the cause, if
        a folder can't be made.
        """
        if not again:
            self._remove_what_is_left()
        for folder in set(self._folders.values()):
            try:
                with contextlib.suppress(*([FileExistsError] if again else [])):
                    folder.mkdir(mode=0o700)
                with self.held(folder) as made:
                    os.fchmod(made, 0o711)  # whatever the umask is: a server of another user must be able to enter it
                    marker = {
                        "experiment": self.site.experiment,
                        "identity": self.site.identity,
                        "made_by": "storagelab",
                    }
                    descriptors.write(_MARKER, made, json.dumps(marker).encode())
            except OSError as error:
                raise RunFailed(f"can't make {folder}: {error.strerror}") from error  # e.g. the disk is full

    def _remove_what_is_left(self) -> None:
        left = " and ".join(str(folder) for folder in self.paths if os.path.lexists(folder))
        try:
            if left:
                self.remove()
        except RunFailed as error:
            raise RunFailed(f"{left}: left from an earlier run, and it can't be removed: {error}") from error

    def leftovers(self) -> list[Path]:
        """The folders of an earlier run of this experiment that was killed.

        Raises PreflightError if something with such a name was not made by this experiment.
        """
        found = []
        for folder in sorted(set(self._folders.values())):
            if not os.path.lexists(folder):
                continue
            try:
                with self.held(folder):
                    found.append(folder)
            except OSError as error:
                raise PreflightError(
                    f"{folder} is in the way, and this experiment did not make it",
                    hint="move it away: storagelab removes only what it made",
                ) from error
        return found

    def leftover_bytes(self) -> dict[int, int]:
        """The disk space in bytes that `leftovers` use, by file system (st_dev). Raises PreflightError as `leftovers`
        does.
        """
        held: dict[int, int] = {}
        for folder in self.leftovers():
            with contextlib.suppress(OSError), self.held(folder) as opened:
                for facts in descriptors.content_of(opened):
                    held[facts.st_dev] = held.get(facts.st_dev, 0) + facts.st_blocks * 512
        return held

    def remove(self) -> None:
        """Removes the folders that `make` made, on every volume. If some files can't be removed, removes all other
        files first, and then raises RunFailed.
        """
        problems = []
        for folder in sorted(set(self._folders.values())):
            try:
                with descriptors.folder(folder) as opened:
                    if _is_ours(opened, self.site):
                        _remove_patiently(folder, opened)
            except (FileNotFoundError, NotADirectoryError):
                pass  # no folder: nothing, or a link of another user, which is not removed
            except OSError as error:
                problems.append(f"can't remove {error.filename or folder}: {error.strerror}")
        if problems:
            raise RunFailed("; ".join(problems))


def _remove_patiently(folder: Path, opened: int) -> None:
    """Removes a folder. Tries again for a while, because a program that was just stopped may still write a file."""
    deadline = math.inf
    while True:
        try:
            # The marker is removed last. So if the removal is interrupted, the folder is still recognised later.
            descriptors.empty(opened, but=(_MARKER,))
            descriptors.empty(opened)
            folder.rmdir()
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT) or time.monotonic() > deadline:
                raise
        # The deadline starts after the first try, because the first try may take long.
        deadline = min(deadline, time.monotonic() + JUST_STOPPED_S)
        time.sleep(0.05)


def _is_ours(folder: int, site: Site) -> bool:
    """Whether this experiment made the folder. True also for an empty folder, which remains if making or removing it
    was interrupted.

    Returns False if the folder belongs to another user, whatever its marker says, unless this user owns the volume.
    """
    if os.fstat(folder).st_uid not in (os.geteuid(), os.stat("..", dir_fd=folder).st_uid):
        return False
    try:
        marker = json.loads(descriptors.read(_MARKER, folder, _LONGEST_MARKER_BYTES))
    except (FileNotFoundError, ValueError):
        return set(os.listdir(folder)) <= {_MARKER}
    except OSError:
        return False
    theirs = marker if isinstance(marker, dict) else {}
    return bool(theirs.get("made_by") == "storagelab" and theirs.get("identity") == site.identity)


def experiments_on(volume: Path) -> list[str]:
    """The names of the experiments that have folders on a volume now, if this user can read the markers."""
    found = set()
    for place in volume.glob("storagelab-*") if volume.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError), descriptors.folder(place) as folder:
            found.add(str(json.loads(descriptors.read(_MARKER, folder, _LONGEST_MARKER_BYTES))["experiment"]))
    return sorted(found)


# --- locks ------------------------------------------------------------------------------------------------------------

_PATIENCE_S = 1.0
"""How long to wait for a lock. A killed storagelab may keep its locks for a moment, and the system may open a device
briefly.
"""


def volumes_locked(plan: Plan, site: Site) -> AbstractContextManager[None]:
    """Holds the locks of all volumes on this machine that the plan names. Raises PreflightError, which names the volume
    and the process that uses it.

    If two volumes of the plan have the same folder, it is locked once. Child programs do not inherit the locks.
    """
    places: dict[Path, str] = {}
    for config in (cell.config for cell in plan.cells):
        for name, path in site.volume_paths(config).items():
            places.setdefault(path, f"volumes.{name}.path")
        for name, volume in config.volumes.items():
            if volume.device is not None:
                places.setdefault(Path(volume.device).resolve(), f"volumes.{name}.device")
    return locked(places)


@contextlib.contextmanager
def locked(places: Mapping[Path, str]) -> Iterator[None]:
    """Holds the locks of folders and devices. Each path has the spec's key that names it. Raises PreflightError."""
    with contextlib.ExitStack() as locks:
        held = set[tuple[int, int]]()
        for path, key in sorted(places.items()):
            with contextlib.suppress(OSError):  # it can't be read, or no longer exists: then a run will report that
                opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                locks.callback(os.close, opened)
                facts = os.fstat(opened)
                if (facts.st_dev, facts.st_ino) not in held:
                    held.add((facts.st_dev, facts.st_ino))
                    _lock(opened, path, key)
        yield


def _lock(opened: int, path: Path, key: str) -> None:
    """Takes the lock of an open file. Raises PreflightError if another storagelab has it, and OSError if the file can't
    be locked.
    """
    if until(partial(is_locked, opened), _PATIENCE_S):
        return
    names, holders = experiments_on(path), _holders(os.fstat(opened))
    known = [f"experiment {name}" for name in names if len(names) == 1] + [f"process {pid}" for pid in holders]
    raise PreflightError(
        f"{path} is in use by another storagelab" + (f" ({', '.join(known)})" if known else ""),
        key=key,
        hint="wait until its campaign has ended, or name another place: two campaigns on one volume disturb each other",
    )


def _holders(facts: os.stat_result) -> list[int]:
    """The PIDs of the processes that hold a lock on this file, as the kernel lists them."""
    with contextlib.suppress(OSError):
        wanted = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}:{facts.st_ino}"
        lines = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
        return [int(line[4]) for line in lines if line[1:2] == ["FLOCK"] and line[5:6] == [wanted] and int(line[4]) > 0]
    return []
