"""storagelab's own folders on the user's volumes: makes, recognises and removes them, and touches nothing else."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from storagelab.errors import PreflightError, RunFailed
from storagelab.model.config import Config
from storagelab.model.hints import shown
from storagelab.model.values import Frozen

if TYPE_CHECKING:
    from storagelab.profiles import Shelf

_MARKER = ".storagelab.json"
_PATIENCE_S = 2.0


class Site(Frozen):
    """The place of one experiment on this machine.

    `identity` distinguishes two experiments of the same name that keep their results in different folders. Relative volume
    paths start at `spec_folder`.
    """

    experiment: str
    identity: str
    spec_folder: Path
    texts: dict[str, str] | None = None
    """The user's own profiles of drives by their names in the spec, on a machine that does not have the spec's folder."""

    @property
    def profiles(self) -> Shelf:
        return self.spec_folder if self.texts is None else self.texts

    @property
    def prefix(self) -> str:
        """The prefix of every name that storagelab makes."""
        return f"storagelab_{self.identity}"

    def volume_paths(self, config: Config) -> dict[str, Path]:
        """The volumes' own folders, absolute; simulated drives have none, and remote volumes have none on this machine."""
        return {
            name: self.place(volume.path, f"volumes.{name}.path")
            for name, volume in config.volumes.items()
            if volume.path is not None and not volume.remote
        }

    def place(self, path: str, key: str) -> Path:
        """A path of the spec, absolute. Raises PreflightError for the home of a user who does not exist."""
        try:
            place = (self.spec_folder / Path(path).expanduser()).resolve()
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                place.stat()  # raises for a name that is too long for a folder
        except (RuntimeError, OSError) as error:
            problem = f"{shown(path)}: {getattr(error, 'strerror', None) or error}"
            raise PreflightError(problem, key=key, hint="write the folder's whole path") from error
        return place


class Folders:
    """One folder on each volume, named after the experiment, with a marker inside that says whose it is. Those that are not
    for runs have their `purpose` in their names."""

    def __init__(self, site: Site, volumes: Mapping[str, Path], purpose: str = "") -> None:
        self.site = site
        own = "-".join(filter(None, ("storagelab", site.experiment, site.identity, purpose)))
        self._folders = {name: path / own for name, path in volumes.items()}

    def __getitem__(self, volume: str) -> Path:
        return self._folders[volume]

    def inside(self, name: str) -> dict[str, Path]:
        """A folder of this name in each, by the volume's name."""
        return {volume: folder / name for volume, folder in self._folders.items()}

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(sorted(set(self._folders.values())))

    def content(self, folder: Path) -> list[Path]:
        """What was put into one of them."""
        return [entry for entry in sorted(folder.iterdir()) if entry.name != _MARKER]

    def make(self, *, again: bool = False) -> None:
        """Raises RunFailed if a folder can't be made; two volumes with one path share their folder. `again`: some may be
        there already."""
        for folder in set(self._folders.values()):
            try:
                folder.mkdir(exist_ok=again)
                folder.chmod(0o711)  # whatever the umask: a server without root's rights passes through it
                marker = {"experiment": self.site.experiment, "identity": self.site.identity, "made_by": "storagelab"}
                (folder / _MARKER).write_text(json.dumps(marker), encoding="utf-8")
            except OSError as error:
                raise RunFailed(f"can't make {folder}: {error.strerror}") from error  # e.g. the disk is full

    def leftovers(self) -> list[Path]:
        """Folders that an earlier run of this experiment left behind (it was killed).

        Raises PreflightError when something of that name is not storagelab's.
        """
        found = []
        for folder in sorted(set(self._folders.values())):
            if not folder.exists():
                continue
            if not _is_ours(folder, self.site):
                raise PreflightError(
                    f"{folder} is in the way, and this experiment did not make it",
                    hint="move it away; storagelab removes only what it made itself",
                )
            found.append(folder)
        return found

    def leftover_bytes(self) -> dict[int, int]:
        """Disk space that `leftovers` take, by file system (st_dev). Raises as `leftovers` does."""
        held: dict[int, int] = {}
        for folder in self.leftovers():
            for root, _, names in os.walk(folder):  # skips folders that it may not enter
                for name in names:
                    with contextlib.suppress(OSError):  # a server that still runs removes its own files
                        facts = os.lstat(os.path.join(root, name))
                        held[facts.st_dev] = held.get(facts.st_dev, 0) + facts.st_blocks * 512
        return held

    def remove(self) -> None:
        """Remove what `make` made, on every volume. Raises RunFailed at the end if some of it could not be removed."""
        problems = []
        for folder in sorted(set(self._folders.values())):
            try:
                if folder.exists() and _is_ours(folder, self.site):
                    _remove_patiently(folder)
            except OSError as error:
                problems.append(f"can't remove {error.filename or folder}: {error.strerror}")
        if problems:
            raise RunFailed("; ".join(problems))


def _remove_patiently(folder: Path) -> None:
    """Removes a folder, trying for a while: a program that was just stopped may still write its last file."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            _remove(folder)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT) or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _remove(folder: Path) -> None:
    """Removes a folder, its marker last, so that an interrupted removal is recognised and resumed."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _MARKER:
            entry.unlink(missing_ok=True)
    (folder / _MARKER).unlink(missing_ok=True)
    folder.rmdir()


def _is_ours(folder: Path, site: Site) -> bool:
    """Whether this experiment made the folder. An empty one counts, too: making or removing it was interrupted."""
    try:
        marker = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {entry.name for entry in folder.iterdir()} <= {_MARKER}
    except OSError:
        return False
    theirs = marker if isinstance(marker, dict) else {}
    return bool(theirs.get("made_by") == "storagelab" and theirs.get("identity") == site.identity)
