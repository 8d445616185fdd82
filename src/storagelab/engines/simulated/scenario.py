"""Turns cells and runs of one block into a scenario of the core (crates/sim/src/scenario.rs). Pure.

A scenario describes a server with its drives, or tests of drives without a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from storagelab import _sim, profiles
from storagelab.engines.simulated.measurement import device_counters, measurement
from storagelab.errors import PreflightError
from storagelab.loads.traces import late_figures, read, replay_figures
from storagelab.model.config import Config, ServerConfig
from storagelab.model.loads.base import of_class
from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.loads.raw_io import RawIo
from storagelab.model.loads.replay import Replay
from storagelab.model.measurement import RAW_IO, Measurement, TimeSeries, latency_of_table
from storagelab.model.plan import Cell, PlannedBlock
from storagelab.model.volume import OPERATING_SYSTEM, DriveConfig, VolumeConfig
from storagelab.model.waits import NS
from storagelab.profiles import FlashProfile, Profile, Shelf

_POINTS_WHILE_COMPUTING = 150
"""The least number of points in a time series. A real server has one point a second, which would be thousands of points
for each run.
"""
_ROW_CPU_S = 60e-6


def scenario(block: PlannedBlock, folder: Shelf) -> dict[str, object]:
    """The scenario of a block, with all its runs in order. Names of profiles are relative to `folder`.

    All cells of a block have the same server, drives and volumes, because `matrix` makes such blocks. So these are read
    from the first cell. Raises PreflightError, which names the key.
    """
    config = block.first_cell.config
    assert config.server is not None
    rows = min(cell.config.insert_load.rows for cell in block.cells.values())
    of_cell = {cell_id: _cell(cell.config) for cell_id, cell in block.cells.items()}
    return {
        "scale": config.target.world_scale,
        "seed": _sim.stream_seed(block.runs[0].seed, "drives"),
        "server": server(config.server),
        **hardware([cell.config for cell in block.cells.values()], folder),
        "runs": [{**of_cell[planned.cell_id], "seed": planned.seed} for planned in block.runs],
        # The interval follows from the shortest time for the rows: their CPU time, divided by the number of cores.
        "sample_every_s": min(60.0, max(0.05, rows * _ROW_CPU_S / config.server.cores / _POINTS_WHILE_COMPUTING)),
    }


def server(declared: ServerConfig) -> dict[str, object]:
    """The server in the core's format. Its costs and switches are from the profile, unless the spec sets them."""
    profile = profiles.server()
    costs = {name: figure.model_dump(exclude_none=True) for name, figure in profile.costs.items()}
    for name, value in declared.costs.items():
        if name not in costs:
            hint = f"The costs are: {', '.join(costs)}."
            raise PreflightError("is not a cost of the engine", key=f"server.costs.{name}", hint=hint)
        costs[name] = {"value": value, "label": "assumed", "source": "set in the spec"}
    switches = {name: figure.value for name, figure in profile.switches.items()} | switches_set(declared)
    return {"cores": declared.cores, "memory_bytes": declared.memory_bytes, "costs": costs, "switches": switches}


def switches_set(declared: ServerConfig) -> dict[str, object]:
    """The switches that the spec sets."""
    return declared.model_dump(exclude_none=True, exclude={"cores", "memory_bytes", "costs"})


def _cell(config: Config) -> dict[str, object]:
    """The part of the scenario that is the same for all runs of a cell."""
    layout = config.layout
    sizes = {"data_bytes": layout.data_size_bytes, "log_bytes": layout.log_size_bytes}
    return {
        "data_files": config.layout.data_files, "data_volumes": list(config.data_volumes),
        "log_volume": config.log_volume, **{name: size for name, size in sizes.items() if size is not None},
        "workload": workload(config.insert_load), "format_before": config.between_runs.format_drives,
        "files_shift": config.between_runs.move_files,
    }  # fmt: skip


def workload(load: InsertLoad) -> dict[str, object]:
    """A load with all its keys, in the core's format."""
    keys = load.model_dump()
    if "read_fraction" in keys:
        keys["read_per_mille"] = round(1000 * keys.pop("read_fraction"))
    return keys


# --- hardware --------------------------------------------------------------------------------------------------------
#
# The drives and volumes of one block in the core's format (crates/sim/src/scenario/hardware.rs). Pure.


T = TypeVar("T", str, int)

Hardware = dict[str, Mapping[str, object]]


def hardware(configs: Sequence[Config], folder: Shelf) -> Hardware:
    """The volumes that the cells of a block use, and their drives: `{"drives": .., "volumes": ..}`.

    A spec may declare more volumes on the same drives, for example to compare arrays. Volumes that no cell of the block
    uses are left out. Names of profiles are relative to `folder`. Raises PreflightError, which names the key.
    """
    config = configs[0]
    singles = config.single_drives
    names = [name for name in config.volumes if any(name in one.volumes_used for one in configs)]
    volumes = {name: _volume(config, config.volumes[name]) for name in names}
    members = dict.fromkeys(drive for name in names for drive in drives_of(config, config.volumes[name]))
    used, raw_io = dict.fromkeys(singles[one] for one in members), config.target.raw_io
    made = {name: _drive(name, config.drives[name], folder, raw_io) for name in used}
    return {"drives": {single: made[singles[single]] for single in members}, "volumes": volumes}


def drives_of(config: Config, volume: VolumeConfig) -> tuple[str, ...]:
    """The names of the single drives of a volume, in order."""
    return tuple(single for name in volume.drives or () for single in config.drives_called(name))


def _volume(config: Config, volume: VolumeConfig) -> dict[str, object]:
    """The volume in the core's format. Keys that the spec does not set are left out: only the core has defaults."""
    declared: dict[str, object] = {"drives": list(drives_of(config, volume))}
    declared |= volume.model_dump(include={"raid", "stripe_bytes", "arrays"}, exclude_none=True)
    if volume.offset_bytes:
        declared["offset_bytes"] = volume.offset_bytes
    if volume.cache is not None and volume.cache.size_bytes:
        cache = volume.cache.model_dump(exclude_none=True)
        declared["cache"] = {"bytes": cache.pop("size_bytes"), **cache}
    if volume.link is not None and volume.link.bytes_per_s != 0:
        declared["link"] = volume.link.model_dump(exclude_none=True)
    if volume.lost:
        declared["lost"] = [{"drive": drive} for drive in volume.lost]
    return declared


def _drive(name: str, drive: DriveConfig, folder: Shelf, raw_io: bool) -> dict[str, object]:
    key = f"drives.{name}"
    profile = profiles.load(drive.profile, folder, f"{key}.profile")
    if drive.order is not None and profile.kind != "disk":
        hint = f"Leave it out: {profile.title} does not change the order of its queue."
        raise PreflightError("is for disks", key=f"{key}.order", hint=hint)
    if not isinstance(profile, FlashProfile):
        return _plain(key, drive, profile)
    return {
        "profile": profile.for_core(), **_format(key, drive, profile, raw_io),
        "driver": _choice(f"{key}.driver", drive.driver, tuple(profile.drivers), profile),
        "sector_bytes": _choice(f"{key}.sector_bytes", drive.sector_bytes, profile.sectors, profile),
        "trim": drive.trim, "host_ram_bytes": drive.host_ram_bytes, "log_delay_ns": drive.log_delay_ns,
    }  # fmt: skip


_HISTORIES = {"new": "formatted", "filled": "filled", "aged": "aged"}
"""The core's names of the formats (crates/sim/src/scenario/hardware.rs)."""


def _of_today(profile: Profile) -> str:
    """The changes that a spec needs if a current drive replaces its drive of 2008."""
    set_ = f" and driver, and set sector_bytes = {' or '.join(map(str, profile.sectors))}"
    keys = set_ if isinstance(profile, FlashProfile) else ", driver and sector_bytes"
    return f"In the spec and its factors, leave out format{keys}. Or begin with: storagelab init todays-drives"


def _format(key: str, drive: DriveConfig, profile: FlashProfile, raw_io: bool) -> dict[str, object]:
    """The drive's format and history. A format of the maker removes the history. For raw I/O, the load sets it."""
    if drive.format != OPERATING_SYSTEM:
        there = tuple(profile.formats)
        return {"format": _choice(f"{key}.format", drive.format, there, profile, also=f"; or {OPERATING_SYSTEM}")}
    if profile.made_in is None:
        hint = f"Add it to the profile: [factory_format], with one of the values {', '.join(profile.formats)}."
        problem = f"the format of {profile.title} when new is unknown"
        raise PreflightError(problem, key=f"{key}.format", hint=hint)
    history = {} if raw_io else {"history": _HISTORIES[drive.history or "aged"]}
    return {"format": profile.made_in, **history}


def _plain(key: str, drive: DriveConfig, profile: Profile) -> dict[str, object]:
    """A drive without formats, such as a disk. The spec can choose nothing, except the order of a disk's queue.

    Raises PreflightError if the spec sets a key that is only for flash drives.
    """
    for name in ("format", "history", "driver", "sector_bytes", "trim", "host_ram_bytes", "log_delay_ns"):
        if getattr(drive, name) is not None:
            what = "a disk." if profile.kind == "disk" else f"no flash drive with formats. {_of_today(profile)}"
            hint = f"Leave it out: {profile.title} is {what}"
            raise PreflightError("is for flash drives", key=f"{key}.{name}", hint=hint)
    return {"profile": profile.for_core(), "order": drive.order}


def _choice(key: str, chosen: T | None, there: Sequence[T], profile: Profile, also: str = "") -> T:
    """The user's choice. If there is only one option, the user need not choose. Raises PreflightError if the choice is
    missing or not possible.
    """
    known = ", ".join(map(str, there)) + also
    if chosen is None and len(there) > 1:
        raise PreflightError(f"is missing, and {profile.title} has several", key=key, hint=f"Choose one of: {known}.")
    if chosen is not None and chosen not in there:
        hint = f"It has: {known}." + (f" {_of_today(profile)}" if len(there) == 1 else "")
        raise PreflightError(f"{profile.title} has no {chosen!r}", key=key, hint=hint)
    return there[0] if chosen is None else chosen


# --- raw io ----------------------------------------------------------------------------------------------------------
#
# Raw I/O on simulated drives. Turns cells and runs into tests of the core (crates/sim/src/raw_io.rs), and outcomes into
# Measurements. Pure.
#
# `elapsed_s` of a Measurement is the time after the warm-up. The Measurement has the number of requests that were
# completed in this time. Both are life-size. Rates and latencies are those of the scaled simulation, because they don't
# change with the scale.


def raw_scenario(block: PlannedBlock, folder: Shelf) -> dict[str, object]:
    """The tests of a block, in order. Names of profiles are relative to `folder`.

    Raises PreflightError, which names the key.
    """
    config = block.first_cell.config
    of_cell = {
        cell_id: _TESTS[type(cell.config.workload)](cell.config, folder) for cell_id, cell in block.cells.items()
    }
    content: dict[str, object] = {
        "scale": config.target.world_scale,
        "seed": _sim.stream_seed(block.runs[0].seed, "drives"),
        **hardware([cell.config for cell in block.cells.values()], folder),
        "tests": [{**of_cell[planned.cell_id], "seed": planned.seed} for planned in block.runs],
    }
    if config.target.prepared is not None:
        content["prepared"] = config.target.prepared
    return content


def _drawn(config: Config, folder: Shelf) -> dict[str, object]:  # noqa: ARG001 - as of a trace
    """The part of the scenario that is the same for all tests of a cell with generated requests."""
    drawn = config.raw_load
    work = drawn.model_dump(exclude={"kind", "read_fraction", "sync", "direct"})
    if drawn.operation == "mixed":
        fraction = drawn.read_fraction
        work["reads_per_mille"] = 500 if fraction is None else round(1000 * fraction)
    return {
        "volume": config.data_volumes[0], "access": work.pop("operation"), **work,
        "file_bytes": config.layout.data_size_bytes,
    }  # fmt: skip


def _replay(config: Config, folder: Shelf) -> dict[str, object]:
    """The part of the scenario that is the same for all tests of a cell with a trace. Raises PreflightError."""
    if not isinstance(folder, Path):
        raise PreflightError(
            "a trace is read on this machine only", key="workload.trace", hint="run it without --executor"
        )
    load = of_class(config.workload, Replay)
    file = folder / Path(load.trace).expanduser()
    trace = read(file, config)
    if (size := config.layout.data_size_bytes) is not None:
        trace.check_fits(file, size, 512)
    return {
        "volume": config.data_volumes[0], "outstanding": load.outstanding, "duration_s": max(trace.seconds, 0.001),
        "replay": {"pace": load.pace, "requests": trace.asked(0)}, "file_bytes": config.layout.data_size_bytes,
    }  # fmt: skip


_TESTS = {RawIo: _drawn, Replay: _replay}


def raw_measurement(outcome: Mapping[str, Any], cell: Cell, environment: Mapping[str, object]) -> Measurement:
    """The measurement of one run, life-size. `outcome` is the parsed outcome of the core."""
    scale = cell.config.target.world_scale
    return Measurement(
        provenance="simulated", elapsed_s=outcome["elapsed_ns"] * scale * NS, requests=outcome["ios"] * scale,
        latency=latency_of_table(outcome["latency"]) if outcome.get("late") else None,
        counters={RAW_IO: {**_figures(outcome), **_replayed(outcome)}, **device_counters(outcome, scale, cell)},
        series=_raw_series(outcome["series"], scale, cell.config), environment=dict(environment),
    )  # fmt: skip


def _raw_series(series: Mapping[str, list[float | None]], scale: int, config: Config) -> TimeSeries:
    """The time series after the warm-up. It has the columns of a real run, and columns about flash drives."""
    load, rates = config.workload, [rate or 0.0 for rate in series["ios_per_s"]]
    of_one_kind: dict[str, Sequence[float | None]] = {}
    if (operation := load.only_operation) is not None:
        of_one_kind = {
            f"volume.{config.data_volumes[0]}.{operation}_bytes_per_s": [
                rate * config.raw_load.block_bytes for rate in rates
            ],
            f"{operation}_latency_mean_s": [None if ns is None else ns * NS for ns in series["latency_mean_ns"]],
        }
    columns: dict[str, Sequence[float | None]] = {
        "requests_per_s": rates,
        **of_one_kind,
        **{name: series[name] for name in ("write_amplification", "utilisation") if name in series},
    }
    return TimeSeries(
        at_s=tuple((at_ns or 0) * scale * NS for at_ns in series["at_ns"]),
        columns={name: tuple(values) for name, values in columns.items()},
    )


def _replayed(outcome: Mapping[str, Any]) -> dict[str, float]:
    """The results of a trace. The list is empty if the requests were generated."""
    late, latency = outcome.get("late"), outcome["latency"]
    if late is None:
        return {}
    return {
        **replay_figures(late["asked_ns"] * NS, outcome["elapsed_ns"] * NS, latency["mean_ns"] * latency["count"] * NS),
        **late_figures(late["late"]),
    }


def _figures(outcome: Mapping[str, Any]) -> dict[str, float]:
    latency = outcome["latency"]
    return {
        **{name: outcome[name] for name in ("ios_per_s", "bytes_per_s")},
        "latency_mean_s": latency["mean_ns"] * NS,
        "latency_least_s": latency["least_ns"] * NS,
        **{f"latency_p{per_mille / 10:g}_s": ns * NS for per_mille, ns in latency["per_mille_ns"]},
        "latency_longest_s": latency["longest_ns"] * NS,
    }


# --- worlds ----------------------------------------------------------------------------------------------------------
#
# There are two kinds of simulation: a server with a database on its drives, and drives without a server.


class World(NamedTuple):
    """A kind of simulation.

    `scenario` makes the core's scenario of a block. `runs` is the key of the list of runs in it. `core` makes the runs.
    `measurement` turns the outcome of one run into a Measurement.
    """

    scenario: Callable[[PlannedBlock, Shelf], dict[str, object]]
    core: type[_sim.Block] | type[_sim.RawBlock]
    measurement: Callable[[Mapping[str, Any], Cell, Mapping[str, object]], Measurement]
    runs: str


_SERVER = World(scenario, _sim.Block, measurement, "runs")
_DRIVES = World(raw_scenario, _sim.RawBlock, raw_measurement, "tests")


def world_of(config: Config) -> World:
    return _DRIVES if config.target.raw_io else _SERVER
