"""PostgreSQL as a target: what one run on it adds to the steps that every sampled engine shares."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import psycopg

from storagelab.errors import PreflightError
from storagelab.machine import cpu_time
from storagelab.machine.devices import DeviceCounters
from storagelab.machine.procfs import TaskView
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.model.values import Scalar
from storagelab.targets import Site, remote
from storagelab.targets.hiding import hidden
from storagelab.targets.loading import OUTSIDE_ERRORS, LoadingTarget
from storagelab.targets.loops import rows_per_report
from storagelab.targets.parts import Sampler as AnySampler
from storagelab.targets.parts import Workers as AnyWorkers
from storagelab.targets.postgres import attached, connecting, read_back
from storagelab.targets.postgres.binaries import binaries_for
from storagelab.targets.postgres.counters import read_counters
from storagelab.targets.postgres.layout import Layout
from storagelab.targets.postgres.sampler import Sampler
from storagelab.targets.postgres.server import Server, check_settings
from storagelab.targets.postgres.settings import private_settings, settings_text
from storagelab.targets.postgres.workload import Workers
from storagelab.targets.steps import Counters, first_line

Connection = psycopg.Connection[Any]


class PostgresTarget(LoadingTarget[Connection]):
    """A context manager for one run of a cell. Entering raises RunFailed; leaving removes everything that was made."""

    engine = "postgres"
    foreign_errors = (psycopg.Error, *OUTSIDE_ERRORS)
    mounts_from = "/proc/self/mountinfo by pg_read_file"
    log_tells_of_sessions = True

    layout: Layout
    server: Server | None
    facts: attached.ServerFacts | None

    def __init__(self, config: Config, site: Site) -> None:
        super().__init__(config, site)
        self.layout = Layout(config, site.prefix, self.folders)
        self._conninfo = ""
        self._expected: dict[str, str] = {}

    # --- the server --------------------------------------------------------------------------------------------------

    def _start_server(self, data_folder: Path, log_folder: Path) -> None:
        binaries = binaries_for(self.config, self.site)
        settings = private_settings(self.config)
        self._expected = check_settings(binaries, settings)
        self.server = Server(
            binaries, data_folder=data_folder, log_folder=log_folder, settings=settings, volumes=self.folders.paths
        )
        self.server.start()
        self._conninfo = self.server.conninfo

    def _meet_server(self) -> None:
        self._conninfo = connecting.conninfo(self.config.target)
        with connecting.connect(self.config.target) as connection:
            self.facts = attached.read_facts(connection)
            self.layout.drop(connection)

    def _drop(self) -> None:
        with connecting.connect(self.config.target) as connection:
            self.layout.drop(connection)

    def _is_away(self, error: BaseException) -> bool:
        return "the database system is" in str(error)

    def _server_facts(self, connection: Connection) -> dict[str, object]:
        return read_back.server_facts(connection)

    def _data_folder(self) -> Path | None:
        return attached.data_folder(self._own)

    def _mounts(self, connection: Connection) -> list[remote.Mount]:
        return attached.mounts(connection)

    def _words(self, error: BaseException) -> str:
        return self._with_log(str(error).strip())

    def _short_words(self, error: BaseException) -> str:
        return first_line(error)

    # --- connections -------------------------------------------------------------------------------------------------

    def _connect(self, application_name: str = "storagelab") -> Connection:
        connect = psycopg.connect if self.server is None else connecting.connect_private
        connection = connect(self._conninfo, autocommit=True, application_name=application_name)
        connection.prepare_threshold = None
        return connection

    def _connect_worker(self) -> Connection:
        connection = self._connect("storagelab 0")
        if self.server is None:
            for name, value in self.config.target.settings.items():
                connection.execute("SELECT set_config(%s, %s, false)", [name, settings_text(value)])
        return connection

    def _close(self, connection: Connection | None) -> None:
        if connection is not None:
            connection.close()

    @property
    def _major(self) -> int:
        return self._own.info.server_version // 10_000

    @property
    def _kernel_view(self) -> bool:
        """Can this machine's kernel be asked about the server's sessions?"""
        if self.facts is not None:
            return self.facts.on_this_machine
        return Path("/proc/self/schedstat").exists()

    # --- a run -------------------------------------------------------------------------------------------------------

    def _server_time_s(self) -> float:
        row = self._own.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        assert row is not None
        return float(row[0])

    def _workers(self, seed: int) -> Workers:
        gate = zlib.crc32(self.site.prefix.encode())  # the advisory lock's key: this experiment's own
        return Workers(self._connect_worker, self.config.database_load, self.site.prefix, self._own, gate, seed)

    def _sampler(self, workers: AnyWorkers[Connection], devices: DeviceCounters) -> AnySampler:
        return Sampler(
            connect=lambda: self._connect("storagelab sampler"),
            pids=workers.ids,
            hz=self.config.measure.sample_hz,
            sample_waits=self.config.measure.waits,
            kernel_view=self._kernel_view,
            relations=self.layout.relations(self._own),
            probe=devices.read,
            rows_per_report=rows_per_report(self.config.database_load),
        )

    def _read_counters(self) -> Counters:
        return read_counters(self._own, self._major)

    def _read_cpu_time(self) -> dict[str, float]:
        """CPU seconds so far, the server's own processes told from others where this machine's kernel knows them."""
        parent = TaskView(self._own.info.backend_pid).parent() if self._kernel_view else None
        return cpu_time.read_cpu_time(parent)

    def _may_write_out(self) -> bool:
        return self.facts is None or self.facts.may_checkpoint

    def _write_out(self) -> None:
        self._own.execute("CHECKPOINT")

    # --- what it was -------------------------------------------------------------------------------------------------

    def _check_settings(self, workers: AnyWorkers[Connection]) -> list[Check]:
        asked = {name: settings_text(value) for name, value in self._asked_settings().items()}
        if self.server is not None:
            return read_back.settings(self._own, asked, self._expected)
        return read_back.session_settings(workers.first, asked)

    def _asked_settings(self) -> dict[str, Scalar]:
        return private_settings(self.config) if self.server is not None else self.config.target.settings

    def _check_log_place(self) -> Check:
        assert self.server is not None
        asked, got = str(self.server.log_folder), os.path.realpath(self.server.data_folder / "pg_wal")
        return Check(
            name="place of the log", asked=asked, got=got, ok=asked == got, read_from="pg_wal on the file system"
        )

    def _check_pages(self, rows: int) -> Check:
        return read_back.one_row_a_page(self._own, self.layout, rows)


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """What a killed run left on an attached server is dropped; says what. Raises PreflightError when it can't be."""
    with connecting.connect(config.target) as connection:
        try:
            return Layout(config, site.prefix, None).drop(connection)
        except psycopg.Error as error:
            raise PreflightError(
                f"what an earlier run left on the server can't be dropped: {hidden(first_line(error), config.target)}",
                key="target.dsn",
                hint=f"drop the schema {site.prefix} by hand, as its owner",
            ) from error
