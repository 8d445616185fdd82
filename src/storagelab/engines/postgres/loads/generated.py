"""The tables of a generator's load on N data files of PostgreSQL. This module puts each table in the place that the
layout names, and reads the place back.

A spread table has hash partitions, which are placed in the tablespaces of the data files in turn. Tables that are not
spread are in the first data file. Each index is in the same data file as its table. The layout may place an object on
another volume: by its name, or by a keyword for all tables or all indexes. Then the object is in an extra tablespace on
that volume.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import LiteralString

from psycopg import sql

from storagelab.engines.postgres.connect import GENERATOR_NAME, Connection, PostgresReach, execute, newest, value
from storagelab.engines.postgres.layout import Layout, Relation, relations_like
from storagelab.engines.postgres.server import OLDEST_MAJOR, system_folders
from storagelab.errors import PreflightError, RunFailed
from storagelab.loads import pgbench
from storagelab.loads.generator import Clients
from storagelab.loads.running import Generator
from storagelab.loads.tables import GeneratedTables, L
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.model.objects import TEMPORARY, Kind, Object
from storagelab.servers.places import changed_files, check_files, check_same, refuse_misfits
from storagelab.servers.programs import first_program, version_output
from storagelab.volumes.folders import Folders

_PRIMARY_KEY = """
SELECT c.relkind::text, coalesce(array_agg(a.attname ORDER BY a.attnum) FILTER (WHERE a.attname IS NOT NULL), '{}')
FROM pg_class c
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey)
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s) AND c.relname = %s AND c.relkind IN ('r', 'p')
GROUP BY c.oid, c.relkind"""
_TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname ~ %s ORDER BY c.oid"""
_INDEXES = """
SELECT c.relname, concat(i.indisprimary, i.indisunique, substring(pg_get_indexdef(c.oid) FROM ' USING .*$'))
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = %s::regclass ORDER BY c.oid"""
_SEQUENCES = """
SELECT attname, pg_get_serial_sequence(attrelid::regclass::text, attname) FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0
AND pg_get_serial_sequence(attrelid::regclass::text, attname) IS NOT NULL"""


class PostgresTables(GeneratedTables[Connection, L], Layout):
    """The tables of one cell's load. The subclass for each load adds the code that fills them, and the sessions."""

    holds = True
    """Whether storagelab locks the tables until the sessions may begin. This is for loads of a fixed number of
    transactions.
    """

    def __init__(
        self, config: Config, prefix: str, folders: Folders | Mapping[str, Path] | None, spaces: str | None = None
    ) -> None:
        super().__init__(config, prefix, folders, spaces)
        self._numbers: dict[tuple[str, str], int] = {}
        """The number of the data file of each partition, by the partition's schema and name."""
        self._at_first: list[Relation] = []

    def _tablespace_on(self, volume: str) -> str:
        """The extra tablespace on a volume, for objects that the layout places there."""
        return f"{self.spaces}_on_{volume}"

    def tablespaces(self) -> list[tuple[str, Path]]:
        placed = [(self._tablespace_on(volume), self._folder_on(volume)) for volume in self._volumes_of_objects]
        return [*super().tablespaces(), *placed]

    def make(self, own: Connection, reach: PostgresReach) -> None:
        super().make(own, reach)
        refuse_misfits(self.config, map(self._object, self._relations(own)))

    def places(self, clients: Clients) -> Iterator[tuple[str, str]]:
        pgbench.log_in_by_pgbench(clients, find("pgbench", clients.beside))
        yield from ()  # pgbench can't print its schema, and `AttachedReach.clients` has checked it

    @property
    def home(self) -> str:
        """The schema of the tables."""
        return self.prefix

    @property
    def schemas(self) -> str:
        """A pattern that matches the names of all schemas with tables of the load."""
        return f"^{self.prefix}$"

    def sessions(self, own: Connection, reach: PostgresReach, seed: int) -> Generator[Connection]:
        self._at_first = self._relations(own)
        program = self.program(reach.clients(self.session_options), reach.site, seed)
        return Generator(
            program, self.load, reach.connect_worker, lambda: generator_sessions(own),
            partial(self._hold, reach) if self.holds else None, checkpoint_count(own),
        )  # fmt: skip

    def _hold(self, reach: PostgresReach) -> Callable[[], None]:
        """Locks the load's tables. Returns a function that unlocks them."""
        connection = reach.connect("storagelab gate")
        try:
            self.lock(connection)
        except BaseException:
            connection.close()
            raise
        return connection.close

    @property
    def session_options(self) -> dict[str, str]:
        options = {"search_path": self.home}
        if self.on_volumes:
            options["default_tablespace"] = self.tablespace(1)
            if TEMPORARY in self.config.placed:
                options["temp_tablespaces"] = self._tablespace_on(self.config.placed[TEMPORARY])
        return options

    @property
    def partitions(self) -> int:
        """The number of hash partitions of each spread table. 0 if no table is spread."""
        files = self.config.layout.data_files
        return self.asked_partitions or (files if files > 1 else 0)

    @property
    def asked_partitions(self) -> int | None:
        """The number of hash partitions in the load's settings. The value is None if the load has no such setting."""
        return None

    def finish(self, own: Connection) -> None:
        self.spread_out(own)
        self.place(own)
        own.execute("VACUUM ANALYZE")

    def spread_out(self, connection: Connection) -> None:
        """Makes hash partitions for each table that must be spread but has no partitions yet.

        Raises RunFailed if a table can't be spread.
        """
        for table in self.spread if self.partitions else ():
            row = connection.execute(_PRIMARY_KEY, [self.home, table]).fetchone()
            if row is None:
                raise RunFailed(f"there is no table {table} to be spread over data files (layout.spread)")
            kind, columns = row
            if kind != "p" and not columns:
                raise RunFailed(f"the table {table} has no primary key, by which it could be spread (layout.spread)")
            if kind != "p":
                self._partition_by(connection, table, columns)

    def _partition_by(self, connection: Connection, table: str, columns: Sequence[str]) -> None:
        name, whole = (self.home, table), (self.home, f"{table}__whole")
        as_named = self._indexes_of(connection, table)
        with connection.transaction():
            execute(connection, "ALTER TABLE {} RENAME TO {}", name, whole[1])
            key = sql.SQL(", ").join(map(sql.Identifier, columns))
            execute(connection, "CREATE TABLE {} (LIKE {} INCLUDING ALL) PARTITION BY HASH ({})", name, whole, key)
            for number in range(self.partitions):
                execute(
                    connection, "CREATE TABLE {} PARTITION OF {} FOR VALUES WITH (MODULUS {}, REMAINDER {})",
                    (self.home, f"{table}_p{number + 1}"), name, sql.Literal(self.partitions), sql.Literal(number),
                )  # fmt: skip
            for column, sequence in connection.execute(_SEQUENCES, [f'"{self.home}"."{table}__whole"']).fetchall():
                execute(connection, "ALTER SEQUENCE {} OWNED BY {}", sql.SQL(sequence), (self.home, table, column))
        self.place(connection)  # while the new partitions are empty
        execute(connection, "INSERT INTO {} SELECT * FROM {}", name, whole)
        execute(connection, "DROP TABLE {}", whole)
        for index, what in self._indexes_of(connection, table).items():  # gives each index the name that the user knows
            old = next((one for one, same in as_named.items() if same == what), index)
            as_named.pop(old, None)
            if old != index:
                execute(connection, "ALTER INDEX {} RENAME TO {}", (self.home, index), old)

    def _indexes_of(self, connection: Connection, table: str) -> dict[str, str]:
        """The table's indexes: name -> definition without the name."""
        return dict(connection.execute(_INDEXES, [f'"{self.home}"."{table}"']).fetchall())

    def lock(self, connection: Connection) -> None:
        """Locks every table until the connection ends. It does not lock the table whose rows pgbench counts before its
        sessions connect.
        """
        tables = connection.execute(_TABLES, [self.schemas]).fetchall()
        connection.execute("BEGIN")
        for schema, table in tables:
            if table != pgbench.COUNTED:
                execute(connection, "LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", (schema, table))

    # --- places ------------------------------------------------------------------------------------------------------

    def place(self, connection: Connection) -> None:
        """Moves every table and index to the tablespace that the layout names. If an object is empty, this takes almost
        no time.
        """
        for one in self._relations(connection) if self.on_volumes else ():
            wanted = self._wanted(one)
            if one.tablespace != wanted:
                what = sql.SQL("INDEX" if one.is_index else "TABLE")
                execute(connection, "ALTER {} {} SET TABLESPACE {}", what, (one.schema, one.name), wanted)

    def _relations(self, connection: Connection) -> list[Relation]:
        found = relations_like(connection, self.schemas)
        parts = Counter[tuple[str, str]]()
        self._numbers = {}
        for one in found:
            if not one.is_index and one.spread:
                self._numbers[one.schema, one.name] = parts[one.schema, one.spread] % self.config.layout.data_files + 1
                parts[one.schema, one.spread] += 1
        return found

    def _in_parts(self, name: str, part: str, kind: Kind, size_bytes: float) -> Iterator[Object]:
        """Yields a table or an index that a load makes. If it is partitioned, yields all of its partitions instead.

        `part` is the pattern of a partition's name, with {} for its number.
        """
        numbers = range(1, self.partitions + 1)
        if not numbers:
            yield Object((name,), kind, "public", bytes=size_bytes)
        for number in numbers:
            yield Object((part.format(number), name), kind, "public", spread=True, bytes=size_bytes / len(numbers))

    def _object(self, one: Relation) -> Object:
        """The table or index, with the name for users. For them, the tables of pgbench and sysbench are in `public`."""
        schema = one.schema if one.schema != self.prefix else "public"
        spread = (one.schema, one.table) in self._numbers
        return Object((one.name, *one.wholes), "index" if one.is_index else "table", schema, spread)

    def _wanted(self, one: Relation) -> str:
        """The tablespace of a table or an index."""
        volume = self.config.placement.volume_of(self._object(one))
        if volume is not None:
            return self._tablespace_on(volume)
        return self.tablespace(self._numbers.get((one.schema, one.table), 1))

    def relations(self, connection: Connection) -> dict[int, tuple[str, int | None]]:
        return {
            one.oid: (one.name, self._numbers.get((one.schema, one.table), 1 if one.table else None))
            for one in self._relations(connection)
        }

    def read_back(self, connection: Connection) -> list[Check]:
        """Checks the spread tables, and the place of each table and index, in the server's catalogue.

        For each object that the layout places separately, also checks its file in the file system.
        """
        found = self._relations(connection)
        folders = {name: str(folder) for name, folder in self.tablespaces()}
        checks = [*self._spread_checks(found)]
        for is_index, what in ((False, "tables"), (True, "indexes")):
            places = [
                (one, folders[self._wanted(one)] if self.on_volumes else "default")
                for one in found if one.is_index == is_index
            ]  # fmt: skip
            wrong = [f"{one.name}: {one.place}" for one, asked in places if one.place != asked]
            checks.append(
                Check(
                    name=f"place of the {what}", asked=", ".join(sorted({asked for _, asked in places})),
                    got=", ".join(wrong[:1] or sorted({one.place for one, _ in places})),
                    ok=bool(places) and not wrong, read_from="pg_tablespace_location",
                )
            )  # fmt: skip
        return [*checks, *self._file_checks(connection, found), *self._temp_check(connection)]

    def _file_checks(self, connection: Connection, found: Sequence[Relation]) -> Iterator[Check]:
        """For each object that the layout places separately, checks in the file system that its file is there."""
        volumes = [(one, self.config.placement.volume_of(self._object(one))) for one in found]
        placed = [(one, self._folder_on(volume)) for one, volume in volumes if volume is not None]
        if placed and self.on_volumes:
            above = Path(value(connection, "SELECT current_setting('data_directory')"))
            yield check_files({one.name: (above / one.file, folder) for one, folder in placed})

    def check_after(self, connection: Connection) -> list[Check]:
        """Checks that every table and index still has the file that it had when the run began."""
        before, now = self._at_first, self._relations(connection)
        placed = [one.whole_name for one in map(self._object, before) if self.config.placement.volume_of(one)]
        first, last = ({self._object(one).whole_name: Path(one.file).name for one in found} for found in (before, now))
        return [*super().check_after(connection), *changed_files(first, last, placed, "pg_relation_filepath")]

    def _spread_checks(self, found: Sequence[Relation]) -> Iterator[Check]:
        for table in self.spread if self.partitions else ():
            parts = [one for one in found if not one.is_index and one.spread == table]
            yield check_same(f"partitions of {table}", str(self.partitions), str(len(parts)), "pg_inherits")
            used = {self._numbers[one.schema, one.name] for one in parts}
            yield check_same(f"data files of {table}", str(len(self.data_files)), str(len(used)), "pg_class")

    def _temp_check(self, connection: Connection) -> Iterator[Check]:
        volume = self.config.placed.get(TEMPORARY)
        if self.on_volumes and volume is not None:
            place = "SELECT max(pg_tablespace_location(oid)) FROM pg_tablespace WHERE spcname = %s"
            got = value(connection, place, [self._tablespace_on(volume)]) or "absent"
            yield check_same("place of temporary files", str(self._folder_on(volume)), got, "pg_tablespace_location")


# --- client programs -------------------------------------------------------------------------------------------------
#
# Finds PostgreSQL's client programs and their sessions.


PACKAGES = {"pgbench": "postgresql-contrib", "psql": "postgresql-client", "pg_restore": "postgresql-client"}
"""Debian's package of each program, for the case that it is missing beside the server's programs."""


def find(name: str, beside: Path | None) -> Path:
    """A client program. It is searched beside the server's programs, then among the system's programs from the newest
    version on, then on the PATH.

    Raises PreflightError if the program is missing or too old. The error names the package to install.
    """
    key, found = "workload.kind", first_program([beside, *system_folders()], name)
    if found is None:
        hint = f"install the package {PACKAGES[name]} (of Debian; elsewhere PostgreSQL's contrib or client programs)"
        raise PreflightError(f"{name} is not on this machine", key=key, hint=hint)
    version = version_of(found)
    if int(version.split(".")[0]) < OLDEST_MAJOR:
        hint = f"install {PACKAGES[name]} of PostgreSQL {OLDEST_MAJOR} or later"
        raise PreflightError(f"{found} is of PostgreSQL {version}, which is too old", key=key, hint=hint)
    return found


@cache
def version_of(program: Path) -> str:
    """The version that a client program reports, for example "18.4"."""
    output = version_output(program)
    found = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)?)", output)
    if found is None:
        raise PreflightError(f"{program} is not PostgreSQL's: it says {output.strip()!r}", key="workload.kind")
    return found[1]


def version_text(name: str, beside: Path | None) -> str:
    """The program and its version, for a plan. Raises PreflightError if the program is missing."""
    return f"{name} {version_of(find(name, beside))}"


def generator_sessions(connection: Connection) -> list[int]:
    """The process ids of a generator's sessions."""
    rows = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid() "
        "AND usename = current_user ORDER BY pid", [GENERATOR_NAME]
    ).fetchall()  # fmt: skip
    return [pid for (pid,) in rows]


_BEGUN: Mapping[int, LiteralString] = {
    14: "SELECT checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter",
    17: "SELECT num_timed + num_requested FROM pg_stat_checkpointer",
}


def checkpoint_count(connection: Connection) -> Callable[[], int]:
    """A function that returns the number of checkpoints that the server has begun."""
    (statement,) = newest(_BEGUN, connection.info.server_version // 10_000)
    return lambda: int(value(connection, statement))
