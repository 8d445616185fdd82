"""Data that is prepared once and copied for each run: which cells share it, and how much of it there is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from storagelab.model.config import Config
from storagelab.model.workload import Pgbench, Sysbench

_OF_RUNS = {
    "connections", "threads", "duration_s", "warm_up_s", "warm_up_at_most_s", "transactions_per_connection", "rate",
    "latency_limit_s", "protocol", "scripts", "transactions",
}  # fmt: skip
"""Keys of a load that say what a run does with its data, and nothing about the data."""
_ROWS_PER_SCALE = 100_000


def wanted(config: Config) -> bool:
    return config.between_runs.data == "template"


def name_of(config: Config) -> str:
    """The same for cells that begin with the same data in the same places on servers with the same settings."""
    load = config.workload.model_dump(mode="json", exclude=_OF_RUNS)
    target, layout = config.target.model_dump(mode="json"), config.layout.model_dump(mode="json")
    volumes = {name: volume.path for name, volume in config.volumes.items()}
    return hashlib.sha256(json.dumps([target, layout, volumes, load], sort_keys=True).encode()).hexdigest()[:12]


def distinct(configs: Iterable[Config]) -> list[Config]:
    """One cell for each template that these cells need."""
    return list({name_of(config): config for config in configs if wanted(config)}.values())


def rows(config: Config) -> int:
    """The rows that a generator makes before a run; 0 where the user's own files make them."""
    load = config.workload
    if isinstance(load, Pgbench):
        return load.scale * _ROWS_PER_SCALE
    return load.tables * load.table_size if isinstance(load, Sysbench) else 0
