"""The user's own tables on PostgreSQL. psql and pg_restore make them in a separate database. pgbench runs the load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from storagelab.engines.postgres.connect import Connection
from storagelab.engines.postgres.loads.generated import PostgresTables, find, version_text
from storagelab.errors import PreflightError
from storagelab.loads import own_files as sources
from storagelab.loads.generator import Clients, Program
from storagelab.loads.pgbench import by_pgbench
from storagelab.machine.rights import as_server
from storagelab.model.loads.sql import Sql
from storagelab.model.objects import KEY, Object
from storagelab.servers.programs import environment, installation, run
from storagelab.spec.given_files import begin_of
from storagelab.volumes.folders import Site

_ELSEWHERE = re.compile(rb"^\s*(\\c(?:onnect)?(?=\s)|(?:CREATE|DROP)\s+DATABASE\b)", re.IGNORECASE | re.MULTILINE)
RESTORE_KEY = "workload.restore"
OTHER_VERSION = (
    "; a newer pg_dump may have made it: dump with the pg_dump of this server's version, or dump as SQL "
    "(--format=plain), or measure a newer server (target.bin_dir)"
)
_LEFT_OUT = re.compile(
    rb"(?:ALTER\s.+\sOWNER TO\s.+|(?:GRANT|REVOKE)\s.+\s(?:TO|FROM)\s.+|ALTER DEFAULT PRIVILEGES\s.+|"
    rb"SET SESSION AUTHORIZATION\s.+|SET default_tablespace\s*=.*);\s*",
    re.DOTALL,
)
"""Statements of pg_dump about owners, rights and tablespaces. pg_dump writes each of them on one line."""
_ROWS_BEGIN = re.compile(rb"COPY\s.+\sFROM stdin;\s*", re.IGNORECASE | re.DOTALL)
_QUOTE = re.compile(rb"\$[A-Za-z_]*\$")
_ENTRY = re.compile(r"\d+; \d+ \d+ (TABLE|MATERIALIZED VIEW|INDEX|CONSTRAINT) (\S+) (?:\S+ )?(\S+) \S+")
_HEAD_BYTES = 4096


class Step(NamedTuple):
    """One of the user's files, the program that reads this file, and the options of that program.

    If `is_dump` is True, the program reads the file from standard input, without its statements about owners and
    rights.
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
            command = [str(find(step.program, clients.beside)), *step.options]
            if step.is_dump:
                with sources.changed(step.file, leaving_out_owners()) as reads:
                    output = clients.run([*command, "-"], *folders, reads=reads)
            else:
                output = clients.run([*command, str(step.file)], *folders)
            if output.returncode != 0:
                note = partial(self._of_other_version, own, clients, step)
                raise sources.failure(step.what, output, step.file.name, note)
        self.finish(own)

    def _of_other_version(self, own: Connection, clients: Clients, step: Step, words: str) -> str:
        """A note if a dump can't be restored because another version may have made it, otherwise ""."""
        if "unsupported version" in words:
            return OTHER_VERSION
        text = b""
        if step.program == "pg_restore":
            text = content_of(step.file, clients.beside).encode()
        elif step.is_dump:
            text = begin_of(step.file, _HEAD_BYTES, RESTORE_KEY)
        return sources.newer_words(sources.version_in(text), (own.info.server_version // 10_000,), "PostgreSQL")

    def program(self, clients: Clients, site: Site, seed: int) -> Program:
        program = find("pgbench", clients.beside)
        return by_pgbench(clients, program, self.load, sources.own_transactions(self.load, site), seed)

    def check(self, site: Site, beside: Path | None) -> str:
        sources.own_transactions(self.load, site)
        for step in _steps(self.load, site, ""):
            if step.program == "pg_restore":
                # Checks that pg_restore can read the archive, and that it has the objects that the layout names
                objects = objects_in(content_of(step.file, beside))
                problem = None if self.load.setup else self.config.placement.problem(objects)
                if problem is not None:
                    raise PreflightError(problem.problem, key=KEY, hint=problem.hint)
        return version_text("pgbench", beside)


def _steps(load: Sql, site: Site, database: str) -> Iterator[Step]:
    """The steps that fill `database` with the user's data. Raises PreflightError if a file can't be used."""
    by_psql = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file"]
    by_restore = ["--no-owner", "--no-privileges", "--no-tablespaces", "--exit-on-error", f"--dbname={database}"]
    for what, name, key, path in sources.own_files(load, site):
        is_dump = name == load.restore and key == RESTORE_KEY
        if is_dump and sources.form_of(path, key) == "archive":
            yield Step(what, "pg_restore", by_restore, path, is_dump=False)
            continue
        hint = "dump with pg_dump without --create" if is_dump else "remove it: storagelab itself makes the database"
        sources.check_stays_inside(path, name, key, _ELSEWHERE, hint)
        yield Step(what, "psql", by_psql, path, is_dump)


# --- dumps -----------------------------------------------------------------------------------------------------------
#
# Removes parts of an SQL dump, and reads the content of an archive and the version of its server.


def leaving_out_owners() -> sources.Change:
    """A function that removes owners and rights from the lines of an SQL dump, because their roles may not exist here.

    It does not change rows and the bodies of functions.
    """
    in_rows, in_body = False, b""

    def change(line: bytes) -> bytes:
        nonlocal in_rows, in_body
        if in_rows:
            in_rows = line.rstrip() != b"\\."
            return line
        for quote in _QUOTE.findall(line):
            if in_body in (b"", quote):
                in_body = b"" if in_body else quote
        if not in_body and _LEFT_OUT.fullmatch(line):
            return b"\n"
        in_rows = not in_body and _ROWS_BEGIN.fullmatch(line) is not None
        return line

    return change


def content_of(path: Path, beside: Path | None) -> str:
    """pg_restore's list of the content of an archive.

    Raises PreflightError with pg_restore's message if it can't read the archive.
    """
    program = find("pg_restore", beside)
    command = [str(program), "--list", str(path)]
    output = run(command, as_server(path.parent, *installation(program)), environment=environment())
    if output.returncode != 0:
        words = output.stderr.strip()
        words += OTHER_VERSION if "unsupported version" in words else ""
        raise PreflightError(words, key=RESTORE_KEY, hint="name a dump of pg_dump that others may read (chmod +r)")
    return output.stdout


def objects_in(listed: str) -> list[Object]:
    """The tables and indexes in an archive. `listed` is pg_restore's list of its content."""
    return [
        Object((entry[3],), "index" if entry[1] in ("INDEX", "CONSTRAINT") else "table", entry[2])
        for entry in map(_ENTRY.fullmatch, listed.splitlines()) if entry
    ]  # fmt: skip
