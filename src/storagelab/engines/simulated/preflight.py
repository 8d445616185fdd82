"""Checks whether every block of the plan can be simulated with this machine's memory. Changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from storagelab import _sim
from storagelab.engines.simulated.scenario import world_of
from storagelab.errors import PreflightError
from storagelab.machine import host
from storagelab.model.config import Config
from storagelab.model.engines import LARGEST_SCALE
from storagelab.model.plan import Plan, PlannedBlock
from storagelab.model.target import Preflight
from storagelab.profiles import FlashProfile, default_of
from storagelab.volumes.folders import Site

# The memory that a simulation needs on this machine, measured at several scales and rounded up.
_BYTES_PER_FLASH_PAGE = 16
_BYTES_PER_LEAF = 48
_BYTES_PER_FRAME = 16
_BYTES_ANYWAY = 64 * 2**20
_ROWS_PER_LEAF = 34
"""A page has room for 50 rows. On average, ln 2 of this room is used."""

_RUN_PLACE = re.compile(r"(?:runs|tests)\[(?P<run>\d+)\]\.(?P<field>.+)")
_KEYS = {
    "data_files": "layout.data_files", "data_volumes": "layout.data", "log_volume": "layout.log",
    "scale": "target.scale", "server.memory_bytes": "server.memory", "volume": "layout.data",
    "access": "workload.operation",
    "file_bytes": "layout.data_size", "data_bytes": "layout.data_size", "log_bytes": "layout.log_size",
    **{name: f"workload.{name}" for name in ("pattern", "block_bytes", "threads", "outstanding", "duration_s",
    "warm_up_s")},
}  # fmt: skip


def check(plan: Plan, site: Site) -> Preflight:
    """Checks every block. Raises PreflightError for the first cell that can't be simulated. The error names the key."""
    contents = []
    most_bytes = 0
    for block in plan.blocks.values():
        content = world_of(block.first_cell.config).scenario(block, site.profiles)
        _check_block(content, block)
        check_host_ram(content, [block.cell_of(planned).config for planned in block.runs])
        contents.append(content)
        most_bytes = max(most_bytes, memory_bytes(content))
    free_bytes = _free_memory_bytes()
    _check_memory(most_bytes, free_bytes, max(cell.config.target.world_scale for cell in plan.cells), contents)
    at_once = None if free_bytes is None else max(1, free_bytes // most_bytes)
    notes = tuple(dict.fromkeys(note for content in contents for note in bursts(content)))
    return Preflight(server=_server_text(contents), volumes=(), notes=notes, blocks_at_once=at_once)


def _check_block(content: Mapping[str, Any], block: PlannedBlock) -> None:
    try:
        _check(content)
    except _sim.Refused as refusal:
        place, levels = refusal.place, {}
        if match := _RUN_PLACE.fullmatch(place):
            place, levels = match["field"], block.cell_of(block.runs[int(match["run"])]).levels
        where = ", ".join(f"{name} = {level}" for name, level in levels.items())
        hint = _HINTS.get(place, _COSTLY if place.endswith(".drives") else "")
        problem = refusal.what + (f" (in the cell {where})" if where else "")
        raise PreflightError(problem, key=_KEYS.get(place, place), hint=hint) from None


def bursts(content: Mapping[str, Any]) -> Iterator[str]:
    """Notes about a scale that is too large. Caches shrink with the scale, but bursts of writes don't.

    If a burst of writes fits into a cache only at life-size, the small simulation has waits that the real server does
    not have.
    """
    for run in content.get("runs", ()):
        costs = {name: int(figure["value"]) for name, figure in content["server"]["costs"].items()}
        load, data = run["workload"], set(run["data_volumes"])
        row_bytes = costs["log_page_row_bytes" if load["kind"] == "sequential-insert" else "log_row_bytes"]
        of_log = load["connections"] * load["rows_per_transaction"] * row_bytes
        of_data = (costs["checkpoint_writes"] + costs["lazy_writes"]) * costs["gather_pages"] * 8192 // len(data)
        for name, volume in content["volumes"].items():
            cache_bytes = (volume.get("cache") or {}).get("bytes", 0)
            burst_bytes = of_data * (name in data) + of_log * (name == run["log_volume"])
            if cache_bytes // content["scale"] < burst_bytes <= cache_bytes:
                scaled, burst = cache_bytes / content["scale"] / 2**20, burst_bytes / 2**20
                yield (
                    f"at scale {content['scale']} the cache of {name} has {scaled:.3g} MiB, but {burst:.3g} MiB may be "
                    "written to it at once at any scale, so times depend on the scale; a scale of at most "
                    f"{cache_bytes // burst_bytes} avoids this"
                )


_HINTS = {"data_bytes": "It is the sum of the sizes of all data files."}
_COSTLY = (
    "Volumes on the same drives can't be in one block: make the factor that chooses between them costly, for example\n"
    '  costly = ["storage"] at the top of the spec. Then each of its levels begins with newly formatted drives.'
)


def _check(content: Mapping[str, Any]) -> None:
    """Raises `_sim.Refused` if the core can't simulate this scenario."""
    (_sim.check_raw if "tests" in content else _sim.check)(json.dumps(content))


def _server_text(contents: Sequence[Mapping[str, Any]]) -> str:
    scales = _listed(content["scale"] for content in contents)
    titles = _listed(drive["profile"]["title"] for content in contents for drive in content["drives"].values())
    servers = [content["server"] for content in contents if "server" in content]
    if not servers:
        return f"simulated raw I/O, at scale {scales}: {titles}"
    cores = _listed(server["cores"] for server in servers)
    memory = _listed(f"{server['memory_bytes'] / 2**30:.3g}" for server in servers)
    return f"simulated, at scale {scales}: {cores} cores, {memory} GB, {titles}"


def _listed(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))


# --- memory ----------------------------------------------------------------------------------------------------------


def memory_bytes(content: Mapping[str, Any]) -> int:
    """About how many bytes of memory the simulation of a scenario needs on this machine."""
    drives = [drive for drive in content["drives"].values() if drive["profile"]["kind"] == "flash"]
    geometries = [drive["profile"]["geometry"] for drive in drives]
    flash = sum(int(one["raw_bytes"]["value"]) // int(one["flash_page_bytes"]["value"]) for one in geometries)
    if "tests" in content:
        return flash * _BYTES_PER_FLASH_PAGE // int(content["scale"]) + _BYTES_ANYWAY
    rows = max(run["workload"]["rows_per_connection"] * run["workload"]["connections"] for run in content["runs"])
    frames = content["server"]["memory_bytes"] // 8192
    world = flash * _BYTES_PER_FLASH_PAGE + rows // _ROWS_PER_LEAF * _BYTES_PER_LEAF + frames * _BYTES_PER_FRAME
    return int(world // content["scale"]) + _BYTES_ANYWAY


def _check_memory(needed_bytes: int, free_bytes: int | None, scale: int, contents: Sequence[Mapping[str, Any]]) -> None:
    if free_bytes is None or needed_bytes <= free_bytes:
        return
    raise PreflightError(
        f"a simulation at scale {scale} needs about {needed_bytes / 2**30:.1f} GiB of memory, but only "
        f"{free_bytes / 2**30:.1f} GiB are free here",
        key="target.scale",
        hint=_smaller_world(contents, free_bytes)
        or "No scale makes it small enough: simulate fewer rows, a smaller drive or a server with less memory.",
    )


def _smaller_world(contents: Sequence[Mapping[str, Any]], free_bytes: int) -> str:
    """A hint that names the first scale at which every block needs at most half of the free memory and can still be
    simulated. "" if there is no such scale.
    """
    for scale in (2, 4, 8, 16, 32, 64, 128, 256, 512, LARGEST_SCALE):
        scaled = [{**content, "scale": scale} for content in contents]
        needed_bytes = max(map(memory_bytes, scaled))
        if needed_bytes <= free_bytes / 2 and all(map(_can_be, scaled)):
            return f"Set scale = {scale}, which takes about {needed_bytes / 2**30:.2f} GiB."
    return ""


def _can_be(content: Mapping[str, Any]) -> bool:
    try:
        _check(content)
    except _sim.Refused:
        return False
    return True


def _free_memory_bytes() -> int | None:
    known = (host.describe_host().get("memory_available_bytes"), host.memory_limit_bytes())
    return min((figure for figure in known if isinstance(figure, int)), default=None)


# --- host ram --------------------------------------------------------------------------------------------------------
#
# Checks whether the simulated host has enough memory for the maps of its drives. With too little memory, a drive would
# go off-line during a run. The check uses the least amount of data that must be mapped: the table's pages at the end of
# a run, and the log of its rows. For raw I/O on filled drives, it is the whole drive. Data of earlier runs also need
# memory, so a run may still fail.


_PAGE_BYTES = 8192
_LOG_BYTES = default_of("a run", "log_bytes")
"""The core's default size of the log."""
_ROWS_PER_FULL_LEAF = 50 * 0.6931471805599453
"""A page has room for 50 rows. With random inserts, ln 2 of this room is used on average."""


def check_host_ram(content: Mapping[str, Any], configs: Sequence[Config]) -> None:
    """Raises PreflightError if the map of a drive in the block needs more than the drive's `host_ram_bytes`."""
    needed: dict[str, float] = {}
    for config in configs:
        for drive, data_bytes in _mapped_bytes(content, config).items():
            needed[drive] = max(data_bytes, needed.get(drive, 0.0))
    for name, drive in content["drives"].items():
        if drive["profile"]["kind"] == "flash" and drive["host_ram_bytes"] is not None and name in needed:
            _check_drive(name, drive, needed[name], configs[0])


def _check_drive(name: str, drive: Mapping[str, Any], data_bytes: float, config: Config) -> None:
    profile = FlashProfile.model_validate(drive["profile"])
    driver, sector_bytes, ram_bytes = drive["driver"], drive["sector_bytes"], drive["host_ram_bytes"]
    map_bytes = profile.map_bytes(data_bytes, driver, sector_bytes)
    if map_bytes <= ram_bytes:
        return
    ways = [f"raise host_ram_bytes to more than {map_bytes:,.0f}"]
    ways += [
        f"driver {other} with sectors of {size} B needs {_gb(less)}"
        for other in profile.drivers
        for size in profile.sectors
        if (less := profile.map_bytes(data_bytes, other, size)) <= ram_bytes
    ]
    raise PreflightError(
        f"the host's memory would run out, and the drive would go off-line: {_gb(data_bytes)} of data on it need a map "
        f"of {_gb(map_bytes)} with driver {driver} and sectors of {sector_bytes} B, but the map may have only "
        f"{_gb(ram_bytes)}",
        key=f"drives.{config.single_drives.get(name, name)}.host_ram_bytes",
        hint=f"One of: {'; '.join(ways)}; or fewer rows.",
    )


def _mapped_bytes(content: Mapping[str, Any], config: Config) -> dict[str, float]:
    """For each single drive of a cell: the least number of bytes that must be mapped at the end of a run."""
    mapped: dict[str, float] = {}
    for name in config.volumes_used:
        volume = content["volumes"][name]
        for drive in volume["drives"]:
            if not config.target.raw_io:
                work, files = config.insert_load, config.layout.data_files
                here = sum(config.volume_of_data_file(number) == name for number in range(files))
                rows_per_page = 1 if work.page_a_row else _ROWS_PER_FULL_LEAF
                data_bytes = work.rows / rows_per_page * _PAGE_BYTES * here / files  # rows spread evenly over files
                if name == config.log_volume:  # the log records of the rows, but at most the size of the log
                    cost = "log_page_row_bytes" if work.page_a_row else "log_row_bytes"
                    written = work.rows * content["server"]["costs"][cost]["value"]
                    data_bytes += min(written, config.layout.log_size_bytes or _LOG_BYTES)
                mapped[drive] = data_bytes * _drive_share(volume)
            elif config.target.prepared != "formatted":
                mapped[drive] = _usable_bytes(content["drives"][drive])
    for name in mapped:
        drive = content["drives"][name]
        if drive.get("history", "formatted") != "formatted":
            # If the drive supports TRIM, a new file system frees all its space.
            trims = drive["profile"]["trim"]["value"] if drive["trim"] is None else drive["trim"]
            mapped[name] = mapped[name] if trims else _usable_bytes(drive)
    return mapped


def _drive_share(volume: Mapping[str, Any]) -> float:
    """The share of a volume's data that each of its drives stores."""
    count = len(volume["drives"])
    copies = {"1": 1.0, "5": 1 / max(1, count - 1), "10": 2 / count, "100": 2 / count}
    return copies.get(volume.get("raid", "0"), 1 / count)


def _usable_bytes(drive: Mapping[str, Any]) -> float:
    profile = drive["profile"]
    return float(profile["formats"][drive["format"]]["value"]) if profile["kind"] == "flash" else 0.0


def _gb(size_bytes: float) -> str:
    """A size in decimal units, which the makers of drives use."""
    return f"{size_bytes / 1e9:.3g} GB" if size_bytes >= 1e8 else f"{size_bytes / 1e6:.3g} MB"
