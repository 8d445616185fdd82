"""Checks a plan's volumes: whether they can be used, have space, and allow the steps between runs. Changes nothing."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.machine import host
from storagelab.machine.disks import node_of, read_text
from storagelab.machine.unprivileged import check_may_enter
from storagelab.model import prepared
from storagelab.model.config import Config, VolumeConfig
from storagelab.model.target import VolumeNeed
from storagelab.servers import templates
from storagelab.servers.templates import BytesOn
from storagelab.volumes import for_run as made_volumes
from storagelab.volumes.folders import Folders, Site

DESPITE_SPACE = "--despite-space"


def volume_needs(
    configs: Sequence[Config], site: Site, bytes_on: BytesOn, *, size_key: str = "workload.rows_per_connection"
) -> tuple[VolumeNeed, ...]:
    """Each volume once, with the most that any cell needs on it, which `size_key` decides. Raises PreflightError for
    one that can't be used."""

    def on_path(config: Config, name: str) -> int:
        volume = config.volumes[name]
        if not volume.has_own_drive:
            return bytes_on(config, name)
        return (volume.file_bytes or 0) if name in config.volumes_used else 0  # it is made only for those cells

    paths: dict[str, Path] = {}
    needed: dict[str, int] = {}
    for config in configs:
        for name, path in site.volume_paths(config).items():
            key = f"volumes.{name}.path"
            if name in paths and paths[name] != path:
                name = f"{name} ({path})"  # noqa: PLW2901 - a factor moves the volume: show both places
            if name not in paths:
                _check_usable(path, key)
            paths[name] = path
            own = name.split(" (")[0]
            _check_holds(config.volumes[own], own, bytes_on(config, own))
            needed[name] = max(needed.get(name, 0), on_path(config, own))
    leftover_bytes = _leftover_bytes(configs, site)
    lacking = {error.key: error for error in _lacking(configs, site, leftover_bytes, on_path, size_key)}
    if lacking and not site.despite_space:
        raise next(iter(lacking.values()))
    return tuple(
        VolumeNeed(
            name=name, path=str(path), device=_device_text(path), needed_bytes=needed[name],
            free_bytes=host.free_bytes(path) + leftover_bytes.get(os.stat(path).st_dev, 0),
            lacks=next((f"{error.problem}: a run that fills it fails ({DESPITE_SPACE})" for key,
            error in lacking.items()
                        if f"{key} ".startswith(f"volumes.{name}.path ")), ""),
        )
        for name, path in paths.items()
    )  # fmt: skip


def _leftover_bytes(configs: Sequence[Config], site: Site) -> dict[int, int]:
    """What a killed run of this experiment left on each file system (by st_dev); it is removed before the first run."""
    volumes = {str(path): path for config in configs for path in site.volume_paths(config).values()}
    places = [Folders(site, volumes), templates.folders_of(site, volumes)]
    places += [
        made_volumes.folders_of(site, config, name) for config in configs for name in made_volumes.wanted(config)
    ]
    held = Counter[int]()
    for folders in {one.paths: one for one in places}.values():
        held.update(folders.leftover_bytes())
    return held


_OF_FILE_SYSTEM = 0.93
"""The share of a small drive that a file system leaves for files; ext4 takes most, 5 % of it for root."""


def _check_holds(volume: VolumeConfig, name: str, needed_bytes: int) -> None:
    """Raises PreflightError if a volume that storagelab makes is too small."""
    room_bytes = _OF_FILE_SYSTEM * (volume.file_bytes or _bytes_of_drives(volume))
    if needed_bytes > room_bytes:
        raise PreflightError(
            f"is too small: about {needed_bytes / 2**30:.2f} GiB needed, and its file system has room for "
            f"{room_bytes / 2**30:.2f} GiB",
            key=f"volumes.{name}.{'devices' if volume.devices else 'file'}",
            hint="make the drive larger, or the load smaller",
        )  # fmt: skip


def _bytes_of_drives(volume: VolumeConfig) -> float:
    """What the volume's drives hold together; infinite if it has none."""
    sizes = [
        int(read_text(node_of(Path(os.path.realpath(one)).name) / "size") or 0) * 512 for one in volume.devices or ()
    ]
    if not sizes:
        return math.inf
    full = {"raid0": len(sizes), "striped": len(sizes), "raid5": len(sizes) - 1, "raid10": len(sizes) / 2}
    return min(sizes) * volume.share * full.get(volume.raid_level or "", 1)


def _check_usable(path: Path, key: str) -> None:
    if not path.exists():
        raise PreflightError(f"{path} does not exist", key=key, hint="mount the drive there, or make the folder")
    if not path.is_dir():
        raise PreflightError(f"{path} is not a folder", key=key, hint="name a folder on the drive")
    if os.statvfs(path).f_blocks == 0:
        filesystem = host.describe_volume(path).get("filesystem") or "a file system without space"
        raise PreflightError(
            f"{path} is not a place for files: {filesystem} there holds none", key=key, hint="name a folder on a drive"
        )
    if not os.access(path, os.W_OK | os.X_OK) or os.statvfs(path).f_flag & os.ST_RDONLY:
        raise PreflightError(
            f"{path} is not writable",
            key=key,
            hint="mount it read-write, give this user the right, or name another folder",
        )


def _lacking(
    configs: Iterable[Config], site: Site, leftover_bytes: Mapping[int, int], bytes_on: BytesOn, size_key: str
) -> Iterator[PreflightError]:
    """Compares the hungriest cell of each file system with the free space, which its volumes share."""
    hungriest: dict[int, tuple[int, list[tuple[str, Path]], Config]] = {}
    for config in configs:
        sharing: dict[int, list[tuple[str, Path]]] = {}
        for name, path in site.volume_paths(config).items():
            sharing.setdefault(os.stat(path).st_dev, []).append((name, path))
        for device, volumes in sharing.items():
            wanted = sum(bytes_on(config, name) for name, _ in volumes)
            if device not in hungriest or wanted > hungriest[device][0]:
                hungriest[device] = wanted, volumes, config
    for device, (wanted, volumes, config) in hungriest.items():
        path = volumes[0][1]
        free = host.free_bytes(path) + leftover_bytes.get(device, 0)
        if wanted > free:
            yield PreflightError(
                f"{path} lacks space: about {wanted / 2**30:.2f} GiB needed, {free / 2**30:.2f} GiB free",
                key=" and ".join(f"volumes.{name}.path" for name, _ in volumes),
                hint=f"free some, name another volume, or {_less(config, size_key)}; or go on in spite of it "
                f"({DESPITE_SPACE}): then a run that fills the volume fails, as may everything else that writes to it",
            )


def _less(config: Config, size_key: str) -> str:
    """The settings that make a cell take less space."""
    if prepared.wanted(config):
        return 'set between_runs.data = "rebuild", which keeps no templates'
    return "make the load's tables smaller" if config.generated else f"lower {size_key}"


def _device_text(path: Path) -> str:
    facts = host.describe_volume(path)
    parts = [str(facts.get("filesystem") or ""), str(facts.get("device") or "")]
    parts.append("virtual disk" if facts.get("virtual") else "")
    return ", ".join(part for part in parts if part)


def check_server_may_enter(path: Path, key: str) -> None:
    """Checks whether the server itself can enter: root may go anywhere, but the server runs without root's rights."""
    try:
        check_may_enter(path)
    except PreflightError as error:
        raise PreflightError(error.problem, key=key, hint=error.hint) from error


def check_place_names(needs: Iterable[VolumeNeed], is_barred: Callable[[str], bool], problem: str) -> None:
    """Refuses a path that the engine can't give to a data file. Raises PreflightError."""
    for need in needs:
        if is_barred(need.path):
            raise PreflightError(
                f"{need.path} {problem}",
                key=f"volumes.{need.name.split(' (')[0]}.path",
                hint="name another folder, or rename this one",
            )


def check_between_runs(configs: Iterable[Config]) -> None:
    for config in configs:
        if config.between_runs.drop_page_cache and not host.can_drop_page_cache():
            raise PreflightError(
                "only root on Linux may drop the page cache",
                key="between_runs.drop_page_cache",
                hint="run storagelab as root, or set it to false",
            )


def check_folder_for_server(owner: tuple[int, int] | None, volume: str, path: Path) -> tuple[int, int]:
    """The account that must own the volume's data folders. `owner` (uid, gid) is that of an attached server, None if
    it does not run on this machine. Raises PreflightError if the folders can't be made for it.
    """
    if owner is None:
        raise PreflightError(
            "the server does not run on this machine, so storagelab can't make data folders on its volumes",
            key=f"volumes.{volume}.path",
            hint="add remote = true if the path is on the server's machine; or leave [volumes] out to measure where "
            "the server keeps its files, or run storagelab on the server's machine",
        )
    if os.geteuid() not in (0, owner[0]):
        raise PreflightError(
            f"only root can make folders under {path} that belong to the server's account (uid {owner[0]})",
            key=f"volumes.{volume}.path",
            hint="run storagelab as root or as the server's own account",
        )
    return owner
