"""SQL Server as a target: what its runs add to the steps that all engines share. It already runs on another machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from storagelab.machine.devices import DeviceCounters
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.targets import Site
from storagelab.targets.attaching import dropping_leftovers, key_of
from storagelab.targets.loading import OUTSIDE_ERRORS, LoadingTarget
from storagelab.targets.parts import Workers as AnyWorkers
from storagelab.targets.sqlserver import attached, counters, read_back, tsql
from storagelab.targets.sqlserver.connecting import DriverError, Session, address_of, allow_sessions, connect, words_of
from storagelab.targets.sqlserver.facts import MAJOR_2019
from storagelab.targets.sqlserver.layout import FILES, Layout, check_growth, drop
from storagelab.targets.sqlserver.sampler import Sampler
from storagelab.targets.sqlserver.workload import NOW_US, Workers
from storagelab.targets.steps import Counters, difference

_OWN_SESSIONS = 8
_END_ALL = "ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE"


class SqlServerTarget(LoadingTarget[Session]):
    """A context manager for one run of a cell. Entering raises RunFailed; leaving removes everything that was made."""

    engine = "sqlserver"
    foreign_errors = (DriverError, *OUTSIDE_ERRORS)
    counts_this_machine = False

    layout: Layout
    facts: attached.ServerFacts | None

    # --- the server --------------------------------------------------------------------------------------------------

    def _meet_server(self) -> None:
        allow_sessions(self.config.database_load.connections + _OWN_SESSIONS)
        with connect(self.config.target) as session:
            self.facts = attached.read_facts(session)
            self.layout = Layout(self.config, self.site.prefix, self.facts)
            drop(session, self.site.prefix, key_of(self.config.target))

    def _set_up(self) -> None:
        super()._set_up()
        self._files = self._own.records(FILES)

    def _drop(self) -> None:
        with connect(self.config.target, database="master") as session:
            drop(session, self.site.prefix, key_of(self.config.target))

    def _server_facts(self, connection: Session) -> dict[str, object]:  # noqa: ARG002 - the same for all
        return read_back.server_facts(self._own, self._server, self.site.prefix)

    def _said(self, error: BaseException) -> str:
        return words_of(error) if isinstance(error, DriverError) else str(error).strip()

    # --- connections -------------------------------------------------------------------------------------------------

    def _connect(self) -> Session:
        return connect(self.config.target)

    def _connect_worker(self) -> Session:
        return self._connect_to_own("storagelab worker")

    def _connect_to_own(self, application: str) -> Session:
        return Session(replace(address_of(self.config.target), database=self.site.prefix), application)

    def _close(self, connection: Session | None) -> None:
        if connection is not None:
            connection.close()

    def _end_all(self) -> None:
        """End everything that works in storagelab's database: this run's sessions that did not finish."""
        with connect(self.config.target, database="master") as session:
            session.execute(_END_ALL.format(name=tsql.identifier(self.site.prefix)))

    @property
    def _server(self) -> attached.ServerFacts:
        assert self.facts is not None, "the target is not entered"
        return self.facts

    # --- a run -------------------------------------------------------------------------------------------------------

    def _server_time_s(self) -> float:
        return float(self._own.value(NOW_US)) / 1e6

    def _workers(self, seed: int) -> Workers:
        prefix = self.site.prefix  # the gate's name, too
        return Workers(self._connect_worker, self.config.insert_load, prefix, self._own, self._end_all, seed)

    def _sampler(self, workers: AnyWorkers[Session], devices: DeviceCounters) -> Sampler:  # noqa: ARG002 - none here
        self._counts = counters.SessionCounts()
        return Sampler(
            lambda: self._connect_to_own("storagelab sampler"), workers.ids, self.config.measure, layout=self.layout,
            counts=self._counts, page_info=self._server.major >= MAJOR_2019,
        )  # fmt: skip

    def _count(self, workers: AnyWorkers[Session]) -> Callable[[], Counters]:
        own, prefix, ids = self._own, self.site.prefix, workers.ids

        def read() -> tuple[counters.Waits, counters.Waits, float, Counters]:
            return (
                counters.read_session_waits(own, ids), counters.read_server_waits(own), counters.read_cpu_s(own, ids),
                {**counters.read_files(own, prefix), **counters.read_rates(own, prefix)},
            )  # fmt: skip

        waits, server_waits, cpu_s, counted = read()

        def passed() -> Counters:
            waits_after, server_waits_after, cpu_s_after, counted_after = read()
            self._counts.waits = counters.waits_between(waits, waits_after)
            self._counts.cpu_s = max(0.0, cpu_s_after - cpu_s)
            of_server = counters.server_waits_group(counters.waits_between(server_waits, server_waits_after))
            return {**difference(counted, counted_after), "waits of the whole server": of_server}

        return passed

    def _page_bytes(self) -> int:
        return 8192

    def _write_out(self) -> None:
        self._own.execute("CHECKPOINT")

    # --- what it was -------------------------------------------------------------------------------------------------

    def _remote_volumes(self, connection: Session) -> dict[str, dict[str, object]]:  # noqa: ARG002 - the same for all
        """The operator's description of each volume, and what the server adds."""
        told = {str(record["name"]): record for record in self._volume_records()}
        facts: dict[str, dict[str, object]] = {}
        for file in [*self.layout.data_files, self.layout.log_file]:
            if file.volume is None or file.volume in facts:
                continue
            record = told.get(file.name, {})
            facts[file.volume] = {
                "path": self.config.volumes[file.volume].path, "remote": True,
                "device": record.get("volume_mount_point"), "filesystem": record.get("file_system_type"),
                "size_bytes": record.get("total_bytes"), "free_bytes": record.get("available_bytes"),
            }  # fmt: skip
        return facts

    def _volume_records(self) -> list[dict[str, Any]]:
        """Nothing if the server does not tell."""
        try:
            return self._own.records(read_back.VOLUMES)
        except DriverError:
            return []

    def _check_remote_volumes(self) -> list[Check]:
        return read_back.volumes(self.config, self.layout, self._volume_records())

    def _check_settings(self, workers: AnyWorkers[Session]) -> list[Check]:  # noqa: ARG002 - they are the database's
        return read_back.settings(self._own, self.config, self.site.prefix)

    def _layout_checks(self) -> list[Check]:
        return [*super()._layout_checks(), check_growth(self._files, self._own.records(FILES))]

    def _check_pages(self, rows: int) -> Check:
        return read_back.one_row_a_page(self._own, rows)


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """Drop what a killed run left on the server; says what. Raises PreflightError if that fails, or if something of such a
    name is not storagelab's."""
    left = dropping_leftovers(config.target, DriverError, words_of, f"the database {site.prefix}")
    with connect(config.target, database="master") as session, left:
        return drop(session, site.prefix, key_of(config.target))
