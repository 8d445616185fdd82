"""SQL Server as a database system: what its runs add to the steps that all engines share. It already runs, elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.targets import Site
from storagelab.targets.attaching import dropping_leftovers, key_of
from storagelab.targets.composed import Composed
from storagelab.targets.parts import OUTSIDE_ERRORS, Columns, Sessions, System
from storagelab.targets.sqlserver import attached, counters, read_back
from storagelab.targets.sqlserver.connecting import DriverError, Session, allow_sessions, connect, words_of
from storagelab.targets.sqlserver.facts import MAJOR_2019
from storagelab.targets.sqlserver.layout import Layout, drop
from storagelab.targets.sqlserver.reaching import Reaching
from storagelab.targets.sqlserver.sampler import Sampler
from storagelab.targets.sqlserver.workload import NOW_US
from storagelab.targets.steps import Counters, difference

_OWN_SESSIONS = 8


class SqlServer(System[Session]):
    """What SQL Server alone knows of a cell's run."""

    name = "sqlserver"
    foreign_errors = (DriverError, *OUTSIDE_ERRORS)
    counts_this_machine = False
    layout: Layout

    def reach_attached(self) -> Reaching:
        return Reaching(self.config, self.site)

    def meet(self) -> None:
        allow_sessions(self.config.database_load.connections + _OWN_SESSIONS)
        with connect(self.config.target) as session:
            self.facts = attached.read_facts(session)
            self.layout = Layout(self.config, self.site.prefix, self.facts)
            drop(session, self.site.prefix, key_of(self.config.target))

    def drop(self) -> None:
        with connect(self.config.target, database="master") as session:
            drop(session, self.site.prefix, key_of(self.config.target))

    def close(self, connection: Session) -> None:
        connection.close()

    def said(self, error: BaseException) -> str:
        return words_of(error) if isinstance(error, DriverError) else str(error).strip()

    # --- asked of the server -----------------------------------------------------------------------------------------

    def facts_of(self, connection: Session) -> dict[str, object]:
        return read_back.server_facts(connection, self.facts, self.site.prefix)

    def remote_volumes(self, connection: Session) -> dict[str, dict[str, object]]:
        """The operator's description of each volume, and what the server adds."""
        told = {str(record["name"]): record for record in _volume_records(connection)}
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

    def check_remote_volumes(self, connection: Session) -> list[Check]:
        return read_back.volumes(self.config, self.layout, _volume_records(connection))

    def time_s(self, connection: Session) -> float:
        return float(connection.value(NOW_US)) / 1e6

    def page_bytes(self, connection: Session) -> int:  # noqa: ARG002 - it has no other size
        return 8192

    def write_out(self, connection: Session) -> None:
        connection.execute("CHECKPOINT")

    # --- watched -----------------------------------------------------------------------------------------------------

    def sampler(self, own: Session, reach: Reaching, sessions: Sessions[Session], columns: Columns) -> Sampler:  # noqa: ARG002 - no drives here
        self._counts = counters.SessionCounts()
        return Sampler(
            lambda: reach.connect_to_own("storagelab sampler"), sessions.ids, self.config.measure, layout=self.layout,
            counts=self._counts, page_info=self.facts.major >= MAJOR_2019,
        )  # fmt: skip

    def count(self, own: Session, reach: Reaching, sessions: Sessions[Session]) -> Callable[[], Counters]:  # noqa: ARG002 - by `own`
        prefix, ids = self.site.prefix, sessions.ids

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


def _volume_records(session: Session) -> list[dict[str, Any]]:
    """Nothing if the server does not tell."""
    try:
        return session.records(read_back.VOLUMES)
    except DriverError:
        return []


def opened(config: Config, site: Site) -> Composed[Session]:
    """The run of a cell."""
    return Composed(SqlServer(config, site))


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """Drop what a killed run left on the server; says what. Raises PreflightError if that fails, or if something of such a
    name is not storagelab's."""
    left = dropping_leftovers(config.target, DriverError, words_of, f"the database {site.prefix}")
    with connect(config.target, database="master") as session, left:
        return drop(session, site.prefix, key_of(config.target))
