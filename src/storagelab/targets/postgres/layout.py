"""What holds a load's tables on PostgreSQL: a schema, and a tablespace for each data file, round robin over the volumes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from psycopg import sql

from storagelab.errors import PreflightError
from storagelab.model.config import Config
from storagelab.targets.attaching import OWNERSHIP
from storagelab.targets.folders import Folders
from storagelab.targets.places import Places, remote_name
from storagelab.targets.postgres import kept
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.postgres.reaching import Reaching

_DROPPED_TOGETHER = 64


class Layout(Places):
    """The layout of one cell in one database; `prefix` begins every name that is made, `spaces` those of tablespaces, if they
    outlive the run."""

    def __init__(
        self, config: Config, prefix: str, folders: Folders | Mapping[str, Path] | None, spaces: str | None = None
    ) -> None:
        super().__init__(config, folders, folder_each=True)
        self.prefix, self.spaces = prefix, spaces or prefix
        self.schema = sql.Identifier(prefix)

    def tablespace(self, number: int) -> str:
        return f"{self.spaces}_f{number:04d}"

    def make(self, own: Connection, reach: Reaching) -> None:  # noqa: ARG002 - generators need it
        """Make what a run finds."""
        self.create(own)

    def create(self, connection: Connection) -> None:
        """Make tablespaces, schema and tables, each in its own transaction: a single one for all partitions could need more
        locks than the server has room for."""
        with connection.transaction():
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(self.schema))
            connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(self.schema, sql.Literal(OWNERSHIP)))
        for name, folder in self.tablespaces():
            connection.execute(
                sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(sql.Identifier(name), sql.Literal(str(folder)))
            )
        self._create_tables(connection)

    def tablespaces(self) -> list[tuple[str, Path]]:
        """Every tablespace with its folder."""
        return [(self.tablespace(number), self.folder_of(number)) for number in self.data_files if self.on_volumes]

    def _create_tables(self, connection: Connection) -> None:
        """Make the load's tables, as far as they are made here."""

    def drop(self, connection: Connection, *, templates: bool = True) -> list[str]:
        """Drop everything that storagelab made under the prefix, in any layout; says what was dropped. Without `templates`,
        the databases from which later runs' are made stay, with their tablespaces.

        Raises PreflightError, with nothing dropped, when something of such a name is not storagelab's.
        """
        databases, schemas, tablespaces = self._made_before(connection)
        if not templates:
            stay = {*databases} - {self.prefix}
            databases = [name for name in databases if name not in stay]
            tablespaces = [name for name in tablespaces if kept.of_template(self.prefix, name) not in stay]
        connection.execute("SET lock_timeout = '30s'")
        connection.execute("SET client_min_messages = warning")
        for name in databases:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        for name in schemas:
            self._drop_partitions(connection, name)
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
        for name in tablespaces:
            connection.execute(sql.SQL("DROP TABLESPACE {}").format(sql.Identifier(name)))
        made = {"database": databases, "schema": schemas, "tablespace": tablespaces}
        return [f"{what} {name}" for what, names in made.items() for name in names]

    def _drop_partitions(self, connection: Connection, schema: str) -> None:
        """Drop partitions one by one if they are many: one transaction for all could need more locks than the server has."""
        partitions = connection.execute(
            "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' AND relnamespace = %s::regnamespace",
            [f'"{schema}"'],
        ).fetchall()
        for (name,) in partitions if len(partitions) > _DROPPED_TOGETHER else ():
            connection.execute(sql.SQL("DROP TABLE {}.{}").format(sql.Identifier(schema), sql.Identifier(name)))

    def check_nothing_in_the_way(self, connection: Connection) -> None:
        """Refuses schemas and tablespaces that are not storagelab's but have a name that it needs. Raises PreflightError."""
        self._made_before(connection)

    def _made_before(self, connection: Connection) -> tuple[list[str], list[str], list[str]]:
        """Names of databases, schemas and tablespaces that an earlier run left.

        A database or a schema is recognised by its comment, a tablespace by its folder: it is in one that storagelab made, or
        has a name that operators give to folders for storagelab.
        """
        databases = connection.execute(
            "SELECT datname, shobj_description(oid, 'pg_database') FROM pg_database WHERE datname ~ %s ORDER BY datname",
            [f"^{self.prefix}(_{kept.NAME})?$"],
        ).fetchall()
        schemas = connection.execute(
            "SELECT nspname, obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", [self.prefix]
        ).fetchall()
        tablespaces = connection.execute(
            "SELECT spcname, pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname ~ %s ORDER BY spcname",
            [f"^{self.prefix}_({kept.NAME}_)?(f[0-9]+|tables|indexes|temp)$"],
        ).fetchall()
        foreign = [f"database {name}" for name, comment in databases if comment != OWNERSHIP]
        foreign += [f"schema {name}" for name, comment in schemas if comment != OWNERSHIP]
        foreign += [
            f"tablespace {name}" for name, place in tablespaces if not self._holds_data_files(name, Path(place))
        ]
        if foreign:
            raise PreflightError(
                f"on the server, {' and '.join(foreign)} has a name that storagelab needs, but storagelab did not make it",
                key="target.dsn",
                hint="rename or drop it; storagelab drops only what it made itself",
            )
        return [name for name, _ in databases], [name for name, _ in schemas], [name for name, _ in tablespaces]

    def _holds_data_files(self, tablespace: str, folder: Path) -> bool:
        identity, above = self.prefix.rpartition("_")[2], folder.parent.name
        end = f"-{identity}"
        if kept.of_template(self.prefix, tablespace) is not None:
            above, end = folder.parent.parent.name, f"-{identity}-templates"
        ours = above.startswith("storagelab-") and above.endswith(end)
        number = tablespace.rpartition("_f")[2]
        return ours or (number.isdigit() and folder.name == remote_name(int(number)))
