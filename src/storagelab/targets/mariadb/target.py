"""MariaDB as a target: what one of its runs adds to the steps that all engines share."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pymysql

from storagelab.machine.devices import DeviceCounters
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.model.workload import Sql, Sysbench
from storagelab.targets import Site, remote
from storagelab.targets.attaching import dropping_leftovers
from storagelab.targets.generators.programs import script_folder, sysbench_inputs, sysbench_program
from storagelab.targets.generators.running import Generator
from storagelab.targets.generators.scripts import own_script, sources
from storagelab.targets.loading import OUTSIDE_ERRORS, LoadingTarget
from storagelab.targets.mariadb import attached, clients, generated, read_back
from storagelab.targets.mariadb.connecting import (
    Address,
    Connection,
    address_of,
    ask,
    close,
    connect,
    connect_to,
    words_of,
)
from storagelab.targets.mariadb.counters import read_counters, read_file_counters
from storagelab.targets.mariadb.generated import GeneratedLayout
from storagelab.targets.mariadb.layout import Layout
from storagelab.targets.mariadb.sampler import Sampler
from storagelab.targets.mariadb.server import STARTER, Server
from storagelab.targets.mariadb.settings import private_settings, settings_text
from storagelab.targets.mariadb.workload import Workers
from storagelab.targets.parts import Sampler as AnySampler
from storagelab.targets.parts import Workers as AnyWorkers
from storagelab.targets.programs import environment, installation, run
from storagelab.targets.steps import Counters, counting
from storagelab.targets.unprivileged import as_server, end_with_parent, unprivileged

_NOT_THERE = (2002, 2003, 2006, 2013)


class MariaDBTarget(LoadingTarget[Connection]):
    """A context manager for one run of a cell. Entering raises RunFailed; leaving removes everything that was made."""

    engine, starter = "mariadb", STARTER
    foreign_errors = (pymysql.MySQLError, *OUTSIDE_ERRORS)
    mounts_from = "information_schema.disks"
    log_tells_of_sessions = False

    layout: Layout
    server: Server | None
    facts: attached.ServerFacts | None

    def __init__(self, config: Config, site: Site) -> None:
        super().__init__(config, site)
        self.layout = (GeneratedLayout if config.generated else Layout)(config, site.prefix, self.folders)

    # --- the server --------------------------------------------------------------------------------------------------

    def _meet_server(self) -> None:
        with connect(self.config.target) as connection:
            self.facts = attached.read_facts(connection)
            self.layout.drop(connection)

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

    def _said(self, error: BaseException) -> str:
        return words_of(error)

    # --- connections -------------------------------------------------------------------------------------------------

    def _connect(self) -> Connection:
        return self.server.connect() if self.server is not None else connect_to(address_of(self.config.target))

    def _connect_worker(self) -> Connection:
        connection = self._connect()
        if self.server is None:
            attached.set_for_session(connection, self.config.target.settings)
        return connection

    def _close(self, connection: Connection | None) -> None:
        close(connection)

    def _server_process(self) -> int | None:
        """The server's process, where this machine's kernel can be asked about it."""
        if self.facts is not None:
            return self.facts.pid
        known = self.server is not None and Path("/proc/self/schedstat").exists()
        return self.server.pid if known and self.server is not None else None

    # --- a run -------------------------------------------------------------------------------------------------------

    def _server_time_s(self) -> float:
        return float(str(ask(self._own, "SELECT UNIX_TIMESTAMP(SYSDATE(6))")[0][0]))

    def _workers(self, seed: int) -> Workers:
        return Workers(self._connect_worker, self.config.insert_load, self.layout.schema, self._own, seed)

    def _generator(self, seed: int) -> Generator[Connection]:
        load = self.config.workload
        assert isinstance(load, Sysbench | Sql)
        program = sysbench_program(
            self._client_options(), load, sources(load, self.site), seed, self._client_environment(),
            self._client_owner, self._client_child,
        )  # fmt: skip
        return Generator(program, load, self._connect_worker, self._close, self._generator_sessions)

    def _generator_sessions(self) -> list[int]:
        statement = "SELECT id FROM information_schema.processlist WHERE db = %s AND id <> connection_id()"
        return [number for (number,) in ask(self._own, statement, [self.site.prefix])]

    def _address(self) -> Address:
        return self.server.address if self.server is not None else address_of(self.config.target)

    def _client_options(self) -> list[str]:
        return generated.options(self._address(), self.site.prefix)

    def _client_environment(self) -> dict[str, str]:
        """The environment of client programs: it alone holds a password, and only this user may read it."""
        password = self._address().password
        return environment() | ({"MYSQL_PWD": password} if password else {})

    @property
    def _client_owner(self) -> tuple[int, int] | None:
        return unprivileged().owner if self.server is not None else None

    def _client_child(self, *reach: Path) -> Callable[[], None] | None:
        """A private server's client programs run as it does: a script may make either of them run programs."""
        if self.server is None:
            return end_with_parent
        return as_server(Path(self.server.address.unix_socket or "").parent, *reach)

    def _fill(self, connection: Connection) -> None:
        load = self.config.workload
        assert isinstance(self.layout, GeneratedLayout)
        if isinstance(load, Sql):
            self._fill_own(connection, load)
            return
        assert isinstance(load, Sysbench)
        scripts = own_script(load, self.site)
        with script_folder(sysbench_inputs(scripts), self._client_owner) as folder:
            run_client = partial(
                run, in_child=self._client_child(folder), environment=self._client_environment(), folder=folder
            )
            generated.fill(self.layout, connection, run_client, self._client_options(), own=bool(scripts))

    def _fill_own(self, connection: Connection, load: Sql) -> None:
        assert isinstance(self.layout, GeneratedLayout)
        program = clients.find(self.server.programs.server.parent if self.server is not None else None)
        command = clients.command(program, self._address(), self.site.prefix)
        environment = self._client_environment()

        def read(file: Path) -> CompletedProcess[str]:
            return run(command, self._client_child(*installation(program)), environment=environment, reads=file)

        generated.fill_own(self.layout, connection, read, clients.files_of(load, self.site))

    def _sampler(self, workers: AnyWorkers[Connection], devices: DeviceCounters) -> AnySampler:
        paths = {str(path): number for number, path in self._files().items()}
        return Sampler(
            self._connect,
            workers.ids,
            self.config.measure,
            server_pid=self._server_process(),
            paths=paths,
            probe=devices.read,
            of_generator=self.config.generated,
        )

    def _files(self) -> dict[int, Path]:
        """The data files by their full paths, as performance_schema names them."""
        folder = self.server.data_folder if self.server is not None else attached.data_folder(self._own)
        return {
            number: path if path.is_absolute() else (folder or Path()) / path
            for number, path in self.layout.files(self._own).items()
        }

    def _count(self, workers: AnyWorkers[Connection]) -> Callable[[], Counters]:  # noqa: ARG002 - the whole server's
        return counting(self._read_counters)

    def _read_counters(self) -> Counters:
        counters = read_counters(self._own)
        if self.facts is not None and not self.facts.performance_schema:
            return counters
        files = {f"data_file_{number}": str(path) for number, path in self._files().items()}
        return {**counters, **read_file_counters(self._own, files)}

    def _may_write_out(self) -> bool:
        return self.facts is None or self.facts.may("RELOAD")

    def _page_bytes(self) -> int:
        return int(ask(self._own, "SELECT @@innodb_page_size")[0][0])

    def _write_out(self) -> None:
        self.layout.write_out(self._own)

    # --- what it was -------------------------------------------------------------------------------------------------

    def _check_settings(self, workers: AnyWorkers[Connection]) -> list[Check]:
        if self.server is not None:
            asked = private_settings(self.config)
            return read_back.settings(workers.first, _texts(asked), self.expected)
        asked = self.config.target.settings
        return read_back.settings(workers.first, _texts(asked), _texts(asked))

    def _check_log_place(self) -> list[Check]:
        """Checks the log's folder: the one that the server reports, with the log in it according to the file system."""
        if self.server is None:
            return []
        asked = str(self.server.log_folder)
        there = any(name.startswith("ib_logfile") for name in os.listdir(self.server.log_folder))
        got = str(self.layout.log_folder(self._own)) if there else "no log file there"
        ok = os.path.realpath(got) == os.path.realpath(asked)
        return [Check(name="place of the log", asked=asked, got=got, ok=ok, read_from="innodb_log_group_home_dir")]

    def _check_pages(self, rows: int) -> Check:
        return read_back.one_page_a_row(self._own, self.layout, rows)


def _texts(settings: dict[str, str | int | float | bool]) -> dict[str, str]:
    return {name: settings_text(value) for name, value in settings.items()}


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """Drop what a killed run left on an attached server; says what. Raises PreflightError if that fails."""
    left = dropping_leftovers(config.target, pymysql.MySQLError, words_of, f"the database {site.prefix}")
    with connect(config.target) as connection, left:
        return Layout(config, site.prefix, None).drop(connection)
