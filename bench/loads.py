"""Runs the same load with storagelab and with the server's own tools."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import psycopg

from storagelab.engines.postgres.engine import opened
from storagelab.model.config import Config, MeasureConfig, TargetConfig
from storagelab.model.loads.inserts import RandomInsert
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell
from storagelab.model.volume import VolumeConfig
from storagelab.run.engine import open_target
from storagelab.volumes.folders import Site

GATE = 4711
CONNECTIONS, ROWS_PER_TRANSACTION = 16, 1_000
POSTGRES = TargetConfig(engine="postgres", settings={"shared_buffers": "64MB", "max_wal_size": "2GB"})


def config(rows_per_connection: int = 30_000, *, waits: bool = True, target: TargetConfig = POSTGRES) -> Config:
    """Returns the load of the quickstart, with one data file."""
    return Config(
        target=target,
        volumes={"here": VolumeConfig(path=".")},
        workload=RandomInsert(
            connections=CONNECTIONS, rows_per_connection=rows_per_connection, rows_per_transaction=ROWS_PER_TRANSACTION
        ),
        measure=MeasureConfig(waits=waits),
    )


def through_storagelab(folder: Path, cell_config: Config) -> Measurement:
    """Makes one run on a fresh private server, as `storagelab run` makes it."""
    with open_target(cell_config, site_in(folder)) as target:
        return target.run(Cell(cell_id="c01", levels={}, config=cell_config), 1, 1, lambda _: None)


def procedure_by_psql(folder: Path, cell_config: Config) -> float:
    """Returns the rows/s of the same procedure if one psql per connection calls it, and nothing else runs. Times are
    the server's."""
    with opened(cell_config, site_in(folder)) as target:
        server = target.server.running
        with psycopg.connect(server.conninfo, autocommit=True) as gatekeeper:
            gatekeeper.execute("CHECKPOINT")
            gatekeeper.execute("SELECT pg_advisory_lock(%s)", [GATE])
            workload = cell_config.database_load
            call = (
                f"CALL {target.system.site.prefix}.insert_rows({workload.rows_per_connection}, "
                f"{workload.rows_per_transaction}, {workload.rows_per_transaction}, {GATE}, 1, 1, 0)"
            )
            command = [server.programs.program("psql"), server.conninfo, "-XAtq", "-F,", "-c", call]
            processes = [
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(workload.connections)
            ]
            _await_waiters(gatekeeper, workload.connections)
            gatekeeper.execute("SELECT pg_advisory_unlock(%s)", [GATE])
            answers = [process.communicate()[0].strip().split(",") for process in processes]
            times = [(float(started), float(finished)) for started, finished, *_ in answers]
    elapsed_s = max(finished for _, finished in times) - min(started for started, _ in times)
    return workload.rows / elapsed_s


def inserts_by_pgbench(folder: Path, cell_config: Config) -> float:
    """Returns the rows/s of the same rows in the same transactions if pgbench sends each row as one INSERT, with
    prepared statements.
    """
    workload = cell_config.database_load
    with opened(cell_config, site_in(folder)) as target:
        server = target.server.running
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        script = folder / "inserts.sql"
        insert = f"INSERT INTO {target.system.site.prefix}.my_big_table DEFAULT VALUES;\n"
        script.write_text("BEGIN;\n" + insert * workload.rows_per_transaction + "COMMIT;\n", encoding="utf-8")
        said = subprocess.run(
            [
                server.programs.program("pgbench"), "-n", "-M", "prepared", "-c", str(workload.connections), "-j", "2",
                "-t", str(workload.rows_per_connection // workload.rows_per_transaction), "-f", str(script),
                server.conninfo,
            ],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    match = re.search(r"tps = ([\d.]+)", said.stdout)
    assert match is not None, said.stdout
    return float(match[1]) * workload.rows_per_transaction


def _await_waiters(gatekeeper: psycopg.Connection[tuple[int]], wanted: int) -> None:
    for _ in range(5000):
        row = gatekeeper.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone()
        if row is not None and row[0] == wanted:
            return
        time.sleep(0.002)
    raise SystemExit("bench: the psql sessions did not come up")


def site_in(folder: Path) -> Site:
    return Site(experiment="bench", identity="be9c4be9", spec_folder=folder)
