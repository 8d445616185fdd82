"""Steps of a run that all real servers share: the state of the machine and its counters, the start gate, and checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine import host
from storagelab.machine.processes import until
from storagelab.model.config import BetweenRunsConfig, Config
from storagelab.model.latency import Latency
from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.measurement import Check, TimeSeries, Turns
from storagelab.volumes.folders import Site
from storagelab.watching.counters import Counters

SPARE_CONNECTIONS = 8
"""The connections that a private server has in addition to the workload's: for storagelab and for superusers."""


class Done(NamedTuple):
    """What a run did, as its own sessions or its generator counted it. Either `rows` or `transactions` are known.
    `series` replaces the sampler's series, with the generator's columns.
    """

    elapsed_s: float
    connection_s: tuple[float, ...]
    checks: tuple[Check, ...]
    counters: Counters
    series: TimeSeries
    rows: int | None = None
    transactions: int | None = None
    latency: Latency | None = None
    turns: Turns | None = None


def prepare_machine(between: BetweenRunsConfig, volumes: Mapping[str, Path], checkpoint: Callable[[], object]) -> None:
    """Bring the machine to the same state before each run. `checkpoint` makes the server write out what it holds in
    memory.
    """
    if between.checkpoint:
        checkpoint()
        for path in volumes.values():
            host.sync_filesystem(path)
    if between.drop_page_cache:
        host.drop_page_cache()
    if between.pause_s:
        time.sleep(between.pause_s)


def check_same(name: str, asked: str, got: str, read_from: str) -> Check:
    return Check(name=name, asked=asked, got=got, ok=asked == got, read_from=read_from)


def check_places(name: str, asked: Sequence[str], got: Sequence[str], read_from: str) -> Check:
    """One check over all data files: their folders, or the first file that lies elsewhere.

    Each item is the folder of one data file, or "default" if the server chooses.
    """
    wrong = [
        f"data file {i}: {there}" for i, (here, there) in enumerate(zip(asked, got, strict=True), 1) if here != there
    ]
    found = wrong[:1] or _folders(got)
    return Check(name=name, asked=", ".join(_folders(asked)), got=", ".join(found), ok=not wrong, read_from=read_from)


def _folders(places: Sequence[str]) -> list[str]:
    return sorted({str(Path(place).parent) if place != "default" else place for place in places})


def places_of(config: Config, site: Site) -> tuple[object, ...]:
    """A key that differs for cells that may leave something in different places."""
    target = config.target
    return (target.engine, target.dsn, target.dsn_env, *sorted(site.volume_paths(config).values()))


def by_server(configs: Iterable[Config]) -> list[list[Config]]:
    """The cells by the server that they attach to."""
    sharing: dict[tuple[str | None, str | None], list[Config]] = {}
    for config in configs:
        sharing.setdefault((config.target.dsn, config.target.dsn_env), []).append(config)
    return list(sharing.values())


def check_connections(config: Config, asked: int) -> None:
    """Refuses a private server with fewer connections than the workload and storagelab need. Raises PreflightError."""
    connections = config.database_load.connections
    needed = connections + SPARE_CONNECTIONS
    if asked < needed:
        raise PreflightError(
            f"{asked} is too few: {connections} connections and {SPARE_CONNECTIONS} spare ones are needed",
            key="target.settings.max_connections",
            hint=f"set at least {needed}, or leave it out",
        )


# --- loops -----------------------------------------------------------------------------------------------------------
#
# One connection's loop on any engine: the start gate, its start and end times, and how often it reports.


POLL_S = 0.2
"""How often the run checks whether its connections are done."""
GATE_TIMEOUT_S = 60.0
"""How long to wait until all connections stand at the start gate."""
REPORT_ROWS = 200
"""A connection reports its progress about this often, so that reports cost little next to small transactions."""


def rows_per_report(workload: InsertLoad) -> int:
    """The number of rows between two reports of a connection's progress: whole transactions, at least REPORT_ROWS
    rows.
    """
    per_transaction = workload.rows_per_transaction
    return per_transaction * max(1, -(-REPORT_ROWS // per_transaction))


def await_gate(all_stand: Callable[[], bool], refuse: Callable[[], None], pause_s: float) -> None:
    """Wait until all connections stand at the start gate. Raises RunFailed if that takes too long. `refuse` raises
    RunFailed if a connection can never get there.
    """

    def ready() -> bool:
        if all_stand():
            return True
        refuse()
        return False

    if not until(ready, GATE_TIMEOUT_S, pause_s):
        raise RunFailed(f"after {GATE_TIMEOUT_S:.0f} s not all connections were ready to start")
