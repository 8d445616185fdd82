"""Checks whether a plan's cells have enough space on volumes and in memory. If a set-up fails, finds the volume that
was full.

Servers report a full disk in many different ways, and rarely say which disk it is. When they report it, they have often
removed their files, so the disk is no longer full. So storagelab watches the free space during a set-up.
"""

from __future__ import annotations

import os
import re
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from storagelab.errors import PreflightError, RunFailed, noting, refuse
from storagelab.machine import doctor, host, temporary
from storagelab.machine.disks import nearest_existing, size_bytes
from storagelab.model.config import Config
from storagelab.model.loads.base import GeneratedLoad
from storagelab.model.plan import wants_template
from storagelab.model.target import VolumeNeed
from storagelab.model.volume import VolumeConfig
from storagelab.servers import templates
from storagelab.servers.places import tables_of
from storagelab.servers.templates import BytesOn
from storagelab.volumes import for_runs
from storagelab.volumes.folders import Folders, Site
from storagelab.words.numbers import significant

DESPITE_SPACE = "--despite-space"


class Space(NamedTuple):
    """The volumes of a plan with the space that they need, and the problems of volumes that can't be used."""

    needs: tuple[VolumeNeed, ...]
    lacks: tuple[PreflightError, ...]


def volume_needs(
    configs: Sequence[Config], site: Site, bytes_on: BytesOn, *, size_key: str = "workload.rows_per_connection"
) -> Space:
    """The space that each volume needs, which is the largest need of any cell, and the problems of volumes. `size_key`
    is the key of the spec that decides the need.
    """

    def on_path(config: Config, name: str) -> int:
        volume = config.volumes[name]
        if not volume.has_own_drive:
            return bytes_on(config, name)
        return (volume.file_bytes or 0) if name in config.volumes_used else 0  # other cells don't make the volume

    paths: dict[str, Path] = {}
    drives: dict[str, str] = {}
    needed: dict[str, int] = {}
    lacks: list[PreflightError] = []
    for config in configs:
        for name, path in site.volume_paths(config).items():
            key = f"volumes.{name}.path"
            if name in paths and paths[name] != path:
                name = f"{name} ({path})"  # noqa: PLW2901 - a factor changes the path, so both paths are shown
            paths[name] = path
            own = name.split(" (")[0]
            with noting(lacks):
                _check_usable(path, key)
                _check_holds(config.volumes[own], f"volumes.{own}", bytes_on(config, own))
            if devices := config.volumes[own].devices:
                drives[name] = "whole drives" if len(devices) > 1 else "a whole drive"
            needed[name] = max(needed.get(name, 0), (bytes_on if devices else on_path)(config, own))
    leftover_bytes = Counter[int]()
    with noting(lacks):
        leftover_bytes = _leftover_bytes(configs, site)
    lacking = {error.key: error for error in _lacking(configs, site, leftover_bytes, on_path, size_key)}
    needs = tuple(
        VolumeNeed(
            name=name, path=str(path), needed_bytes=needed[name],
            device=drives.get(name) or (_device_text(path) if path.exists() else "not there"),
            free_bytes=None if name in drives or not path.exists()
            else host.free_bytes(path) + leftover_bytes[os.stat(path).st_dev],
            lacks=next((f"{error.problem}: a run that fills it fails ({DESPITE_SPACE})"
                        for key, error in lacking.items() if f"{key} ".startswith(f"volumes.{name}.path ")), ""),
        )
        for name, path in paths.items()
    )  # fmt: skip
    return Space(needs, (*lacks, *(() if site.despite_space else lacking.values())))


def _leftover_bytes(configs: Sequence[Config], site: Site) -> Counter[int]:
    """The bytes that killed runs of this experiment left on each file system, by st_dev. They will be free, because the
    remains are removed before the first run.
    """
    volumes = {str(path): path for config in configs for path in site.volume_paths(config).values()}
    places = [Folders(site, volumes), templates.folders_of(site, volumes)]
    places += [for_runs.folders_of(site, config, name) for config in configs for name in for_runs.wanted(config)]
    held = Counter[int]()
    for folders in {one.paths: one for one in places}.values():
        held.update(folders.leftover_bytes())
    return held


_OF_FILE_SYSTEM = 0.93
"""The share of a small drive that is left for files in a new file system. ext4 leaves least: it reserves 5 % for root.
"""


def _check_holds(volume: VolumeConfig, key: str, needed_bytes: int) -> None:
    """Raises PreflightError if a volume that storagelab makes is too small for the need."""
    if not volume.has_own_drive or not all(map(os.path.exists, volume.devices or ())):
        return
    room_bytes = _OF_FILE_SYSTEM * (volume.file_bytes or _bytes_of_drives(volume))
    if needed_bytes > room_bytes:
        raise PreflightError(
            f"is too small: about {needed_bytes / 2**30:.2f} GiB are needed, but its file system has room for only "
            f"{room_bytes / 2**30:.2f} GiB",
            key=f"{key}.{'devices' if volume.devices else 'file'}",
            hint="make the drive larger, or the load smaller",
        )  # fmt: skip


def _bytes_of_drives(volume: VolumeConfig) -> float:
    """The capacity of the volume that is made from its drives, in bytes."""
    sizes = [size_bytes(Path(os.path.realpath(one)).name) for one in volume.devices or ()]
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
            f"{path} is not a place for files: it is on {filesystem}", key=key, hint="name a folder on a drive"
        )
    if not os.access(path, os.W_OK | os.X_OK) or os.statvfs(path).f_flag & os.ST_RDONLY:
        raise PreflightError(
            f"{path} is not writable",
            key=key,
            hint="mount it read-write, give this user the right, or name another folder",
        )


def _lacking(
    configs: Iterable[Config], site: Site, leftover_bytes: Counter[int], bytes_on: BytesOn, size_key: str
) -> Iterator[PreflightError]:
    """Yields an error for each file system without enough space. The cell that needs the most space decides. All
    volumes of this cell on a file system share the free space.
    """
    hungriest: dict[int, tuple[int, list[tuple[str, Path]], Config]] = {}
    for config in configs:
        sharing: dict[int, list[tuple[str, Path]]] = {}
        for name, path in site.volume_paths(config).items():
            if path.exists():
                sharing.setdefault(os.stat(path).st_dev, []).append((name, path))
        for device, volumes in sharing.items():
            wanted = sum(bytes_on(config, name) for name, _ in volumes)
            if device not in hungriest or wanted > hungriest[device][0]:
                hungriest[device] = wanted, volumes, config
    for device, (wanted, volumes, config) in hungriest.items():
        path = volumes[0][1]
        free = host.free_bytes(path) + leftover_bytes[device]
        less = "make the load's tables smaller" if config.generated else f"lower {size_key}"
        if wants_template(config):
            less = 'set between_runs.data = "rebuild", which keeps no templates'
        if wanted > free:
            yield PreflightError(
                f"{path} lacks space: about {wanted / 2**30:.2f} GiB needed, {free / 2**30:.2f} GiB free",
                key=" and ".join(f"volumes.{name}.path" for name, _ in volumes),
                hint=f"free some, name another volume, or {less}; or continue anyway "
                f"({DESPITE_SPACE}): then a run that fills the volume fails, as may everything else that writes to it",
            )


def _device_text(path: Path) -> str:
    facts = host.describe_volume(path)
    medium = "in memory" if facts["in_memory"] else "virtual disk" if facts["virtual"] else ""
    return ", ".join(str(part) for part in (facts["filesystem"], facts["device"], medium) if part)


def check_place_names(needs: Iterable[VolumeNeed], is_barred: Callable[[str], bool], problem: str) -> None:
    """Raises PreflightError if the engine can't use a volume's path for data files."""
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
    """The account (uid, gid) that must own the folders for data on a volume. `owner` is the account of an attached
    server, or None if the server runs on another machine. Raises PreflightError if this user can't make folders for
    this account.
    """
    if owner is None:
        raise PreflightError(
            "the server does not run on this machine, so storagelab can't make data folders on its volumes",
            key=f"volumes.{volume}.path",
            hint="add remote = true if the path is on the server's machine; leave out [volumes] to measure the places "
            "where the server already keeps its files; or run storagelab on the server's machine",
        )
    if os.geteuid() not in (0, owner[0]):
        raise PreflightError(
            f"only root can make folders under {path} that belong to the server's account (uid {owner[0]})",
            key=f"volumes.{volume}.path",
            hint="run storagelab as root or as the server's own account",
        )
    return owner


# --- memory -----------------------------------------------------------------------------------------------------------
#
# Notes for `plan` that compare the size of a load's data with the memory that may hold it.


_GIB, _MIB = 2**30, 2**20


class Memory(NamedTuple):
    """The memory that may hold data. `buffers_bytes` is the size of the server's buffers, and `setting` the name of the
    setting for it. `machine_bytes` is the machine's memory. Both are None if unknown. `cached`: whether the server
    reads and writes through the kernel's page cache.
    """

    setting: str
    buffers_bytes: int | None
    machine_bytes: int | None
    cached: bool


def memory_here() -> int | None:
    """The size of this machine's memory in bytes, or None if unknown."""
    found = host.describe_host().get("memory_bytes")
    return found if isinstance(found, int) else None


def refuse_more_than_there_is(memory: Memory) -> None:
    """Raises PreflightError if the buffers of a private server are not smaller than this machine's memory."""
    asked, there = memory.buffers_bytes, memory.machine_bytes
    if asked is not None and there is not None and asked >= there:
        raise PreflightError(
            f"{_memory_size(asked)} is not less than this machine's memory, {_memory_size(there)}",
            key=f"target.settings.{memory.setting}",
            hint=f"a quarter of the memory is usual: {_memory_size(there // 4)}",
        )


def memory_note(load: GeneratedLoad, unit_bytes: int, memory: Memory, *, dropped: bool = False) -> str:
    """Returns "" if the data of `load` does not fit into memory, otherwise a note. One unit of
    the load takes `unit_bytes` bytes. `dropped`: whether the page cache is dropped before each run.
    """
    buffers = memory.setting + (f" ({_memory_size(memory.buffers_bytes)})" if memory.buffers_bytes else "")
    data = data_bytes(load, unit_bytes)
    if data is None:
        return (
            f"how much data {load.data.text} is not known before a run, so it can't be compared with memory. Data that "
            f"fits into {buffers} is read from the drive only once"
        )
    text = f"the data of {load.kind} {load.data.text} takes about {_memory_size(data)}"
    if memory.buffers_bytes is None:
        return f"{text}; how large {buffers} is on the server is not known"
    parts = [_times(data / memory.buffers_bytes, memory.setting)]
    parts += [_times(data / memory.machine_bytes, "the machine's memory")] if memory.machine_bytes else []
    text = f"{text}, {' and '.join(parts)}"
    if data < memory.buffers_bytes:
        return f"this measures memory and the log, not the drive of the data\n{text}, so it fits"
    if not memory.cached:
        return ""
    if memory.machine_bytes is None:
        return f"{text}; how much memory the server's machine has for its page cache is not known"
    if data >= memory.machine_bytes:
        return ""
    if dropped:
        return f"only first reads reach the drive\n{text}, and the page cache, dropped before a run, can hold it"
    return f"few reads reach the drive\n{text}, and the kernel's page cache can hold it"


def _times(share: float, of: str) -> str:
    return f"{significant(share, 2)} times {of}" if share >= 1 else f"{significant(share, 2)} of {of}"


def data_bytes(load: GeneratedLoad, unit_bytes: int) -> int | None:
    """The size of a generator's tables and indexes in bytes. Returns None if the user's own files make the tables."""
    return None if load.data.units is None else round(load.data.units * unit_bytes)


def _memory_size(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:.2g} GiB" if size_bytes >= _GIB else f"{size_bytes / _MIB:.3g} MiB"


def check_generators(configs: Sequence[Config], site: Site, programs: Callable[[Config], Path]) -> list[str]:
    """Descriptions of the cells' generators, each of which was found with its scripts. `programs` returns the folder of
    a private server's programs. Raises PreflightError for everything that is missing.
    """
    lacks, found = list[PreflightError](), list[str]()
    for one in configs:
        if one.generated:
            with noting(lacks):
                there = None if one.target.attached else programs(one)
                found.append(tables_of(one)(one, site.prefix, None).check(site, there))
    refuse(lacks)
    return found


def memory_notes(configs: Iterable[tuple[Config, Memory]]) -> list[str]:
    """Notes that compare the size of each cell's data with the memory that may hold it."""
    notes = [
        memory_note(one.generated_load, tables_of(one).unit_bytes, memory, dropped=one.between_runs.drop_page_cache)
        for one, memory in configs if one.generated
    ]  # fmt: skip
    return list(dict.fromkeys(filter(None, notes)))


# --- what was full ----------------------------------------------------------------------------------------------------

_LOOK_EVERY_S = 0.02
_LONGEST_WORDS = 300
_FULL = re.compile(
    r"No space left on device|\bis full\b|free disk space|could not extend file|Disk quota exceeded|"
    r"\b(?:error|errno|Errcode):? 28\b"
)
_FILE = re.compile(r"""(?:"(?=[^"\n]+/)|'(?=\.?/))([^"'\n]+)["']""")
"""Matches a file's path in a server's message. In single quotes, the path must begin with / or ./, because other names
with a slash may be tables.
"""


class SpaceWatch:
    """Watches the free space of `volumes`, by their names in the spec, during the context."""

    def __init__(self, volumes: Mapping[str, Path]) -> None:
        self._volumes = dict(volumes)
        self._before = {name: host.free_bytes(path) for name, path in self._volumes.items()}
        self._least = dict(self._before)
        self._no_inodes = set[str]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="storagelab free space", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            for name, path in self._volumes.items():
                try:
                    self._least[name] = min(self._least[name], host.free_bytes(path))
                    # A new server makes about 1,000 files. If it fails, it may remove them between two readings.
                    if doctor.lacks_inodes(path, 1_000 if self._least[name] > 2**30 else 1):
                        self._no_inodes.add(name)
                except (PreflightError, OSError):  # the volume does not exist any more: the set-up fails, too
                    return

    def explain(self, words: str, log: str, config: Config, data_folder: Path | None) -> RunFailed | None:
        """The failure with the name of the full volume. Returns None if neither `words` nor the server's log report a
        full disk. The log is searched, too, because `words` may only report a consequence: a lost connection or a
        damaged index. Relative file names in messages start at `data_folder`.
        """
        line = next((line for line in [*words.splitlines(), *log.splitlines()] if _FULL.search(line)), None)
        if line is None:
            return None
        quoted = textwrap.shorten(line, _LONGEST_WORDS, placeholder=" ...")
        what, way_out = self._what(line, data_folder, config)
        return RunFailed(f"the set-up {what}: {way_out}; it said: {quoted}")

    def _what(self, line: str, data_folder: Path | None, config: Config) -> tuple[str, str]:
        """What was filled, and how to solve this."""
        if "shared memory" in line:
            return f"filled shared memory ({_free_text(doctor.SHARED_MEMORY)})", doctor.MORE_SHARED_MEMORY
        full = min(self._least, key=self._least.__getitem__, default=None)
        found = _FILE.search(line)
        if found is not None and (data_folder is not None or found[1].startswith("/")):  # else the folder is unknown
            file = ((data_folder or Path()) / found[1]).resolve()
            holding = [name for name, path in self._volumes.items() if file.is_relative_to(path.resolve())]
            if not holding:
                return f"filled {_elsewhere(file, on_this_machine=data_folder is not None)}", "free some there"
            # A volume may be mounted inside another volume's folder, so the longest path is the right one.
            full = max(holding, key=lambda name: len(str(self._volumes[name])))
        if "quota" in line:
            return f"used up its user's disk quota on {self._described(full)}", f"raise the quota, {_way_out(config)}"
        if full in self._no_inodes:
            way_out = "remove files, or name a volume whose file system was made with more inodes"
            return f"used up the inodes of {self._described(full)}", way_out
        return f"filled {self._described(full)}", _way_out(config)

    def _described(self, full: str | None) -> str:
        """The volume's name, path and size. Includes other volumes on the same file system, because they share its
        space.
        """
        if full is None:
            return "a disk of the server's machine"
        path, device = self._volumes[full], os.stat(self._volumes[full]).st_dev
        sharing = [name for name, other in self._volumes.items() if os.stat(other).st_dev == device]
        facts = os.statvfs(path)
        size, free = facts.f_frsize * facts.f_blocks / 2**20, self._before[full] / 2**20
        named = f"volume {full}" if len(sharing) == 1 else f"volumes {' and '.join(sharing)}, one file system"
        return f"{named} ({path}: {size:,.0f} MiB, {free:,.0f} MiB of them free before)"


def _elsewhere(file: Path, *, on_this_machine: bool) -> str:
    """Describes the place of a file that is on no volume."""
    own = temporary.path("").parent
    if file.is_relative_to(own):
        return f"the temporary folder ({_free_text(own.parent)})"
    if on_this_machine:
        return f"a folder that belongs to no volume ({_free_text(nearest_existing(file.parent))})"
    return f"the disk of {file.parent} on the server's machine"


def _free_text(folder: Path) -> str:
    facts = os.statvfs(folder)
    free, size = (facts.f_frsize * blocks / 2**20 for blocks in (facts.f_bavail, facts.f_blocks))
    return f"{folder}: {size:,.0f} MiB, {free:,.0f} MiB of them free now"


def _way_out(config: Config) -> str:
    less = config.workload.less_data
    fewer = ', set between_runs.data = "rebuild", which keeps no template' if wants_template(config) else ""
    return f"free some, name a larger volume, or {less}{fewer}"
