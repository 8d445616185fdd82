"""Turns cells and runs of one block into a scenario of the core (crates/sim/src/scenario.rs). Pure."""

from __future__ import annotations

from storagelab import _sim, profiles
from storagelab.errors import PreflightError
from storagelab.model.config import Config, ServerConfig
from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.plan import PlannedBlock
from storagelab.profiles import Shelf
from storagelab.targets.simulated.hardware import hardware

_POINTS_WHILE_COMPUTING = 150
"""The least number of points in a time series. One per second, as for a real server, would be thousands for each run."""
_ROW_CPU_S = 60e-6


def scenario(block: PlannedBlock, folder: Shelf) -> dict[str, object]:
    """The scenario of a block, all its runs in order; profiles are relative to `folder`. Raises PreflightError by key.

    Everything that belongs to the block is the same in all its cells (`matrix` makes blocks so), and comes from the first.
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
        "sample_every_s": _sample_every_s(rows, config.server.cores),
    }


def server(said: ServerConfig) -> dict[str, object]:
    """The server in the core's form: the profile's costs and switches, except those that the spec sets."""
    profile = profiles.server()
    costs = {name: figure.model_dump(exclude_none=True) for name, figure in profile.costs.items()}
    for name, value in said.costs.items():
        if name not in costs:
            hint = f"There are: {', '.join(costs)}."
            raise PreflightError("is not a cost of the engine", key=f"server.costs.{name}", hint=hint)
        costs[name] = {"value": value, "label": "assumed", "source": "set in the spec"}
    switches = {name: figure.value for name, figure in profile.switches.items()} | switches_set(said)
    return {"cores": said.cores, "memory_bytes": said.memory_bytes, "costs": costs, "switches": switches}


def switches_set(said: ServerConfig) -> dict[str, object]:
    """The switches that the spec sets."""
    return said.model_dump(exclude_none=True, exclude={"cores", "memory_bytes", "costs"})


def _cell(config: Config) -> dict[str, object]:
    """What all runs of a cell have in common."""
    layout = config.layout
    sizes = {"data_bytes": layout.data_size_bytes, "log_bytes": layout.log_size_bytes}
    return {
        "data_files": config.layout.data_files,
        "data_volumes": list(config.data_volumes),
        "log_volume": config.log_volume,
        **{name: size for name, size in sizes.items() if size is not None},
        "workload": workload(config.insert_load),
        "format_before": config.between_runs.format_drives,
        "files_shift": config.between_runs.move_files,
    }


def workload(load: InsertLoad) -> dict[str, object]:
    """A load with all its keys; the core refuses keys that it doesn't know."""
    keys = load.model_dump()
    if "read_fraction" in keys:
        keys["read_per_mille"] = round(1000 * keys.pop("read_fraction"))
    return keys


def _sample_every_s(rows: int, cores: int) -> float:
    """Seconds between points of the time series, from the rows' minimum time: their CPU time, over all cores."""
    return min(60.0, max(0.05, rows * _ROW_CPU_S / cores / _POINTS_WHILE_COMPUTING))
