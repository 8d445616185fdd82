"""Runs the same load on MariaDB with storagelab and with the server's own client."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from bench import loads
from storagelab.engines.mariadb.connect import Connection, ask
from storagelab.engines.mariadb.engine import opened
from storagelab.model.config import Config, TargetConfig


def config(*, waits: bool = True) -> Config:
    """Returns the load of the quickstart on two engines, with one data file."""
    target = TargetConfig(engine="mariadb", settings={"innodb_buffer_pool_size": "64M"})
    return loads.config(10_000, waits=waits, target=target)


def procedure_by_client(folder: Path, cell_config: Config) -> float:
    """Returns the rows/s of the same procedure if one `mariadb` client per connection calls it, and nothing else runs.
    Times are the server's."""
    with opened(cell_config, loads.site_in(folder)) as target:
        server = target.server
        gatekeeper, watcher = server.reach.connect(), server.reach.connect()
        target.system.write_out(watcher)
        ask(gatekeeper, f"LOCK TABLES {target.system.layout.schema}.gate WRITE")
        workload = cell_config.database_load
        batch = workload.rows_per_transaction
        call = (
            f"CALL {target.system.layout.schema}.insert_rows({workload.rows_per_connection}, {batch}, {batch}, 1, 1, 0)"
        )
        command = ["mariadb", "--no-defaults", f"--socket={server.running.address.unix_socket}", "-uroot", "-NBe", call]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(workload.connections)]
        _await_waiters(watcher, workload.connections)
        ask(gatekeeper, "UNLOCK TABLES")
        answers = [process.communicate()[0].split() for process in processes]
        gatekeeper.close()
        watcher.close()
    elapsed_s = max(float(answer[1]) for answer in answers) - min(float(answer[0]) for answer in answers)
    return workload.rows / elapsed_s


def _await_waiters(watcher: Connection, wanted: int) -> None:
    standing = "SELECT count(*) FROM information_schema.processlist WHERE state = 'Waiting for table metadata lock'"
    for _ in range(5000):
        if ask(watcher, standing)[0][0] == wanted:
            return
        time.sleep(0.002)
    raise SystemExit("bench: the client's sessions did not come up")
