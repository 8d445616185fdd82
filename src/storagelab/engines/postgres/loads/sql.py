"""The user's own tables on PostgreSQL: psql and pg_restore make them in a separate database, and pgbench uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from storagelab.engines.postgres import dumps
from storagelab.engines.postgres import reaching as programs
from storagelab.engines.postgres.connecting import Connection
from storagelab.engines.postgres.generated import PostgresTables
from storagelab.errors import PreflightError
from storagelab.loads.generator import Clients, Program
from storagelab.loads.own_files import (
    changed,
    check_stays_inside,
    failure,
    form_of,
    newer_words,
    own_files,
    own_transactions,
)
from storagelab.loads.pgbench import by_pgbench
from storagelab.model.loads.sql import Sql
from storagelab.model.objects import KEY
from storagelab.volumes.folders import Site

_ELSEWHERE = re.compile(rb"^\s*(\\c(?:onnect)?(?=\s)|(?:CREATE|DROP)\s+DATABASE\b)", re.IGNORECASE | re.MULTILINE)


class Step(NamedTuple):
    """One file of the user: what is done with it, by which program with which options. `is_dump`: the program reads it
    from its input, without owners and rights.
    """

    what: str
    program: str
    options: list[str]
    file: Path
    is_dump: bool


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
        folders = [step.file.parent for step in steps]
        for step in steps:
            program = str(programs.find(step.program, clients.beside))
            if step.is_dump:
                with changed(step.file, dumps.leaving_out_owners()) as reads:
                    output = clients.run([program, *step.options, "-"], *folders, reads=reads)
            else:
                output = clients.run([program, *step.options, str(step.file)], *folders)
            if output.returncode != 0:
                raise failure(step.what, output, step.file.name, partial(self._of_other_version, own, clients, step))
        self.finish(own)

    def _of_other_version(self, own: Connection, clients: Clients, step: Step, words: str) -> str:
        """That another version may be why a dump can't be restored."""
        if "unsupported version" in words:
            return dumps.OTHER_VERSION
        if not step.is_dump and step.program != "pg_restore":
            return ""
        dump = dumps.version_of(step.file, step.program == "pg_restore", clients.beside)
        return newer_words(dump, (own.info.server_version // 10_000,), "PostgreSQL")

    def program(self, clients: Clients, site: Site, seed: int) -> Program:
        program = programs.find("pgbench", clients.beside)
        return by_pgbench(clients, program, self.load, own_transactions(self.load, site), seed)

    def check(self, site: Site, beside: Path | None) -> str:
        own_transactions(self.load, site)
        for step in _steps(self.load, site, ""):
            if step.program == "pg_restore":
                # Checks that pg_restore can read the archive, and that it holds what the layout names
                objects = dumps.objects_in(dumps.content_of(step.file, beside))
                problem = None if self.load.setup else self.config.placement.problem(objects)
                if problem is not None:
                    raise PreflightError(problem.problem, key=KEY, hint=problem.hint)
        return programs.version_text("pgbench", beside)


def _steps(load: Sql, site: Site, database: str) -> Iterator[Step]:
    """The steps that fill `database` with the user's data. Raises PreflightError for a file that can't be used."""
    by_psql = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file"]
    by_restore = ["--no-owner", "--no-privileges", "--no-tablespaces", "--exit-on-error", f"--dbname={database}"]
    for what, name, key, path in own_files(load, site):
        is_dump = name == load.restore and key == dumps.KEY
        if is_dump and form_of(path, key, "pg_dump") == "archive":
            yield Step(what, "pg_restore", by_restore, path, is_dump=False)
            continue
        hint = "dump by pg_dump without --create" if is_dump else "what makes a database is left to storagelab"
        check_stays_inside(path, name, key, _ELSEWHERE, hint)
        yield Step(what, "psql", by_psql, path, is_dump)
