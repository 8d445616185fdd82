"""Steps of a run that all real servers share: the state of the machine and its counters, the start gate, and checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine import host, procfs
from storagelab.machine.devices import DeviceCounters
from storagelab.machine.devices import difference as difference_of_devices
from storagelab.machine.processes import until
from storagelab.machine.procfs import Throttling
from storagelab.model.config import BetweenRunsConfig, Config
from storagelab.model.latency import Latency
from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.measurement import HELD_BACK, THROTTLED, Check, TimeSeries, Turns, held_back
from storagelab.model.values import Frozen
from storagelab.targets.folders import Site
from storagelab.targets.watching import Standstill

Counters = dict[str, dict[str, float]]
"""A server's counters, `group -> name -> value`, units last in names."""
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


def difference(before: Counters, after: Counters) -> Counters:
    """What was counted between two readings; counters that did not change are left out."""
    changed: Counters = {}
    for group, counters in after.items():
        earlier = before.get(group, {})
        moved = {name: value - earlier.get(name, 0.0) for name, value in counters.items()}
        moved = {name: value for name, value in moved.items() if value}
        if moved:
            changed[group] = moved
    return changed


def counting(read: Callable[[], Counters]) -> Callable[[], Counters]:
    """Read the counters now; the function returned reads them again and gives the difference."""
    before = read()
    return lambda: difference(before, read())


# --- loops -----------------------------------------------------------------------------------------------------------
#
# One connection's loop on any engine: the start gate, its start and end times, and how often it reports.


POLL_S = 0.2
"""How often the run checks whether its connections are done."""
GATE_TIMEOUT_S = 60.0
"""How long to wait until all connections stand at the start gate."""
REPORT_ROWS = 200
"""A connection reports its progress about this often, so that reports cost little next to small transactions."""


class Loop(Frozen):
    """One connection's work, by the server's clock, in seconds since the epoch."""

    started_s: float
    finished_s: float
    reads_done: int = 0
    reads_found: int = 0


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


# --- machine counters ------------------------------------------------------------------------------------------------
#
# This machine's counters during a run: the drives' I/O, who uses the CPUs, and whom a CPU quota limits.


LARGEST_HELD_BACK = 0.1
"""If a run lost a larger share of its time to a CPU quota, it measured the quota."""


class MachineCounters:
    """Counts from its creation to `end`. `server_process` is None if the server's CPU time is unknown."""

    def __init__(self, devices: DeviceCounters, server_process: int | None) -> None:
        self._devices, self._server_process = devices, server_process
        self._throttling = Throttling(server_process)
        self.standstill = Standstill(self._throttling.processes)
        self._throttled: dict[str, float] = {}
        self._began = self._ended = self._read()

    def _read(self) -> tuple[dict[str, float], dict[str, float]]:
        return self._devices.read(), procfs.read_cpu_time(self._server_process)

    def look(self) -> None:
        """Reads the processes; to be called every 0.2 s, to see one that ends before the run does, or stands still."""
        self._throttling.look()
        self.standstill.look()

    def end(self) -> None:
        self.standstill.look()
        self._ended = self._read()
        self._throttled = self._throttling.end()

    def counted(self, *, with_checkpoint: bool) -> Counters:
        """The run's counters by group, and those of the final checkpoint, if there was one."""
        (devices_before, cpu_before), (devices_after, cpu_after) = self._began, self._ended
        groups = {
            "volumes": difference_of_devices(devices_before, devices_after),
            "cpu": procfs.difference(cpu_before, cpu_after) | self._throttled,
        }  # fmt: skip
        if with_checkpoint:
            groups["volumes, final checkpoint"] = difference_of_devices(devices_after, self._devices.read())
        return groups

    def checks(self, elapsed_s: float) -> list[Check]:
        """A check that fails if a control group's CPU quota took a large part of the run."""
        found = held_back(self._throttled, elapsed_s)
        worst = max(found, key=lambda who: found[who][1], default=None)
        if worst is None or found[worst][1] <= LARGEST_HELD_BACK:
            return []
        held_s, share = found[worst]
        got = f"{HELD_BACK[worst]} held back for {held_s:.1f} s of CPU time, {100 * share:.0f} % of {elapsed_s:.1f} s"
        return [
            Check(
                name=THROTTLED, asked="nobody held back", got=got, ok=False, read_from="cpu.stat of the control groups"
            )
        ]
