"""How sessions and client programs get to one MariaDB, private or attached, and what it reports."""

from __future__ import annotations

import os
import re
import shutil
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from storagelab.engines.mariadb import connecting
from storagelab.engines.mariadb.connecting import Address, Connection, address_of, ask, connect_to
from storagelab.engines.mariadb.server import Server
from storagelab.engines.mariadb.settings import (
    LOOKS_ON,
    guarding,
    private_settings,
    setting,
    setting_name,
    settings_text,
)
from storagelab.errors import PreflightError, RunFailed
from storagelab.loads import generator as programs
from storagelab.loads.generator import Clients
from storagelab.loads.own_files import check_stays_inside, own_files
from storagelab.model.config import Config
from storagelab.model.loads.sql import Sql
from storagelab.model.measurement import Check
from storagelab.model.values import Scalar
from storagelab.servers.interfaces import Reach, tables_of
from storagelab.servers.programs import environment
from storagelab.spec.given_files import begin_of
from storagelab.volumes.folders import Site
from storagelab.watching.counters import Counters

# --- read back -------------------------------------------------------------------------------------------------------
#
# What the server reports of itself: its counters, and its real settings, since asking for a setting proves nothing.


_SHOWN = (
    "innodb_flush_log_at_trx_commit", "innodb_doublewrite", "sync_binlog", "log_bin", "innodb_flush_method",
    "innodb_page_size", "innodb_buffer_pool_size", "innodb_log_file_size", "innodb_redo_log_capacity",
    "innodb_use_native_aio", "innodb_io_capacity", "innodb_io_capacity_max", "innodb_log_file_buffering",
    "innodb_adaptive_hash_index", "innodb_change_buffering", "innodb_checksum_algorithm", "innodb_flush_neighbors",
    "innodb_read_io_threads", "innodb_write_io_threads", "performance_schema", "max_connections",
)  # fmt: skip


def server_facts(connection: Connection, asked: Mapping[str, object]) -> dict[str, object]:
    """The version, the settings that affect storage and durability, and those asked for."""
    values = _variables(connection)
    names = [*_SHOWN, *(setting_name(name) for name in asked)]
    shown = {name: values[name] for name in sorted(set(names)) if name in values}
    return {
        "version": values["version"],
        "version_text": f"{values['version']} {values['version_comment']}",
        "settings": shown,
    }


def _variables(connection: Connection) -> dict[str, str]:
    return {name.lower(): value for name, value in ask(connection, "SHOW SESSION VARIABLES")}


def settings(connection: Connection, asked: Mapping[str, str], expected: Mapping[str, str]) -> list[Check]:
    """Checks each setting asked for against the server's; `expected` is how the server's parser reads it."""
    values = _variables(connection)
    checks = []
    for name, text in sorted(asked.items()):
        got = values.get(setting_name(name))
        ok = None if got is None else _same(got, expected[name])
        shown = "nothing: the server does not show it" if got is None else got
        checks.append(
            Check(name=f"target.settings.{name}", asked=text, got=shown, ok=ok, read_from="SHOW SESSION VARIABLES")
        )
    return checks


def _same(got: str, expected: str) -> bool:
    """Whether two texts are equal despite the parser's spelling: TRUE is ON, a number may have zeros after its
    point.
    """
    if _plain(got) == _plain(expected):
        return True
    try:
        return float(got) == float(expected)
    except ValueError:
        return False


def _plain(text: str) -> str:
    known = {"true": "on", "false": "off", "1": "on", "0": "off", "(no default value)": ""}
    return known.get(text.strip().casefold(), text.strip().casefold())


_GROUPS = {
    "log": (r"Innodb\_os\_log\_written", r"Innodb\_log\_w%", r"Innodb\_lsn\_current"),
    "data": (
        r"Innodb\_data\_fsyncs", r"Innodb\_data\_read%", r"Innodb\_data\_writ%", r"Innodb\_pages\_%",
        r"Innodb\_dblwr\_%", r"Innodb\_page\_splits",
    ),
    "buffer pool": (
        r"Innodb\_buffer\_pool\_read%", r"Innodb\_buffer\_pool\_write\_requests", r"Innodb\_buffer\_pool\_wait\_free",
        r"Innodb\_buffer\_pool\_pages\_%flushed",
    ),
    "rows": (r"Innodb\_rows\_%", r"Innodb\_row\_lock\_waits", r"Innodb\_row\_lock\_time"),
}  # fmt: skip
"""Counters that only grow; for a momentary level, a difference over a run means nothing."""


def read_counters(connection: Connection) -> Counters:
    """Cumulative counters of SHOW GLOBAL STATUS that concern storage, `group -> name -> value`."""
    groups: Counters = {}
    for group, patterns in _GROUPS.items():
        condition = " OR ".join(["variable_name LIKE %s"] * len(patterns))
        rows = ask(connection, f"SHOW GLOBAL STATUS WHERE {condition}", list(patterns))
        groups[group] = {name.lower(): float(value) for name, value in rows if _is_number(value)}
    return groups


def read_file_counters(connection: Connection, files: dict[str, str]) -> Counters:
    """Calls and bytes of each data file so far. `files` maps the name to use for a file to its path on the server."""
    if not files:
        return {}
    rows = ask(
        connection,
        "SELECT file_name, count_read, count_write, count_misc, sum_number_of_bytes_read, sum_number_of_bytes_write "
        f"FROM performance_schema.file_summary_by_instance WHERE file_name IN ({', '.join(['%s'] * len(files))})",
        list(files.values()),
    )
    names = {path: name for name, path in files.items()}
    columns = ("reads", "writes", "syncs_and_others", "read_bytes", "write_bytes")
    return {
        "data files": {
            f"{names[path]}.{column}": float(value)
            for path, *values in rows
            for column, value in zip(columns, values, strict=True)
        }
    }


def _is_number(value: str) -> bool:
    return value.lstrip("-").replace(".", "", 1).isdigit()


# --- clients ---------------------------------------------------------------------------------------------------------
#
# MariaDB's own client program: finds it, and runs files of SQL with it on the database under test.


_NAMES = ("mariadb", "mysql")
_ELSEWHERE = re.compile(
    rb"^\s*(?:/\*!\d+\s*)?(USE(?=\s+\S+\s*;?\s*$)|(?:CREATE|DROP)\s+(?:DATABASE|SCHEMA)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_OTHERS = {b"PGDMP": "a dump of pg_dump", b"\x1f\x8b": "compressed by gzip", b"\x28\xb5\x2f\xfd": "compressed by zstd"}


def find(beside: Path | None) -> Path:
    """The client program: the one beside the server's own programs, else the one on the PATH. Raises PreflightError
    that names the package.
    """
    places = [beside / name for name in _NAMES] if beside is not None else []
    on_path = next(filter(None, map(shutil.which, _NAMES)), None)
    found = next((place for place in [*places, *([Path(on_path)] if on_path else [])] if place.is_file()), None)
    if found is None:
        raise PreflightError(
            "mariadb is not on this machine", key="workload.kind", hint="install the package mariadb-client (of Debian)"
        )
    return found


def _for_client(address: Address, database: str) -> list[str]:
    """The options with which the client reads SQL and stops at the first error. The password is in the environment."""
    place = (
        [f"--socket={address.unix_socket}"]
        if address.unix_socket
        else [f"--host={address.host}", f"--port={address.port}", "--protocol=tcp"]
    )
    tls = {"": [], "required": ["--ssl"], "verified": ["--ssl", "--ssl-verify-server-cert"]}[address.ssl]
    authority = [f"--ssl-ca={address.ssl_ca}"] if address.ssl_ca else []
    return [
        "--no-defaults", "--batch", "--default-character-set=utf8mb4", *place, *tls, *authority,
        f"--user={address.user}", f"--database={database}",
    ]  # fmt: skip


WHERE = "SELECT DATABASE()"
"""Asks where names without a schema lead."""


def place_of_client(clients: Clients) -> str:
    """The database in which the client works; "" for none. Raises RunFailed with its words if it can't log in."""
    command = [str(find(clients.beside)), *clients.options["mariadb"], "--skip-column-names", f"--execute={WHERE}"]
    output = clients.run(command)
    if output.returncode != 0:
        raise RunFailed(f"the client mariadb can't log in: {output.stderr.strip()}")
    found = output.stdout.strip()
    return "" if found == "NULL" else found


def _for_sysbench(address: Address, database: str) -> list[str]:
    """The options by which sysbench gets to the server. The password is in the environment."""
    place = (
        [f"--mysql-socket={address.unix_socket}"]
        if address.unix_socket
        else [f"--mysql-host={address.host}", f"--mysql-port={address.port}"]
    )
    tls = ["--mysql-ssl=on"] if address.ssl else []
    return ["--db-driver=mysql", *place, f"--mysql-user={address.user}", f"--mysql-db={database}", *tls]


def files_of(load: Sql, site: Site) -> list[tuple[str, Path]]:
    """The files that make the user's own database, in order, each with its kind. Raises PreflightError for one that
    can't be used.
    """
    files = list(own_files(load, site))
    for _, name, key, path in files:
        _check(path, name, key)
    return [(what, path) for what, _, _, path in files]


def _check(path: Path, name: str, key: str) -> None:
    """Refuses what the client can't read, and what leads out of the database that storagelab makes."""
    hint = "name a file of SQL, of mariadb-dump"
    if not path.is_file() or not os.access(path, os.R_OK):
        raise PreflightError(f"{path} {_state(path)}", key=key, hint=hint)
    begin = begin_of(path, max(map(len, _OTHERS)), key)
    for magic, what in _OTHERS.items():
        if begin.startswith(magic):
            raise PreflightError(f"{name} is {what}, not SQL", key=key, hint=hint)
    check_stays_inside(path, name, key, _ELSEWHERE, "dump one database by mariadb-dump without --databases")


def _state(path: Path) -> str:
    return "is a folder" if path.is_dir() else "can't be read" if path.exists() else "does not exist"


class Reaching(Reach[Connection]):
    """How to get to one server."""

    @property
    def for_set_up(self) -> Mapping[str, str]:
        return {"init_command": guarding()}

    @property
    @abstractmethod
    def address(self) -> Address: ...

    @abstractmethod
    def clients(self, settings: Mapping[str, str]) -> Clients: ...

    @abstractmethod
    def folder(self, own: Connection) -> Path:
        """The folder to which the server's file names are relative."""

    @property
    def shows_files(self) -> bool:
        """Whether the server counts the I/O of each file."""
        return True

    def connect(self) -> Connection:
        return connect_to(self.address)

    def _options(self, database: str, settings: Mapping[str, str]) -> dict[str, list[str]]:
        # The user's own files are read with the spec's settings, such as sql_mode.
        first = [f"--init-command={guarding(*map(setting_name, self.config.target.settings))}"] if settings else []
        return {
            "sysbench": _for_sysbench(self.address, database),
            "mariadb": [*_for_client(self.address, database), *first],
        }

    def _environment(self) -> dict[str, str]:
        """The environment of client programs. Only it holds a password, and only this user may read it."""
        password = self.address.password
        return environment() | ({"MYSQL_PWD": password} if password else {})


class PrivateReach(Reaching):
    """How to get to a private server; `expected` holds the settings as the server's own parser reads them."""

    def __init__(self, config: Config, site: Site, server: Server, expected: Mapping[str, str]) -> None:
        super().__init__(config, site)
        self._server, self._expected = server, expected

    @property
    def address(self) -> Address:
        return self._server.address

    def connect_worker(self) -> Connection:
        return connect_to(self.address, "")

    def clients(self, settings: Mapping[str, str]) -> Clients:
        socket, options = Path(self.address.unix_socket or ""), self._options(self.site.prefix, settings)
        clients = programs.of_private(self._environment(), options, self._server.programs.server.parent, socket.parent)
        return replace(clients, first=settings.get("init_command", ""))

    def folder(self, own: Connection) -> Path:
        return self._server.data_folder

    def process(self, own: Connection) -> int | None:
        return self._server.pid if Path("/proc/self/schedstat").exists() else None

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:
        return settings(worker, _texts(private_settings(self.config)), self._expected)

    def check_log_place(self, own: Connection) -> list[Check]:
        """Checks the log's folder: the one that the server reports must contain the log, according to the file
        system.
        """
        folder = self._server.log_folder
        there = any(name.startswith("ib_logfile") for name in os.listdir(folder))
        got = str(ask(own, "SELECT @@innodb_log_group_home_dir")[0][0]) if there else "no log file there"
        ok = os.path.realpath(got) == os.path.realpath(folder)
        return [
            Check(name="place of the log", asked=str(folder), got=got, ok=ok, read_from="innodb_log_group_home_dir")
        ]


class AttachedReach(Reaching):
    """How to get to a server that already runs."""

    def __init__(self, config: Config, site: Site, facts: connecting.ServerFacts) -> None:
        super().__init__(config, site)
        self._facts = facts

    @property
    def address(self) -> Address:
        return address_of(self.config.target)

    def connect_worker(self) -> Connection:
        connection = connect_to(self.address, f"SET SESSION {LOOKS_ON}")
        connecting.set_for_session(connection, self.config.target.settings)
        return connection

    def clients(self, settings: Mapping[str, str]) -> Clients:
        clients = self._clients(self.site.prefix, settings)
        tables_of(self.config)(self.config, self.site.prefix, None).refuse_elsewhere(clients, self.site.prefix)
        return clients

    def _clients(self, database: str, settings: Mapping[str, str]) -> Clients:
        first = settings.get("init_command", "") or setting(self.config.target.settings)
        return Clients(self._environment(), options=self._options(database, settings), first=first)

    def check_login(self) -> None:
        """Raises RunFailed with the words of a program of the load that can't log in, or is led to a database."""
        tables_of(self.config)(self.config, self.site.prefix, None).refuse_elsewhere(self._clients("", {}), "")

    def folder(self, own: Connection) -> Path:
        return connecting.data_folder(own) or Path()

    @property
    def shows_files(self) -> bool:
        return self._facts.performance_schema

    def process(self, own: Connection) -> int | None:
        return self._facts.pid

    @property
    def may_write_out(self) -> bool:
        return self._facts.may("RELOAD")

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:
        asked = _texts(self.config.target.settings)
        return settings(worker, asked, asked)


def _texts(settings: Mapping[str, Scalar]) -> dict[str, str]:
    return {name: settings_text(value) for name, value in settings.items()}
