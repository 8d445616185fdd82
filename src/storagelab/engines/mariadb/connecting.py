"""Connections: a server's address, its form as a DSN, PyMySQL's errors in plain words; and what a running server
allows.

    mysql://USER[:PASSWORD]@HOST[:PORT][/DATABASE][?unix_socket=PATH][&ssl=required]

A password belongs only in the variable that `dsn_env` names, or into MYSQL_PWD; it is never shown.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import pymysql
from pymysql.connections import Connection as PyMySQLConnection

from storagelab.engines.mariadb.settings import GUARDED, OLDEST, guarding, setting_name, settings_text
from storagelab.errors import PreflightError
from storagelab.model.config import Config, TargetConfig
from storagelab.model.values import Frozen, Scalar
from storagelab.servers.attached import (
    dsn_of,
    enough_connections,
    holds_other_end,
    is_near,
    key_of,
    owner_of,
    process_age_s,
    quoting,
    require,
)
from storagelab.servers.redact import hidden

Connection: TypeAlias = PyMySQLConnection
Rows = list[tuple[Any, ...]]

_CONNECT_TIMEOUT_S = 10
_SCHEMES = ("mysql", "mariadb")
_OPTIONS = ("unix_socket", "ssl", "ssl_ca")
_HOW = "write mysql://user@host:port/database, or mysql://user@localhost/?unix_socket=/path/of/the.sock"
_ANNOUNCED_AS = "storagelab"


class Address(Frozen):
    """A server's address and the user. `ssl` is "" to encrypt if the server offers it, "required" to encrypt always,
    and "verified" to check the server's certificate as well.
    """

    user: str
    password: str = ""
    host: str = "localhost"
    port: int = 3306
    database: str | None = None
    unix_socket: str | None = None
    ssl: str = ""
    ssl_ca: str | None = None


def address_of(target: TargetConfig) -> Address:
    """The address in a spec's DSN, or in the variable that it names. Raises PreflightError, without quoting the DSN."""
    return parse_dsn(dsn_of(target, "mysql://user:password@host/"), key_of(target))


def parse_dsn(text: str, key: str) -> Address:
    """The address in a DSN. Raises PreflightError that names the key and shows nothing of the text, which may hold a
    password.
    """
    try:
        parts = urlsplit(text)
        options = parse_qs(parts.query, strict_parsing=True, keep_blank_values=True) if parts.query else {}
        port = parts.port
    except ValueError:
        raise PreflightError("it is not a readable DSN", key=key, hint=_HOW) from None
    if parts.scheme not in _SCHEMES or not parts.username or any(len(values) > 1 for values in options.values()):
        raise PreflightError("it is not a DSN of MariaDB or MySQL", key=key, hint=_HOW)
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        hint = f"after the question mark write any of: {', '.join(_OPTIONS)}"
        raise PreflightError("it has an unknown option", key=key, hint=hint)
    given = {name: values[0] for name, values in options.items()}
    wanted_ssl = given.get("ssl", "verified" if "ssl_ca" in given else "")
    if wanted_ssl not in ("", "required", "verified"):
        raise PreflightError("its option ssl is neither required nor verified", key=key, hint=_HOW)
    return Address(
        user=unquote(parts.username), password=unquote(parts.password or "") or os.environ.get("MYSQL_PWD", ""),
        host=unquote(parts.hostname or "localhost"), port=port or 3306, database=unquote(parts.path[1:]) or None,
        unix_socket=given.get("unix_socket"), ssl=wanted_ssl, ssl_ca=given.get("ssl_ca"),
    )  # fmt: skip


def connect_to(address: Address, first: str = guarding(), *, autocommit: bool | None = True) -> Connection:
    """A connection that begins with the statement `first`, and commits each statement by itself, unless the server is
    to choose that (None). Raises pymysql.MySQLError.
    """
    connection = pymysql.connect(
        user=address.user,
        password=address.password.encode(),  # text would be encoded as Latin-1
        host=address.host,
        port=address.port,
        database=address.database,
        unix_socket=address.unix_socket,
        ssl=_tls(address),
        charset="utf8mb4",
        autocommit=autocommit,
        init_command=first or None,
        connect_timeout=_CONNECT_TIMEOUT_S,
        program_name=_ANNOUNCED_AS,
        defer_connect=True,
    )
    # PyMySQL leaves a socket open if it can't connect, so find out first whether the server can be reached.
    opened = _opened(address)
    try:
        connection.connect(opened)
    except RuntimeError as error:  # the driver lacks the package that some passwords need on an unencrypted line
        if opened is not None:
            opened.close()
        raise pymysql.OperationalError(
            2061, f"{error}; an encrypted connection (?ssl=required) does not need it"
        ) from error
    return connection


def _opened(address: Address) -> socket.socket | None:
    """A socket to a server on TCP; None for a local one, which PyMySQL must open itself to treat it as local."""
    try:
        if address.unix_socket is None:
            return socket.create_connection((address.host, address.port), _CONNECT_TIMEOUT_S)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(address.unix_socket)
    except (OSError, ValueError) as error:  # ValueError: an impossible host
        place = address.unix_socket or "its host and port"
        reason = getattr(error, "strerror", None) or "that is not an address"
        raise pymysql.OperationalError(2003, f"nobody answers at {place}: {reason}") from error
    return None


def _tls(address: Address) -> ssl.SSLContext | None:
    if not address.ssl:
        return None
    context = ssl.create_default_context(cafile=address.ssl_ca)
    if address.ssl == "required":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.contextmanager
def connect(target: TargetConfig) -> Iterator[Connection]:
    """A connection, closed at the end. Raises PreflightError with the server's words, never with the DSN, which may
    hold a password.
    """
    key, address = key_of(target), address_of(target)
    try:
        connection = connect_to(address)
    except (pymysql.MySQLError, OSError, ValueError) as error:  # ValueError: bytes that are not text
        words = hidden(words_of(error), target)
        insecure = "secure transport" in words
        raise PreflightError(
            f"can't connect: {words}",
            key=key,
            hint="the server demands TLS: add ?ssl=required (or ssl=verified) to the DSN"
            if insecure
            else "check host, port, database, user and password, for example with the client mariadb",
        ) from error
    try:
        with quoting(target, pymysql.MySQLError, words_of):
            yield connection
    finally:
        close(connection)


def set_for_load(target: TargetConfig, own: Connection) -> list[str]:
    """The settings that our own sessions don't share with those of a load, as the server, the login or init_connect
    sets them.
    """
    names = sorted(name for name, _ in ask(own, "SHOW SESSION VARIABLES") if name in GUARDED)
    asking = f"SELECT {', '.join(f'@@session.{name}' for name in names)}"  # one row, as many may be barred
    with contextlib.closing(connect_to(address_of(target), "", autocommit=None)) as raw:
        pairs = zip(names, ask(raw, asking)[0], ask(own, asking)[0], strict=True)
        return [name for name, theirs, ours in pairs if theirs != ours]


def words_of(error: BaseException) -> str:
    """The server's message without PyMySQL's tuple around it. The error number stays, since people search manuals by
    it.
    """
    if isinstance(error, pymysql.MySQLError) and len(error.args) >= 2:
        return f"{error.args[1]} (error {error.args[0]})"
    return str(error).strip() or type(error).__name__


def ask(connection: Connection, statement: str, values: Any = None) -> Rows:
    """All rows that a statement returns."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def identifier(name: str) -> str:
    """A name, quoted for SQL."""
    return "`" + name.replace("`", "``") + "`"


def close(connection: Connection | None) -> None:
    """Closes a connection. Never raises, since the server may be gone."""
    if connection is not None:
        with contextlib.suppress(pymysql.MySQLError, OSError):
            connection.close()


# --- attached --------------------------------------------------------------------------------------------------------
#
# A MariaDB or MySQL that already runs: checks what it is and allows, before anything is made on it.


OLDEST_MYSQL = (8, 0)
_IN_DATABASE = ("CREATE", "DROP", "INSERT", "SELECT", "CREATE ROUTINE", "EXECUTE", "LOCK TABLES")
_EVERYTHING = "ALL PRIVILEGES"
_QUOTED = r'\*|`(?:[^`]|``)*`|"(?:[^"]|"")*"'  # in the mode ANSI_QUOTES names are in double quotes
_GRANT = re.compile(rf"GRANT (?P<rights>.+?) ON (?P<database>{_QUOTED})\.(?P<table>{_QUOTED}) TO ")
_NAMES = ("mariadbd", "mysqld")
_UPTIME_TOLERANCE_S = 4.0
_TIMED = ("wait/io/file/innodb/innodb_data_file",)
_CONSUMERS = ("global_instrumentation", "thread_instrumentation", "events_waits_current")
_SWITCH_ON = (
    "have its operator run: UPDATE performance_schema.setup_instruments SET enabled = 'YES', timed = 'YES' "
    "WHERE name LIKE 'wait/%'; UPDATE performance_schema.setup_consumers SET enabled = 'YES' "
    "WHERE name IN ('global_instrumentation', 'thread_instrumentation', 'events_waits_current'); "
    "or set measure.waits = false"
)


class Grant(Frozen):
    """Rights on databases whose names match a pattern with % and _ as in LIKE; None = rights on all databases."""

    rights: frozenset[str]
    database: str | None


class ServerFacts(Frozen):
    """What an attached server is and what its login may do. `pid` and `process_owner` (uid, gid) are None if the
    server does not run on this machine (or this is not Linux): then the kernel can't be asked about its threads.
    """

    version: str
    mysql: bool
    grants: tuple[Grant, ...]
    max_connections: int
    open_connections: int
    buffers_bytes: int
    direct: bool  # its data files bypass the kernel's page cache
    read_only: bool
    performance_schema: bool
    times_waits: bool
    pid: int | None
    process_owner: tuple[int, int] | None

    @property
    def name(self) -> str:
        return f"{'MySQL' if self.mysql else 'MariaDB'} {self.version}"

    @property
    def release(self) -> tuple[int, int]:
        numbers = re.findall(r"\d+", self.version)
        return int(numbers[0]), int(numbers[1])

    @property
    def on_this_machine(self) -> bool:
        return self.pid is not None

    def may(self, right: str, database: str | None = None) -> bool:
        """Whether the login has a right on a database, or on the whole server."""
        return any(
            (right in grant.rights or _EVERYTHING in grant.rights)
            and (grant.database is None or (database is not None and _like(database, grant.database)))
            for grant in self.grants
        )


def _like(name: str, pattern: str) -> bool:
    """Whether a grant on `pattern` holds for the database `name`."""
    parts = re.findall(r"\\(.)|(%)|(_)|(.)", pattern)
    expression = "".join(
        ".*" if many else "." if one else re.escape(quoted or plain) for quoted, many, one, plain in parts
    )
    return re.fullmatch(expression, name, re.DOTALL) is not None


def read_facts(connection: Connection) -> ServerFacts:
    """Ask the server what it is and what this login may do."""
    version, max_connections, watching, buffers, flushing, *barred = ask(
        connection,
        "SELECT version(), @@global.max_connections, @@global.performance_schema, @@global.innodb_buffer_pool_size, "
        "@@global.innodb_flush_method, @@global.read_only, @@global.innodb_read_only",
    )[0]
    status = {name.lower(): int(value) for name, value in ask(
        connection, "SHOW GLOBAL STATUS WHERE variable_name IN ('Uptime', 'Threads_connected')"
    )}  # fmt: skip
    grants = [str(row[0]) for row in ask(connection, "SHOW GRANTS")]
    pid = _pid_on_this_machine(connection, status["uptime"], watching=bool(watching))
    facts = ServerFacts(
        version=version.split("-")[0], mysql="MariaDB" not in version, grants=tuple(_grants(grants)),
        max_connections=int(max_connections), open_connections=status["threads_connected"],
        buffers_bytes=int(buffers), direct=str(flushing).upper().startswith("O_DIRECT"),
        performance_schema=bool(watching), times_waits=False, pid=pid,
        read_only=any(str(one).upper() not in ("0", "OFF") for one in barred),
        process_owner=None if pid is None else owner_of(Path(f"/proc/{pid}")),
    )  # fmt: skip
    return facts.model_copy(update={"times_waits": bool(watching) and _times_waits(connection)})


def _grants(lines: Sequence[str]) -> Iterator[Grant]:
    for line in lines:
        match = _GRANT.match(line)
        if match is None or match["table"] != "*":
            continue
        name = match["database"]
        rights = frozenset(right.strip().upper() for right in match["rights"].split(","))
        yield Grant(rights=rights, database=None if name == "*" else name[1:-1].replace(name[0] * 2, name[0]))


def _times_waits(connection: Connection) -> bool:
    """Whether the server times the most important waits for each thread; False if this login may not know."""
    needed = (
        ("setup_instruments WHERE enabled = 'YES' AND timed = 'YES'", _TIMED),
        ("setup_consumers WHERE enabled = 'YES'", _CONSUMERS),
    )
    try:
        for table, names in needed:
            listed = ", ".join(["%s"] * len(names))
            found = ask(connection, f"SELECT count(*) FROM performance_schema.{table} AND name IN ({listed})", names)
            if found[0][0] != len(names):
                return False
    except pymysql.MySQLError:
        return False
    return True


def _pid_on_this_machine(connection: Connection, uptime_s: int, *, watching: bool) -> int | None:
    """The server's process, if it is on this machine: its name and age must match, and one of its threads; or, if the
    server doesn't tell that, the other end of this connection, or its pid file.
    """
    line, threads = line_of(connection), Rows()
    if watching:
        with contextlib.suppress(pymysql.MySQLError):
            threads = ask(
                connection, "SELECT thread_os_id FROM performance_schema.threads WHERE processlist_id = connection_id()"
            )
    named = [(process, process_age_s(process, _NAMES)) for process in Path("/proc").glob("[0-9]*")]
    fitting = [one for one, age_s in named if age_s is not None and abs(age_s - uptime_s) < _UPTIME_TOLERANCE_S]
    if threads:
        found = [one for one in fitting if (one / "task" / str(threads[0][0])).exists()]
    else:  # in another PID namespace, such as a container's, files have other names, too
        fitting = [one for one in fitting if not _NESTED.search(_status(one))]
        found = [one for one in fitting if holds_other_end(one, line)]
        found = found or [one for one in fitting if is_near(line) and one.name == _in_pid_file(connection)]
    return int(found[0].name) if len(found) == 1 else None


def line_of(connection: Connection) -> socket.socket:
    return connection._sock  # type: ignore[no-any-return] # noqa: SLF001 - PyMySQL has no other name for it


_NESTED = re.compile(r"^NSpid:(\s+\d+){2}", re.MULTILINE)


def _status(process: Path) -> str:
    try:
        return (process / "status").read_text(encoding="utf-8")
    except OSError:
        return ""


def _in_pid_file(connection: Connection) -> str:
    """The process number in the server's own file, if this user may read it."""
    data, name = ask(connection, "SELECT @@datadir, @@pid_file")[0]
    try:
        return (Path(str(data)) / str(name)).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def data_folder(connection: Connection) -> Path | None:
    """Where a server of this machine keeps its files, if this user may see them."""
    folder = Path(ask(connection, "SELECT @@datadir")[0][0])
    return folder if folder.is_dir() else None


def check_rights(config: Config, facts: ServerFacts, database: str) -> None:
    """Checks the login's rights and the server's limits. Raises PreflightError naming what is missing."""
    oldest = OLDEST_MYSQL if facts.mysql else OLDEST
    missing = [right for right in _IN_DATABASE if not facts.may(right, database)]
    on_database = f"`{database.replace('_', chr(92) + '_')}`.*"
    free = facts.max_connections - facts.open_connections
    needs = [
        (
            facts.release >= oldest,
            f"the server is {facts.name}, which is too old",
            f"storagelab measures {'MySQL' if facts.mysql else 'MariaDB'} {'.'.join(map(str, oldest))} and later",
        ),
        (
            not facts.read_only,
            "the server is read-only (read_only or innodb_read_only): it follows another server, or takes no writes",
            "name its primary, or a server of its own; capture also watches a replica",
        ),
        (
            not missing,
            f"the login lacks the right {', '.join(missing)} on the database {database}, which "
            "storagelab makes and drops",
            f"as an administrator: GRANT {', '.join(missing)} ON {on_database} TO ...",
        ),
        (
            facts.may("PROCESS"),
            "the login lacks the right PROCESS, needed to read back where the data files are",
            "as an administrator: GRANT PROCESS ON *.* TO ...",
        ),
        (
            not config.data_volumes or facts.may("FILE"),
            "the login lacks the right FILE, needed for DATA DIRECTORY, which puts data files on volumes",
            "GRANT FILE ON *.* TO ..., or leave [volumes] out to measure where the server keeps its files",
        ),
        (
            not config.between_runs.checkpoint or facts.may("RELOAD"),
            "the login lacks the right RELOAD, needed to write out the table between runs",
            "GRANT RELOAD ON *.* TO ..., or set between_runs.checkpoint = false",
        ),
        (
            not config.measure.waits or facts.may("SELECT", "performance_schema"),
            "the login lacks the right SELECT on performance_schema, needed to read waits",
            "GRANT SELECT ON performance_schema.* TO ..., or set measure.waits = false",
        ),
        (
            not config.measure.waits or facts.performance_schema,
            "the server runs without performance_schema, so it times no waits",
            "have its operator start it with performance_schema = ON, or set measure.waits = false",
        ),
        (not config.measure.waits or facts.times_waits, "the server does not time waits", _SWITCH_ON),
        enough_connections(config.database_load.connections, free, "max_connections on the server"),
    ]
    require(config.target, needs)


def set_for_session(connection: Connection, settings: Mapping[str, Scalar]) -> None:
    """Set settings for this session alone; each must exist on the server. Raises pymysql.MySQLError."""
    for name, value in settings.items():
        with connection.cursor() as cursor:
            # The server would refuse a quoted number; and unquoted text might be anything.
            number = isinstance(value, int | float) and not isinstance(value, bool)
            cursor.execute(f"SET SESSION {_name(name)} = %s", [value if number else settings_text(value)])


def _name(name: str) -> str:
    return "`" + setting_name(name).replace("`", "``").replace("%", "%%") + "`"


def check_session_settings(connection: Connection, facts: ServerFacts, settings: Mapping[str, Scalar]) -> None:
    """Checks, by trying, that settings can be changed for storagelab's own sessions, the only way on an attached
    server.

    Raises PreflightError with the server's words for one that can't be set.
    """
    known = {name.lower() for name, _ in ask(connection, "SHOW SESSION VARIABLES")}
    for name, value in settings.items():
        key = f"target.settings.{name}"
        if setting_name(name) not in known:
            raise PreflightError("the server has no such setting", key=key, hint="see SHOW VARIABLES on the server")
        try:
            set_for_session(connection, {name: value})
        except pymysql.MySQLError as error:
            raise PreflightError(
                f"it can't be set for a session: {words_of(error)}",
                key=key,
                hint=f"{facts.name} was asked; set it on the server yourself, or let storagelab start a private server "
                "(leave target.dsn out)",
            ) from error


def check_known_folder(connection: Connection, facts: ServerFacts, volume: str, path: Path) -> None:
    """Checks that MySQL knows the folder for data files; its folders are fixed when it starts. Raises PreflightError
    with the operator's step.
    """
    if not facts.mysql:
        return
    known = str(ask(connection, "SELECT @@innodb_directories")[0][0] or "").split(";")
    if not any(path.is_relative_to(folder) for folder in known if folder):
        raise PreflightError(
            "MySQL puts data files only into folders named in innodb_directories",
            key=f"volumes.{volume}.path",
            hint=f"have its operator add {path} to innodb_directories and restart it; "
            "check with SELECT @@innodb_directories",
        )
