"""`storagelab demo`: measures how much faster a database could be with the fastest possible storage, and how fast this
disk syncs."""

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
"""The largest share of the CPUs' time that the load may take while its files are on disk. A higher load would hide the
effect of the storage."""
CONNECTIONS_MOST = 16
_PAGE_BYTES, _FILE_BYTES = 8192, 16 * 2**20
"""The size of a page and of a log file, in bytes. For a small commit, PostgreSQL writes one page to a log file."""


def demo(results: Path) -> bool:
    """Makes the missing runs. Prints the answer, and a fact about the disk that holds `results`. Returns whether all
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
    """Returns the ready-made spec with `connections` connections. Without `memory`, the upper bound comes from another
    level, which the ready-made spec has as a comment.
    """
    text = re.sub(r"(?m)^connections = \d+", f"connections = {connections}", experiments.text_of("ceiling"))
    return text if memory else re.sub(r"(?m)^[^#\n]*(memory|/dev/shm).*\n", "", text).replace("  # {", "  {")


def _sized(file: Path, results: Path) -> str:
    """Returns the spec, adapted to this machine. Raises PreflightError if it can't run here."""
    for memory in (True, False):
        experiment = reading.parse(spec(1, memory=memory), str(file))
        plan, site = matrix.expand(experiment), _planning.site_of(experiment, results / NAME)
        try:
            refuse(_planning.look_at(experiment, plan, site, allow_commands=False).lacks)
            break
        except PreflightError as error:
            if "volumes.memory" not in (error.key or ""):  # the user did not write this spec
                raise PreflightError(error.problem, hint=error.hint) from error
            screen.say(
                f"{error.problem}; so the bound is a server on this disk without syncs (fsync = off). "
                "A container gets more memory by --shm-size=2g."
            )
    return spec(_connections(plan, site), memory=memory)


def _connections(plan: Plan, site: Site) -> int:
    """Returns the largest number of connections that keeps the CPUs' load below the limit. It is computed from a short
    run with one connection, because n connections need at most n times the CPU time of one.
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
    """Measures one thread that writes 8 KiB again and again to a folder's disk, with fdatasync after each write.
    Returns the writes per second, and the seconds within which 99 % of them end. The file already has its full size,
    like a log file of a server.
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
