"""The user's own tables on MariaDB: its client program makes them, and sysbench uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from storagelab.engines.mariadb import reaching as programs
from storagelab.engines.mariadb.connecting import Connection
from storagelab.engines.mariadb.generated import MariaDBTables
from storagelab.engines.mariadb.layout import ALL_MARK
from storagelab.loads import sysbench
from storagelab.loads import sysbench as in_lua
from storagelab.loads.generator import Clients, Program
from storagelab.loads.own_files import changed, failure, newer_words, own_transactions, version_in
from storagelab.loads.sysbench import own_transactions_by_sysbench
from storagelab.model.loads.sql import Sql
from storagelab.servers.programs import installation
from storagelab.spec.given_files import begin_of
from storagelab.volumes.folders import Site

_DEFINER = re.compile(rb"DEFINER\s*=\s*`(?:[^`]|``)*`@`(?:[^`]|``)*`")
_SANDBOX = b"/*M!999999\\- enable the sandbox mode */"
_HEAD_BYTES = 4096


class Tables(MariaDBTables[Sql]):
    """The tables of one cell."""

    mark = ALL_MARK

    def fill(self, own: Connection, clients: Clients, site: Site) -> None:
        program = programs.find(clients.beside)
        command = [str(program), *clients.options["mariadb"]]
        dump = None if self.load.restore is None else site.place(self.load.restore, "workload.restore")
        for what, file in programs.files_of(self.load, site):
            with changed(file, without_definers if file == dump else bytes) as reads:
                output = clients.run(command, *installation(program), reads=reads)
            if output.returncode != 0:
                raise failure(what, output, more=partial(_of_newer_server, own, file))
        self.finish(own)

    def places(self, clients: Clients) -> Iterator[tuple[str, str]]:
        yield from super().places(clients)
        if self.load.restore or self.load.setup:
            yield "mariadb", programs.place_of_client(clients)

    def program(self, clients: Clients, site: Site, seed: int) -> Program:
        return own_transactions_by_sysbench(clients, self.load, own_transactions(self.load, site), seed)

    def check(self, site: Site, beside: Path | None) -> str:
        version = sysbench.version()
        in_lua.written(own_transactions(self.load, site))
        programs.files_of(self.load, site)
        programs.find(beside)
        return version


def without_definers(line: bytes) -> bytes:
    """Leaves out of a line of a dump which user made a view or a trigger, and a mark that older clients don't know."""
    if line.startswith(_SANDBOX):
        return b"\n"
    return _DEFINER.sub(b"", line) if line.startswith((b"/*!5", b"CREATE")) else line


def _of_newer_server(own: Connection, file: Path, _: str) -> str:
    """That the dump is of a newer server, if it is."""
    dump = version_in(begin_of(file, _HEAD_BYTES, "workload.restore"))
    release = tuple(int(part) for part in re.findall(r"\d+", str(own.get_server_info()))[:2])
    return newer_words(dump, release, "MariaDB")
