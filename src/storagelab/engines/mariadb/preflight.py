"""Checks that this machine and this server can run every cell of the plan. Changes nothing.

It checks the properties of a running server, the rights of the login, and the disk space that the runs need.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pymysql

from storagelab.engines.mariadb import connect as db
from storagelab.engines.mariadb.layout import Layout
from storagelab.engines.mariadb.loads.generated import log_room
from storagelab.engines.mariadb.meanings import DECIDING, judge
from storagelab.engines.mariadb.server import OLDEST, SERVERS, STARTER, private_settings
from storagelab.errors import PreflightError
from storagelab.loads.settling import FULL, concerns
from storagelab.machine.disks import read_text
from storagelab.model.config import Config, TargetConfig
from storagelab.model.durability import Durability
from storagelab.model.plan import Plan
from storagelab.model.target import Preflight
from storagelab.model.values import Frozen, Scalar
from storagelab.servers import attached, checks, places, space
from storagelab.servers.durability import of_cell
from storagelab.spec.units import parse_bytes
from storagelab.volumes.folders import Site

# The disk space of a row in bytes, measured on 10.11 and rounded up. It includes the free space of half-full pages.
_RANDOM_ROW_BYTES = 300
_DEFAULT_PAGE_BYTES = 16 * 1024
_SERVER_BYTES = 128 * 2**20
_EMPTY_DATA_FILE_BYTES = 128 * 1024
_BUFFERS = "innodb_buffer_pool_size"
_LAST_LETTER = 0xFFFF
"""The server stores paths of files in UTF-8 of at most three bytes per letter. If a path has a letter above this one,
the server puts the file elsewhere.
"""
_NO_CERTIFICATES = (
    "sysbench 1.0 can't use TLS without a client certificate, and storagelab gives it none: if the server demands TLS, "
    "connect by its socket (?unix_socket=...), or set workload.kind = 'random-insert', which needs no sysbench"
)
_SEQUENTIAL_NOTE = (
    "MariaDB stores at least two rows on each page of the tree, so with sequential-insert every row needs one new page "
    "outside the tree instead"
)
_LEFT_NOTE = (
    "the server leaves an empty folder named {name} on each remote volume, because it drops only the files in it"
)


def check(plan: Plan, site: Site) -> Preflight:
    """Checks everything that could make a run fail. Raises PreflightError, which names the key."""
    found, configs = CHECKS.check(plan, site), [cell.config for cell in plan.cells]
    sequential = any(not config.generated and config.insert_load.page_a_row for config in configs)
    notes = [_SEQUENTIAL_NOTE] if sequential else []
    notes += [_LEFT_NOTE.format(name=site.prefix)] if any(map(places.remote_paths, configs)) else []
    concerned = [cell for cell in plan.cells if concerns(cell.config.workload)]
    rooms = checks.by_cell(
        concerned, db.connect, lambda own: FULL * room[1] if (room := log_room(own)) is not None else None,
        lambda config: FULL * _ROOM * _log_bytes(config),
    )  # fmt: skip
    return found.model_copy(update={"notes": (*found.notes, *notes), "log_rooms": rooms})


def durability(config: Config) -> Durability:
    """Which data survive a crash of the cell's server."""
    asked = {db.setting_name(name): db.settings_text(value) for name, value in config.target.settings.items()}
    return of_cell(config, asked, db.connect, _deciding, judge)


def _deciding(connection: db.Connection) -> tuple[dict[str, str], str]:
    shown = db.ask(connection, "SHOW GLOBAL VARIABLES WHERE variable_name IN %s", [DECIDING])
    return {str(name).lower(): str(value) for name, value in shown}, str(connection.get_server_info())


# --- running servers -------------------------------------------------------------------------------------------------


OLDEST_MYSQL = (8, 0)
_IN_DATABASE = ("CREATE", "DROP", "INSERT", "SELECT", "CREATE ROUTINE", "EXECUTE", "LOCK TABLES")
_EVERYTHING = "ALL PRIVILEGES"
_QUOTED = r'\*|`(?:[^`]|``)*`|"(?:[^"]|"")*"'  # with ANSI_QUOTES, names are in double quotes
_GRANT = re.compile(rf"GRANT (?P<rights>.+?) ON (?P<database>{_QUOTED})\.(?P<table>{_QUOTED}) TO ")
_UPTIME_TOLERANCE_S = 4.0
_TIMED = """
SELECT (SELECT count(*) FROM performance_schema.setup_instruments
        WHERE enabled = 'YES' AND timed = 'YES' AND name = 'wait/io/file/innodb/innodb_data_file')
     + (SELECT count(*) FROM performance_schema.setup_consumers WHERE enabled = 'YES'
        AND name IN ('global_instrumentation', 'thread_instrumentation', 'events_waits_current'))"""
_SWITCH_ON = (
    "have its operator run: UPDATE performance_schema.setup_instruments SET enabled = 'YES', timed = 'YES' "
    "WHERE name LIKE 'wait/%'; UPDATE performance_schema.setup_consumers SET enabled = 'YES' "
    "WHERE name IN ('global_instrumentation', 'thread_instrumentation', 'events_waits_current'); "
    "or set measure.waits = false"
)
_NESTED = re.compile(r"^NSpid:(\s+\d+){2}", re.MULTILINE)


class Grant(Frozen):
    """Rights on the databases whose names match the pattern `database`.

    The pattern has % and _ as in LIKE. If it is None, the rights hold for all databases.
    """

    rights: frozenset[str]
    database: str | None

    def gives(self, right: str, database: str | None = None) -> bool:
        """Whether the grant gives a right on this database, or on the whole server if `database` is None."""
        holds = self.database is None or (database is not None and _like(database, self.database))
        return holds and not self.rights.isdisjoint({right, _EVERYTHING})


class ServerFacts(checks.AttachedFacts):
    """The facts about a MariaDB or MySQL server that already runs, and the rights of the login.

    If the server has performance_schema, it counts the I/O of each file.
    """

    mysql: bool
    grants: tuple[Grant, ...]
    read_only: bool
    times_waits: bool

    def may(self, right: str, database: str | None = None) -> bool:
        """Whether the login has a right on this database, or on the whole server if `database` is None."""
        return any(grant.gives(right, database) for grant in self.grants)


def _like(name: str, pattern: str) -> bool:
    """Whether the database `name` matches the `pattern` of a grant."""
    parts = re.findall(r"\\(.)|(%)|(_)|(.)", pattern)
    letters = (".*" if many else "." if one else re.escape(quoted or plain) for quoted, many, one, plain in parts)
    return re.fullmatch("".join(letters), name, re.DOTALL) is not None


def read_facts(connection: db.Connection) -> ServerFacts:
    """Reads the properties of the server and the rights of this login."""
    version, max_connections, watching, buffers, flushing, *barred = db.ask(
        connection,
        "SELECT version(), @@global.max_connections, @@global.performance_schema, @@global.innodb_buffer_pool_size, "
        "@@global.innodb_flush_method, @@global.read_only, @@global.innodb_read_only",
    )[0]
    status = {name.lower(): int(value) for name, value in db.ask(
        connection, "SHOW GLOBAL STATUS WHERE variable_name IN ('Uptime', 'Threads_connected')"
    )}  # fmt: skip
    grants = tuple(_grants([str(row[0]) for row in db.ask(connection, "SHOW GRANTS")]))
    pid, mysql = _pid_on_this_machine(connection, status["uptime"], watching=bool(watching)), "MariaDB" not in version
    return ServerFacts(
        title="MySQL" if mysql else "MariaDB", version=version.split("-")[0], mysql=mysql, grants=grants,
        release=tuple(map(int, re.findall(r"\d+", version)[:2])),
        max_connections=int(max_connections), open_connections=status["threads_connected"],
        buffers_bytes=int(buffers), direct=str(flushing).upper().startswith("O_DIRECT"),
        counts_files=bool(watching), times_waits=bool(watching) and _times_waits(connection), pid=pid,
        read_only=any(str(one).upper() not in ("0", "OFF") for one in barred),
        may_write_out=any(one.gives("RELOAD") for one in grants),
        process_owner=None if pid is None else attached.owner_of(Path(f"/proc/{pid}")),
        where=attached.where(_line_of(connection), on_this_machine=pid is not None),
    )  # fmt: skip


def _grants(lines: Sequence[str]) -> Iterator[Grant]:
    for line in lines:
        match = _GRANT.match(line)
        if match is None or match["table"] != "*":
            continue
        name = match["database"]
        rights = frozenset(right.strip().upper() for right in match["rights"].split(","))
        yield Grant(rights=rights, database=None if name == "*" else name[1:-1].replace(name[0] * 2, name[0]))


def _times_waits(connection: db.Connection) -> bool:
    """Whether the server times each thread's most important waits. Returns False if this login may not read this."""
    try:
        return bool(db.ask(connection, _TIMED)[0][0] == 4)
    except pymysql.MySQLError:
        return False


def _pid_on_this_machine(connection: db.Connection, uptime_s: int, *, watching: bool) -> int | None:
    """The id of the server's process if it is on this machine, otherwise None.

    The process must have the server's name, its age and one of its threads. If the server reports no thread, the other
    end of this connection or the pid file must belong to the process.
    """
    line, threads = _line_of(connection), db.Rows()
    if watching:
        with contextlib.suppress(pymysql.MySQLError):
            threads = db.ask(
                connection, "SELECT thread_os_id FROM performance_schema.threads WHERE processlist_id = connection_id()"
            )
    named = [(process, attached.process_age_s(process, SERVERS)) for process in Path("/proc").glob("[0-9]*")]
    fitting = [one for one, age_s in named if age_s is not None and abs(age_s - uptime_s) < _UPTIME_TOLERANCE_S]
    if threads:
        found = [one for one in fitting if (one / "task" / str(threads[0][0])).exists()]
    else:  # in another PID namespace, such as a container, paths differ, too
        fitting = [one for one in fitting if not _NESTED.search(read_text(one / "status"))]
        found = [one for one in fitting if attached.holds_other_end(one, line)]
        if not found and attached.is_near(line):
            data, name = db.ask(connection, "SELECT @@datadir, @@pid_file")[0]
            found = [one for one in fitting if one.name == attached.pid_in(Path(data) / name)]
    return int(found[0].name) if len(found) == 1 else None


def _line_of(connection: db.Connection) -> socket.socket:
    return connection._sock  # type: ignore[no-any-return] # noqa: SLF001 - PyMySQL has no other name for it


def _check_server(connection: db.Connection, configs: Sequence[Config], site: Site) -> tuple[ServerFacts, list[str]]:
    facts = read_facts(connection)
    for config in configs:
        check_rights(config, facts, site.prefix)
        check_session_settings(connection, facts, config.target.settings)
        Layout(config, site.prefix, None).check_nothing_in_the_way(connection)
        for volume, path in site.volume_paths(config).items():
            space.check_folder_for_server(facts.process_owner, volume, path)
            _check_known_folder(connection, facts, volume, path)
        for volume, place in places.remote_paths(config).items():
            _check_known_folder(connection, facts, volume, Path(place))
    return facts, attached.kept_by_load(_set_for_load(configs[0].target, connection))


def check_rights(config: Config, facts: ServerFacts, database: str) -> None:
    """Checks the login's rights and the server's limits. Raises PreflightError, which names the missing right or the
    limit.
    """
    oldest = OLDEST_MYSQL if facts.mysql else OLDEST
    missing = [right for right in _IN_DATABASE if not facts.may(right, database)]
    on_database = f"`{database.replace('_', chr(92) + '_')}`.*"
    old, room = checks.needs_of_every_engine(facts, oldest, config.database_load.connections)
    needs = [
        old,
        (not facts.read_only,
         "the server is read-only (read_only or innodb_read_only): it may be a replica",
         "name its primary, or another server that accepts writes; the command capture also watches a replica"),
        (not missing,
         f"the login lacks the right {', '.join(missing)} on the database {database}, which storagelab makes and drops",
         f"as an administrator: GRANT {', '.join(missing)} ON {on_database} TO ..."),
        (facts.may("PROCESS"),
         "the login lacks the right PROCESS, which is needed to read the places of the data files",
         "as an administrator: GRANT PROCESS ON *.* TO ..."),
        (not config.data_volumes or facts.may("FILE"),
         "the login lacks the right FILE, which is needed to put data files on volumes by DATA DIRECTORY",
         "GRANT FILE ON *.* TO ..., or leave [volumes] out to measure in the server's own folder"),
        (not config.between_runs.checkpoint or facts.may("RELOAD"),
         "the login lacks the right RELOAD, which is needed to write out the table between runs",
         "GRANT RELOAD ON *.* TO ..., or set between_runs.checkpoint = false"),
        (not config.measure.waits or facts.may("SELECT", "performance_schema"),
         "the login lacks the right SELECT on performance_schema, which is needed to read waits",
         "GRANT SELECT ON performance_schema.* TO ..., or set measure.waits = false"),
        (not config.measure.waits or facts.counts_files,
         "the server runs without performance_schema, so it times no waits",
         "have its operator start it with performance_schema = ON, or set measure.waits = false"),
        (not config.measure.waits or facts.times_waits, "the server does not time waits", _SWITCH_ON),
        room,
    ]  # fmt: skip
    attached.require(config.target, needs)


def check_session_settings(connection: db.Connection, facts: ServerFacts, settings: Mapping[str, Scalar]) -> None:
    """Checks that the spec's settings can be set for a session, by setting them. On an attached server, storagelab can
    set them only for sessions.

    Raises PreflightError with the server's message if a setting can't be set.
    """
    known = db.variables(connection)
    for name, value in settings.items():
        key = f"target.settings.{name}"
        if db.setting_name(name) not in known:
            raise PreflightError("the server has no such setting", key=key, hint="see SHOW VARIABLES on the server")
        try:
            db.set_for_session(connection, {name: value})
        except pymysql.MySQLError as error:
            quotes = "write a number without quotes, " if isinstance(value, str) else ""
            raise PreflightError(
                f"it can't be set for a session: {db.words_of(error)}", key=key,
                hint=f"{facts.name} was asked; {quotes}set it on the server yourself, or let storagelab start a "
                "private server (leave target.dsn out)",
            ) from error  # fmt: skip


def _check_known_folder(connection: db.Connection, facts: ServerFacts, volume: str, path: Path) -> None:
    """Checks that the folder is one of the folders for data files that MySQL read at its start.

    Raises PreflightError, which says what the server's operator must do.
    """
    if not facts.mysql:
        return
    known = str(db.ask(connection, "SELECT @@innodb_directories")[0][0] or "").split(";")
    if not any(path.is_relative_to(folder) for folder in known if folder):
        steps = f"add {path} to innodb_directories and restart it; check with SELECT @@innodb_directories"
        problem = "MySQL puts data files only into folders named in innodb_directories"
        raise PreflightError(problem, key=f"volumes.{volume}.path", hint=f"have its operator {steps}")


def _set_for_load(target: TargetConfig, own: db.Connection) -> list[str]:
    """The settings whose values in a load's sessions differ from the values in storagelab's own sessions.

    The server, the login or init_connect sets them.
    """
    names = sorted(db.GUARDED & db.variables(own).keys())
    asking = f"SELECT {', '.join(f'@@session.{name}' for name in names)}"  # max_join_size may forbid rows
    with contextlib.closing(db.connect_to(db.address_of(target), db.UNENDED, autocommit=None)) as raw:
        pairs = zip(names, db.ask(raw, asking)[0], db.ask(own, asking)[0], strict=True)
        return [name for name, theirs, ours in pairs if theirs != ours]


# --- disk space ------------------------------------------------------------------------------------------------------


def _bytes_on(config: Config, volume: str) -> int:
    """The most disk space in bytes that one run of this cell needs on a volume."""
    volumes, files, private = config.data_volumes, config.layout.data_files, not config.target.attached
    total, known = 0, None
    if config.generated:  # the size of the user's own tables is unknown before the run
        table_bytes: float = space.data_bytes(config.generated_load, places.tables_of(config).unit_bytes) or 0
        known = places.tables_of(config)(config, "", None).known_objects
    elif config.insert_load.page_a_row:
        table_bytes = config.insert_load.rows * _size(config, "innodb_page_size", _DEFAULT_PAGE_BYTES) * 1.1
    else:
        table_bytes = config.insert_load.rows * _RANDOM_ROW_BYTES
    if volumes:
        files_here = sum(config.volume_of_data_file(i) == volume for i in range(files))
        total += round(table_bytes * places.share_on(config, known, volume)) + files_here * _EMPTY_DATA_FILE_BYTES
        total += _SERVER_BYTES if volume == volumes[0] and private else 0
    return total + (_log_bytes(config) if config.log_volume == volume and private else 0)


def _private_buffers(config: Config) -> tuple[int, bool]:
    direct = str(private_settings(config).get("innodb_flush_method", "O_DIRECT")).upper().startswith("O_DIRECT")
    return _size(config, _BUFFERS, 128 * 2**20), direct


def _log_bytes(config: Config) -> int:
    return _size(config, "innodb_log_file_size", 96 * 2**20)


def _size(config: Config, name: str, default: int) -> int:
    """The size in bytes that a setting of a private server has. The default if the value can't be read as a size."""
    asked = private_settings(config).get(name, default)
    try:
        return parse_bytes(f"{asked}B" if isinstance(asked, str) and asked[-1:].isalpha() else str(asked))
    except ValueError:
        return default  # the server reads the value itself; only this estimate gets less exact


CHECKS = checks.Checks(
    starter=STARTER, programs_folder=lambda programs: Path(programs.server).parent, bytes_on=_bytes_on,
    kept_bytes_on=_bytes_on, is_barred=lambda path: any(ord(letter) > _LAST_LETTER for letter in path),
    bar="has a letter that MariaDB does not accept in the path of data files", buffers=_BUFFERS,
    private_buffers=_private_buffers, connect=db.connect, check_server=_check_server,
    check_login=lambda config, site, facts: db.AttachedReach(config, site, facts=facts).check_login(),
    login_hint=_NO_CERTIFICATES,
)  # fmt: skip


# --- redo log --------------------------------------------------------------------------------------------------------
# If this much log has been written since the last checkpoint, the server must write pages.


_ROOM = 0.78
"""The largest share of the log's size that may be newer than the last checkpoint. (Measured on 10.11: 0.78 of 24 MiB,
0.80 of 96 MiB.)"""
