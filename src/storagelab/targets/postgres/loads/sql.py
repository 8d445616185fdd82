"""The user's own tables on PostgreSQL: psql and pg_restore make them in a separate database, and pgbench uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from storagelab.errors import PreflightError, RunFailed
from storagelab.model.loads.sql import Sql
from storagelab.targets import Site
from storagelab.targets.generators.program import Program
from storagelab.targets.generators.programs import (
    Clients,
    by_pgbench,
    check_stays_inside,
    own_files,
    own_transactions,
    words_of_client,
)
from storagelab.targets.postgres import reaching as programs
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.postgres.generated import PostgresTables

_OTHER_VERSION = (
    "; a newer pg_dump may have made it: dump by the pg_dump of this server's version or as SQL (--format=plain), or "
    "measure a newer server (target.bin_dir)"
)
_ELSEWHERE = re.compile(rb"^\s*(\\c(?:onnect)?(?=\s)|(?:CREATE|DROP)\s+DATABASE\b)", re.IGNORECASE | re.MULTILINE)
Step = tuple[str, str, list[str], Path]
"""What the step does, its program, its options, and its file."""


class Tables(PostgresTables[Sql]):
    """The tables of one cell."""

    @property
    def home(self) -> str:
        return "public"  # a dump itself names its schemas

    @property
    def schemas(self) -> str:
        return "^(?!pg_|information_schema$)"

    def fill(self, own: Connection, clients: Clients, site: Site) -> None:
        steps = list(_steps(self.load, site, clients.environment.get("PGDATABASE", "")))
        folders = [file.parent for *_, file in steps]
        for what, name, options, file in steps:
            output = clients.run([str(programs.find(name, clients.beside)), *options, str(file)], *folders)
            if output.returncode != 0:
                words = words_of_client(output)
                raise RunFailed(f"{what} failed: {words}{_OTHER_VERSION if 'unsupported version' in words else ''}")
        self.finish(own)

    def program(self, clients: Clients, site: Site, seed: int) -> Program:
        program = programs.find("pgbench", clients.beside)
        return by_pgbench(clients, program, self.load, own_transactions(self.load, site), seed)

    def check(self, site: Site, beside: Path | None) -> str:
        own_transactions(self.load, site)
        list(_steps(self.load, site, ""))
        return programs.version_text("pgbench", beside)


def _steps(load: Sql, site: Site, database: str) -> Iterator[Step]:
    """The steps that fill `database` with the user's data. Raises PreflightError for a file that can't be used."""
    by_psql = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file"]
    by_restore = ["--no-owner", "--no-privileges", "--no-tablespaces", "--exit-on-error", f"--dbname={database}"]
    for what, name, key, path in own_files(load, site):
        is_dump = name == load.restore and key == "workload.restore"
        if is_dump and not path.exists():
            raise PreflightError(f"{path} does not exist", key=key, hint="name a dump of pg_dump")
        if is_dump and path.suffix != ".sql":
            yield what, "pg_restore", by_restore, path
            continue
        hint = "dump by pg_dump without --create" if is_dump else "what makes a database is left to storagelab"
        check_stays_inside(path, name, key, _ELSEWHERE, hint)
        yield what, "psql", by_psql, path
