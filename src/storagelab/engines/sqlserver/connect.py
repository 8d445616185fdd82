"""Connects to a server: reads its DSN, opens sessions, and turns errors into the server's messages.

Messages of this module never contain a password.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NoReturn, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from storagelab.engines.sqlserver.meanings import MAJOR_2022, NAMES, ServerState
from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.model.values import Frozen
from storagelab.servers.attached import dsn_of, enough_connections, key_of, quoting, require

# --- tsql ------------------------------------------------------------------------------------------------------------
#
# Quotes names and texts for T-SQL, so that no text can end its own quotes. Texts are Unicode literals (N'...'), because
# in other literals the server may convert characters that look like quotes into quotes.


LONGEST_IDENTIFIER = 128
"""The largest length of an identifier (sysname). The server counts UTF-16 code units."""


def identifier(name: str) -> str:
    """`name` in brackets. Raises ValueError if the server does not allow such a name."""
    _refuse_unwritable(name)
    if not name or len(name.encode("utf-16-le")) // 2 > LONGEST_IDENTIFIER:
        raise ValueError(f"a name has 1 to {LONGEST_IDENTIFIER} characters")
    return "[" + name.replace("]", "]]") + "]"


def text(value: str) -> str:
    """`value` as a literal. Raises ValueError if it has a control character.

    A line break is such a character: T-SQL would remove a backslash before it.
    """
    _refuse_unwritable(value)
    return "N'" + value.replace("'", "''") + "'"


def _refuse_unwritable(value: str) -> None:
    if any(ord(character) < 0x20 or character == "\x7f" for character in value):
        raise ValueError("holds a control character")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise ValueError("is not valid Unicode text")


def integers(numbers: list[int]) -> str:
    """A list of numbers for IN (...). If there are no numbers, the list is -1, which is the id of no session."""
    return ", ".join(str(int(number)) for number in numbers) or "-1"


try:
    import pymssql

except ImportError as absent:
    raise PreflightError(
        "the driver for SQL Server, pymssql, is not installed",
        key="target.engine",
        hint="pip install 'storagelab[sqlserver]'",
    ) from absent

DriverError = pymssql.Error
Row = tuple[Any, ...]

SCHEMES = ("mssql", "sqlserver")
PASSWORD_VARIABLE = "SQLCMDPASSWORD"
"""The environment variable for the password. sqlcmd, the server's own tool, reads the same variable."""
DEFAULT_PORT = 1433
LOGIN_TIMEOUT_S = 10
ENCRYPTION = ("off", "request", "require")
_EXAMPLE = "mssql://user@host:1433/database"
_SOMETHING_SAID = "DB-Lib error message 20018"
_DRIVERS_LINE = re.compile(r"(DB-Lib error message|Net-Lib error during) ")


@dataclass(frozen=True)
class Address:
    """A server, and storagelab's login there.

    `instance` is the name of an instance. The browser service of the server knows its port.
    """

    host: str
    port: int
    user: str
    database: str
    instance: str = ""
    encryption: str = "request"
    password: str = field(default="", repr=False)

    @property
    def server(self) -> str:
        return f"{self.host}\\{self.instance}" if self.instance else self.host


def address_of(target: TargetConfig) -> Address:
    """The server that a spec names. Raises PreflightError, which never shows the DSN."""
    return parse_dsn(dsn_of(target, "mssql://user:password@host/database"), key_of(target))


def parse_dsn(dsn: str, key: str) -> Address:
    """The address in a DSN. Raises PreflightError if the DSN is not valid.

    The error does not show the DSN, which may contain a password in any part.
    """
    try:
        parts = urlsplit(dsn)
        host, port = parts.hostname, parts.port
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError:
        _refuse("it is not a readable connection string", key)
    if parts.scheme not in SCHEMES:
        _refuse("it does not begin with mssql://", key)
    if not host or not parts.username:
        _refuse("it names no host or no user", key)
    if options.keys() - {"instance", "encrypt"}:
        _refuse("it has an unknown option; known are encrypt and instance", key)
    encryption = options.get("encrypt", "request")
    if encryption not in ENCRYPTION:
        _refuse(f"its option encrypt must be one of {', '.join(ENCRYPTION)}", key)
    return Address(
        host=unquote(host), port=port or DEFAULT_PORT, user=unquote(parts.username),
        password=unquote(parts.password) if parts.password is not None else os.environ.get(PASSWORD_VARIABLE, ""),
        database=unquote(parts.path.removeprefix("/")), instance=options.get("instance", ""), encryption=encryption,
    )  # fmt: skip


def _refuse(problem: str, key: str) -> NoReturn:
    raise PreflightError(
        problem,
        key=key,
        hint=f"write {_EXAMPLE}, with special characters as %XX; put the password into the environment variable that "
        f"dsn_env names, or into {PASSWORD_VARIABLE}",
    ) from None


class Session:
    """One session on a server. Each statement is its own transaction. Only one thread at a time may use a session."""

    def __init__(self, dsn: Address, application: str) -> None:
        """Raises DriverError if the login fails."""
        arguments: dict[str, Any] = {
            "server": dsn.server, "port": str(dsn.port), "user": dsn.user, "password": dsn.password,
            "database": dsn.database, "login_timeout": LOGIN_TIMEOUT_S, "appname": application, "autocommit": True,
            "encryption": dsn.encryption,
        }  # fmt: skip
        try:
            self._connection = pymssql.connect(**arguments)
        except DriverError as error:
            if not _number_and_text(error)[1].startswith(_SOMETHING_SAID):
                raise
            raise pymssql.OperationalError(*(try_in_fresh_process(arguments) or error.args)) from None
        self.spid = int(self.value("SELECT @@SPID"))

    def table(self, statement: str) -> tuple[list[str], list[Row]]:
        """The column names and the rows of a statement's last result. The names are in lower case."""
        names, rows = list[str](), list[Row]()
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            while True:
                if cursor.description is not None:
                    names = [str(column[0]).lower() for column in cursor.description]
                    rows = [tuple(row) for row in cursor.fetchall()]
                if not cursor.nextset():
                    return names, rows

    def rows(self, statement: str) -> list[Row]:
        return self.table(statement)[1]

    def records(self, statement: str) -> list[dict[str, Any]]:
        """The rows as `column -> value`. This is for views that have more columns in later versions."""
        names, rows = self.table(statement)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def value(self, statement: str) -> Any:
        """The single value that a statement returns. Returns None if it returns no row."""
        rows = self.rows(statement)
        return rows[0][0] if rows else None

    def execute(self, statement: str) -> None:
        self.table(statement)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the session. Never raises an error, even if the session is already lost."""
        with contextlib.suppress(DriverError):
            self._connection.close()


def connect(target: TargetConfig, application: str = "storagelab", database: str | None = None) -> Session:
    """A session. Raises PreflightError with the server's message if it can't connect.

    The error never shows the DSN, which may contain a password.
    """
    dsn = address_of(target)
    hint = "check host, port, database, user and password, for example with sqlcmd"
    # ValueError: bytes are not valid text
    with quoting(target, (DriverError, ValueError), words_of, "can't connect", hint):
        return Session(replace(dsn, database=database) if database is not None else dsn, application)


def words_of(error: BaseException) -> str:
    """Returns the server's message with its number, for example `Msg 2627: Violation of PRIMARY KEY...`. If the error
    has no message of the server, returns the driver's message.

    The driver adds lines to the server's message and repeats some lines. These are left out.
    """
    number, text_of_error = _number_and_text(error)
    lines = [line.strip() for line in text_of_error.splitlines()]
    first = next((line for line in lines if line and not _DRIVERS_LINE.match(line)), "")
    message = _DRIVERS_LINE.split(first)[0].strip() or " ".join(dict.fromkeys(filter(None, lines)))
    return f"Msg {number}: {message}" if number else message or type(error).__name__


def _number_and_text(error: BaseException) -> tuple[int | None, str]:
    arguments = _arguments_of(error)
    number = next((value for value in arguments if isinstance(value, int)), None)
    return number, next((value for value in arguments if isinstance(value, str)), "") or str(error)


def _arguments_of(error: BaseException) -> list[Any]:
    """The arguments of an error. If the driver gives a text as bytes, the text is decoded."""
    arguments = error.args[0] if len(error.args) == 1 and isinstance(error.args[0], tuple) else error.args
    return [value.decode(errors="replace") if isinstance(value, bytes) else value for value in arguments]


def allow_sessions(count: int) -> None:
    """Raises the driver's limit on sessions of one process to at least `count`. Its default is 25."""
    if pymssql.get_max_connections() < count:
        pymssql.set_max_connections(count)


# --- attached --------------------------------------------------------------------------------------------------------
#
# The facts about a SQL Server that already runs, the rights of this login, and the settings of the whole server.


OLDEST_MAJOR = 13
"""The oldest version that storagelab measures: SQL Server 2016. Older servers have no wait statistics by session."""
_WITHOUT_FILES = {5: "Azure SQL Database", 6: "Azure Synapse", 8: "Azure SQL Managed Instance", 11: "Azure Synapse"}
"""Engine editions (SERVERPROPERTY) in which users can't choose the files of a database."""

_THREADS_OF_ITS_OWN = 64
"""The number of worker threads that must remain free for the server itself and for other users."""

FACTS = """
SELECT CAST(SERVERPROPERTY(N'ProductVersion') AS nvarchar(128)) AS version,
       CAST(SERVERPROPERTY(N'Edition') AS nvarchar(128)) AS edition,
       CAST(SERVERPROPERTY(N'EngineEdition') AS int) AS engine_edition,
       CAST(SERVERPROPERTY(N'InstanceDefaultDataPath') AS nvarchar(4000)) AS data_path,
       CAST(SERVERPROPERTY(N'InstanceDefaultLogPath') AS nvarchar(4000)) AS log_path,
       @@VERSION AS version_text,
       @@MAX_CONNECTIONS AS max_connections,
       HAS_PERMS_BY_NAME(NULL, NULL, N'CREATE ANY DATABASE') AS may_create,
       HAS_PERMS_BY_NAME(NULL, NULL, N'VIEW SERVER STATE') AS may_view_state,
       HAS_PERMS_BY_NAME(NULL, NULL, N'VIEW SERVER PERFORMANCE STATE') AS may_view_performance"""
OPEN_CONNECTIONS = "SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE is_user_process = 1"
WORKER_THREADS = "SELECT max_workers_count FROM sys.dm_os_sys_info"
CONFIGURATIONS = "SELECT LOWER(name), CAST(value_in_use AS bigint) FROM sys.configurations"
TRACE_STATUS = "DBCC TRACESTATUS (-1) WITH NO_INFOMSGS"
SERVICES = "SELECT * FROM sys.dm_server_services"


class ServerFacts(Frozen):
    """The properties of a server and the rights of this login.

    `data_path` and `log_path` are the server's default folders for files.
    """

    version: str
    version_text: str
    edition: str
    engine_edition: int
    data_path: str
    log_path: str
    max_connections: int
    may_create: bool
    may_view_state: bool

    on_this_machine: ClassVar[bool] = False
    """The server is assumed to be on another machine. So only the operator's description of its volumes is known."""
    process_owner: ClassVar[None] = None
    may_write_out: ClassVar[bool] = True

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    @property
    def name(self) -> str:
        """The server's usual name, for example "SQL Server 2022 (16.0.4085.2)"."""
        year = NAMES.get(self.major)
        return f"SQL Server {year} ({self.version})" if year else f"SQL Server {self.version}"


def read_facts(session: Session) -> ServerFacts:
    (found,) = session.records(FACTS)
    major = int(str(found["version"]).partition(".")[0])
    # From SQL Server 2022 on, a smaller right is enough. Older versions return NULL for the name of this right.
    may_view = found["may_view_state"] or (major >= MAJOR_2022 and found["may_view_performance"])
    return ServerFacts(
        version=found["version"], version_text=" ".join(str(found["version_text"]).split()), edition=found["edition"],
        engine_edition=found["engine_edition"], data_path=found["data_path"] or "", log_path=found["log_path"] or "",
        max_connections=found["max_connections"], may_create=bool(found["may_create"]), may_view_state=bool(may_view),
    )  # fmt: skip


def check_rights(target: TargetConfig, facts: ServerFacts) -> None:
    """Checks the server and the login's rights. Raises PreflightError, which names the problem or the missing right."""
    login = "as its administrator: "
    state = "VIEW SERVER PERFORMANCE STATE" if facts.major >= MAJOR_2022 else "VIEW SERVER STATE"
    edition = _WITHOUT_FILES.get(facts.engine_edition)
    rights = [
        (facts.may_create, "CREATE ANY DATABASE", "for storagelab's own database"),
        (facts.may_view_state, state, "to read the waits of sessions"),
    ]
    needs = [
        (
            edition is None, f"the server is {edition}, in which users can't choose the place of data files",
            "use a SQL Server of your own",
        ),
        (
            facts.major >= OLDEST_MAJOR, f"the server is {facts.name}, which is too old",
            "storagelab measures SQL Server 2016 and later: older versions have no wait statistics by session",
        ),
        *(
            (has, f"the login lacks the right {right}, which is needed {why}", f"{login}GRANT {right} TO [the login]")
            for has, right, why in rights
        ),
    ]  # fmt: skip
    require(target, needs)


def check_connections(target: TargetConfig, facts: ServerFacts, session: Session, connections: int) -> None:
    """Checks that the server accepts this many more sessions. Raises PreflightError if it does not."""
    free = facts.max_connections - int(session.value(OPEN_CONNECTIONS))
    require(target, [enough_connections(connections, free, "its setting user connections")])
    threads = int(session.value(WORKER_THREADS))
    if threads < connections + _THREADS_OF_ITS_OWN:
        raise PreflightError(
            f"each of {connections} connections needs a worker thread, but the server has {threads} for all its users",
            key="workload.connections",
            hint=f"lower it to at most {max(1, threads - _THREADS_OF_ITS_OWN)}, or raise max "
            "worker threads on the server",
        )


def read_state(session: Session) -> ServerState:
    """The settings of the whole server. The login needs the right to view the server's state."""
    return ServerState(
        configurations={str(name): int(value) for name, value in session.rows(CONFIGURATIONS)},
        trace_flags=tuple(sorted(flag["traceflag"] for flag in session.records(TRACE_STATUS) if flag.get("global"))),
        file_initialisation=_file_initialisation(session),
    )


def _file_initialisation(session: Session) -> bool | None:
    """Whether the server makes data files without writing zeros to them. Returns None if the server does not show this.

    SQL Server 2016 without a service pack does not show it. From SQL Server 2022 on, the login needs another right.
    """
    with contextlib.suppress(DriverError):
        for service in session.records(SERVICES):
            enabled = service.get("instant_file_initialization_enabled")
            if str(service.get("servicename", "")).startswith("SQL Server (") and enabled in ("Y", "N"):
                return bool(enabled == "Y")
    return None


# --- a login in a process of its own ---------------------------------------------------------------------------------
#
# A program that tries to log in once, in its own process, and writes the driver's error as JSON.
#
# After the first failed login of a process, pymssql reports the number of this first error for every later failed
# login, without the server's message. In a new process, it reports the right number and message. The program reads the
# login data from standard input, because other users of the machine can see arguments and some variables.


_PATIENCE_S = 60


def try_in_fresh_process(arguments: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of the driver's error. The result is empty if there is no error, or if the process failed."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=json.dumps(arguments), capture_output=True, text=True, check=False,
            timeout=_PATIENCE_S,
        )  # fmt: skip
        return tuple(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        return ()


def main() -> None:
    try:
        pymssql.connect(**json.load(sys.stdin)).close()
        arguments_of_error = list[Any]()
    except pymssql.Error as error:
        arguments_of_error = _arguments_of(error)
    sys.stdout.write(json.dumps(arguments_of_error, default=str))


if __name__ == "__main__":
    main()
