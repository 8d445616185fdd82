"""Replaces a SQL Server behind a real TDS connection, for the statements that storagelab sends.

It shows that the driver, the threads, the order of statements, the decoding and the clean-up work together. It shows
nothing about SQL Server itself: these few lines decide what a statement does here. Columns and their types are as
Microsoft documents the views; figures are made up unless a source is named.

    with recorded() as running:   running.dsn(), running.server.batches, running.server.refuse[REGEX] = ServerError(...)
"""

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tds_server import Answer, Login, ServerError, TdsServer

PASSWORD = "o'p;en sesame"
USER = "lab"
STEPS = 5
STEP_S = 0.03
SHARES = {"WRITELOG": 0.55, "PAGELATCH_EX": 0.15, "PAGELATCH_UP": 0.1, "SOS_SCHEDULER_YIELD": 0.1}
CPU_SHARE = 0.1
_FILE = re.compile(
    r"\(NAME = N'((?:[^']|'')*)', FILENAME = N'((?:[^']|'')*)',(?: SIZE = (\d+)MB,)? FILEGROWTH = (\d+)MB\)"
)
SERVICES = Answer(
    ["servicename", "status_desc", "instant_file_initialization_enabled"],
    [("SQL Server (MSSQLSERVER)", "Running", "Y"), ("SQL Server Agent (MSSQLSERVER)", "Running", "N")],
)
TABLE = Answer(["data_compression_desc", "type_desc", "filegroup_name"], [("NONE", "CLUSTERED", "storagelab_data")])
TRACE_STATUS = ["TraceFlag", "Status", "Global", "Session"]


@dataclass
class Database:
    """One database: its files as (name, type, path, bytes, filegroup), rows of its table, options that were set."""

    database_id: int
    files: list[tuple[str, str, str, int, str | None]] = field(default_factory=list)
    rows: int = 0
    options: dict[str, Any] = field(default_factory=dict)


class RecordedSqlServer:
    def __init__(self, version: str = "15.0.4153.1", **facts: Any) -> None:
        self.facts: dict[str, Any] = {
            "version": version, "edition": "Developer Edition (64-bit)", "engine_edition": 3,
            "data_path": "/var/opt/mssql/data/", "log_path": "/var/opt/mssql/data/",
            "version_text": f"Microsoft SQL Server ({version})\n\tfor tests", "max_connections": 32767, "may_create": 1,
            "may_view_state": 1, "may_view_performance": None, **facts,
        }  # fmt: skip
        self.databases: dict[str, Database] = {"master": Database(1), "somebody": Database(5)}
        self.batches: list[str] = []
        self.refuse: dict[str, ServerError] = {}
        self.mount_points: dict[str, str] | None = {"/": "/"}
        self.trace_flags: tuple[int, ...] = (3226,)
        self.logins: list[Login] = []
        self.grows = False
        self.worker_threads = 512
        self.gate_answer = 0
        self.holds_at_gate = True
        self.inserting = threading.Event()
        self._held: set[str] = set()
        self._gate = threading.Condition()
        self._at_gate: dict[int, float] = {}
        self._where: dict[int, str] = {}
        self._context: dict[int, bytes] = {}
        self._waits: dict[int, dict[str, list[int]]] = {}
        self._cpu_ms: dict[int, int] = {}
        self._ended: set[int] = set()
        self._next_id = 6

    # --- the two questions of the wire -------------------------------------------------------------------------------

    def log_in(self, login: Login) -> None:
        self.logins.append(login)
        if (login.user, login.password) != (USER, PASSWORD):
            raise ServerError(18456, f"Login failed for user '{login.user}'.", severity=14)
        if login.database and login.database not in self.databases:
            raise ServerError(4060, f'Cannot open database "{login.database}" requested by the login.', severity=11)
        self._where[login.spid] = login.database or "master"

    def answer(self, login: Login, text: str) -> Answer:
        self.batches.append(text)
        for pattern, error in self.refuse.items():
            if re.search(pattern, text):
                raise error
        for pattern, reply in self._REPLIES:
            if found := re.search(pattern, text):
                return reply if isinstance(reply, Answer) else reply(self, login, text, found) or Answer()
        return Answer()

    def _here(self, login: Login) -> Database:
        return self.databases[self._where[login.spid]]

    # --- what it answers ---------------------------------------------------------------------------------------------

    def _db_id(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        database = self.databases.get(_unquoted(found[1]))
        return Answer([""], [(database.database_id if database else None,)])

    def _create_database(self, login: Login, text: str, found: re.Match[str]) -> None:
        name = found[1].replace("]]", "]")
        if name in self.databases:
            raise ServerError(1801, f"Database '{name}' already exists. Choose a different database name.")
        database = self.databases[name] = Database(self._next_id)
        self._next_id += 1
        log_from, data_from = text.index("LOG ON"), text.index("FILEGROUP")
        for file in _FILE.finditer(text):
            kind = "LOG" if file.start() > log_from else "ROWS"
            group = None if kind == "LOG" else "PRIMARY" if file.start() < data_from else "storagelab_data"
            size = int(file[3] or 8) * 2**20
            database.files.append((file[1].replace("''", "'"), kind, file[2].replace("''", "'"), size, group))

    def _drop_database(self, login: Login, text: str, found: re.Match[str]) -> None:
        name = _unquoted(found[1])
        if name in self.databases:
            self._end_sessions_in(name)
            del self.databases[name]

    def _create_plain(self, login: Login, text: str, found: re.Match[str]) -> None:
        name = found[1].replace("]]", "]")
        files: list[Any] = [(name, "ROWS", f"/data/{name}.mdf", 2**23, "PRIMARY")]
        files.append((f"{name}_log", "LOG", f"/data/{name}_log.ldf", 2**23, None))
        self.databases[name] = Database(self._next_id, files)
        self._next_id += 1

    def _drop_plain(self, login: Login, text: str, found: re.Match[str]) -> None:
        del self.databases[found[1].replace("]]", "]")]

    def _inventory(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        return Answer(
            [""], [(f"database {name} ({one.database_id}, made then)",) for name, one in self.databases.items()]
        )

    def _single_user(self, login: Login, text: str, found: re.Match[str]) -> None:
        self._end_sessions_in(found[1].replace("]]", "]"))

    def _end_sessions_in(self, name: str) -> None:
        with self._gate:
            self._ended |= {spid for spid, where in self._where.items() if where == name}
            self._gate.notify_all()

    def _option(self, login: Login, text: str, found: re.Match[str]) -> None:
        self.databases[found[1].replace("]]", "]")].options[found[2].upper()] = found[3].upper()

    def _use(self, login: Login, text: str, found: re.Match[str]) -> None:
        self._where[login.spid] = found[1].strip("[]").replace("]]", "]")

    def _file_names(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        database = self.databases.get(_unquoted(found[1]))
        return Answer(["physical_name"], [(file[2],) for file in (database.files if database else [])])

    def _file_ids(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        files = self.databases[_unquoted(found[1])].files
        return Answer(["name", "file_id"], [(file[0], number) for number, file in enumerate(files, 1)])

    def _files(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        grown = 2**26 if self.grows and self._here(login).rows else 0
        names = ["name", "type_desc", "physical_name", "size_bytes", "filegroup_name"]
        return Answer(names, [(*file[:3], file[3] + grown, file[4]) for file in self._here(login).files])

    def _volumes(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        names = ["name", "volume_mount_point", "file_system_type", "total_bytes", "available_bytes"]
        if self.mount_points is None:
            return Answer(names, [])
        rows = []
        for file in self._here(login).files:
            mounts = [mount for mount in self.mount_points if file[2].startswith(mount)]
            rows.append((file[0], self.mount_points[max(mounts, key=len)], "xfs", 10**12, 10**11))
        return Answer(names, rows)

    def _sys_databases(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        options = self.databases[_unquoted(found[1])].options
        shown = {
            "name": _unquoted(found[1]), "recovery_model_desc": options.get("RECOVERY", "FULL"),
            "delayed_durability_desc": options.get("DELAYED_DURABILITY", "DISABLED"),
            "page_verify_option_desc": options.get("PAGE_VERIFY", "CHECKSUM"), "compatibility_level": 150,
            "is_query_store_on": options.get("QUERY_STORE") == "ON", "collation_name": "SQL_Latin1_General_CP1_CI_AS",
        }  # fmt: skip
        return Answer(list(shown), [tuple(shown.values())])

    # --- the load ----------------------------------------------------------------------------------------------------

    def _close_gate(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        if self.gate_answer >= 0:
            self._held.add(found[1])
        return Answer([""], [(self.gate_answer,)])

    def _open_gate(self, login: Login, text: str, found: re.Match[str]) -> None:
        with self._gate:
            self._held.discard(found[1])
            self._gate.notify_all()

    def _waiting_at_gate(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        return Answer([""], [(len(self._at_gate.keys() & _numbers(found[1])),)])

    def _insert_rows(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        total, gate, spid = int(found[1]), found[2], login.spid
        waits = self._waits.setdefault(spid, {})
        came = time.monotonic()
        with self._gate:
            self._at_gate[spid] = came
            self._gate.wait_for(lambda: not self.holds_at_gate or gate not in self._held or spid in self._ended, 20)
            del self._at_gate[spid]
        _add(waits, "LCK_M_IS", time.monotonic() - came)
        started, began = time.time(), time.monotonic()
        database = self._here(login)
        for step in range(1, STEPS + 1):
            self.inserting.set()
            time.sleep(STEP_S)
            if spid in self._ended:
                raise ServerError(
                    596, "Cannot continue the execution because the session is in the kill state.", severity=20
                )
            self._context[spid] = (total * step // STEPS).to_bytes(8, "big") + b"\0" * 120
        took = time.monotonic() - began
        for name, share in SHARES.items():
            _add(waits, name, took * share)
        self._cpu_ms[spid] = self._cpu_ms.get(spid, 0) + round(took * CPU_SHARE * 1000)
        with self._gate:
            database.rows += total
        reads = round(total * float(found[3]))
        times = int(started * 1e6), int((started + took) * 1e6)
        return Answer(["started_us", "finished_us", "reads_done", "reads_found"], [(*times, reads, reads)])

    def _session_waits(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        total: dict[str, list[int]] = {}
        for spid in _numbers(found[1]):
            for name, counts in self._waits.get(spid, {}).items():
                total[name] = [a + b for a, b in zip(total.get(name, [0, 0, 0]), counts, strict=True)]
        return Answer(["wait_type", "", "", ""], [(name, *counts) for name, counts in total.items()])

    def _server_waits(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        at = int(time.monotonic() * 1000)
        return Answer(["wait_type", "a", "b", "c"], [("LAZYWRITER_SLEEP", at // 1000, at, 3), ("CHKPT", 1, 120, 0)])

    def _in_progress(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        waited = sum(int((time.monotonic() - since) * 1000) for since in self._at_gate.values())
        rows = [("LCK_M_IS", len(self._at_gate), waited, 0)] if self._at_gate else []
        return Answer(["wait_type", "", "", ""], rows)

    def _cpu(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        return Answer([""], [(sum(self._cpu_ms.get(spid, 0) for spid in _numbers(found[1])),)])

    def _progress(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        rows = [(spid, self._context.get(spid)) for spid in sorted(_numbers(found[1]))]
        return Answer(["session_id", ""], rows)

    def _file_stats(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        database = self.databases[_unquoted(found[1])]
        ticks = int(time.monotonic() * 1000)
        names = ["name", "a", "b", "c", "d", "e", "f"]
        return Answer(names, [(file[0], 0, 0, 0, ticks, ticks * 8192, ticks // 2) for file in database.files])

    def _all_file_stats(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        names = ["d", "f", "t", "p", "r", "rb", "rs", "w", "wb", "ws", "size"]
        ticks = int(time.monotonic() * 100)
        files = (("shop", "shop_data", "ROWS"), ("shop", "shop_log", "LOG"), ("tempdb", "tempdev", "ROWS"))
        grown = [(ticks, ticks * 8192, ticks // 2), (0, 0, 0), (5, 40960, 1)]
        written = [(7, 57344, 3), (ticks, ticks * 4096, ticks), (0, 0, 0)]
        rows = [
            (*file, f"D:\\data\\{file[1]}.mdf", *reads, *writes, 2**20)
            for file, reads, writes in zip(files, grown, written, strict=True)
        ]
        return Answer(names, rows)

    def _rates(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        return Answer(["", ""], [("Page Splits/sec", int(time.monotonic() * 10)), ("Lazy writes/sec", 7)])

    def _tasks(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        spids = sorted(_numbers(found[1]))
        ours = self._here(login).database_id
        resources = [f"{ours}:2:8088", f"{ours}:2:1", f"{ours}:3:511232", f"{ours}:3:777"]
        kinds = ["PAGELATCH_UP", "PAGELATCH_UP", "PAGELATCH_UP", "PAGELATCH_EX"]
        rows = [
            (spid, kinds[i % 4], 5, resources[i % 4], spids[0] if i else None) for i, spid in enumerate(spids)
        ] if self.inserting.is_set() else []  # fmt: skip
        return Answer(["session_id", "wait_type", "wait_duration_ms", "resource_description", "holder"], rows)

    def _page_info(self, login: Login, text: str, found: re.Match[str]) -> Answer:
        pages = [(int(file), int(page)) for file, page in re.findall(r"\((\d+), (\d+)\)", found[1])]
        return Answer(["file_id", "page_id", "t", "i", "l"], [(file, page, 2, 1, 1) for file, page in pages])

    _REPLIES = (
        (r"^SELECT @@SPID", lambda self, login, text, found: Answer([""], [(login.spid,)])),
        (r"^SELECT DATEDIFF_BIG", lambda *_: Answer([""], [(int(time.time() * 1e6),)])), (r"ProductVersion",
         lambda self, *_: Answer(list(self.facts), [tuple(self.facts.values())])),
        (r"COUNT\(\*\) FROM sys.dm_exec_sessions", lambda *_: Answer([""], [(9,)])),
        (r"max_workers_count", lambda self, *_: Answer([""], [(self.worker_threads,)])),
        (r"sys.dm_server_services", SERVICES),
        (r"DBCC TRACESTATUS",
         lambda self, *_: Answer(TRACE_STATUS, [(flag, 1, 1, 0) for flag in self.trace_flags])),
        (r"FROM sys.configurations",
         Answer(["", ""], [("max server memory (mb)", 4096), ("max degree of parallelism", 0)])),
        (r"dm_os_enumerate_fixed_drives", Answer(["a", "b", "c"], [("/", "FIXED", 100 * 2**30)])),
        (r"dm_os_file_exists", lambda *_: Answer([""], [(True,)])),
        (r"(?s)IF DB_ID\(N'((?:[^']|'')*)'\) IS NOT NULL.*DROP DATABASE", _drop_database),
        (r"CREATE DATABASE \[((?:[^\]]|\]\])*)\]\s+ON", _create_database),
        (r"^CREATE DATABASE \[(.*)\]$", _create_plain), (r"^DROP DATABASE \[(.*)\]$", _drop_plain),
        (r"SELECT N'database ' \+ name", _inventory),
        (r"ALTER DATABASE \[((?:[^\]]|\]\])*)\] SET SINGLE_USER", _single_user),
        (r"ALTER DATABASE \[((?:[^\]]|\]\])*)\] SET (\w+) (?:= )?(\w+)", _option), (r"^(?:USE|use) (.*)$", _use),
        (r"SELECT physical_name FROM sys.master_files WHERE database_id = DB_ID\(N'(.*)'\)", _file_names),
        (r"SELECT name, file_id FROM sys.master_files WHERE database_id = DB_ID\(N'(.*)'\)", _file_ids),
        (r"dm_io_virtual_file_stats\(DB_ID\(N'(.*?)'\)", _file_stats),
        (r"dm_io_virtual_file_stats\(NULL, NULL\)", _all_file_stats),
        (r"N'Transactions/sec' AND RTRIM", lambda *_: Answer([""], [(int(time.monotonic() * 50),)])),
        (r"FROM sys.dm_exec_requests WHERE session_id > 50", lambda *_: Answer([""], [(2,)])),
        (r"dm_os_volume_stats", _volumes), (r"FROM sys.database_files", _files),
        (r"FROM sys.databases WHERE name = N'(.*)'", _sys_databases), (r"FROM sys.partitions", TABLE),
        (r"FROM sys.indexes", Answer(["name", "optimize_for_sequential_key"], [("PK_MyBigTable", False)])),
        (r"COUNT_BIG\(\*\) FROM dbo", lambda self, login, *_: Answer([""], [(self._here(login).rows,)])),
        (r"EXEC @answer = sys.sp_getapplock @Resource = N'(.*?)', @LockMode = N'Exclusive'", _close_gate),
        (r"^EXEC sys.sp_releaseapplock @Resource = N'(.*?)'", _open_gate),
        (r"(?s)EXEC dbo.insert_rows @row_count = (\d+),.*@gate = N'(.*)', .*@reads_per_row = (\S+)$", _insert_rows),
        (r"(?s)LIKE N'applicationlock%' AND session_id IN \((.*?)\)", _waiting_at_gate),
        (r"(?s)dm_exec_session_wait_stats WHERE session_id IN \((.*?)\)", _session_waits),
        (r"sys.dm_os_wait_stats", _server_waits), (r"(?s)FROM \(VALUES (.*?)\) AS p .*dm_db_page_info", _page_info),
        (r"(?s)SUM\(wait_duration_ms\)", _in_progress),
        (r"SUM\(CAST\(cpu_time AS bigint\)\) FROM sys.dm_exec_sessions WHERE session_id IN \((.*?)\)", _cpu),
        (r"(?s)context_info.*WHERE s.session_id IN \((.*?)\)", _progress), (r"dm_os_performance_counters", _rates),
        (r"(?s)FROM sys.dm_os_waiting_tasks WHERE session_id IN \((.*?)\)", _tasks),
        (r"^SELECT DB_ID\(N'((?:[^']|'')*)'\)", _db_id),
    )  # fmt: skip

    @property
    def names(self) -> set[str]:
        return set(self.databases)


def _unquoted(text: str) -> str:
    return text.replace("''", "'")


def _numbers(text: str) -> set[int]:
    return {int(part) for part in text.split(",")}


def _add(waits: dict[str, list[int]], name: str, seconds: float) -> None:
    counts = waits.setdefault(name, [0, 0, 0])
    counts[0] += 1
    counts[1] += round(seconds * 1000)
    counts[2] += round(seconds * (1000 if name == "SOS_SCHEDULER_YIELD" else 100))


@dataclass
class Running:
    """`wire` is the protocol's server; a test may answer its two questions itself."""

    server: RecordedSqlServer
    wire: TdsServer

    def dsn(self, password: str = PASSWORD, user: str = USER) -> str:
        from urllib.parse import quote

        return f"mssql://{user}:{quote(password, safe='')}@127.0.0.1:{self.wire.port}/master"


@contextlib.contextmanager
def recorded(version: str = "15.0.4153.1", **facts: Any) -> Iterator[Running]:
    server = RecordedSqlServer(version, **facts)
    with TdsServer(server.log_in, server.answer) as wire:
        yield Running(server, wire)
