"""Checks that this machine and this server can run every cell of the plan. Changes nothing."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pymysql

from storagelab.engines.mariadb.connect import (
    GUARDED,
    AttachedReach,
    Connection,
    Rows,
    address_of,
    ask,
    connect,
    connect_to,
    set_for_session,
    setting_name,
    settings_text,
    words_of,
)
from storagelab.engines.mariadb.layout import Layout
from storagelab.engines.mariadb.loads.generated import log_room
from storagelab.engines.mariadb.meanings import DECIDING, judge
from storagelab.engines.mariadb.server import OLDEST, STARTER, private_settings
from storagelab.errors import PreflightError, RunFailed
from storagelab.loads.settling import FULL, concerns
from storagelab.model.config import Config, TargetConfig
from storagelab.model.durability import Durability
from storagelab.model.plan import Cell, Plan
from storagelab.model.target import Preflight
from storagelab.model.values import Frozen, Scalar
from storagelab.servers import attached as attaching
from storagelab.servers import cell_checks as checking
from storagelab.servers import templates
from storagelab.servers.attached import (
    enough_connections,
    holds_other_end,
    is_near,
    owner_of,
    process_age_s,
    quoting,
    require,
)
from storagelab.servers.cell_checks import Memory, by_how, check_generators, memory_notes
from storagelab.servers.interfaces import tables_of
from storagelab.servers.objects import share_on
from storagelab.servers.steps import by_server
from storagelab.servers.volume_checks import (
    check_between_runs,
    check_folder_for_server,
    check_place_names,
    volume_needs,
)
from storagelab.spec.units import parse_bytes
from storagelab.volumes import places
from storagelab.volumes.folders import Site

# What a row takes on disk, measured on 10.11 and rounded up; includes half-full pages.
_RANDOM_ROW_BYTES = 300


_DEFAULT_PAGE_BYTES = 16 * 1024


_SERVER_BYTES = 128 * 2**20


_EMPTY_DATA_FILE_BYTES = 128 * 1024


_BUFFERS, _DEFAULT_BUFFERS_BYTES = "innodb_buffer_pool_size", 128 * 2**20


_LAST_LETTER = 0xFFFF
"""The server keeps paths of files in three-byte UTF-8, and puts a file elsewhere if that can't represent its path."""


_LETTER = "has a letter in it that MariaDB does not accept in the path of data files"


_NO_CERTIFICATES = (
    "sysbench 1.0 encrypts only with a certificate of its own, which it is not given: if the server demands TLS, reach "
    "it by its socket (?unix_socket=...), or measure workload.kind = 'random-insert', which needs no sysbench"
)


_SEQUENTIAL_NOTE = (
    "MariaDB always leaves room for two rows on a page, so with sequential-insert every row needs one new page "
    "outside the tree instead"
)


_LEFT_NOTE = (
    "the server leaves one empty folder named {name} on each remote volume, since it drops only the files in it"
)


def check(plan: Plan, site: Site) -> Preflight:
    """Checks everything that could make a run fail. Raises PreflightError naming the key."""
    configs = [cell.config for cell in plan.cells]
    bytes_on = templates.with_kept(configs, site, _bytes_on, _bytes_on)
    needs = (*volume_needs(configs, site, bytes_on), *places.needs(configs, _bytes_on))
    check_place_names(needs, lambda path: any(ord(letter) > _LAST_LETTER for letter in path), _LETTER)
    check_between_runs(configs)
    private, running = by_how(configs)
    notes = memory_notes(private, _private_memory)
    found = [*STARTER.check_cells(private, site), *_check_attached(running, site, notes)]
    found += check_generators(configs, site, lambda config: STARTER.programs(config, site).server.parent)
    sequential = any(not config.generated and config.insert_load.page_a_row for config in configs)
    notes += [_SEQUENTIAL_NOTE] if sequential else []
    notes += templates.notes(configs)
    if any(map(places.remote_paths, configs)):
        notes += [places.NOTE, _LEFT_NOTE.format(name=site.prefix)]
    return Preflight(
        server="; ".join(dict.fromkeys(found)),
        volumes=needs,
        notes=tuple(notes),
        log_rooms=rooms_of(plan.cells),
    )


def durability(config: Config) -> Durability:
    """What survives a crash of the cell's server."""
    asked = {setting_name(name): settings_text(value) for name, value in config.target.settings.items()}
    if not config.target.attached:
        return judge(asked)
    with connect(config.target) as connection:
        names = ", ".join(["%s"] * len(DECIDING))
        shown = ask(connection, f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({names})", DECIDING)
        version = str(connection.get_server_info())
    return judge({**{str(name).lower(): str(value) for name, value in shown}, **asked}, version)


def _check_attached(configs: Sequence[Config], site: Site, notes: list[str]) -> list[str]:
    """Checks attached servers; opens one connection for each server, however many cells it has."""
    found = []
    for sharing in by_server(configs):
        with connect(sharing[0].target) as connection:
            facts = read_facts(connection)
            for config in sharing:
                _check_on_server(connection, facts, config, site)
            for config in {one.workload.kind: one for one in sharing if one.generated}.values():
                with quoting(config.target, RunFailed, str, "the load can't begin", _NO_CERTIFICATES):
                    AttachedReach(config, site, facts).check_login()
            notes += attaching.kept_by_load(set_for_load(sharing[0].target, connection))
            where = attaching.where(line_of(connection), on_this_machine=facts.on_this_machine)
        notes += memory_notes(sharing, partial(_memory_of, facts))
        found.append(f"{facts.name}, attached, {where}")
    return found


def _check_on_server(connection: Connection, facts: ServerFacts, config: Config, site: Site) -> None:
    check_rights(config, facts, site.prefix)
    check_session_settings(connection, facts, config.target.settings)
    Layout(config, site.prefix, None).check_nothing_in_the_way(connection)
    for volume, path in site.volume_paths(config).items():
        check_folder_for_server(facts.process_owner, volume, path)
        check_known_folder(connection, facts, volume, path)
    for volume, place in places.remote_paths(config).items():
        check_known_folder(connection, facts, volume, Path(place))


def _bytes_on(config: Config, volume: str) -> int:
    """The most disk space that one run of this cell takes on a volume."""
    if config.generated:
        known = checking.data_bytes(config.generated_load, tables_of(config).unit_bytes)
        rows, row_bytes_known = known or 0, 1  # what the user's own files make is unknown before the run
    else:
        rows, row_bytes_known = config.insert_load.rows, _RANDOM_ROW_BYTES
    total = 0
    volumes = config.data_volumes
    private = not config.target.attached
    if volumes:
        files = config.layout.data_files
        files_here = sum(config.volume_of_data_file(i) == volume for i in range(files))
        sequential = not config.generated and config.insert_load.page_a_row
        row_bytes = bytes_of(config, "innodb_page_size", _DEFAULT_PAGE_BYTES) * 1.1 if sequential else row_bytes_known
        known = tables_of(config)(config, "", None).known_objects if config.generated else None
        total += round(rows * row_bytes * share_on(config, known, volume)) + files_here * _EMPTY_DATA_FILE_BYTES
        total += _SERVER_BYTES if volume == volumes[0] and private else 0
    if config.log_volume == volume and private:
        total += bytes_of(config, SIZE, DEFAULT_BYTES)
    return total


def _private_memory(config: Config) -> Memory:
    direct = str(private_settings(config).get("innodb_flush_method", "O_DIRECT")).upper().startswith("O_DIRECT")
    buffers = bytes_of(config, _BUFFERS, _DEFAULT_BUFFERS_BYTES)
    return Memory(_BUFFERS, buffers, checking.here(), cached=not direct)


def _memory_of(facts: ServerFacts, _config: Config) -> Memory:
    machine = checking.here() if facts.on_this_machine else None
    return Memory(_BUFFERS, facts.buffers_bytes, machine, cached=not facts.direct)


def set_for_load(target: TargetConfig, own: Connection) -> list[str]:
    """The settings that our own sessions don't share with those of a load, as the server, the login or init_connect
    sets them.
    """
    names = sorted(name for name, _ in ask(own, "SHOW SESSION VARIABLES") if name in GUARDED)
    asking = f"SELECT {', '.join(f'@@session.{name}' for name in names)}"  # one row, as many may be barred
    with contextlib.closing(connect_to(address_of(target), "", autocommit=None)) as raw:
        pairs = zip(names, ask(raw, asking)[0], ask(own, asking)[0], strict=True)
        return [name for name, theirs, ours in pairs if theirs != ours]


# --- attached --------------------------------------------------------------------------------------------------------
#
# A MariaDB or MySQL that already runs: checks what it is and allows, before anything is made on it.
OLDEST_MYSQL = (8, 0)


_IN_DATABASE = ("CREATE", "DROP", "INSERT", "SELECT", "CREATE ROUTINE", "EXECUTE", "LOCK TABLES")


_EVERYTHING = "ALL PRIVILEGES"


_QUOTED = r'\*|`(?:[^`]|``)*`|"(?:[^"]|"")*"'  # in the mode ANSI_QUOTES names are in double quotes


_GRANT = re.compile(rf"GRANT (?P<rights>.+?) ON (?P<database>{_QUOTED})\.(?P<table>{_QUOTED}) TO ")


_PROCESS_NAMES = ("mariadbd", "mysqld")


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
    named = [(process, process_age_s(process, _PROCESS_NAMES)) for process in Path("/proc").glob("[0-9]*")]
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


SIZE, DEFAULT_BYTES = "innodb_log_file_size", 96 * 2**20


_ROOM = 0.78
"""Of the log's size, what the server lets a checkpoint lag behind at most (measured on 10.11: 0.78 of 24 MiB, 0.80 of
96).
"""


def rooms_of(cells: Sequence[Cell]) -> dict[str, float]:
    """The bytes of log after which pages must be written, by cell, where that matters to the runs and is known."""
    concerned = [cell for cell in cells if concerns(cell.config.workload)]
    shown: dict[tuple[str | None, str | None], tuple[int, int] | None] = {}
    for first, *_ in by_server([cell.config for cell in concerned if cell.config.target.attached]):
        with connect(first.target) as connection:
            shown[first.target.dsn, first.target.dsn_env] = log_room(connection)
    rooms = {cell.cell_id: _asked(cell.config) if not cell.config.target.attached else None for cell in concerned}
    for cell in concerned:
        found = shown.get((cell.config.target.dsn, cell.config.target.dsn_env))
        if cell.config.target.attached and found is not None:
            rooms[cell.cell_id] = float(found[1])
    return {cell_id: FULL * room for cell_id, room in rooms.items() if room is not None}


def _asked(config: Config) -> float:
    return _ROOM * bytes_of(config, SIZE, DEFAULT_BYTES)


def bytes_of(config: Config, name: str, default: int) -> int:
    """A size among the settings of a private server; the default if it can't be read here."""
    asked = private_settings(config).get(name, default)
    try:
        return parse_bytes(f"{asked}B" if isinstance(asked, str) and asked[-1:].isalpha() else str(asked))
    except ValueError:
        return default  # the server will decide; only the estimate is coarser
