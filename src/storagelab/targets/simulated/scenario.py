"""Cells and runs of one block as a scenario of the core (crates/sim/src/scenario.rs). Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from storagelab import _sim, profiles
from storagelab.errors import PreflightError
from storagelab.model import Cell, Config, DriveConfig, PlannedRun
from storagelab.profiles import DiskProfile, Profile

T = TypeVar("T", str, int)

DEFAULT_SCALE = 64
_POINTS_WHILE_COMPUTING = 150
"""Points that a time series has at least. One a second, as for a real server, would be thousands for each run."""
_ROW_CPU_S = 60e-6
_SWITCHES = (
    "pfs_latch", "pick_file", "pick_tries", "parent_latches", "lazy_writer", "checkpoints", "notice_at_switch",
)  # fmt: skip


def scale_of(config: Config) -> int:
    """How many times smaller the world is."""
    return config.target.scale or DEFAULT_SCALE


def scenario(runs: Sequence[PlannedRun], cells: Mapping[str, Cell], folder: Path) -> dict[str, object]:
    """The scenario of a block, all its runs in order; profiles are relative to `folder`. Raises PreflightError by key.

    What belongs to a block is the same in all its cells (`matrix` makes blocks so), and is taken from the first.
    """
    config = cells[runs[0].cell_id].config
    assert config.server is not None
    server = config.server
    costs = json.loads(_sim.costs())
    for name, value in server.costs.items():
        if name not in costs:
            hint = f"There are: {', '.join(costs)}."
            raise PreflightError("is no cost of the engine", key=f"server.costs.{name}", hint=hint)
        costs[name] = {"value": value, "label": "fitted", "source": "set in the spec"}
    switches = {name: getattr(server, name) for name in _SWITCHES if getattr(server, name) is not None}
    return {
        "scale": scale_of(config),
        "seed": _sim.stream_seed(runs[0].seed, "drives"),
        "server": {"cores": server.cores, "memory_bytes": server.memory_bytes, "costs": costs, "switches": switches},
        "drives": {name: _drive(name, drive, folder) for name, drive in config.drives.items()},
        "volumes": {name: {"drives": list(volume.drives or ())} for name, volume in config.volumes.items()},
        "runs": [_run(planned, cells[planned.cell_id].config) for planned in runs],
        "sample_every_s": _sample_every_s(min(cells[one.cell_id].config.workload.rows for one in runs), server.cores),
    }


def _run(planned: PlannedRun, config: Config) -> dict[str, object]:
    return {
        "data_files": config.layout.data_files,
        "data_volumes": list(config.data_volumes),
        "log_volume": config.log_volume,
        "workload": config.workload.model_dump(exclude={"read_fraction"}),
        "seed": planned.seed,
        "format_before": config.between_runs.format_drives,
        "files_shift": config.between_runs.move_files,
    }


def _sample_every_s(rows: int, cores: int) -> float:
    """Seconds between points of the time series, from what the rows take at least: their CPU time, over all cores."""
    return min(60.0, max(0.05, rows * _ROW_CPU_S / cores / _POINTS_WHILE_COMPUTING))


def _drive(name: str, drive: DriveConfig, folder: Path) -> dict[str, object]:
    key = f"drives.{name}"
    profile = profiles.load(drive.profile, folder, f"{key}.profile")
    if isinstance(profile, DiskProfile):
        return _disk(key, drive, profile)
    if drive.order is not None:
        hint = "Leave it out: a flash drive has no queue to put in order."
        raise PreflightError("is for disks", key=f"{key}.order", hint=hint)
    for figure, value in ((figure, value.value) for figure, value in profile.figures()):
        if wanted := _not_of_its_kind(figure, value):
            raise PreflightError(
                f"the profile {drive.profile}: {figure} must be {wanted}, not {value!r}", key=f"{key}.profile"
            )
    return {
        "profile": profile.model_dump(exclude_none=True),
        "format": _choice(f"{key}.format", drive.format, tuple(profile.formats), profile),
        "driver": _choice(f"{key}.driver", drive.driver, tuple(profile.drivers), profile),
        "sector_bytes": _choice(f"{key}.sector_bytes", drive.sector_bytes, profile.sectors, profile),
        "trim": drive.trim,
        "host_ram_bytes": drive.host_ram_bytes,
    }


def _disk(key: str, drive: DriveConfig, profile: DiskProfile) -> dict[str, object]:
    for name in ("format", "driver", "sector_bytes", "trim", "host_ram_bytes"):
        if getattr(drive, name) is not None:
            hint = f"Leave it out: {profile.title} is a disk."
            raise PreflightError("is for flash drives", key=f"{key}.{name}", hint=hint)
    return {"profile": profile.model_dump(exclude_none=True), "order": drive.order}


_WORDS = {"cleaning.victim": ("greedy", "fifo"), "cleaning.streams": ("separate", "shared")}
_LARGE = ("_ns", "_per_s", "raw_bytes", "per_data_bytes", "advised_bytes")


def _not_of_its_kind(figure: str, value: object) -> str:
    """What a profile's figure must be if it is something else; nothing if it is of its kind."""
    if figure == "trim":
        return "" if isinstance(value, bool) else "true or false"
    if figure in _WORDS:
        return "" if value in _WORDS[figure] else " or ".join(_WORDS[figure])
    large = figure.endswith(_LARGE) or figure.startswith(("formats.", "mapping.worst_case_bytes."))
    most = 2**63 - 1 if large else 2**32 - 1
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
    return "" if whole else f"a whole number from 0 to {most}"


def _choice(key: str, chosen: T | None, there: Sequence[T], profile: Profile) -> T:
    """What was chosen, or the only one there is."""
    known = ", ".join(map(str, there))
    if chosen is None and len(there) > 1:
        raise PreflightError(f"is missing, and {profile.title} has several", key=key, hint=f"Choose one of: {known}.")
    if chosen is not None and chosen not in there:
        raise PreflightError(f"{profile.title} has no {chosen!r}", key=key, hint=f"It has: {known}.")
    return there[0] if chosen is None else chosen
