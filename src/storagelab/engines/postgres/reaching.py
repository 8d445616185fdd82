"""How sessions and client programs get to one PostgreSQL, private or attached, and what it reports."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import Conninfo

from storagelab.engines.postgres import connecting
from storagelab.engines.postgres.connecting import VARIABLES, Connection, ServerFacts
from storagelab.engines.postgres.server import Server
from storagelab.engines.postgres.settings import OLDEST_MAJOR, private_settings, settings_text, system_folders
from storagelab.errors import PreflightError
from storagelab.loads import generator as programs
from storagelab.loads.generator import Clients
from storagelab.machine.procfs import TaskView
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.servers.interfaces import Reach, tables_of
from storagelab.servers.programs import environment, installation, version_output
from storagelab.servers.steps import check_same
from storagelab.volumes.folders import Site
from storagelab.watching.counters import Counters

# --- read back -------------------------------------------------------------------------------------------------------
#
# What the server reports of itself: its counters, and its real settings, since asking for a setting proves nothing.


_ALWAYS_SHOWN = (
    "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size", "wal_level",
    "wal_compression", "io_method", "checkpoint_timeout", "data_checksums", "block_size", "autovacuum",
)  # fmt: skip
_NEVER_SHOWN = (  # commands and names that the operator writes freely may hold secrets
    "primary_conninfo",
    "primary_slot_name",
    "ssl_passphrase_command",
    "archive_command",
    "archive_cleanup_command",
    "restore_command",
    "recovery_end_command",
    "cluster_name",
    "application_name",
    "synchronous_standby_names",
    "event_source",
    "bonjour_name",
    "recovery_target_name",
    "log_line_prefix",
    "krb_server_keyfile",
    "unix_socket_directories",  # differs in each run, without meaning
)

_AUTOMATIC_AT_0 = ("commit_timestamp_buffers", "subtransaction_buffers", "transaction_buffers")
"""At 0, the server chooses the size of these; for other settings -1 means that."""
_NORMALISED = ("client_encoding", "datestyle", "log_timezone", "timezone")
"""Text settings that the server shows in its own case, whatever case was asked for."""


def server_facts(connection: Connection) -> dict[str, object]:
    """The version, every setting that differs from the server's built-in one, and always the durability settings."""
    rows = connection.execute(
        """
        SELECT name, current_setting(name) FROM pg_settings
        WHERE (setting IS DISTINCT FROM boot_val OR name = ANY(%s)) AND NOT name = ANY(%s) AND strpos(name, '.') = 0
          AND category !~ 'File Locations' ORDER BY name
        """,
        [list(_ALWAYS_SHOWN), list(_NEVER_SHOWN)],
    ).fetchall()
    version = connection.execute("SELECT current_setting('server_version'), version()").fetchone()
    assert version is not None
    return {"version": version[0], "version_text": version[1], "settings": dict(rows)}


class _Setting(NamedTuple):
    """A setting as the server shows it: `raw` in base units, `shown` in readable ones; `source` says where it was
    set.
    """

    raw: str
    shown: str
    source: str


def settings(connection: Connection, asked: Mapping[str, str], expected: Mapping[str, str]) -> list[Check]:
    """Checks each setting asked for against the server's; `expected` is how the server's parser reads it, in base
    units.
    """
    return _setting_checks(connection, asked, lambda name, setting: _is_as_read(name, setting.raw, expected[name]))


def _is_as_read(name: str, raw: str, expected: str) -> bool:
    if _left_to_server(name, expected):
        return True
    if name.lower() in _NORMALISED:
        return raw.casefold() == expected.casefold()
    return raw == expected


def _left_to_server(name: str, text: str) -> bool:
    return text == "-1" or (text == "0" and name.lower() in _AUTOMATIC_AT_0)


def _setting_checks(
    connection: Connection, asked: Mapping[str, str], confirmed: Callable[[str, _Setting], bool]
) -> list[Check]:
    rows = connection.execute(
        "SELECT lower(name), setting, current_setting(name), source FROM pg_settings WHERE lower(name) = ANY(%s)",
        [[name.lower() for name in asked]],
    ).fetchall()
    found = {name: _Setting(*fields) for name, *fields in rows}
    checks = []
    for name, text in sorted(asked.items()):
        setting = found.get(name.lower())
        got, ok = (
            (setting.shown, confirmed(name, setting)) if setting else ("nothing: the server does not show it", None)
        )
        if setting and ok and _left_to_server(name, text) and setting.raw != text:
            got = f"the server chose {setting.shown}"
        checks.append(Check(name=f"target.settings.{name}", asked=text, got=got, ok=ok, read_from="pg_settings"))
    return checks


_CHECKPOINTER = {
    14: "SELECT 'checkpoints', to_jsonb(t) FROM pg_stat_bgwriter t",
    17: "SELECT 'checkpoints', to_jsonb(t) FROM pg_stat_checkpointer t",
}
_IO = {
    16: "SELECT 'io ' || backend_type || '/' || object || '/' || context, "
    "to_jsonb(t) - '{backend_type,object,context,op_bytes}'::text[] FROM pg_stat_io t"
}
_EVERY_VERSION = (
    "SELECT 'wal', to_jsonb(t) FROM pg_stat_wal t",
    "SELECT 'database', to_jsonb(t) - '{datid,numbackends}'::text[] FROM pg_stat_database t "
    "WHERE datname = current_database()",
)


def read_counters(connection: Connection, major: int) -> Counters:
    """Cumulative counters, `group -> name -> value`: pg_stat_io (16 and later), pg_stat_wal, pg_stat_database and the
    checkpointer's. Times are the server's milliseconds, as `*_time_ms`."""
    statements = [*_EVERY_VERSION, *_newest(_CHECKPOINTER, major), *_newest(_IO, major)]
    groups: Counters = {}
    for statement in statements:
        for group, fields in connection.execute(statement).fetchall():
            groups[group] = {
                (f"{name}_ms" if name.endswith("_time") else name): float(value)
                for name, value in fields.items()
                if isinstance(value, int | float) and not isinstance(value, bool)
            }
    return groups


def _newest(by_version: Mapping[int, str], major: int) -> list[str]:
    fitting = [version for version in by_version if version <= major]
    return [by_version[max(fitting)]] if fitting else []


# --- clients ---------------------------------------------------------------------------------------------------------
#
# PostgreSQL's own client programs: finds them, and runs them so that they reach only the server under test.


PACKAGES = {"pgbench": "postgresql-contrib", "psql": "postgresql-client", "pg_restore": "postgresql-client"}
"""The package with each program, by Debian's names, if it does not come with the server's programs."""
USERS_OWN = ("HOME", f"{VARIABLES}*", "KRB5*", "SSL_CERT_*")
"""The user's variables by which the client library finds and trusts a server that already runs: its own, the home
folder with `.pgpass` and certificates, Kerberos tickets, and the authorities that the system trusts.
"""
GENERATOR_NAME = "storagelab generator"
"""The application name by which the server knows a generator's sessions."""


def find(name: str, beside: Path | None) -> Path:
    """A client program: the one beside the server's own programs, else the system's newest, else the one on the
    PATH.

    Raises PreflightError that names its package if there is none, or if it is too old.
    """
    folders = [*([beside] if beside is not None else []), *system_folders()]
    places = [folder / name for folder in folders]
    on_path = shutil.which(name)
    found = next((place for place in [*places, *([Path(on_path)] if on_path else [])] if place.is_file()), None)
    if found is None:
        raise PreflightError(
            f"{name} is not on this machine",
            key="workload.kind",
            hint=f"install the package {PACKAGES[name]} (of Debian; elsewhere PostgreSQL's contrib or client programs)",
        )
    version = version_of(found)
    if int(version.split(".")[0]) < OLDEST_MAJOR:
        raise PreflightError(
            f"{found} is of PostgreSQL {version}, which is too old",
            key="workload.kind",
            hint=f"install {PACKAGES[name]} of PostgreSQL {OLDEST_MAJOR} or later",
        )
    return found


@cache
def version_of(program: Path) -> str:
    """The version that a client program reports: "18.4"."""
    output = version_output(program)
    found = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)?)", output)
    if found is None:
        raise PreflightError(f"{program} is not PostgreSQL's: it says {output.strip()!r}", key="workload.kind")
    return found[1]


def version_text(name: str, beside: Path | None) -> str:
    """The program and its version, for a plan. Raises PreflightError if it is not there."""
    return f"{name} {version_of(find(name, beside))}"


def generator_sessions(connection: Connection) -> list[int]:
    """The process ids of a generator's sessions."""
    rows = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid() "
        "AND usename = current_user ORDER BY pid", [GENERATOR_NAME]
    ).fetchall()  # fmt: skip
    return [pid for (pid,) in rows]


def reaching(conninfo: str, options: Mapping[str, str], *, private: bool) -> dict[str, str]:
    """The environment in which a client program reaches the server of a connection string, with these settings in
    its sessions. A password is only in the environment, which only this user may read. For a server that already
    runs, the user's own variables add what the string leaves out.
    """
    known = environment(*(() if private else USERS_OWN))
    for option in Conninfo.parse(conninfo.encode()):
        if option.envvar and option.val is not None:
            known[option.envvar.decode()] = option.val.decode()
    known["PGOPTIONS"] = f"{known.get('PGOPTIONS', '')} {connecting.options_text(options)}".strip()
    known["PGAPPNAME"] = GENERATOR_NAME
    return known


def _options(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """sysbench takes the server from the client library's variables, except for the port."""
    nothing = ["--pgsql-host=", "--pgsql-user=", "--pgsql-password=", "--pgsql-db="]
    return {"sysbench": ["--db-driver=pgsql", *nothing, f"--pgsql-port={environment.get('PGPORT', '5432')}"]}


class Reaching(Reach[Connection]):
    """How to get to one server. `kernel_view`: whether this machine's kernel can be asked about its sessions."""

    kernel_view: bool
    major: int

    @property
    def for_set_up(self) -> Mapping[str, str]:
        return connecting.FOR_SET_UP | connecting.since(self.major)

    @abstractmethod
    def _connect(self, application_name: str) -> Connection: ...

    def connect(self, application_name: str = "storagelab") -> Connection:
        connection = self._connect(application_name)
        connection.prepare_threshold = None
        return connection

    @abstractmethod
    def clients(self, settings: Mapping[str, str]) -> Clients:
        """Client programs whose sessions have these settings."""

    def process(self, own: Connection) -> int | None:
        if not self.kernel_view:
            return None
        with contextlib.closing(TaskView(own.info.backend_pid)) as session:
            return session.parent()


class PrivateReach(Reaching):
    """How to get to a private server; `expected` holds the settings as the server's own parser reads them."""

    def __init__(self, config: Config, site: Site, server: Server, expected: Mapping[str, str]) -> None:
        super().__init__(config, site)
        self._server, self._expected = server, expected
        self.major = int(server.programs.version.split(".")[0])
        self.kernel_view = Path("/proc/self/schedstat").exists()

    def _connect(self, application_name: str) -> Connection:
        with connecting.without_variables():
            return connecting.own_session(self._server.conninfo, application_name=application_name)

    def connect_worker(self) -> Connection:
        options: dict[str, Any] = {"autocommit": True, "application_name": "storagelab 0"}
        connection = connecting.connect_private(self._server.conninfo, **options)
        connection.prepare_threshold = None
        return connection

    def clients(self, settings: Mapping[str, str]) -> Clients:
        conninfo, folder = self._server.conninfo, self._server.programs.folder
        socket = Path(str(psycopg.conninfo.conninfo_to_dict(conninfo)["host"]))
        environment = reaching(conninfo, settings, private=True)
        return programs.of_private(
            environment, _options(environment), folder, *installation(folder / "postgres"), socket
        )

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:
        asked = {name: settings_text(value) for name, value in private_settings(self.config).items()}
        return settings(worker, asked, self._expected)

    def check_log_place(self, own: Connection) -> list[Check]:
        got = os.path.realpath(self._server.data_folder / "pg_wal")
        return [check_same("place of the log", str(self._server.log_folder), got, "pg_wal on the file system")]


class AttachedReach(Reaching):
    """How to get to a server that already runs; `database` is the load's own database there, if it has one."""

    def __init__(self, config: Config, site: Site, facts: ServerFacts, database: str = "") -> None:
        super().__init__(config, site)
        self.database, self._facts, self.major = database, facts, facts.major
        self.kernel_view = facts.on_this_machine
        self._asked = {name: settings_text(value) for name, value in config.target.settings.items()}

    @property
    def _conninfo(self) -> str:
        text = connecting.conninfo(self.config.target)
        return psycopg.conninfo.make_conninfo(text, dbname=self.database) if self.database else text

    def _connect(self, application_name: str) -> Connection:
        return connecting.own_session(self._conninfo, application_name=application_name)

    def connect_worker(self) -> Connection:
        options: dict[str, Any] = {"autocommit": True, "application_name": "storagelab 0"}
        connection: Connection = psycopg.connect(self._conninfo, **options)
        connection.prepare_threshold = None
        # What watches a load is idle until its end.
        for name, value in {"idle_session_timeout": "0", **self._asked}.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        return connection

    def clients(self, settings: Mapping[str, str]) -> Clients:
        clients, home = self._clients(settings), settings["search_path"]
        connecting.refuse_elsewhere(clients.environment, self.config.target, home)
        tables_of(self.config)(self.config, self.site.prefix, None).refuse_elsewhere(clients, home)
        return clients

    def _clients(self, settings: Mapping[str, str]) -> Clients:
        environment = reaching(self._conninfo, {**self._asked, **settings}, private=False)
        return Clients(environment, options=_options(environment))

    def check_login(self) -> None:
        """Raises RunFailed with the words of a program of the load that can't log in."""
        list(tables_of(self.config)(self.config, self.site.prefix, None).places(self._clients({})))

    @property
    def may_write_out(self) -> bool:
        return self._facts.may_checkpoint

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:
        # Checks each setting asked for on an attached server against a worker's session.
        return _setting_checks(worker, self._asked, lambda _, setting: setting.source == "session")
