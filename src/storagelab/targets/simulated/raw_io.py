"""Raw I/O on simulated drives: turns cells and runs into tests of the core (crates/sim/src/raw_io.rs), and outcomes into
Measurements.

A Measurement has the requests completed in `elapsed_s`, the time after the warm-up, both life-size. Rates and latencies are
the scaled world's, since they don't shrink with it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storagelab import _sim
from storagelab.model.config import Config
from storagelab.model.measurement import RAW_IO, Measurement
from storagelab.model.plan import Cell, PlannedBlock
from storagelab.model.waits import NS
from storagelab.profiles import Shelf
from storagelab.targets.simulated.hardware import hardware
from storagelab.targets.simulated.measurement import device_counters


def raw_scenario(block: PlannedBlock, folder: Shelf) -> dict[str, object]:
    """The tests of a block, in order; profiles are relative to `folder`. Raises PreflightError by key."""
    config = block.first_cell.config
    of_cell = {cell_id: _cell(cell.config) for cell_id, cell in block.cells.items()}
    content: dict[str, object] = {
        "scale": config.target.world_scale,
        "seed": _sim.stream_seed(block.runs[0].seed, "drives"),
        **hardware([cell.config for cell in block.cells.values()], folder),
        "tests": [{**of_cell[planned.cell_id], "seed": planned.seed} for planned in block.runs],
    }
    if config.target.prepared is not None:
        content["prepared"] = config.target.prepared
    return content


def _cell(config: Config) -> dict[str, object]:
    """What all tests of a cell have in common."""
    work = config.workload.model_dump(exclude={"kind", "read_fraction"})
    return {
        "volume": config.data_volumes[0],
        "access": work.pop("operation"),
        **work,
        "file_bytes": config.layout.data_size_bytes,
    }


def raw_measurement(outcome: Mapping[str, Any], cell: Cell, environment: Mapping[str, object]) -> Measurement:
    """One run, life-size. `outcome` is the core's, parsed."""
    scale = cell.config.target.world_scale
    return Measurement(
        provenance="simulated",
        elapsed_s=outcome["elapsed_ns"] * scale * NS,
        requests=outcome["ios"] * scale,
        counters={RAW_IO: _figures(outcome), **device_counters(outcome, scale, cell)},
        environment=dict(environment),
    )


def _figures(outcome: Mapping[str, Any]) -> dict[str, float]:
    latency = outcome["latency"]
    percentiles = {f"latency_p{per_mille / 10:g}_s": ns * NS for per_mille, ns in latency["per_mille_ns"]}
    return {
        "ios_per_s": outcome["ios_per_s"],
        "bytes_per_s": outcome["bytes_per_s"],
        "latency_mean_s": latency["mean_ns"] * NS,
        "latency_least_s": latency["least_ns"] * NS,
        **percentiles,
        "latency_longest_s": latency["longest_ns"] * NS,
    }
