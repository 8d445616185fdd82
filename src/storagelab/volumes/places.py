"""Spreads data files over volumes in turn: in folders that storagelab makes, or on the server's machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from storagelab.machine.unprivileged import make_folder
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.model.target import VolumeNeed
from storagelab.volumes.folders import Folders

# --- remote ----------------------------------------------------------------------------------------------------------
#
# Volumes of the server's machine: the operator's description, and the server's own report of each.


NOTE = "storagelab trusts your description of the volumes, and marks runs that the server can't confirm as unverified"


class Mount(NamedTuple):
    """A file system of the server's machine, as the server reports it; "" for what it does not report."""

    point: str
    device: str
    filesystem: str = ""

    @property
    def text(self) -> str:
        return f"{f'{self.filesystem} of ' if self.filesystem else ''}{self.device}, mounted at {self.point}"


def remote_paths(config: Config) -> dict[str, str]:
    """The path of each remote volume that holds data files or placed objects, by the volume's name."""
    names = sorted({*config.data_volumes, *config.placed.values()})
    return {name: config.volumes[name].path or "" for name in names if config.volumes[name].remote}


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that holds a folder: the one with the longest path; among equals the last, which covers the others."""
    whole = PurePosixPath(path)
    above = [mount for mount in mounts if mount.point and whole.is_relative_to(mount.point)]
    return max(reversed(above), key=lambda mount: len(mount.point), default=None)


def facts(config: Config, mounts: Sequence[Mount]) -> dict[str, dict[str, object]]:
    """What is known of each remote volume, for the environment of a run."""
    found: dict[str, dict[str, object]] = {}
    for name, path in remote_paths(config).items():
        mount = mount_of(path, mounts)
        found[name] = {
            "path": path, "remote": True, "device": mount.device if mount else None,
            "filesystem": (mount.filesystem or None) if mount else None, "mount_point": mount.point if mount else None,
        }  # fmt: skip
    return found


def checks(config: Config, mounts: Sequence[Mount], read_from: str) -> list[Check]:
    """Compares each remote volume with the server's report of its file system. Without a report the volume is
    unverified.
    """
    found = []
    for name, path in remote_paths(config).items():
        mount = mount_of(path, mounts)
        got = mount.text if mount else "the server does not report its drive"
        found.append(Check(name=f"volume {name}", asked=path, got=got, ok=True if mount else None, read_from=read_from))
    return found


def needs(configs: Sequence[Config], bytes_on: Callable[[Config, str], int]) -> tuple[VolumeNeed, ...]:
    """Each remote volume once, with the most that any cell needs there. Its free space is unknown from here."""
    needed: dict[tuple[str, str], int] = {}
    for config in configs:
        for name, path in remote_paths(config).items():
            needed[name, path] = max(needed.get((name, path), 0), bytes_on(config, name))
    return tuple(
        VolumeNeed(name=name, path=path, device="on the server", needed_bytes=needed_bytes, free_bytes=None)
        for (name, path), needed_bytes in needed.items()
    )


class Places(ABC):
    """Places one cell's data files, numbered from 1.

    `folders` is None if the server chooses the place of its files. `folder_each`: on a remote volume, each data file
    has its own folder below the volume's folder, made by the operator; otherwise they share the volume's folder.
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
        """The folder for a data file, as the server names it."""
        volume = self.volume_of(number)
        if self.config.volumes[volume].remote:
            folder = Path(self.config.volumes[volume].path or "")
            return folder / remote_name(number) if self._folder_each else folder
        assert self._folders is not None
        return self._folders[volume] / f"data-file-{number:04d}"

    def asked(self, number: int) -> str:
        """The folders, in the form that `steps.check_places` takes."""
        return str(self.folder_of(number)) if self.on_volumes else "default"

    @abstractmethod
    def create(self, connection: Any) -> None:
        """Make the data files, and whatever else holds the tables."""

    def make(self, own: Any, reach: Any) -> None:
        """Make the tables that a run needs before it begins."""
        self.create(own)

    def check_after(self, connection: Any) -> list[Check]:
        """Checks the tables after the load."""
        return []

    def make_folders(self, owner: tuple[int, int] | None = None) -> None:
        """Make one folder per data file on this machine. `owner` (uid, gid) is the account of an attached server."""
        for number in self.data_files if self.on_volumes else ():
            if not self.is_remote(number):
                make_folder(self.folder_of(number), owner)


def remote_name(number: int) -> str:
    """The name of a data file's folder that the operator makes; it shows that the folder is for storagelab."""
    return f"storagelab-data-file-{number:04d}"
