"""Volumes of the server's machine, described by its operator, and what the server itself reports of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.targets import VolumeNeed

NOTE = "volumes are taken as you describe them; runs that the server can't confirm are marked unverified"


class Mount(NamedTuple):
    """A file system of the server's machine, as the server reports it; "" for what it does not report."""

    point: str
    device: str
    filesystem: str = ""

    @property
    def text(self) -> str:
        return f"{f'{self.filesystem} of ' if self.filesystem else ''}{self.device}, mounted at {self.point}"


def remote_paths(config: Config) -> dict[str, str]:
    """Path of each remote volume that holds data files, by the volume's name."""
    return {
        name: config.volumes[name].path or "" for name in sorted(config.data_volumes) if config.volumes[name].remote
    }


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that holds a folder: the one with the longest path; of equal ones the last, which is on top."""
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
    """Checks each remote volume against the server's report of its file system; unverified without such a report."""
    found = []
    for name, path in remote_paths(config).items():
        mount = mount_of(path, mounts)
        got = mount.text if mount else "the server does not report its drive"
        found.append(Check(name=f"volume {name}", asked=path, got=got, ok=True if mount else None, read_from=read_from))
    return found


def needs(configs: Sequence[Config], bytes_on: Callable[[Config, str], int]) -> tuple[VolumeNeed, ...]:
    """Each remote volume once, with the most that any cell needs on it; its free space can't be seen from here."""
    needed: dict[tuple[str, str], int] = {}
    for config in configs:
        for name, path in remote_paths(config).items():
            needed[name, path] = max(needed.get((name, path), 0), bytes_on(config, name))
    return tuple(
        VolumeNeed(name=name, path=path, device="on the server", needed_bytes=needed_bytes, free_bytes=None)
        for (name, path), needed_bytes in needed.items()
    )
