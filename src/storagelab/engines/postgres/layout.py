"""The places of a load's tables on PostgreSQL: a schema, and a tablespace for each data file, placed in turn on the
volumes.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from psycopg import sql

from storagelab.engines.postgres.connect import AttachedReach, Connection, check_direct, connect, execute, value
from storagelab.machine import descriptors
from storagelab.model.config import Config
from storagelab.model.objects import TABLES
from storagelab.model.plan import template_name, wants_template
from storagelab.predicting.recommending import Move
from storagelab.servers import templates
from storagelab.servers.attached import OWNERSHIP, foreign
from storagelab.servers.interfaces import System
from storagelab.servers.places import Places, remote_name
from storagelab.servers.server import AttachedServer
from storagelab.servers.templates import Restoration
from storagelab.volumes.folders import Folders, Site


def needs_database(config: Config) -> bool:
    """Whether the load needs its own database on the server, because its files may make any object or its database is a
    copy.
    """
    return (config.generated and config.generated_load.own_database) or wants_template(config)


def make_database(connection: Connection, name: str) -> None:
    """Makes a database with storagelab's mark, from the template of PostgreSQL that nobody uses. Raises
    psycopg.Error."""
    execute(connection, "CREATE DATABASE {} TEMPLATE template0", name)
    execute(connection, "COMMENT ON DATABASE {} IS {}", name, sql.Literal(OWNERSHIP))


# --- kept ------------------------------------------------------------------------------------------------------------
#
# A cell's template on a server that already runs: a database of storagelab, from which each run's database is made.
# The load makes its tables in the run's database, which is then renamed. So a template that exists is complete. Its
# tablespaces have their own names and folders, and exist as long as the template, because several layouts have
# templates at the same time. The server copies a template together with its content in every tablespace.


NAME = "t[0-9a-f]{12}"
"""A pattern for the part after the prefix in the names of one cell's template."""
_STRATEGY_SINCE = 150_000


class TemplateDatabase:
    """The template database of one cell."""

    def __init__(self, config: Config, site: Site) -> None:
        self.prefix = f"{site.prefix}_t{template_name(config)}"
        """The template's name, which also begins its tablespaces' names."""
        self._above = templates.folders_of(site, site.volume_paths(config))
        self.folders = self._above.inside(self.prefix)
        """Where the folders of the template's tablespaces are made, by the volume's name."""
        self._run_name = site.prefix

    def exists(self, connection: Connection) -> bool:
        return bool(value(connection, "SELECT count(*) FROM pg_database WHERE datname = %s", [self.prefix]))

    def make_folders(self) -> None:
        """Makes the folders that will hold the folders of the template's tablespaces. Raises RunFailed."""
        self._above.make(again=True)
        for folder in set(self.folders.values()):
            with self._above.held(folder.parent) as above:
                descriptors.remove(folder.name, above)  # from an attempt that failed midway
                os.mkdir(folder.name, dir_fd=above)
                with descriptors.folder(folder.name, above) as made:
                    os.fchmod(made, 0o711)  # as above

    def keep(self, connection: Connection) -> None:
        """Turns the run's database into the template. Nobody may be connected to it. Raises psycopg.Error."""
        # Exclude everybody, even the server's own workers, which would change the data of later runs.
        execute(connection, "ALTER DATABASE {} ALLOW_CONNECTIONS false", self._run_name)
        execute(connection, "ALTER DATABASE {} RENAME TO {}", self._run_name, self.prefix)

    def restore(self, connection: Connection) -> Restoration:
        """Makes the run's database from the template. Raises psycopg.Error."""
        # The default since 15 (WAL_LOG) writes the data through the log, which would fill the log and the buffers just
        # before the run. Older servers always copy files.
        strategy = sql.SQL(" STRATEGY FILE_COPY" if connection.info.server_version >= _STRATEGY_SINCE else "")
        execute(connection, "CREATE DATABASE {} TEMPLATE {}{}", self._run_name, self.prefix, strategy)
        execute(connection, "COMMENT ON DATABASE {} IS {}", self._run_name, sql.Literal(OWNERSHIP))
        asked, got = (
            f"{value(connection, 'SELECT pg_database_size(%s::name)', [name]):,} bytes"
            for name in (self.prefix, self._run_name)
        )
        return Restoration(asked, got, "copied by the server", "pg_database_size")

    def remove_unfinished(self, connection: Connection) -> None:
        """Removes the folders of a template that could not be made. Its tablespaces were dropped already."""
        for folder in () if self.exists(connection) else set(self.folders.values()):
            with contextlib.suppress(OSError), self._above.held(folder.parent) as above:
                descriptors.remove(folder.name, above)


class FromTemplateDatabase(AttachedServer[Connection]):
    """A server that already runs, where the run's database is copied from the template."""

    reach: AttachedReach

    def __init__(self, system: System[Connection], kept: TemplateDatabase) -> None:
        super().__init__(system)
        self._kept = kept

    def _make_folders(self, owner: tuple[int, int] | None) -> None:
        if self.reach.database:  # otherwise the template exists
            self._kept.make_folders()
            super()._make_folders(owner)

    def prepare(self) -> None:
        if self.reach.database:
            super().prepare()
        self._disconnect()
        with connect(self.system.config.target) as connection:
            if self.reach.database:
                self._kept.keep(connection)
            self.restored = self._kept.restore(connection)
        self.reach.database = self.system.site.prefix
        self._connect()


def of_template(prefix: str, tablespace: str) -> str | None:
    """The template database to which a tablespace belongs, by the tablespace's name; None for a run's tablespace."""
    found = re.match(rf"{re.escape(prefix)}_{NAME}(?=_)", tablespace)
    return found[0] if found else None


_DROPPED_TOGETHER = 64
_RELATIONS = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, coalesce(owner.relname, c.relname),
       coalesce(parent.relname, ''),
       ARRAY(SELECT whole.relname::text FROM pg_partition_ancestors(c.oid) WITH ORDINALITY AS a (relid, place)
             JOIN pg_class whole ON whole.oid = a.relid WHERE a.relid <> c.oid ORDER BY a.place),
       coalesce(space.spcname, ''), coalesce(nullif(pg_tablespace_location(c.reltablespace), ''), 'default'),
       coalesce(pg_relation_filepath(c.oid), '')
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_index i ON i.indexrelid = c.oid
LEFT JOIN pg_class owner ON owner.oid = i.indrelid
LEFT JOIN pg_inherits h ON h.inhrelid = coalesce(owner.oid, c.oid)
LEFT JOIN pg_class parent ON parent.oid = h.inhparent
LEFT JOIN pg_tablespace space ON space.oid = c.reltablespace
WHERE c.relkind = ANY(%s) AND n.nspname ~ %s
ORDER BY coalesce(owner.oid, c.oid), c.oid"""


class Relation(NamedTuple):
    """A table or an index. `table` is the index's table, or the table itself. `spread` is the partitioned table to
    which `table` belongs, or "". `wholes` are the partitioned tables or indexes above it, the nearest first.
    `tablespace` is "" for the database's default. `place` is the tablespace's folder. `file` is the name of its file,
    below the server's data folder.
    """

    oid: int
    schema: str
    name: str
    kind: str
    table: str
    spread: str
    wholes: list[str]
    tablespace: str
    place: str
    file: str

    @property
    def is_index(self) -> bool:
        return self.kind == "i"


def relations_in(connection: Connection, schema: str, kinds: str = "ri") -> list[Relation]:
    """Every table and index of a schema, from the server's own catalogue."""
    return relations_like(connection, f"^{re.escape(schema)}$", kinds)


def relations_like(connection: Connection, schemas: str, kinds: str = "rim") -> list[Relation]:
    """Every table, index and materialized view of the schemas whose names match a pattern. Takes no lock on them,
    because a generator's sessions may wait for a lock of storagelab.
    """
    return [Relation(*row) for row in connection.execute(_RELATIONS, [list(kinds), schemas]).fetchall()]


class Layout(Places):
    """The layout of one cell in one database. `prefix` begins every name that is made; `spaces` begins the names of
    tablespaces that outlive the run.
    """

    def __init__(
        self, config: Config, prefix: str, folders: Folders | Mapping[str, Path] | None, spaces: str | None = None
    ) -> None:
        super().__init__(config, folders, folder_each=True)
        self.prefix, self.spaces = prefix, spaces or prefix

    def tablespace(self, number: int) -> str:
        return f"{self.spaces}_f{number:04d}"

    def create(self, connection: Connection) -> None:
        """Makes tablespaces, schema and tables, each in its own transaction, because one transaction for all partitions
        could need more locks than the server has.
        """
        with connection.transaction():
            execute(connection, "CREATE SCHEMA {}", self.prefix)
            execute(connection, "COMMENT ON SCHEMA {} IS {}", self.prefix, sql.Literal(OWNERSHIP))
        for name, folder in self.tablespaces():
            execute(connection, "CREATE TABLESPACE {} LOCATION {}", name, sql.Literal(str(folder)))
        self._create_tables(connection)

    def tablespaces(self) -> list[tuple[str, Path]]:
        """Every tablespace with its folder."""
        return [(self.tablespace(number), self.folder_of(number)) for number in self.data_files if self.on_volumes]

    def _create_tables(self, connection: Connection) -> None:
        """Makes the tables of the load that storagelab makes itself."""

    def drop(self, connection: Connection, *, templates: bool = True) -> list[str]:
        """Drops all that storagelab made under the prefix, in any layout.

        Returns the dropped names. Without `templates`, the databases from which storagelab makes later runs' databases
        stay, with their tablespaces. If something has such a name and is not storagelab's, raises PreflightError and
        drops nothing.
        """
        if self.config.target.attached:
            check_direct(connection, self.config.target)
        made = self._made_before(connection)
        if not templates:
            stay = {*made["database"]} - {self.prefix}
            made["database"] = [name for name in made["database"] if name not in stay]
            made["tablespace"] = [name for name in made["tablespace"] if of_template(self.prefix, name) not in stay]
        connection.execute("SET lock_timeout = '30s'")
        connection.execute("SET client_min_messages = warning")
        for name in made["database"]:
            execute(connection, "DROP DATABASE {} WITH (FORCE)", name)
        for name in made["schema"]:
            self._drop_partitions(connection, name)
            execute(connection, "DROP SCHEMA {} CASCADE", name)
        for name in made["tablespace"]:
            execute(connection, "DROP TABLESPACE {}", name)
        return [f"{what} {name}" for what, names in made.items() for name in names]

    def _drop_partitions(self, connection: Connection, schema: str) -> None:
        """Drops partitions one by one if there are many, because one transaction for all could need more locks than the
        server has.
        """
        partitions = connection.execute(
            "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' AND relnamespace = %s::regnamespace",
            [f'"{schema}"'],
        ).fetchall()
        for (name,) in partitions if len(partitions) > _DROPPED_TOGETHER else ():
            execute(connection, "DROP TABLE {}", (schema, name))

    def check_nothing_in_the_way(self, connection: Connection) -> None:
        """Refuses schemas and tablespaces of others whose names storagelab needs. Raises PreflightError."""
        self._made_before(connection)

    def _made_before(self, connection: Connection) -> dict[str, list[str]]:
        """Names of databases, schemas and tablespaces that an earlier run left.

        A database or a schema is recognised by its comment. A tablespace is recognised by its folder: storagelab made
        the folder around it, or it has a name that operators give to folders for storagelab.
        """
        databases = connection.execute(
            "SELECT datname, shobj_description(oid, 'pg_database') FROM pg_database WHERE "
            "datname ~ %s ORDER BY datname",
            [f"^{self.prefix}(_{NAME})?$"],
        ).fetchall()
        schemas = connection.execute(
            "SELECT nspname, obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", [self.prefix]
        ).fetchall()
        tablespaces = connection.execute(
            "SELECT spcname, pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname ~ %s ORDER BY spcname",
            [f"^{self.prefix}_({NAME}_)?(f[0-9]+|on_.*|tables|indexes|temp)$"],  # earlier versions made the last three
        ).fetchall()
        marked = {"database": databases, "schema": schemas}
        others = [f"{what} {name}" for what, found in marked.items() for name, mark in found if mark != OWNERSHIP]
        others += [f"tablespace {name}" for name, place in tablespaces if not self._holds_data_files(name, Path(place))]
        if others:
            raise foreign(" and ".join(others))
        return {what: [name for name, _ in found] for what, found in {**marked, "tablespace": tablespaces}.items()}

    def _holds_data_files(self, tablespace: str, folder: Path) -> bool:
        identity, above = self.prefix.rpartition("_")[2], folder.parent.name
        end = f"-{identity}"
        if of_template(self.prefix, tablespace) is not None:
            above, end = folder.parent.parent.name, f"-{identity}-templates"
        ours = above.startswith("storagelab-") and above.endswith(end)
        number = tablespace.rpartition("_f")[2]
        return ours or (number.isdigit() and folder.name == remote_name(int(number)))


# --- moves an administrator's objects ---------------------------------------------------------------------------------


def moving(moves: Sequence[Move], folders: Mapping[str, str]) -> Iterator[str]:
    """The statements, and what to check before them."""
    yield "-- Before: a backup that was restored once; room for what moves and, in the log, for its copy."
    for to in dict.fromkeys(one.to for one in moves if one.kind != "log"):
        folder = f"{folders[to]}/tablespace"
        yield f"-- An empty folder of the server's user, also on each replica, at the same path: {folder}"
        escaped = folder.replace("'", "''")
        yield f"CREATE TABLESPACE {_name(to)} LOCATION '{escaped}';  -- unless there is one on that volume"
    if any(one.names or one.what == TABLES for one in moves):
        yield "-- In the objects' own database. Each of these locks what it moves until it is copied."
        yield "SET lock_timeout = '5s';  -- a statement that waits for a lock makes all others wait behind it"
    yield from _statements(moves)
    for one in moves:
        if one.kind == "log":
            folder = quote(f"{folders[one.to]}/pg_wal")
            yield "-- The log: room for max_wal_size and more. Nothing (systemd, Patroni) may restart the server now."
            yield "-- Stop the server by the means that started it. Then, in a shell as its user:"
            # pg_wal may be a link already: then the folder that it leads to moves.
            moved = (
                f'from=$(readlink -f "$PGDATA/pg_wal") && mv -T "$from" {folder} && ln -sfn {folder} "$PGDATA/pg_wal"'
            )
            yield f'pg_ctl status -D "$PGDATA" || {{ {moved} && echo "was in $from"; }}'
            yield "-- Start it again. The way back: the same, to the folder that it was in."


def _statements(moves: Sequence[Move]) -> Iterator[str]:
    for one in moves:
        if one.names:
            yield f"ALTER {one.kind.upper()} {'.'.join(map(_name, one.names))} SET TABLESPACE {_name(one.to)};"
            if one.kind == "index":
                yield f"-- or without the lock: REINDEX (TABLESPACE {_name(one.to)}, CONCURRENTLY) INDEX ...;"
        elif one.what == TABLES:
            for kind in ("TABLE", "INDEX"):
                yield f"ALTER {kind} ALL IN TABLESPACE pg_default SET TABLESPACE {_name(one.to)};"
        elif one.kind == "temporary":
            yield f"ALTER SYSTEM SET temp_tablespaces = {_name(one.to)};"
            yield "SELECT pg_reload_conf();"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
