"""Runs the same pgbench through storagelab and by hand, in pairs on the same tables. Throughput and p99 should agree.

    python -m bench.pgbench_by_hand [PAIRS]

Each pair sets up one layout, and runs pgbench on it four times: first in one way, twice in the other way, and again in
the first way. The first way changes from pair to pair, so a trend caused by the tables' age cancels out. The volume is
in memory. So programs take nearly all of the time, and the noise of a shared drive can't hide a cost of storagelab. By
hand, nothing samples the sessions. storagelab samples them only in every second period. Its reported figures come from
the periods without sampling. In the same runs, their ratio to the periods with sampling is the cost of sampling.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from storagelab.engines.postgres.engine import opened
from storagelab.engines.postgres.loads.generated import find
from storagelab.findings.cautions.watching import watching_cost
from storagelab.loads import pgbench
from storagelab.loads.own_files import pgbench_scripts
from storagelab.loads.transactions import read_log
from storagelab.model.config import Config
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell
from storagelab.run.one_run import OneRun
from storagelab.volumes.folders import Site
from storagelab.words.numbers import times_estimate

SECONDS, WARM_UP = 8.0, 1.0


def through(target: OneRun[Any]) -> Measurement:
    measured = target.run(Cell(cell_id="c01", levels={}, config=target.config), 1, 1, lambda _: None)
    assert measured.latency is not None
    return measured


def by_hand(target: OneRun[Any]) -> tuple[float, float]:
    """Runs the same pgbench alone, and reads its log afterwards. Returns transactions per second and p99 in seconds."""
    system, server = target.system, target.server
    system.write_out(server.own)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reached = server.reach.clients(system.layout.session_options)
        scripts = pgbench_scripts(target.config.workload, system.site)
        command = pgbench.command(
            str(find("pgbench", reached.beside)),
            target.config.workload,
            scripts,
            folder,
            WARM_UP + SECONDS,
            seed=1,
        )
        begun = time.time()
        subprocess.run(  # in its own session, as storagelab does, because the kernel divides cores among sessions
            command, env=reached.environment, check=True, capture_output=True, cwd=folder, start_new_session=True
        )
        found = read_log(folder).within(begun + WARM_UP, begun + WARM_UP + SECONDS)
    return found.number / SECONDS, float(np.percentile(found.latency_us, 99)) / 1e6


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    rates, tails, runs = list[float](), list[float](), list[Measurement]()
    with tempfile.TemporaryDirectory(prefix="slab-", dir="/dev/shm") as name:
        os.chmod(name, 0o755)
        tables = {
            "target": {"engine": "postgres"}, "volumes": {"a": {"path": name}}, "layout": {"data_files": 2},
            "workload": {"kind": "pgbench", "connections": 4, "scale": 5, "duration_s": SECONDS, "warm_up_s": WARM_UP},
        }  # fmt: skip
        config = Config.model_validate(tables)
        for number in range(pairs):
            seen: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
            with opened(config, Site(experiment="by-hand", identity="0badcafe", spec_folder=Path(name))) as target:
                for ours in (True, False, False, True) if number % 2 else (False, True, True, False):
                    if ours:
                        runs.append(one := through(target))
                        rate, tail = one.work_per_s or 0.0, one.latency.percentile_s(99)
                    else:
                        rate, tail = by_hand(target)
                    seen[ours].append((rate, tail))
            ours, hand = (np.log(seen[which]).mean(axis=0) for which in (True, False))
            rates.append(ours[0] - hand[0])
            tails.append(ours[1] - hand[1])
            (rate, tail), (rate_by_hand, tail_by_hand) = np.exp(ours), np.exp(hand)
            print(
                f"{number + 1}: {rate:.0f} / {rate_by_hand:.0f} transactions/s, "
                f"p99 {tail * 1e3:.2f} / {tail_by_hand * 1e3:.2f} ms",
                flush=True,
            )
    for what, logs in (("throughput", rates), ("p99", tails)):
        error = np.std(logs, ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else float("nan")
        print(f"{what}: {np.exp(np.mean(logs)):.3f} of that by hand, standard error {error:.3f}")
    cost = watching_cost(runs)
    assert cost is not None
    print(f"throughput while watched: {times_estimate(cost.throughput)} that of unwatched stretches")
    if cost.p99 is not None:
        print(f"p99 while watched: {times_estimate(cost.p99)} that of unwatched stretches")


if __name__ == "__main__":
    main()
