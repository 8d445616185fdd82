"""PostgreSQL as a database system: what one of its runs adds to the steps that all engines share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg

from storagelab.model import prepared
from storagelab.model.config import Config
from storagelab.targets import Site, remote
from storagelab.targets.attaching import dropping_leftovers
from storagelab.targets.composed import Composed
from storagelab.targets.parts import OUTSIDE_ERRORS, Columns, Sessions, System, tables_of
from storagelab.targets.postgres import attached, connecting, read_back
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.postgres.generated import GeneratedTables
from storagelab.targets.postgres.kept import Kept, KeptServer
from storagelab.targets.postgres.layout import Layout
from storagelab.targets.postgres.loads import inserts
from storagelab.targets.postgres.reaching import AttachedReach, PrivateReach, Reaching
from storagelab.targets.postgres.sampler import Sampler
from storagelab.targets.postgres.server import STARTER, Server
from storagelab.targets.steps import Counters, counting


class Postgres(System[Connection]):
    """What PostgreSQL alone knows of a cell's run; `kept` is the database from which the run's is copied, if it is."""

    name, starter = "postgres", STARTER
    foreign_errors = (psycopg.Error, *OUTSIDE_ERRORS)
    mounts_from = "/proc/self/mountinfo by pg_read_file"
    log_tells_of_sessions = True
    layout: inserts.Tables | GeneratedTables[Any]

    def __init__(self, config: Config, site: Site, kept: Kept | None = None) -> None:
        super().__init__(config, site)
        self._kept, self._database = kept, ""
        folders, spaces = (self.folders, None) if kept is None else (kept.folders, kept.prefix)
        self.layout = tables_of(config)(config, site.prefix, folders, spaces)

    def reach_private(self, process: Server, expected: Mapping[str, str]) -> PrivateReach:  # type: ignore[override]
        return PrivateReach(self.config, self.site, process, expected)

    def reach_attached(self) -> AttachedReach:
        return AttachedReach(self.config, self.site, self.facts, self._database)

    def meet(self) -> None:
        with connecting.connect(self.config.target) as connection:
            self.facts = attached.read_facts(connection)
            self.layout.drop(connection, templates=False)
            if attached.needs_database(self.config) and not (self._kept is not None and self._kept.exists(connection)):
                attached.make_database(connection, self.site.prefix)
                self._database = self.site.prefix

    def drop(self) -> None:
        with connecting.connect(self.config.target) as connection:
            self.layout.drop(connection, templates=False)
            if self._kept is not None:
                self._kept.remove_unfinished(connection)

    def close(self, connection: Connection) -> None:
        connection.close()

    def said(self, error: BaseException) -> str:
        return str(error).strip() or type(error).__name__

    def is_away(self, error: BaseException) -> bool:
        return "the database system is" in str(error)

    # --- asked of the server -----------------------------------------------------------------------------------------

    def facts_of(self, connection: Connection) -> dict[str, object]:
        return read_back.server_facts(connection)

    def data_folder(self, connection: Connection) -> Path | None:
        return attached.data_folder(connection)

    def mounts(self, connection: Connection) -> list[remote.Mount]:
        return attached.mounts(connection)

    def time_s(self, connection: Connection) -> float:
        return float(connecting.value(connection, "SELECT extract(epoch FROM clock_timestamp())::float8"))

    def page_bytes(self, connection: Connection) -> int:
        return int(connecting.value(connection, "SELECT current_setting('block_size')::int"))

    def write_out(self, connection: Connection) -> None:
        connection.execute("CHECKPOINT")

    # --- watched -----------------------------------------------------------------------------------------------------

    def sampler(self, own: Connection, reach: Reaching, sessions: Sessions[Connection], columns: Columns) -> Sampler:
        return Sampler(
            lambda: reach.connect("storagelab sampler"), sessions.ids, self.config.measure, kernel_view=reach.kernel_view,
            relations=self.layout.relations(own), probe=columns, of_generator=self.config.generated,
        )  # fmt: skip

    def count(self, own: Connection, reach: Reaching, sessions: Sessions[Connection]) -> Callable[[], Counters]:  # noqa: ARG002 - of all
        return counting(lambda: read_back.read_counters(own, own.info.server_version // 10_000))


def opened(config: Config, site: Site) -> Composed[Connection]:
    """The run of a cell."""
    if not (config.target.attached and prepared.wanted(config)):
        return Composed(Postgres(config, site))
    kept = Kept(config, site)
    system = Postgres(config, site, kept)
    return Composed(system, KeptServer(system, kept))


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """Drop what a killed run left on an attached server; says what. Raises PreflightError if that fails."""
    left = dropping_leftovers(config.target, psycopg.Error, connecting.words_of, f"the schema {site.prefix}")
    with connecting.connect(config.target) as connection, left:
        return Layout(config, site.prefix, None).drop(connection)
