"""The places of a load's tables on PostgreSQL. The tables are in their own schema. Each data file is a tablespace. The
tablespaces are placed on the volumes in turn.
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
    """Whether the load needs its own database on the server.

    It needs one if the user's files may make any kind of object, or if the run's database is copied from a template.
    """
    return (config.generated and config.generated_load.own_database) or wants_template(config)


def make_database(connection: Connection, name: str) -> None:
    """Makes a database with storagelab's mark from `template0`, which has no sessions. Raises psycopg.Error."""
    execute(connection, "CREATE DATABASE {} TEMPLATE template0", name)
    execute(connection, "COMMENT ON DATABASE {} IS {}", name, sql.Literal(OWNERSHIP))


# --- kept ------------------------------------------------------------------------------------------------------------
#
# A cell's template on a server that already runs. It is a database of storagelab. Each run's database is a copy of it.
# The tables are first made in a run's database, which is then renamed. So if a template exists, it is complete. Several
# layouts have templates at the same time. So the tablespaces of each template have their own names and folders, and
# exist as long as the template. The server copies a template together with its content in every tablespace.


NAME = "t[0-9a-f]{12}"
"""A pattern for the name of a cell's template, after the prefix."""
_STRATEGY_SINCE = 150_000


class TemplateDatabase:
    """The template database of one cell."""

    def __init__(self, config: Config, site: Site) -> None:
        self.prefix = f"{site.prefix}_t{template_name(config)}"
        """The template's name. The names of the template's tablespaces also begin with this name."""
        self._above = templates.folders_of(site, site.volume_paths(config))
        self.folders = self._above.inside(self.prefix)
        """For each volume, by name: the folder for the folders of the template's tablespaces."""
        self._run_name = site.prefix

    def exists(self, connection: Connection) -> bool:
        return bool(value(connection, "SELECT count(*) FROM pg_database WHERE datname = %s", [self.prefix]))

    def make_folders(self) -> None:
        """Makes a folder on each volume for the folders of the template's tablespaces. Raises RunFailed."""
        self._above.make(again=True)
        for folder in set(self.folders.values()):
            with self._above.held(folder.parent) as above:
                descriptors.remove(folder.name, above)  # may be left by a failed attempt
                os.mkdir(folder.name, dir_fd=above)
                with descriptors.folder(folder.name, above) as made:
                    os.fchmod(made, 0o711)  # as above

    def keep(self, connection: Connection) -> None:
        """Turns the run's database into the template. Raises psycopg.Error, for example if a session is connected."""
        # Nobody can connect from now on, not even the server's own workers, which would change the data of later runs.
        execute(connection, "ALTER DATABASE {} ALLOW_CONNECTIONS false", self._run_name)
        execute(connection, "ALTER DATABASE {} RENAME TO {}", self._run_name, self.prefix)

    def restore(self, connection: Connection) -> Restoration:
        """Makes the run's database from the template. Raises psycopg.Error."""
        # With WAL_LOG, the default since PostgreSQL 15, the server writes the copied data to the log. This would fill
        # the log and the buffers just before the run. Older servers always copy files.
        strategy = sql.SQL(" STRATEGY FILE_COPY" if connection.info.server_version >= _STRATEGY_SINCE else "")
        execute(connection, "CREATE DATABASE {} TEMPLATE {}{}", self._run_name, self.prefix, strategy)
        execute(connection, "COMMENT ON DATABASE {} IS {}", self._run_name, sql.Literal(OWNERSHIP))
        asked, got = (
            f"{value(connection, 'SELECT pg_database_size(%s::name)', [name]):,} bytes"
            for name in (self.prefix, self._run_name)
        )
        return Restoration(asked, got, "copied by the server", "pg_database_size")

    def remove_unfinished(self, connection: Connection) -> None:
        """Removes the folders of a template that could not be made. Its tablespaces have already been dropped."""
        for folder in () if self.exists(connection) else set(self.folders.values()):
            with contextlib.suppress(OSError), self._above.held(folder.parent) as above:
                descriptors.remove(folder.name, above)


class FromTemplateDatabase(AttachedServer[Connection]):
    """A server that already runs. The run's database is copied from the template."""

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
    """The name of the template to which the tablespace belongs. Returns None if it is a run's tablespace."""
    found = re.match(rf"{re.escape(prefix)}_{NAME}(?=_)", tablespace)
    return found[0] if found else None


_DROPPED_TOGETHER = 64
_RELATIONS = Path(__file__).with_name("relations.sql").read_text("utf-8")


class Relation(NamedTuple):
    """A table or an index.

    `table` is the table of an index, or the table itself. `spread` is the partitioned table to which `table` belongs,
    or "". `wholes` are the partitioned tables or indexes to which it belongs, the nearest first. `tablespace` is "" for
    the default tablespace of the database. `place` is the folder of the tablespace. `file` is the path of its file,
    relative to the server's data folder.
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
    """Every table and index of a schema, from the server's catalogue. `kinds` has the letters of relkind."""
    return relations_like(connection, f"^{re.escape(schema)}$", kinds)


def relations_like(connection: Connection, schemas: str, kinds: str = "rim") -> list[Relation]:
    """Every table, index and materialized view in the schemas whose names match a pattern.

    The query takes no lock on them, because storagelab itself may have locked them to hold a generator's sessions.
    """
    return [Relation(*row) for row in connection.execute(_RELATIONS, [list(kinds), schemas]).fetchall()]


class Layout(Places):
    """The layout of one cell in one database.

    All names that storagelab makes begin with `prefix`. If tablespaces remain after the run, their names begin with
    `spaces`.
    """

    def __init__(
        self, config: Config, prefix: str, folders: Folders | Mapping[str, Path] | None, spaces: str | None = None
    ) -> None:
        super().__init__(config, folders, folder_each=True)
        self.prefix, self.spaces = prefix, spaces or prefix

    def tablespace(self, number: int) -> str:
        return f"{self.spaces}_f{number:04d}"

    def create(self, connection: Connection) -> None:
        """Makes the schema, the tablespaces and the tables. Each has its own transaction, because one transaction for
        all partitions could need more locks than the server has.
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
        """Makes the tables that storagelab makes itself. A generator makes all others."""

    def drop(self, connection: Connection, *, templates: bool = True) -> list[str]:
        """Drops everything that storagelab made with the prefix, whatever its layout. Returns the dropped names.

        If `templates` is False, the template databases and their tablespaces remain for later runs. If an object has
        such a name but is not storagelab's, raises PreflightError and drops nothing.
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
        """If there are many partitions, drops them one by one. One transaction for all partitions could need more locks
        than the server has.
        """
        partitions = connection.execute(
            "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' AND relnamespace = %s::regnamespace",
            [f'"{schema}"'],
        ).fetchall()
        for (name,) in partitions if len(partitions) > _DROPPED_TOGETHER else ():
            execute(connection, "DROP TABLE {}", (schema, name))

    def check_nothing_in_the_way(self, connection: Connection) -> None:
        """Raises PreflightError if another user's schema or tablespace has a name that storagelab needs."""
        self._made_before(connection)

    def _made_before(self, connection: Connection) -> dict[str, list[str]]:
        """The names of databases, schemas and tablespaces that an earlier run left. Raises PreflightError if one is not
        storagelab's.

        storagelab recognises its databases and schemas by their comment, and its tablespaces by their folder. The
        folder is inside a folder that storagelab made, or an operator gave it the name that storagelab requires.
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
    """The lines of a script that moves tables, indexes and the log. Comments say what to check before each step."""
    yield "-- Before you begin: test your backup. The volume and the log need room for a copy of all that moves."
    for to in dict.fromkeys(one.to for one in moves if one.kind != "log"):
        folder = f"{folders[to]}/tablespace"
        yield f"-- Make this empty folder for the server's user, also on each replica: {folder}"
        escaped = folder.replace("'", "''")
        yield f"CREATE TABLESPACE {_name(to)} LOCATION '{escaped}';  -- unless the volume already has one"
    if any(one.names or one.what == TABLES for one in moves):
        yield "-- Run this in the objects' database. Each statement locks its table or index until it is copied."
        yield "SET lock_timeout = '5s';  -- while a statement waits for its lock, later sessions wait behind it"
    yield from _statements(moves)
    for one in moves:
        if one.kind == "log":
            folder = quote(f"{folders[one.to]}/pg_wal")
            yield "-- The volume needs more room than max_wal_size. Stop the server with the tool that started it."
            yield "-- Nothing (systemd, Patroni) may restart it now. Then run this in a shell as the server's user:"
            # If pg_wal is already a link, the command moves the folder to which the link points.
            moved = (
                f'from=$(readlink -f "$PGDATA/pg_wal") && mv -T "$from" {folder} && ln -sfn {folder} "$PGDATA/pg_wal"'
            )
            yield f'pg_ctl status -D "$PGDATA" || {{ {moved} && echo "was in $from"; }}'
            yield "-- Start the server again. To undo this, move pg_wal back to the folder that the shell has shown."


def _statements(moves: Sequence[Move]) -> Iterator[str]:
    for one in moves:
        if one.names:
            yield f"ALTER {one.kind.upper()} {'.'.join(map(_name, one.names))} SET TABLESPACE {_name(one.to)};"
            if one.kind == "index":
                yield f"-- or, without a long lock: REINDEX (TABLESPACE {_name(one.to)}, CONCURRENTLY) INDEX ...;"
        elif one.what == TABLES:
            for kind in ("TABLE", "INDEX"):
                yield f"ALTER {kind} ALL IN TABLESPACE pg_default SET TABLESPACE {_name(one.to)};"
        elif one.kind == "temporary":
            yield f"ALTER SYSTEM SET temp_tablespaces = {_name(one.to)};"
            yield "SELECT pg_reload_conf();"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
