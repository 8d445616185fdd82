"""Checks whether the host has memory for the maps of its drives: a drive without enough would go off-line during a run.

It compares the least that must be mapped: the table's pages at the end of a run and the log of its rows, or, for raw I/O on
filled drives, the whole drive. Leftovers of earlier runs add to that, so a run may still fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storagelab.errors import PreflightError
from storagelab.model.config import Config
from storagelab.profiles import FlashProfile
from storagelab.profiles.declared import default_of

_PAGE_BYTES = 8192
_LOG_BYTES = default_of("a run", "log_bytes")
"""The core's default size of the log."""
_ROWS_PER_LEAF = 50 * 0.6931471805599453
"""50 rows per page; random inserts settle at pages ln 2 full."""


def check_host_ram(content: Mapping[str, Any], configs: Sequence[Config]) -> None:
    """Refuses a drive of a block whose map won't fit `host_ram_bytes`. Raises PreflightError that says why."""
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
        f"driver {other} with sectors of {size} B takes {_gb(less)}"
        for other in profile.drivers
        for size in profile.sectors
        if (less := profile.map_bytes(data_bytes, other, size)) <= ram_bytes
    ]
    raise PreflightError(
        f"the host's memory would run out, and the drive go off-line: {_gb(data_bytes)} of data on it take a map "
        f"of {_gb(map_bytes)} with driver {driver} and sectors of {sector_bytes} B, and it may take "
        f"{_gb(ram_bytes)}",
        key=f"drives.{config.single_drives.get(name, name)}.host_ram_bytes",
        hint=f"One of: {'; '.join(ways)}; or fewer rows.",
    )


def _mapped_bytes(content: Mapping[str, Any], config: Config) -> dict[str, float]:
    """The least number of bytes that must be mapped in the end, for each single drive of a cell."""
    mapped: dict[str, float] = {}
    for name in config.volumes_used:
        volume = content["volumes"][name]
        for drive in volume["drives"]:
            if not config.target.raw_io:
                data_bytes = _table_bytes(config) * _files_share(config, name)
                data_bytes += _log_bytes(content, config) if name == config.log_volume else 0.0
                mapped[drive] = data_bytes * _drive_share(volume)
            elif config.target.prepared != "formatted":
                mapped[drive] = _usable_bytes(content["drives"][drive])
    for drive in mapped:
        if content["drives"][drive].get("history", "formatted") != "formatted" and not _trims(content["drives"][drive]):
            mapped[drive] = _usable_bytes(content["drives"][drive])
    return mapped


def _trims(drive: Mapping[str, Any]) -> bool:
    """Whether making a file system on it frees all its space."""
    return bool(drive["profile"]["trim"]["value"] if drive["trim"] is None else drive["trim"])


def _log_bytes(content: Mapping[str, Any], config: Config) -> float:
    """The least number of bytes that the log takes: its rows' records, but at most its size."""
    cost = "log_page_row_bytes" if config.workload.page_a_row else "log_row_bytes"
    written = config.insert_load.rows * content["server"]["costs"][cost]["value"]
    return float(min(written, config.layout.log_size_bytes or _LOG_BYTES))


def _table_bytes(config: Config) -> float:
    work = config.insert_load
    rows_per_page = 1 if work.page_a_row else _ROWS_PER_LEAF
    return work.rows / rows_per_page * _PAGE_BYTES


def _files_share(config: Config, volume: str) -> float:
    """The share of the data files on `volume`: rows spread evenly over files."""
    files = config.layout.data_files
    return sum(config.volume_of_data_file(number) == volume for number in range(files)) / files


def _drive_share(volume: Mapping[str, Any]) -> float:
    """The share of a volume's data on one of its drives."""
    count = len(volume["drives"])
    match volume.get("raid", "0"):
        case "1":
            return 1.0
        case "5":
            return 1 / (count - 1)
        case "10" | "100":
            return 2 / count
        case _:
            return 1 / count


def _usable_bytes(drive: Mapping[str, Any]) -> float:
    profile = drive["profile"]
    return float(profile["formats"][drive["format"]]["value"]) if profile["kind"] == "flash" else 0.0


def _gb(size_bytes: float) -> str:
    """In decimal units, as makers count."""
    return f"{size_bytes / 1e9:.3g} GB" if size_bytes >= 1e8 else f"{size_bytes / 1e6:.3g} MB"
