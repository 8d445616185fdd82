"""Small steps of a run that all real servers share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from storagelab.errors import PreflightError
from storagelab.machine import host
from storagelab.model.config import BetweenRunsConfig, Config
from storagelab.model.latency import Latency
from storagelab.model.measurement import Check, ObserverCost, TimeSeries
from storagelab.targets.folders import Site

Counters = dict[str, dict[str, float]]
"""A server's counters, `group -> name -> value`, units last in names."""
SPARE_CONNECTIONS = 8
"""Connections that a private server has room for besides the workload's: storagelab's own, and those for superusers."""
LONGEST_BLIND_S = 0.5
LARGEST_BLIND_SHARE = 0.005
"""A run that was unseen for less than this counts as watched."""


class Done(NamedTuple):
    """What a run did, as its own sessions or its generator counted it. Either `rows` or `transactions` are known; `series`
    replaces what was watched, with columns of the generator's."""

    elapsed_s: float
    connection_s: tuple[float, ...]
    checks: tuple[Check, ...]
    counters: Counters
    series: TimeSeries
    rows: int | None = None
    transactions: int | None = None
    latency: Latency | None = None


def prepare_machine(between: BetweenRunsConfig, volumes: Mapping[str, Path], checkpoint: Callable[[], object]) -> None:
    """Bring the machine to the same state before each run. `checkpoint` makes the server write out what it holds."""
    if between.checkpoint:
        checkpoint()
        for path in volumes.values():
            host.sync_filesystem(path)
    if between.drop_page_cache:
        host.drop_page_cache()
    if between.pause_s:
        time.sleep(between.pause_s)


def check_watching(error: str, observer: ObserverCost, elapsed_s: float) -> list[Check]:
    """A check that fails if only part of a run was watched: its waits must not pass for the whole run's, nor a standstill for
    work.

    `error` is empty unless watching stopped early.
    """
    got = error
    if not got and observer.blind_s > max(LONGEST_BLIND_S, LARGEST_BLIND_SHARE * elapsed_s):
        got = (
            f"nothing for {observer.blind_s:.1f} s of {elapsed_s:.1f} s, in which storagelab or the server stood still "
            "(stopped, suspended, or without a CPU)"
        )
    return [Check(name="watching", asked="the whole run", got=got, ok=False, read_from="the sampler")] if got else []


def check_same(name: str, asked: str, got: str, read_from: str) -> Check:
    return Check(name=name, asked=asked, got=got, ok=asked == got, read_from=read_from)


def check_places(name: str, asked: Sequence[str], got: Sequence[str], read_from: str) -> Check:
    """One check over all data files: the folders they lie in, or the first one that lies elsewhere.

    Each item is the folder of one data file, or "default" where the server chooses.
    """
    wrong = [
        f"data file {i}: {there}" for i, (here, there) in enumerate(zip(asked, got, strict=True), 1) if here != there
    ]
    found = wrong[:1] or _folders(got)
    return Check(name=name, asked=", ".join(_folders(asked)), got=", ".join(found), ok=not wrong, read_from=read_from)


def _folders(places: Sequence[str]) -> list[str]:
    return sorted({str(Path(place).parent) if place != "default" else place for place in places})


def places_of(config: Config, site: Site) -> tuple[object, ...]:
    """Distinguishes two cells that may leave something in different places."""
    target = config.target
    return (target.engine, target.dsn, target.dsn_env, *sorted(site.volume_paths(config).values()))


def by_server(configs: Iterable[Config]) -> list[list[Config]]:
    """Groups cells by the server that they attach to."""
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


def difference(before: Counters, after: Counters) -> Counters:
    """What was counted between two readings; what stood still is left out."""
    changed: Counters = {}
    for group, counters in after.items():
        earlier = before.get(group, {})
        moved = {name: value - earlier.get(name, 0.0) for name, value in counters.items()}
        moved = {name: value for name, value in moved.items() if value}
        if moved:
            changed[group] = moved
    return changed


def counting(read: Callable[[], Counters]) -> Callable[[], Counters]:
    """Read counters now; the function returned reads them again and gives the difference."""
    before = read()
    return lambda: difference(before, read())
