"""A MariaDB or MySQL that already runs: checks what it is and allows before anything is made on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pymysql

from storagelab.errors import PreflightError
from storagelab.model.config import Config
from storagelab.model.values import Frozen, Scalar
from storagelab.targets import remote
from storagelab.targets.attaching import owner_of, process_age_s, require, room_for
from storagelab.targets.mariadb.binaries import OLDEST
from storagelab.targets.mariadb.connecting import Connection, ask, words_of
from storagelab.targets.mariadb.settings import setting_name, settings_text

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
    """Rights on databases whose names match a pattern with % and _ as in LIKE; None = on all."""

    rights: frozenset[str]
    database: str | None


class ServerFacts(Frozen):
    """What an attached server is and what its login may do. `pid` and `process_owner` (uid, gid) are None if it does
    not run on this machine (or this is not Linux), since the kernel can't be asked about its threads then."""

    version: str
    mysql: bool
    grants: tuple[Grant, ...]
    max_connections: int
    open_connections: int
    buffers_bytes: int
    direct: bool  # its data files bypass the kernel's page cache
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
    version, max_connections, watching, buffers, flushing = ask(
        connection,
        "SELECT version(), @@global.max_connections, @@global.performance_schema, @@global.innodb_buffer_pool_size, "
        "@@global.innodb_flush_method",
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
    """Whether the most important waits are timed for each thread; False if this login may not know."""
    try:
        timed = ask(
            connection,
            "SELECT count(*) FROM performance_schema.setup_instruments "
            f"WHERE name IN ({', '.join(['%s'] * len(_TIMED))}) AND enabled = 'YES' AND timed = 'YES'",
            _TIMED,
        )[0][0]
        consumers = ask(
            connection,
            "SELECT count(*) FROM performance_schema.setup_consumers WHERE enabled = 'YES' "
            f"AND name IN ({', '.join(['%s'] * len(_CONSUMERS))})",
            _CONSUMERS,
        )[0][0]
    except pymysql.MySQLError:
        return False
    return bool(timed == len(_TIMED) and consumers == len(_CONSUMERS))


def _pid_on_this_machine(connection: Connection, uptime_s: int, *, watching: bool) -> int | None:
    """The server's process, if it is on this machine: its name, its age and one of its threads must match."""
    thread = None
    if watching:
        try:
            found = ask(
                connection, "SELECT thread_os_id FROM performance_schema.threads WHERE processlist_id = connection_id()"
            )
            thread = found[0][0] if found else None
        except pymysql.MySQLError:
            return None
    for process in Path("/proc").glob("[0-9]*"):
        age_s = process_age_s(process, _NAMES)
        has_thread = thread is not None and (process / "task" / str(thread)).exists()
        if age_s is not None and has_thread and abs(age_s - uptime_s) < _UPTIME_TOLERANCE_S:
            return int(process.name)
    return None


def data_folder(connection: Connection) -> Path | None:
    """Where a server of this machine keeps its files, if this user may see them."""
    folder = Path(ask(connection, "SELECT @@datadir")[0][0])
    return folder if folder.is_dir() else None


def mounts(connection: Connection) -> list[remote.Mount]:
    """The file systems of the server's machine, if its plugin DISKS is loaded and this login has the right FILE."""
    try:
        rows = ask(connection, "SELECT path, disk FROM information_schema.disks")
    except pymysql.MySQLError:
        return []
    return [remote.Mount(str(path), str(disk)) for path, disk in rows]


def check_rights(config: Config, facts: ServerFacts, database: str) -> None:
    """Checks the login's rights and the server's limits. Raises PreflightError naming what is missing."""
    oldest = OLDEST_MYSQL if facts.mysql else OLDEST
    missing = [right for right in _IN_DATABASE if not facts.may(right, database)]
    on_database = f"`{database.replace('_', chr(92) + '_')}`.*"
    room = facts.max_connections - facts.open_connections
    needs = [
        (
            facts.release >= oldest,
            f"the server is {facts.name}, which is too old",
            f"storagelab measures {'MySQL' if facts.mysql else 'MariaDB'} {'.'.join(map(str, oldest))} and later",
        ),
        (
            not missing,
            f"the login lacks the right {', '.join(missing)} on the database {database}, which storagelab makes and drops",
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
        room_for(config.database_load.connections, room, "max_connections on the server"),
    ]
    require(config.target, needs)


def set_for_session(connection: Connection, settings: Mapping[str, Scalar]) -> None:
    """Set settings for this session alone; the server is known to have them. Raises pymysql.MySQLError."""
    for name, value in settings.items():
        with connection.cursor() as cursor:
            # The server would refuse a number in quotes, and text without them might be anything.
            number = isinstance(value, int | float) and not isinstance(value, bool)
            cursor.execute(f"SET SESSION {_name(name)} = %s", [value if number else settings_text(value)])


def _name(name: str) -> str:
    return "`" + setting_name(name).replace("`", "``").replace("%", "%%") + "`"


def check_session_settings(connection: Connection, facts: ServerFacts, settings: Mapping[str, Scalar]) -> None:
    """Checks that settings can be changed for storagelab's own sessions, the only way on an attached server, by trying.

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
    """Checks MySQL's folders for data files, which are fixed at its start. Raises PreflightError with the operator's step."""
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
