"""`storagelab demo`: measures how much faster storage could gain at most, and how fast this disk syncs."""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path

from storagelab import experiments, screen
from storagelab.errors import PreflightError, refuse
from storagelab.machine import host
from storagelab.model.config import BetweenRunsConfig
from storagelab.model.plan import Cell, Plan
from storagelab.report import writing
from storagelab.report.text.columns import print_paragraph
from storagelab.run.engine import open_target
from storagelab.spec import matrix, reading
from storagelab.verbs import _planning, _running
from storagelab.volumes.folders import Site, volumes_locked
from storagelab.words.numbers import percent, seconds, significant

NAME = "demo"
PROBE_S, SYNCS_S = 2.0, 3.0
BUSY_MOST = 0.8
"""The largest fraction of the CPUs' time for the load with its files on disk: a higher load would hide the storage."""
CONNECTIONS_MOST = 16
_PAGE_BYTES, _FILE_BYTES = 8192, 16 * 2**20
"""The bytes that PostgreSQL writes to a log file for a small commit."""


def demo(results: Path) -> bool:
    """Makes the missing runs, and prints the answer and a fact about the disk that holds `results`. Returns whether all
    runs have succeeded.
    """
    file = results / f"{NAME}.toml"
    if not file.exists():
        results.mkdir(parents=True, exist_ok=True)
        writing.write(file, _sized(file, results), elsewhere=" with --results")
    well = _running.run(file, results, _running.Asked())
    per_s, p99_s = syncs(results)
    facts = f"This disk alone: {significant(per_s)} syncs of 8 KiB a second, 99 % of them within {seconds(p99_s)}"
    print_paragraph(screen.out(), f"{facts}: at most about {significant(per_s, 2)} commits a second from one session.")
    print_paragraph(screen.out(), "Your own server: storagelab init wal-volume --from-server DSN", style="bold")
    return well


def spec(connections: int, *, memory: bool) -> str:
    """The ready-made experiment with `connections` connections. Without `memory`, the upper bound comes from the level
    that is a comment in the spec.
    """
    text = re.sub(r"(?m)^connections = \d+", f"connections = {connections}", experiments.text_of("ceiling"))
    return text if memory else re.sub(r"(?m)^[^#\n]*(memory|/dev/shm).*\n", "", text).replace("  # {", "  {")


def _sized(file: Path, results: Path) -> str:
    """The spec, adapted to this machine. Raises PreflightError if it can't run here."""
    for memory in (True, False):
        experiment = reading.parse(spec(1, memory=memory), str(file))
        plan, site = matrix.expand(experiment), _planning.site_of(experiment, results / NAME)
        try:
            refuse(_planning.look_at(experiment, plan, site, allow_commands=False).lacks)
            break
        except PreflightError as error:
            if "volumes.memory" not in (error.key or ""):  # the user has written no spec that the message could name
                raise PreflightError(error.problem, hint=error.hint) from error
            screen.say(
                f"{error.problem}; so the bound is a server on this disk without syncs (fsync = off). "
                "A container gets more memory by --shm-size=2g."
            )
    return spec(_connections(plan, site), memory=memory)


def _connections(plan: Plan, site: Site) -> int:
    """The number of connections that keeps the CPUs below the limit. It follows from a short run with one connection,
    because n connections need at most n times its CPU time.
    """
    screen.say("sizing the load with one connection ...")
    config = plan.cells[0].config
    load = config.workload.model_copy(update={"scale": 1, "duration_s": PROBE_S})
    config = config.model_copy(update={"workload": load, "between_runs": BetweenRunsConfig()})
    with volumes_locked(plan, site), open_target(config, site) as target:
        made = target.run(Cell(cell_id="probe", levels={}, config=config), 1, 1, lambda _: None)
    busy = made.counters["cpu"]["busy_s"] / made.elapsed_s / host.usable_cpus()
    connections = max(1, min(CONNECTIONS_MOST, int(BUSY_MOST / busy)))
    screen.say(f"with one connection, the CPUs are {percent(busy)} busy, so the load has {connections}")
    return connections


def syncs(folder: Path) -> tuple[float, float]:
    """Measures writes of 8 KiB with fdatasync after each, by one thread on a folder's disk. Returns writes per second,
    and the seconds within which 99 % of them end. The file already has its full size, like a server's log.
    """
    took_s: list[float] = []
    page = os.urandom(_PAGE_BYTES)
    with tempfile.TemporaryFile(dir=folder, prefix=".storagelab-") as file:
        file.write(bytes(_FILE_BYTES))
        file.flush()
        os.fsync(file.fileno())
        over_s = time.perf_counter() + SYNCS_S
        while (began_s := time.perf_counter()) < over_s:
            os.pwrite(file.fileno(), page, len(took_s) * _PAGE_BYTES % _FILE_BYTES)
            os.fdatasync(file.fileno())
            took_s.append(time.perf_counter() - began_s)
    return len(took_s) / sum(took_s), sorted(took_s)[int(0.99 * len(took_s))]
