"""PostgreSQL as a target: what one of its runs adds to the steps that all engines share."""

from __future__ import annotations

import contextlib
import os
import signal
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from storagelab.machine.devices import DeviceCounters
from storagelab.machine.procfs import TaskView
from storagelab.model import prepared
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.model.values import Scalar
from storagelab.model.workload import Pgbench, Sql, Sysbench
from storagelab.targets import Site, remote
from storagelab.targets.attaching import dropping_leftovers
from storagelab.targets.generators import pgbench
from storagelab.targets.generators.programs import script_folder, sysbench_inputs, sysbench_program
from storagelab.targets.generators.running import Generator, Program
from storagelab.targets.loading import OUTSIDE_ERRORS, LoadingTarget
from storagelab.targets.parts import Sampler as AnySampler
from storagelab.targets.parts import Workers as AnyWorkers
from storagelab.targets.postgres import attached, clients, connecting, generated, read_back
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.postgres.counters import read_counters
from storagelab.targets.postgres.generated import GeneratedLayout
from storagelab.targets.postgres.kept import Kept
from storagelab.targets.postgres.layout import Layout
from storagelab.targets.postgres.sampler import Sampler
from storagelab.targets.postgres.server import STARTER, Server
from storagelab.targets.postgres.settings import private_settings, settings_text
from storagelab.targets.postgres.workload import Workers
from storagelab.targets.programs import installation, run
from storagelab.targets.steps import Counters, check_same, counting
from storagelab.targets.unprivileged import as_server, end_with_parent, unprivileged


class PostgresTarget(LoadingTarget[Connection]):
    """A context manager for one run of a cell. Entering raises RunFailed; leaving removes everything that was made."""

    engine, starter = "postgres", STARTER
    foreign_errors = (psycopg.Error, *OUTSIDE_ERRORS)
    mounts_from = "/proc/self/mountinfo by pg_read_file"
    log_tells_of_sessions = True

    layout: Layout
    server: Server | None
    facts: attached.ServerFacts | None

    def __init__(self, config: Config, site: Site) -> None:
        super().__init__(config, site)
        self._kept = Kept(config, site) if config.target.attached and prepared.wanted(config) else None
        self._database = ""
        """The database of the load's own on a server that already runs, once it is made."""
        if self._kept is not None:
            self.layout = GeneratedLayout(config, site.prefix, self._kept.folders, self._kept.prefix)
        else:
            self.layout = (GeneratedLayout if config.generated else Layout)(config, site.prefix, self.folders)

    # --- the server --------------------------------------------------------------------------------------------------

    def _meet_server(self) -> None:
        with connecting.connect(self.config.target) as connection:
            self.facts = attached.read_facts(connection)
            self.layout.drop(connection, templates=False)
            if self._kept is not None and self._kept.exists(connection):
                return
            if attached.needs_database(self.config):
                attached.make_database(connection, self.site.prefix)
                self._database = self.site.prefix

    def _make_folders(self, owner: tuple[int, int] | None) -> None:
        if self._kept is not None:
            if not self._database:  # the template is there
                return
            self._kept.make_folders()
        super()._make_folders(owner)

    def _make_data(self) -> None:
        if self._kept is None:
            super()._make_data()
            return
        if self._database:
            super()._make_data()
        connection, self._connection = self._connection, None
        self._close(connection)
        with connecting.connect(self.config.target) as connection:
            if self._database:
                self._kept.keep(connection)
            self._restored = self._kept.restore(connection)
        self._database = self.site.prefix
        self._connection = self._connect()

    def _conninfo(self) -> str:
        """How the load reaches the server."""
        if self.server is not None:
            return self.server.conninfo
        attached_to = connecting.conninfo(self.config.target)
        return psycopg.conninfo.make_conninfo(attached_to, dbname=self._database) if self._database else attached_to

    def _drop(self) -> None:
        with connecting.connect(self.config.target) as connection:
            self.layout.drop(connection, templates=False)
            if self._kept is not None:
                self._kept.remove_unfinished(connection)

    def _is_away(self, error: BaseException) -> bool:
        return "the database system is" in str(error)

    def _server_facts(self, connection: Connection) -> dict[str, object]:
        return read_back.server_facts(connection)

    def _data_folder(self) -> Path | None:
        return attached.data_folder(self._own)

    def _mounts(self, connection: Connection) -> list[remote.Mount]:
        return attached.mounts(connection)

    def _said(self, error: BaseException) -> str:
        return str(error).strip() or type(error).__name__

    # --- connections -------------------------------------------------------------------------------------------------

    def _connect(self, application_name: str = "storagelab") -> Connection:
        options: dict[str, Any] = {"autocommit": True, "application_name": application_name}
        if self.server is not None:
            connection = connecting.connect_private(self.server.conninfo, **options)
        else:
            connection = psycopg.connect(self._conninfo(), **options)
        connection.prepare_threshold = None
        return connection

    def _connect_worker(self) -> Connection:
        connection = self._connect("storagelab 0")
        if self.server is None:
            for name, value in self._session_settings().items():
                connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        return connection

    def _session_settings(self) -> dict[str, str]:
        """Settings asked for that each session of the load sets for itself."""
        if self.server is not None:
            return {}
        return {name: settings_text(value) for name, value in self.config.target.settings.items()}

    def _close(self, connection: Connection | None) -> None:
        if connection is not None:
            connection.close()

    @property
    def _kernel_view(self) -> bool:
        """Whether this machine's kernel can be asked about the server's sessions."""
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
        return Workers(self._connect_worker, self.config.insert_load, self.site.prefix, self._own, gate, seed)

    def _generator(self, seed: int) -> Generator[Connection]:
        load, scripts = self.config.workload, generated.sources(self.config, self.site)
        if isinstance(load, Pgbench | Sql):
            program = Program(
                title="pgbench", command=partial(pgbench.command, self._client("pgbench"), load, scripts, seed=seed),
                read=pgbench.read_log, words=partial(pgbench.words, sources=scripts), stop=signal.SIGALRM,
                environment=self._client_environment(), inputs=pgbench.inputs(scripts), owner=self._client_owner,
                in_child=self._client_child, per_second=pgbench.per_second,
            )  # fmt: skip
        else:
            assert isinstance(load, Sysbench)
            environment = self._client_environment()
            program = sysbench_program(
                generated.sysbench_server(environment), load, scripts, seed, environment, self._client_owner,
                self._client_child,
            )  # fmt: skip
        hold = self._hold if isinstance(load, Pgbench | Sql) else None  # sysbench keeps the time itself
        return Generator(program, load, self._connect_worker, self._close, self._generator_sessions, hold)

    def _hold(self) -> Callable[[], None]:
        """Lock the load's tables; gives what unlocks them."""
        assert isinstance(self.layout, GeneratedLayout)
        connection = self._connect("storagelab gate")
        try:
            self.layout.lock(connection)
        except BaseException:
            connection.close()
            raise
        return connection.close

    @property
    def _client_owner(self) -> tuple[int, int] | None:
        return unprivileged().owner if self.server is not None else None

    def _generator_sessions(self) -> list[int]:
        rows = self._own.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid() "
            "AND usename = current_user ORDER BY pid", [clients.GENERATOR_NAME]
        ).fetchall()  # fmt: skip
        return [pid for (pid,) in rows]

    def _client(self, name: str) -> str:
        return str(clients.find(name, self.server.programs.folder if self.server is not None else None))

    def _client_environment(self) -> dict[str, str]:
        """The environment in which client programs reach the server, and their sessions the load's tables."""
        assert isinstance(self.layout, GeneratedLayout)
        settings = {**self._session_settings(), **self.layout.session_options}
        return clients.reaching(self._conninfo(), settings, private=self.server is not None)

    def _client_child(self, *reach: Path) -> Callable[[], None] | None:
        """A private server's client programs run as it does: a script may make either of them run programs."""
        if self.server is None:
            return end_with_parent
        socket = Path(str(psycopg.conninfo.conninfo_to_dict(self.server.conninfo)["host"]))
        return as_server(*installation(self.server.programs.folder / "postgres"), socket, *reach)

    def _fill(self, connection: Connection) -> None:
        assert isinstance(self.layout, GeneratedLayout)
        scripts, load = generated.sources(self.config, self.site), self.config.workload
        if isinstance(load, Sql):
            self._fill_own(connection, load)
            return
        is_pgbench = isinstance(load, Pgbench)
        with script_folder({} if is_pgbench else sysbench_inputs(scripts), self._client_owner) as folder:
            run_client = partial(
                run, in_child=self._client_child(folder), environment=self._client_environment(), folder=folder
            )
            program = self._client("pgbench") if is_pgbench else ""
            server = generated.sysbench_server(self._client_environment())
            generated.fill(self.layout, connection, run_client, program, server, own=bool(scripts))

    def _fill_own(self, connection: Connection, load: Sql) -> None:
        assert isinstance(self.layout, GeneratedLayout)
        database = self._database or "postgres"
        steps = generated.own_steps(load, self.site, self._client("psql"), self._client("pg_restore"), database)
        folders = [Path(command[-1]).parent for _, command in steps]
        run_client = partial(run, in_child=self._client_child(*folders), environment=self._client_environment())
        generated.fill_own(self.layout, connection, run_client, steps)

    def _sampler(self, workers: AnyWorkers[Connection], devices: DeviceCounters) -> AnySampler:
        return Sampler(
            lambda: self._connect("storagelab sampler"), workers.ids, self.config.measure, kernel_view=self._kernel_view,
            relations=self.layout.relations(self._own), probe=devices.read, of_generator=self.config.generated,
        )  # fmt: skip

    def _count(self, workers: AnyWorkers[Connection]) -> Callable[[], Counters]:  # noqa: ARG002 - the whole server's
        return counting(lambda: read_counters(self._own, self._own.info.server_version // 10_000))

    def _server_process(self) -> int | None:
        if not self._kernel_view:
            return None
        with contextlib.closing(TaskView(self._own.info.backend_pid)) as session:
            return session.parent()

    def _may_write_out(self) -> bool:
        return self.facts is None or self.facts.may_checkpoint

    def _page_bytes(self) -> int:
        row = self._own.execute("SELECT current_setting('block_size')::int").fetchone()
        assert row is not None
        return int(row[0])

    def _write_out(self) -> None:
        self._own.execute("CHECKPOINT")

    # --- what it was -------------------------------------------------------------------------------------------------

    def _check_settings(self, workers: AnyWorkers[Connection]) -> list[Check]:
        asked = {name: settings_text(value) for name, value in self._asked_settings().items()}
        if self.server is not None:
            return read_back.settings(self._own, asked, self.expected)
        return read_back.session_settings(workers.first, asked)

    def _asked_settings(self) -> dict[str, Scalar]:
        return private_settings(self.config) if self.server is not None else self.config.target.settings

    def _check_log_place(self) -> list[Check]:
        if self.server is None:
            return []
        got = os.path.realpath(self.server.data_folder / "pg_wal")
        return [check_same("place of the log", str(self.server.log_folder), got, "pg_wal on the file system")]

    def _check_pages(self, rows: int) -> Check:
        return read_back.one_row_a_page(self._own, self.layout, rows)


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """Drop what a killed run left on an attached server; says what. Raises PreflightError if that fails."""
    left = dropping_leftovers(config.target, psycopg.Error, connecting.words_of, f"the schema {site.prefix}")
    with connecting.connect(config.target) as connection, left:
        return Layout(config, site.prefix, None).drop(connection)
