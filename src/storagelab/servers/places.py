"""Decides in which folders data files and single objects are: folders that storagelab makes, or folders of the server's
machine. Checks them afterwards.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from storagelab.errors import DataRefused, PreflightError
from storagelab.machine.rights import make_folder
from storagelab.model.config import Config
from storagelab.model.measurement import REWRITTEN, Check
from storagelab.model.objects import KEY, TEMPORARY, WORDS, Object
from storagelab.model.target import VolumeNeed
from storagelab.volumes.folders import Folders, Site
from storagelab.words.numbers import bytes_


def tables_of(config: Config) -> Any:
    """The class that makes the tables of the cell's load. Each engine has a module for each load."""
    return import_module(f"storagelab.engines.{config.kind.folder}.loads.{config.database_load.module}").Tables


# --- remote ----------------------------------------------------------------------------------------------------------
#
# Volumes of the server's machine. The operator describes them in the spec, and the server reports its file systems.


NOTE = "storagelab trusts your description of the volumes, and marks runs that the server can't confirm as unverified"


class Mount(NamedTuple):
    """A file system of the server's machine, as the server reports it. A value that it does not report is ""."""

    point: str
    device: str
    filesystem: str = ""

    @property
    def text(self) -> str:
        return f"{f'{self.filesystem} of ' if self.filesystem else ''}{self.device}, mounted at {self.point}"


def remote_paths(config: Config) -> dict[str, str]:
    """The path of each remote volume that has data files or placed objects, by the volume's name."""
    names = sorted({*config.data_volumes, *config.placed.values()})
    return {name: config.volumes[name].path or "" for name in names if config.volumes[name].remote}


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that contains a folder: the mount with the longest path. If several have this path, the last one hides
    the others. Returns None if no mount contains the folder.
    """
    whole = PurePosixPath(path)
    above = [mount for mount in mounts if mount.point and whole.is_relative_to(mount.point)]
    return max(reversed(above), key=lambda mount: len(mount.point), default=None)


def facts(config: Config, mounts: Sequence[Mount]) -> dict[str, dict[str, object]]:
    """The facts about each remote volume, for the environment of a run."""
    found: dict[str, dict[str, object]] = {}
    for name, path in remote_paths(config).items():
        mount = mount_of(path, mounts)
        found[name] = {
            "path": path, "remote": True, "device": mount.device if mount else None,
            "filesystem": (mount.filesystem or None) if mount else None, "mount_point": mount.point if mount else None,
        }  # fmt: skip
    return found


def checks(config: Config, mounts: Sequence[Mount], read_from: str) -> list[Check]:
    """Compares each remote volume with the server's report of its file system. If the server reports nothing, the
    volume is unverified.
    """
    found = []
    for name, path in remote_paths(config).items():
        mount = mount_of(path, mounts)
        got = mount.text if mount else "the server does not report its drive"
        found.append(Check(name=f"volume {name}", asked=path, got=got, ok=True if mount else None, read_from=read_from))
    return found


def needs(configs: Sequence[Config], bytes_on: Callable[[Config, str], int]) -> tuple[VolumeNeed, ...]:
    """The space that each remote volume needs: the largest need of any cell. The free space is unknown."""
    needed: dict[tuple[str, str], int] = {}
    for config in configs:
        for name, path in remote_paths(config).items():
            needed[name, path] = max(needed.get((name, path), 0), bytes_on(config, name))
    return tuple(
        VolumeNeed(name=name, path=path, device="on the server", needed_bytes=needed_bytes, free_bytes=None)
        for (name, path), needed_bytes in needed.items()
    )


class Places(ABC):
    """The places of one cell's data files, which are numbered from 1.

    `folders` is None if the server chooses where its files are. If `folder_each`, each data file on a remote volume has
    its own folder, which the operator makes in the volume's folder. Otherwise they are all in the volume's folder.
    """

    def __init__(
        self, config: Config, folders: Folders | Mapping[str, Path] | None, *, folder_each: bool = False
    ) -> None:
        self.config, self._folders, self._folder_each = config, folders, folder_each

    @property
    def on_volumes(self) -> bool:
        return self._folders is not None and bool(self.config.data_volumes)

    @property
    def data_files(self) -> range:
        return range(1, self.config.layout.data_files + 1)

    def volume_of(self, number: int) -> str:
        volume = self.config.volume_of_data_file(number - 1)
        assert volume is not None
        return volume

    def is_remote(self, number: int) -> bool:
        return bool(self.config.data_volumes) and self.config.volumes[self.volume_of(number)].remote

    def folder_of(self, number: int) -> Path:
        """The folder of a data file, with the path that the server uses."""
        volume = self.volume_of(number)
        if self.config.volumes[volume].remote:
            folder = Path(self.config.volumes[volume].path or "")
            return folder / remote_name(number) if self._folder_each else folder
        assert self._folders is not None
        return self._folders[volume] / f"data-file-{number:04d}"

    def asked(self, number: int) -> str:
        """The folder of a data file or "default", as `check_places` expects it."""
        return str(self.folder_of(number)) if self.on_volumes else "default"

    @abstractmethod
    def create(self, connection: Any) -> None:
        """Makes the data files and the other objects that contain the tables."""

    def make(self, own: Any, reach: Any) -> None:
        """Makes the tables that must exist before a run begins."""
        self.create(own)

    def check_after(self, connection: Any) -> list[Check]:
        """Checks the tables after the load."""
        return []

    def make_folders(self, owner: tuple[int, int] | None = None) -> None:
        """Makes a folder for each data file on this machine. `owner` (uid, gid) is the account of an
        attached server.
        """
        for number in self.data_files if self.on_volumes else ():
            if not self.is_remote(number):
                make_folder(self.folder_of(number), owner)


def remote_name(number: int) -> str:
    """The name of the folder that the operator makes for a data file. It says that the folder is for storagelab."""
    return f"storagelab-data-file-{number:04d}"


# --- placed objects ---------------------------------------------------------------------------------------------------

_WORTH_TELLING_BYTES = 2**20


def refuse_misfits(config: Config, objects: Iterable[Object]) -> None:
    """Raises DataRefused if the layout names objects that don't exist, or places one object on two volumes."""
    problem = config.placement.problem(list(objects))
    if problem is not None:
        raise DataRefused(f"{KEY}: {problem.problem}\n  {problem.hint}")


def check_files(files: Mapping[str, tuple[Path, Path]]) -> Check:
    """One check for all placed objects: whether each object's file is below the requested folder. Unknown if this user
    may not look there.
    """
    asked = ", ".join(sorted({str(folder) for _, folder in files.values()}))
    wrong, unseen = list[str](), list[str]()
    for name, (file, folder) in files.items():
        place = Path(os.path.realpath(file))
        try:
            place.stat()
        except FileNotFoundError:
            wrong.append(f"{name}: no file {place}")
        except OSError as error:
            unseen.append(f"{name}: {place} can't be seen ({error.strerror})")
        else:
            if not place.is_relative_to(os.path.realpath(folder)):
                wrong.append(f"{name}: {place.parent}")
    got = (wrong or unseen or [asked])[0]
    ok = False if wrong else None if unseen else True
    return Check(name="files of the placed objects", asked=asked, got=got, ok=ok, read_from="the file system")


def changed_files(
    before: Mapping[str, str], after: Mapping[str, str], placed: Collection[str], read_from: str
) -> Iterator[Check]:
    """A check that finds objects whose files changed during a run, or that were dropped. A rewritten object is not an
    error, because its new place is checked, too. If a `placed` object was dropped, its place can't be read any more, so
    the result is unknown.
    """
    gone = [name for name in before if name not in after]
    texts = [f"{name} was dropped" for name in gone]
    texts += [f"{name} was rewritten" for name, file in before.items() if after.get(name, file) != file]
    if texts:
        ok = None if any(name in placed for name in gone) else True
        got = ", ".join(texts)
        yield Check(name=REWRITTEN, asked="the files of its beginning", got=got, ok=ok, read_from=read_from)


# --- before a run ----------------------------------------------------------------------------------------------------


def lying(config: Config, known: Sequence[Object]) -> list[tuple[Object, str | None]]:
    """The volume of each object that a load will make, as far as known, or None if the server chooses it. Partitions
    that are spread over data files are in the order of these files. This order is the same for a table and its indexes.
    """
    numbers = Counter[tuple[str, str]]()
    placed = list[tuple[Object, str | None]]()
    for one in known:
        whole = (one.kind, one.names[-1])
        place = numbers[whole] % config.layout.data_files if one.spread else 0
        placed.append((one, config.placement.volume_of(one) or config.volume_of_data_file(place)))
        numbers[whole] += 1
    return placed


def share_on(config: Config, known: Sequence[Object] | None, volume: str) -> float:
    """The share of a load's data that is on a volume. If the sizes of the load's objects are unknown, this is the share
    of the data files.
    """
    files = config.layout.data_files
    total = sum(one.bytes or 0 for one in known or ())
    if known is None or not total:
        return sum(config.volume_of_data_file(number) == volume for number in range(files)) / files
    return sum(one.bytes or 0 for one, there in lying(config, known) if there == volume) / total


def planned(configs: Iterable[Config], site: Site) -> tuple[str, ...]:
    """Lines for a plan: the volumes of each object in these cells, with its size. The result is empty if no layout
    places objects. Raises PreflightError for a name that matches no object.
    """
    cells = [config for config in configs if config.generated and config.kind.provenance == "measured"]
    if not any(config.placed for config in cells):
        return ()
    volumes, sizes = defaultdict[str, dict[str, None]](dict), defaultdict[str, float](float)
    for config in cells:
        known = tables_of(config)(config, site.prefix, None).known_objects
        problem = None if known is None else config.placement.problem(known)
        if problem is not None:
            raise PreflightError(problem.problem, key=KEY, hint=problem.hint)
        # If the tables are unknown before they are made, use only those that the layout names.
        named = [
            (Object((WORDS.get(what, what),), "table"), volume)
            for what, volume in config.placed.items()
            if what != TEMPORARY
        ]
        here = defaultdict[str, float](float)
        for one, volume in lying(config, known) if known is not None else named:
            volumes[one.names[-1]][volume or "the server's own folder"] = None
            here[one.names[-1]] += one.bytes or 0
        for title, size in here.items():
            sizes[title] = max(sizes[title], size)
        if TEMPORARY in config.placed:
            volumes["temporary files"][config.placed[TEMPORARY]] = None
    together = defaultdict[tuple[str, ...], list[str]](list)
    for title, there in volumes.items():
        about = f" (about {bytes_(round(sizes[title]))})" if sizes[title] >= _WORTH_TELLING_BYTES else ""
        together[tuple(there)].append(title + about)
    return tuple(f"{', '.join(titles)}: on {' or '.join(there)}" for there, titles in together.items())


def check_same(name: str, asked: str, got: str, read_from: str) -> Check:
    return Check(name=name, asked=asked, got=got, ok=asked == got, read_from=read_from)


def check_places(name: str, asked: Sequence[str], got: Sequence[str], read_from: str) -> Check:
    """One check for all data files. The result shows their folders or, if a file is elsewhere, the first such file.

    Each item is the folder of one data file, or "default" if the server chooses it.
    """
    wrong = [
        f"data file {i}: {there}" for i, (here, there) in enumerate(zip(asked, got, strict=True), 1) if here != there
    ]
    found = wrong[:1] or _folders(got)
    return Check(name=name, asked=", ".join(_folders(asked)), got=", ".join(found), ok=not wrong, read_from=read_from)


def _folders(places: Sequence[str]) -> list[str]:
    return sorted({str(Path(place).parent) if place != "default" else place for place in places})
