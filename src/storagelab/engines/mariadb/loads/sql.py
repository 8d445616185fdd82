"""The user's own tables on MariaDB. MariaDB's client program makes them, and sysbench runs the load on them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from storagelab.engines.mariadb.connect import Connection
from storagelab.engines.mariadb.layout import ALL_MARK
from storagelab.engines.mariadb.loads.generated import WHERE, MariaDBTables
from storagelab.errors import PreflightError, RunFailed
from storagelab.loads import own_files as sources
from storagelab.loads import sysbench
from storagelab.loads.generator import Clients, Program
from storagelab.model.loads.sql import Sql
from storagelab.servers.programs import first_program, installation
from storagelab.spec.given_files import begin_of
from storagelab.volumes.folders import Site

_DEFINER = re.compile(rb"DEFINER\s*=\s*`(?:[^`]|``)*`@`(?:[^`]|``)*`")
_SANDBOX = b"/*M!999999\\- enable the sandbox mode */"
_HEAD_BYTES = 4096
_NAMES = ("mariadb", "mysql")
_ELSEWHERE = re.compile(
    rb"^\s*(?:/\*!\d+\s*)?(USE(?=\s+\S+\s*;?\s*$)|(?:CREATE|DROP)\s+(?:DATABASE|SCHEMA)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_OTHERS = {b"PGDMP": "a dump of pg_dump", b"\x1f\x8b": "compressed by gzip", b"\x28\xb5\x2f\xfd": "compressed by zstd"}


class Tables(MariaDBTables[Sql]):
    """The tables of one cell."""

    mark = ALL_MARK

    def fill(self, own: Connection, clients: Clients, site: Site) -> None:
        program = find(clients.beside)
        command = [str(program), *clients.options["mariadb"]]
        dump = None if self.load.restore is None else site.place(self.load.restore, "workload.restore")
        for what, file in files_of(self.load, site):
            with sources.changed(file, without_definers if file == dump else bytes) as reads:
                output = clients.run(command, *installation(program), reads=reads)
            if output.returncode != 0:
                raise sources.failure(what, output, more=partial(_of_newer_server, own, file))
        self.finish(own)

    def places(self, clients: Clients) -> Iterator[tuple[str, str]]:
        yield from super().places(clients)
        if self.load.restore or self.load.setup:
            yield "mariadb", place_of_client(clients)

    def program(self, clients: Clients, site: Site, seed: int) -> Program:
        transactions = sources.own_transactions(self.load, site)
        return sysbench.own_transactions_by_sysbench(clients, self.load, transactions, seed)

    def check(self, site: Site, beside: Path | None) -> str:
        version = sysbench.version()
        sysbench.written(sources.own_transactions(self.load, site))
        files_of(self.load, site)
        find(beside)
        return version


def without_definers(line: bytes) -> bytes:
    """Returns the line of a dump without the DEFINER of a view or trigger. Older clients can't read the sandbox mark,
    so that line becomes empty.
    """
    if line.startswith(_SANDBOX):
        return b"\n"
    return _DEFINER.sub(b"", line) if line.startswith((b"/*!5", b"CREATE")) else line


def _of_newer_server(own: Connection, file: Path, _: str) -> str:
    """A note if the dump was made on a newer server, otherwise ""."""
    dump = sources.version_in(begin_of(file, _HEAD_BYTES, "workload.restore"))
    release = tuple(int(part) for part in re.findall(r"\d+", str(own.get_server_info()))[:2])
    return sources.newer_words(dump, release, "MariaDB")


# --- clients ---------------------------------------------------------------------------------------------------------
#
# Finds MariaDB's client program, and uses it to run files of SQL on the database under test.


def find(beside: Path | None) -> Path:
    """The client program in the folder `beside` of the server's programs, otherwise on the PATH.

    Raises PreflightError if there is none. The error names the package to install.
    """
    found = first_program([beside], *_NAMES)
    if found is None:
        hint = "install the package mariadb-client (of Debian)"
        raise PreflightError("mariadb is not on this machine", key="workload.kind", hint=hint)
    return found


def place_of_client(clients: Clients) -> str:
    """The database that the client uses after its login, or "" if it uses none.

    Raises RunFailed with the client's message if the client can't log in.
    """
    command = [str(find(clients.beside)), *clients.options["mariadb"], "--skip-column-names", f"--execute={WHERE}"]
    output = clients.run(command)
    if output.returncode != 0:
        raise RunFailed(f"the client mariadb can't log in: {output.stderr.strip()}")
    found = output.stdout.strip()
    return "" if found == "NULL" else found


def files_of(load: Sql, site: Site) -> list[tuple[str, Path]]:
    """The files that make the user's own database, in their order. Each file comes with its kind.

    Raises PreflightError if a file can't be used.
    """
    files = list(sources.own_files(load, site))
    hint = "name a file of SQL, of mariadb-dump"
    for _, name, key, path in files:
        if not path.is_file() or not os.access(path, os.R_OK):
            state = "is a folder" if path.is_dir() else "can't be read" if path.exists() else "does not exist"
            raise PreflightError(f"{path} {state}", key=key, hint=hint)
        begin = begin_of(path, max(map(len, _OTHERS)), key)
        for magic, what in _OTHERS.items():
            if begin.startswith(magic):
                raise PreflightError(f"{name} is {what}, not SQL", key=key, hint=hint)
        sources.check_stays_inside(path, name, key, _ELSEWHERE, "dump one database by mariadb-dump without --databases")
    return [(what, path) for what, _, _, path in files]
