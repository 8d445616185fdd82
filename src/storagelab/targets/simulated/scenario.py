"""Cells and runs of one block as a scenario of the core (crates/sim/src/scenario.rs). Pure."""

from __future__ import annotations

from pathlib import Path

from storagelab import _sim, profiles
from storagelab.errors import PreflightError
from storagelab.model.config import Config, ServerConfig
from storagelab.model.plan import PlannedBlock, PlannedRun
from storagelab.targets.simulated.hardware import hardware

_POINTS_WHILE_COMPUTING = 150
"""Points that a time series has at least. One a second, as for a real server, would be thousands for each run."""
_ROW_CPU_S = 60e-6
_WORKLOAD = {"kind", "connections", "rows_per_connection", "rows_per_transaction"}


def scenario(block: PlannedBlock, folder: Path) -> dict[str, object]:
    """The scenario of a block, all its runs in order; profiles are relative to `folder`. Raises PreflightError by key.

    What belongs to a block is the same in all its cells (`matrix` makes blocks so), and is taken from the first.
    """
    config = block.first_cell.config
    assert config.server is not None
    rows = min(cell.config.workload.rows for cell in block.cells.values())
    return {
        "scale": config.target.world_scale,
        "seed": _sim.stream_seed(block.runs[0].seed, "drives"),
        "server": server(config.server),
        **hardware([block.cell_of(planned).config for planned in block.runs], folder),
        "runs": [_run(planned, block.cell_of(planned).config) for planned in block.runs],
        "sample_every_s": _sample_every_s(rows, config.server.cores),
    }


def server(said: ServerConfig) -> dict[str, object]:
    """The server as the core has it: the profile's costs and switches, but for those that the spec sets."""
    profile = profiles.server()
    costs = {name: figure.model_dump(exclude_none=True) for name, figure in profile.costs.items()}
    for name, value in said.costs.items():
        if name not in costs:
            hint = f"There are: {', '.join(costs)}."
            raise PreflightError("is no cost of the engine", key=f"server.costs.{name}", hint=hint)
        costs[name] = {"value": value, "label": "fitted", "source": "set in the spec"}
    switches = {name: figure.value for name, figure in profile.switches.items()} | switches_set(said)
    return {"cores": said.cores, "memory_bytes": said.memory_bytes, "costs": costs, "switches": switches}


def switches_set(said: ServerConfig) -> dict[str, object]:
    """The switches that the spec sets."""
    return said.model_dump(exclude_none=True, exclude={"cores", "memory_bytes", "costs"})


def _run(planned: PlannedRun, config: Config) -> dict[str, object]:
    layout = config.layout
    sizes = {"data_bytes": layout.data_size_bytes, "log_bytes": layout.log_size_bytes}
    return {
        "data_files": config.layout.data_files,
        "data_volumes": list(config.data_volumes),
        "log_volume": config.log_volume,
        **{name: size for name, size in sizes.items() if size is not None},
        "workload": _workload(config),
        "seed": planned.seed,
        "format_before": config.between_runs.format_drives,
        "files_shift": config.between_runs.move_files,
    }


def _workload(config: Config) -> dict[str, object]:
    work = config.workload
    reads = {} if work.read_fraction is None else {"read_per_mille": round(1000 * work.read_fraction)}
    return work.model_dump(include=_WORKLOAD) | reads


def _sample_every_s(rows: int, cores: int) -> float:
    """Seconds between points of the time series, from what the rows take at least: their CPU time, over all cores."""
    return min(60.0, max(0.05, rows * _ROW_CPU_S / cores / _POINTS_WHILE_COMPUTING))
