"""The tables of a generated load on N data files: has them made, puts each where the layout says, reads that back.

A table that is spread has hash partitions, which go round robin over the data files' tablespaces. Every other table lies in
the first data file or on a volume of its own, and an index beside its table or on the volume for indexes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from psycopg import sql

from storagelab.errors import PreflightError, RunFailed
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.model.workload import Pgbench
from storagelab.spec.loads import script_of
from storagelab.targets import Site
from storagelab.targets.folders import Folders
from storagelab.targets.generators import pgbench
from storagelab.targets.generators.pgbench import Source
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.postgres.layout import Layout
from storagelab.targets.programs import run
from storagelab.targets.steps import check_same
from storagelab.targets.unprivileged import make_folder

SPREAD = {"pgbench": ("pgbench_accounts",)}
"""The big tables of a generator's own load."""
_LONGEST_SCRIPT_BYTES = 2**20
_PASSWORD = re.compile(r"\bpassword\b\s*(?:=\s*)?'|\bpassword=\S|\w+://[^\s/@:]*:[^\s/@]+@", re.IGNORECASE)
"""A password in SQL (`PASSWORD 'x'`) or in a connection string."""

_RELATIONS = """
SELECT c.oid::bigint, c.relname, c.relkind::text, coalesce(owner.relname, c.relname),
       coalesce(parent.relname, ''), coalesce(space.spcname, ''),
       coalesce(nullif(pg_tablespace_location(c.reltablespace), ''), 'default')
FROM pg_class c
LEFT JOIN pg_index i ON i.indexrelid = c.oid
LEFT JOIN pg_class owner ON owner.oid = i.indrelid
LEFT JOIN pg_inherits h ON h.inhrelid = coalesce(owner.oid, c.oid)
LEFT JOIN pg_class parent ON parent.oid = h.inhparent
LEFT JOIN pg_tablespace space ON space.oid = c.reltablespace
WHERE c.relkind IN ('r', 'i') AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)
ORDER BY coalesce(owner.oid, c.oid), c.oid"""


class Relation(NamedTuple):
    """A table or an index: `table` is its table, `spread` the table whose partition that is, "" if it is none; `tablespace`
    is "" where it lies in the database's own, `place` that tablespace's folder."""

    oid: int
    name: str
    kind: str
    table: str
    spread: str
    tablespace: str
    place: str


class GeneratedLayout(Layout):
    """The layout of one cell with a generated load, in a schema of its own."""

    def __init__(self, config: Config, prefix: str, folders: Folders | None) -> None:
        super().__init__(config, prefix, folders)
        self._numbers: dict[str, int] = {}

    def _extra(self, what: str) -> str:
        return f"{self.prefix}_{what}"

    def _extra_folder(self, what: str) -> Path:
        assert self._folders is not None
        return self._folders[self.config.extra_volumes[what]] / what

    def tablespaces(self) -> list[tuple[str, Path]]:
        extra = [(self._extra(what), self._extra_folder(what)) for what in self.config.extra_volumes if self.on_volumes]
        return [*super().tablespaces(), *extra]

    def make_folders(self, owner: tuple[int, int] | None = None) -> None:
        super().make_folders(owner)
        for what in self.config.extra_volumes if self.on_volumes else ():
            make_folder(self._extra_folder(what), owner)

    def _create_tables(self, connection: Connection) -> None:
        """The generator makes them."""

    @property
    def session_options(self) -> dict[str, str]:
        """Settings of the sessions that make and use the tables."""
        options = {"search_path": self.prefix}
        if self.on_volumes:
            options["default_tablespace"] = self.tablespace(1)
            if "temp" in self.config.extra_volumes:
                options["temp_tablespaces"] = self._extra("temp")
        return options

    @property
    def partitions(self) -> int:
        """Hash partitions of each table that is spread; 0 if none is."""
        load = self.config.workload
        said = load.partitions if isinstance(load, Pgbench) else None
        files = self.config.layout.data_files
        return said or (files if files > 1 else 0)

    @property
    def spread(self) -> tuple[str, ...]:
        said = self.config.layout.spread
        return SPREAD.get(self.config.workload.kind, ()) if said is None else said

    # --- places ------------------------------------------------------------------------------------------------------

    def place(self, connection: Connection) -> None:
        """Move every table and index to the tablespace that the layout names. Empty ones cost nothing."""
        for one in self._relations(connection) if self.on_volumes else ():
            wanted = self._wanted(one)
            if one.tablespace != wanted:
                what = "TABLE" if one.kind == "r" else "INDEX"
                connection.execute(
                    sql.SQL(f"ALTER {what} {{}}.{{}} SET TABLESPACE {{}}").format(
                        self.schema, sql.Identifier(one.name), sql.Identifier(wanted)
                    )
                )

    def _relations(self, connection: Connection) -> list[Relation]:
        found = [Relation(*row) for row in connection.execute(_RELATIONS, [self.prefix]).fetchall()]
        partitions = [(one.spread, one.name) for one in found if one.kind == "r" and one.spread]
        of_table: dict[str, list[str]] = {}
        for parent, name in partitions:
            of_table.setdefault(parent, []).append(name)
        files = self.config.layout.data_files
        self._numbers = {name: place % files + 1 for names in of_table.values() for place, name in enumerate(names)}
        return found

    def _wanted(self, one: Relation) -> str:
        """The tablespace of a table or an index."""
        extra = self.config.extra_volumes
        if one.kind == "i" and "indexes" in extra:
            return self._extra("indexes")
        if one.table in self._numbers:
            return self.tablespace(self._numbers[one.table])
        return self._extra("tables") if "tables" in extra else self.tablespace(1)

    def relations(self, connection: Connection) -> dict[int, tuple[str, int | None]]:
        found = self._relations(connection)
        return {one.oid: (one.name, self._numbers.get(one.table, 1 if one.table else None)) for one in found}

    def read_back(self, connection: Connection) -> list[Check]:
        """Reads what is spread, and the place of each table and index, from the server's own catalogue."""
        found = self._relations(connection)
        folders = {name: str(folder) for name, folder in self.tablespaces()}
        checks = [*self._spread_checks(found)]
        for kind, what in (("r", "tables"), ("i", "indexes")):
            asked = {
                one.name: folders[self._wanted(one)] if self.on_volumes else "default"
                for one in found
                if one.kind == kind
            }
            got = {one.name: one.place for one in found if one.kind == kind}
            wrong = [f"{name}: {place}" for name, place in got.items() if place != asked[name]]
            checks.append(
                Check(
                    name=f"place of the {what}", asked=", ".join(sorted(set(asked.values()))),
                    got=", ".join(wrong[:1] or sorted(set(got.values()))), ok=bool(got) and not wrong,
                    read_from="pg_tablespace_location",
                )
            )  # fmt: skip
        return [*checks, *self._temp_check(connection)]

    def _spread_checks(self, found: Sequence[Relation]) -> Iterator[Check]:
        if not self.partitions:
            return
        for table in self.spread:
            parts = [one for one in found if one.kind == "r" and one.spread == table]
            yield check_same(f"partitions of {table}", str(self.partitions), str(len(parts)), "pg_inherits")
            used = {self._numbers[one.name] for one in parts}
            yield check_same(f"data files of {table}", str(len(self.data_files)), str(len(used)), "pg_class")

    def _temp_check(self, connection: Connection) -> Iterator[Check]:
        if not self.on_volumes or "temp" not in self.config.extra_volumes:
            return
        row = connection.execute(
            "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = %s", [self._extra("temp")]
        ).fetchone()
        got = str(row[0]) if row else "absent"
        yield check_same("place of temporary files", str(self._extra_folder("temp")), got, "pg_tablespace_location")


def fill(
    layout: GeneratedLayout,
    connection: Connection,
    program: Path,
    environment: Mapping[str, str],
    in_child: Callable[[], None] | None,
) -> None:
    """Have the tables made and filled by a program with this environment. Raises RunFailed with the program's words."""
    load = layout.config.workload
    assert isinstance(load, Pgbench)

    def steps(which: str) -> None:
        command = pgbench.initialise(str(program), load, which, layout.partitions)
        said = run(command, in_child, environment=environment)
        if said.returncode != 0:
            raise RunFailed(f"pgbench can't make its tables: {pgbench.words(said.stderr, ())}")

    steps("dt")
    layout.place(connection)  # while they are empty
    steps("gvp")
    layout.place(connection)  # the indexes


def sources(config: Config, site: Site) -> tuple[Source, ...]:
    """The scripts of a cell with the content of their files. Raises PreflightError for one that can't be used."""
    load = config.workload
    assert isinstance(load, Pgbench)
    return tuple(_source(text, f"workload.scripts[{number}]", site) for number, text in enumerate(load.scripts, 1))


def _source(text: str, key: str, site: Site) -> Source:
    script = script_of(text)
    if script.built_in:
        return Source(script, None)
    path = site.place(script.name, key)
    try:
        if path.stat().st_size > _LONGEST_SCRIPT_BYTES:
            raise PreflightError(f"{path} is too long for a script", key=key, hint="a script holds one transaction")
        content = path.read_bytes()
    except OSError as error:
        raise PreflightError(f"{path} can't be read: {error.strerror}", key=key, hint="check its name") from error
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        if _PASSWORD.search(line):
            raise PreflightError(
                f"{script.name} holds a password in line {number}",
                key=key,
                hint="let the server know the login without one in a script: ~/.pgpass, PGPASSWORD, or pg_hba.conf",
            )
    return Source(script, content)
