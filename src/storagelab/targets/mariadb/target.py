"""MariaDB as a target: what one run on it adds to the steps that every sampled engine shares."""

from __future__ import annotations

import os
from pathlib import Path

import pymysql

from storagelab.errors import PreflightError
from storagelab.machine import cpu_time
from storagelab.machine.devices import DeviceCounters
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.targets import Site, remote
from storagelab.targets.hiding import hidden
from storagelab.targets.loading import OUTSIDE_ERRORS, LoadingTarget
from storagelab.targets.mariadb import attached, read_back
from storagelab.targets.mariadb.binaries import binaries_for
from storagelab.targets.mariadb.connecting import Address, Connection, address_of, ask, attach, close, connect, words_of
from storagelab.targets.mariadb.counters import read_counters, read_file_counters
from storagelab.targets.mariadb.layout import Layout
from storagelab.targets.mariadb.sampler import Sampler
from storagelab.targets.mariadb.server import Server
from storagelab.targets.mariadb.settings import check_settings, private_settings, settings_text
from storagelab.targets.mariadb.workload import Workers
from storagelab.targets.parts import Sampler as AnySampler
from storagelab.targets.parts import Workers as AnyWorkers
from storagelab.targets.steps import Counters

_NOT_THERE = (2002, 2003, 2006, 2013)


class MariaDBTarget(LoadingTarget[Connection]):
    """A context manager for one run of a cell. Entering raises RunFailed; leaving removes everything that was made."""

    engine = "mariadb"
    foreign_errors = (pymysql.MySQLError, *OUTSIDE_ERRORS)
    mounts_from = "information_schema.disks"
    log_tells_of_sessions = False

    layout: Layout
    server: Server | None
    facts: attached.ServerFacts | None

    def __init__(self, config: Config, site: Site) -> None:
        super().__init__(config, site)
        self.layout = Layout(config, site.prefix, self.folders)
        self._address: Address | None = None
        self._expected: dict[str, str] = {}

    # --- the server --------------------------------------------------------------------------------------------------

    def _start_server(self, data_folder: Path, log_folder: Path) -> None:
        binaries = binaries_for(self.config, self.site)
        settings = private_settings(self.config)
        self._expected = check_settings(binaries, settings)
        self.server = Server(
            binaries,
            data_folder=data_folder,
            log_folder=log_folder,
            settings=settings,
            volumes=self.folders.paths,
            waits=self.config.measure.waits,
        )
        self.server.start()
        self._address = self.server.address

    def _meet_server(self) -> None:
        self._address = address_of(self.config.target)
        connection = attach(self.config.target)
        try:
            self.facts = attached.read_facts(connection)
            self.layout.drop(connection)
        finally:
            close(connection)

    def _drop(self) -> None:
        connection = self._connect()
        try:
            self.layout.drop(connection)
        finally:
            close(connection)

    def _is_away(self, error: BaseException) -> bool:
        return isinstance(error, pymysql.MySQLError) and bool(error.args) and error.args[0] in _NOT_THERE

    def _server_facts(self, connection: Connection) -> dict[str, object]:
        return read_back.server_facts(connection, self.config.target.settings)

    def _data_folder(self) -> Path | None:
        return attached.data_folder(self._own)

    def _mounts(self, connection: Connection) -> list[remote.Mount]:
        return attached.mounts(connection)

    def _words(self, error: BaseException) -> str:
        return self._with_log(words_of(error))

    def _short_words(self, error: BaseException) -> str:
        return words_of(error)

    # --- connections -------------------------------------------------------------------------------------------------

    def _connect(self) -> Connection:
        assert self._address is not None, "the target is not entered"
        return connect(self._address)

    def _connect_worker(self) -> Connection:
        connection = self._connect()
        if self.server is None:
            attached.set_for_session(connection, self.config.target.settings)
        return connection

    def _close(self, connection: Connection | None) -> None:
        close(connection)

    @property
    def _pid(self) -> int | None:
        """The server's process, where this machine's kernel can be asked about it."""
        if self.facts is not None:
            return self.facts.pid
        known = self.server is not None and Path("/proc/self/schedstat").exists()
        return self.server.pid if known and self.server is not None else None

    # --- a run -------------------------------------------------------------------------------------------------------

    def _server_time_s(self) -> float:
        return float(str(ask(self._own, "SELECT UNIX_TIMESTAMP(SYSDATE(6))")[0][0]))

    def _workers(self, seed: int) -> Workers:
        return Workers(self._connect_worker, self.config.database_load, self.layout.schema, self._own, seed)

    def _sampler(self, workers: AnyWorkers[Connection], devices: DeviceCounters) -> AnySampler:
        pid = self._pid
        return Sampler(
            connect=self._connect,
            ids=workers.ids,
            hz=self.config.measure.sample_hz,
            sample_waits=self.config.measure.waits,
            server_pid=pid,
            paths={str(path): number for number, path in self._files().items()},
            probe=devices.read,
            no_split_reason="" if pid is not None else "the server's threads can't be seen from here",
        )

    def _files(self) -> dict[int, Path]:
        """The data files by their whole paths, as performance_schema names them."""
        folder = self.server.data_folder if self.server is not None else attached.data_folder(self._own)
        return {
            number: path if path.is_absolute() else (folder or Path()) / path
            for number, path in self.layout.files(self._own).items()
        }

    def _read_counters(self) -> Counters:
        counters = read_counters(self._own)
        if self.facts is not None and not self.facts.performance_schema:
            return counters
        files = {f"data_file_{number}": str(path) for number, path in self._files().items()}
        return {**counters, **read_file_counters(self._own, files)}

    def _read_cpu_time(self) -> dict[str, float]:
        return cpu_time.read_cpu_time(self._pid)

    def _may_write_out(self) -> bool:
        return self.facts is None or self.facts.may("RELOAD")

    def _write_out(self) -> None:
        self.layout.write_out(self._own)

    # --- what it was -------------------------------------------------------------------------------------------------

    def _check_settings(self, workers: AnyWorkers[Connection]) -> list[Check]:
        if self.server is not None:
            asked = private_settings(self.config)
            return read_back.settings(workers.first, _texts(asked), self._expected)
        asked = self.config.target.settings
        return read_back.settings(workers.first, _texts(asked), _texts(asked))

    def _check_log_place(self) -> Check:
        """The log's folder by the server, and that the log is in it by the file system."""
        assert self.server is not None
        asked = str(self.server.log_folder)
        there = any(name.startswith("ib_logfile") for name in os.listdir(self.server.log_folder))
        got = str(self.layout.log_folder(self._own)) if there else "no log file there"
        ok = os.path.realpath(got) == os.path.realpath(asked)
        return Check(name="place of the log", asked=asked, got=got, ok=ok, read_from="innodb_log_group_home_dir")

    def _check_pages(self, rows: int) -> Check:
        return read_back.one_page_a_row(self._own, self.layout, rows)


def _texts(settings: dict[str, str | int | float | bool]) -> dict[str, str]:
    return {name: settings_text(value) for name, value in settings.items()}


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """What a killed run left on an attached server is dropped; says what. Raises PreflightError when it can't be."""
    connection = attach(config.target)
    try:
        return Layout(config, site.prefix, None).drop(connection)
    except pymysql.MySQLError as error:
        raise PreflightError(
            f"what an earlier run left on the server can't be dropped: {hidden(words_of(error), config.target)}",
            key="target.dsn",
            hint=f"drop the database {site.prefix} by hand, as its owner",
        ) from error
    finally:
        close(connection)
