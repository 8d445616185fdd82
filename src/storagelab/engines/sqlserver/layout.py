r"""The table of the articles on N data files of SQL Server, in its own database. This module makes and checks them.

All data files are in one filegroup. The server fills the files of a filegroup in proportion to their free space. So all
files have the same length, are made before a run begins, and grow together if necessary. They are placed on the volumes
in turn (FILENAME). The log has its own file. The server itself makes and removes the files, so storagelab makes no
folders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from storagelab.engines.sqlserver import connect as db
from storagelab.engines.sqlserver.meanings import DATABASE_OPTIONS, database_options, file_mb, table_options
from storagelab.errors import RunFailed
from storagelab.loads.inserting import InsertingSessions
from storagelab.model.config import Config
from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.measurement import Check
from storagelab.model.objects import TABLES, Object
from storagelab.predicting.recommending import Move
from storagelab.servers.attached import OWNERSHIP
from storagelab.servers.interfaces import GATE_TIMEOUT_S, Reach, rows_per_report
from storagelab.servers.places import check_same
from storagelab.watching.counters import Loop

# --- inserts ---------------------------------------------------------------------------------------------------------
#
# The loop of inserts is a stored procedure. All connections that run it are opened first. Then they start together.


TABLE = "MyBigTable"

# The key number n of a worker is a digest of the worker's number and n. For the server, it is as good as a random key.
# For a point read, storagelab can compute an existing key again.
_DIGEST = "HASHBYTES('SHA2_256', CONCAT(@seed, N'/', @worker, N'/', {number}))"
_KEY = f"CAST(CAST({_DIGEST} AS binary(16)) AS uniqueidentifier)"
_ANY_OF_THOSE = "CAST(FLOOR(RAND() * (@done + 1)) AS bigint)"
_INSERT = f"INSERT INTO dbo.{TABLE} DEFAULT VALUES;"
_INSERT_KNOWN_KEY = f"INSERT INTO dbo.{TABLE} (c1) VALUES ({_KEY.format(number='@done')});"
_READS = f"""
        SET @reads_due += @reads_per_row;
        WHILE @reads_due >= 1
        BEGIN
            SET @found = NULL;
            SET @wanted = {_KEY.format(number=_ANY_OF_THOSE)};
            SELECT @found = c6 FROM dbo.{TABLE} WHERE c1 = @wanted;
            SET @reads_due -= 1;
            SET @reads_done += 1;
            SET @reads_found += CASE WHEN @found = 42 THEN 1 ELSE 0 END;
        END;"""

# The gate is a lock in a mode for which no insert ever waits. So waits at the gate can be told from waits of the run. A
# session writes its progress into its context, which other sessions can read meanwhile.
_PROCEDURE = Path(__file__).with_name("insert_rows.sql").read_text("utf-8")


def procedure(workload: InsertLoad) -> str:
    """The statement that creates the procedure."""
    insert, reads = (_INSERT_KNOWN_KEY, _READS) if workload.with_reads else (_INSERT, "")
    timeout_ms = f"{GATE_TIMEOUT_S * 2000:.0f}"
    return _PROCEDURE.replace("<gate_timeout_ms>", timeout_ms).replace("<insert>", insert).replace("<reads>", reads)


NOW_US = "SELECT DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())"
"""Reads the clock that the loops also use, in microseconds."""

_CLOSE_GATE = """
DECLARE @answer int;
EXEC @answer = sys.sp_getapplock @Resource = {gate}, @LockMode = N'Exclusive', @LockOwner = N'Session',
    @LockTimeout = 0;
SELECT @answer"""
_OPEN_GATE = "EXEC sys.sp_releaseapplock @Resource = {gate}, @LockOwner = N'Session'"
_AT_GATE = """
SELECT COUNT(DISTINCT session_id) FROM sys.dm_os_waiting_tasks
WHERE resource_description LIKE N'applicationlock%' AND session_id IN ({sessions})"""
_CALL = """
EXEC dbo.insert_rows @row_count = {rows}, @rows_per_transaction = {per_transaction}, @rows_per_report = {per_report},
    @gate = {gate}, @seed = {seed}, @worker = {worker}, @reads_per_row = {reads_per_row!r}"""


def call(workload: InsertLoad, gate: str, seed: int, worker: int) -> str:
    """The statement that calls the procedure on a connection. `worker` is the number of the connection."""
    return _CALL.format(
        rows=workload.rows_per_connection, per_transaction=workload.rows_per_transaction,
        per_report=rows_per_report(workload), gate=db.text(gate), seed=int(seed), worker=worker,
        reads_per_row=workload.reads_per_row,
    )  # fmt: skip


class Workers(InsertingSessions[db.Session]):
    """The connections of one run.

    `gate` is the name of an application lock in storagelab's own database. The session `gatekeeper` holds it. `stop`
    ends the statements that still run on the server.
    """

    driver_error = db.DriverError
    close_timeout_s = 30.0

    def __init__(
        self, connect: Callable[[], db.Session], workload: InsertLoad, gate: str, gatekeeper: db.Session,
        stop: Callable[[], None], count_rows: Callable[[], int], seed: int,
    ) -> None:  # fmt: skip
        super().__init__(connect, workload, count_rows, seed)
        self.gate, self._gatekeeper, self._stop_all = gate, gatekeeper, stop

    @property
    def ids(self) -> list[int]:
        """The ids of the sessions on the server, one for each connection."""
        return [worker.connection.spid for worker in self._workers]

    def _words(self, error: BaseException) -> str:
        return db.words_of(error)

    def _close_gate(self) -> None:
        answer = self._gatekeeper.value(_CLOSE_GATE.format(gate=db.text(self.gate)))
        if answer is None or answer < 0:
            raise RunFailed(f"can't close the start gate: sp_getapplock answers {answer}")

    def _all_at_gate(self) -> bool:
        question = _AT_GATE.format(sessions=db.integers(self.ids))
        return bool(self._gatekeeper.value(question) == len(self._workers))

    def release(self) -> None:
        """Releases the lock for which the workers wait. Then the server wakes all connections together."""
        self._gatekeeper.execute(_OPEN_GATE.format(gate=db.text(self.gate)))

    def _loop(self, connection: db.Session, number: int) -> Loop:
        started_us, finished_us, done, found = connection.rows(call(self.workload, self.gate, self.seed, number))[0]
        return Loop(
            started_s=started_us / 1e6, finished_s=finished_us / 1e6, reads_done=int(done), reads_found=int(found)
        )

    def _failed(self, error: Exception) -> str:
        reason = db.words_of(error) if isinstance(error, db.DriverError) else f"{type(error).__name__}: {error}"
        return f"a connection failed: {reason}"

    def _stop(self, working: Sequence[db.Session]) -> None:
        self._stop_all()


# --- layout ----------------------------------------------------------------------------------------------------------


FILEGROUP = "storagelab_data"
TABLE_OBJECT = Object((TABLE,), "table", "dbo")
"""The load's table, with the name for layouts."""
_CATALOGUE = "sys.database_files"
GROWTH_MB = 64
LOG_GROWTH_MB = 256
_MIB = 2**20
_LEAST_DATA_MB, _LEAST_LOG_MB, _MOST_LOG_MB = 8, 64, 16_384

# The bytes of a page per row. Random keys split pages, so that a page is about 69 % full. A page has room for 50 rows
# of 160 bytes, but holds only 34 on average.
_RANDOM_ROW_BYTES, _SEQUENTIAL_ROW_BYTES = 8192 / 34, 8192.0
_RANDOM_LOG_BYTES, _SEQUENTIAL_LOG_BYTES = 700, 9000
_HEADROOM = 1.25

_END_ALL = "ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE"
_TABLE = """
CREATE TABLE dbo.{table} (
    c1 {key},
    c2 datetime NOT NULL DEFAULT GETDATE(),
    c3 char({filler}) NOT NULL DEFAULT 'a',
    c4 int NOT NULL DEFAULT 1,
    c5 int NOT NULL DEFAULT 2,
    c6 bigint NOT NULL DEFAULT 42,
    CONSTRAINT PK_{table} PRIMARY KEY CLUSTERED (c1){options}
) ON {filegroup}"""
_RANDOM_KEY = "uniqueidentifier ROWGUIDCOL NOT NULL DEFAULT NEWID()"
_SEQUENTIAL_KEY = "bigint IDENTITY (1, 1) NOT NULL"
FILES = """
SELECT f.name, f.type_desc, f.physical_name, CAST(f.size AS bigint) * 8192 AS size_bytes, g.name AS filegroup_name
FROM sys.database_files AS f LEFT JOIN sys.filegroups AS g ON g.data_space_id = f.data_space_id
ORDER BY f.file_id"""
TABLE_FACTS = f"""
SELECT p.data_compression_desc, i.type_desc, d.name AS filegroup_name
FROM sys.partitions AS p
JOIN sys.indexes AS i ON i.object_id = p.object_id AND i.index_id = p.index_id
JOIN sys.data_spaces AS d ON d.data_space_id = i.data_space_id
WHERE p.object_id = OBJECT_ID(N'dbo.{TABLE}')"""
PAGES = f"SELECT SUM(used_page_count) FROM sys.dm_db_partition_stats WHERE object_id = OBJECT_ID(N'dbo.{TABLE}')"
COUNT = f"SELECT COUNT_BIG(*) FROM dbo.{TABLE}"
_MARK = "EXEC sys.sp_addextendedproperty @name = N'storagelab', @value = {ownership}"


Records = Sequence[Mapping[str, Any]]


class DataFile(NamedTuple):
    """A file of the database.

    The `number` of data files begins with 1. It is 0 for the log, and for the primary file with the catalogue. `volume`
    is None if the file is in the server's default folder.
    """

    number: int
    name: str
    path: str
    volume: str | None


class Layout:
    """The layout of one cell. `prefix` is the name of the database. The names of the database's files also begin with
    this name.
    """

    def __init__(self, config: Config, prefix: str, facts: db.ServerFacts) -> None:
        self.config, self.prefix, self.facts = config, prefix, facts
        self.name = db.identifier(prefix)

    # --- files -------------------------------------------------------------------------------------------------------

    @property
    def data_files(self) -> list[DataFile]:
        # Their filegroup has the only table. If the layout places the table separately, the files are in this place.
        of_table, config = self.config.placement.volume_of(TABLE_OBJECT), self.config
        return [
            self._file(
                number, f"{self.prefix}_data_{number:04d}", "ndf", of_table or config.volume_of_data_file(number - 1)
            )
            for number in range(1, config.layout.data_files + 1)
        ]

    @property
    def primary_file(self) -> DataFile:
        return self._file(0, f"{self.prefix}_primary", "mdf", self.config.volume_of_data_file(0))

    @property
    def log_file(self) -> DataFile:
        return self._file(0, f"{self.prefix}_log", "ldf", self.config.log_volume, self.facts.log_path)

    def _file(self, number: int, name: str, extension: str, volume: str | None, otherwise: str = "") -> DataFile:
        folder = otherwise or self.facts.data_path
        if volume is not None:
            folder = self.config.volumes[volume].path or folder
        return DataFile(number, name, in_folder(folder, f"{name}.{extension}"), volume)

    @property
    def data_file_mb(self) -> int:
        """The initial length of each data file in MiB. It is long enough for all rows, so that no file must grow."""
        asked, load = file_mb(self.config.target.settings, "data_file_mb"), self.config.insert_load
        row_bytes = _SEQUENTIAL_ROW_BYTES if load.page_a_row else _RANDOM_ROW_BYTES
        needed = load.rows * row_bytes * _HEADROOM / self.config.layout.data_files
        return max(_LEAST_DATA_MB, -int(-needed // _MIB)) if asked is None else asked

    @property
    def log_file_mb(self) -> int:
        asked, load = file_mb(self.config.target.settings, "log_file_mb"), self.config.insert_load
        if asked is not None:
            return asked
        needed = load.rows * (_SEQUENTIAL_LOG_BYTES if load.page_a_row else _RANDOM_LOG_BYTES) * _HEADROOM
        wanted = max(_LEAST_LOG_MB, -int(-needed // _MIB))
        # In simple recovery, the server reuses the log without backups. Otherwise, the log must hold the whole run.
        simple = database_options(self.config.target.settings)["recovery"] == "SIMPLE"
        return min(wanted, _MOST_LOG_MB) if simple else wanted

    def bytes_on(self, volume: str) -> int:
        """The bytes that the cell's files need on a volume from the beginning of a run."""
        data = sum(file.volume == volume for file in self.data_files) * self.data_file_mb
        primary = (self.primary_file.volume == volume) * _LEAST_DATA_MB
        return (data + primary + (self.log_file.volume == volume) * self.log_file_mb) * _MIB

    def make_folders(self, owner: tuple[int, int] | None = None) -> None:
        """Does nothing, because the folders already exist on the server's machine."""

    def make(self, own: db.Session, reach: Reach[db.Session]) -> None:
        """Makes everything that must exist when a run begins."""
        self.create(own)
        self._at_first = own.records(FILES)

    def sessions(self, own: db.Session, reach: Reach[db.Session], seed: int) -> Workers:
        def end_all() -> None:
            """Ends all sessions in storagelab's database. They are sessions of this run that have not finished."""
            with db.connect(self.config.target, database="master") as session:
                session.execute(_END_ALL.format(name=self.name))

        load, gate = self.config.insert_load, self.prefix
        return Workers(reach.connect_worker, load, gate, own, end_all, lambda: self.count_rows(own), seed)

    # --- statements --------------------------------------------------------------------------------------------------

    def create(self, session: db.Session) -> None:
        """Makes the database with its files, options and mark. Then makes the table and the procedure in it."""
        session.execute(self.create_database())
        for statement in self.alter_database():
            session.execute(statement)
        session.execute(f"USE {self.name}")
        session.execute(_MARK.format(ownership=db.text(OWNERSHIP)))
        session.execute(self.create_table())
        session.execute(procedure(self.config.insert_load))

    def create_database(self) -> str:
        data = ",\n    ".join(_file_text(file, self.data_file_mb, GROWTH_MB) for file in self.data_files)
        return (
            f"CREATE DATABASE {self.name}\n"
            f"ON PRIMARY\n    {_file_text(self.primary_file, None, GROWTH_MB)},\n"
            f"FILEGROUP {db.identifier(FILEGROUP)}\n    {data}\n"
            f"LOG ON\n    {_file_text(self.log_file, self.log_file_mb, LOG_GROWTH_MB)}"
        )

    def alter_database(self) -> list[str]:
        options = database_options(self.config.target.settings)
        set_texts = [DATABASE_OPTIONS[name].statement.format(value) for name, value in options.items()]
        changes = [
            "SET AUTO_CLOSE OFF", "SET AUTO_SHRINK OFF", *set_texts,
            f"MODIFY FILEGROUP {db.identifier(FILEGROUP)} AUTOGROW_ALL_FILES",
        ]  # fmt: skip
        statements = [f"ALTER DATABASE {self.name} {change}" for change in changes]
        if options["recovery"] != "SIMPLE":
            # Before the first backup of a database, the server truncates its log as in simple recovery.
            statements.append(f"BACKUP DATABASE {self.name} TO DISK = N'NUL'")
        return statements

    def create_table(self) -> str:
        sequential, options = self.config.insert_load.page_a_row, table_options(self.config.target.settings)
        asked = ", ".join(f"{name.upper()} = {value}" for name, value in options.items())
        return _TABLE.format(
            table=TABLE, key=_SEQUENTIAL_KEY if sequential else _RANDOM_KEY, filler=8000 if sequential else 111,
            options=f" WITH ({asked})" if asked else "", filegroup=db.identifier(FILEGROUP),
        )  # fmt: skip

    # --- read back ---------------------------------------------------------------------------------------------------

    def check_after(self, session: db.Session) -> list[Check]:
        """Checks that no file grew, because growth takes time and makes the lengths of files unequal.

        If the load needs one page per row, also checks the number of pages.
        """
        sizes = {str(file["name"]): int(file["size_bytes"]) for file in self._at_first}
        files = {str(file["name"]): int(file["size_bytes"]) for file in session.records(FILES)}
        grown = [name for name, size in files.items() if size != sizes.get(name)]
        got = f"{len(grown)} grew: {', '.join(grown[:3])}; set target.settings.data_file_mb or log_file_mb"
        checks = [check_same("files that grew", "none", got if grown else "none", _CATALOGUE)]
        if self.config.insert_load.page_a_row:
            rows, pages = self.config.insert_load.rows, int(session.value(PAGES) or 0)
            ok = rows <= pages <= rows * 1.1 + 64  # the upper levels of the B-tree have few pages
            of_rows, read_from = f"{rows} rows", "sys.dm_db_partition_stats"
            checks.insert(
                0, Check(name="one row a page", asked=of_rows, got=f"{pages} pages", ok=ok, read_from=read_from)
            )
        return checks

    def count_rows(self, session: db.Session) -> int:
        return int(session.value(COUNT))

    def read_back(self, session: db.Session) -> list[Check]:
        """In the catalogue, checks the number, the places and the lengths of the data files, the place and the length
        of the log, and the place of the table.
        """
        files = session.records(FILES)
        found = {str(file["name"]): file for file in files}
        asked, log = self.data_files, self.log_file
        data, facts = (
            [file for file in files if file["filegroup_name"] == FILEGROUP],
            record_of(session.records(TABLE_FACTS)),
        )
        table = f"{facts.get('type_desc', 'absent')} in {facts.get('filegroup_name', 'no filegroup')}"
        return [
            check_same("data files", str(len(asked)), str(len(data)), _CATALOGUE),
            _check_place("place of the data files", [self.primary_file, *asked], found),
            _check_place("place of the log", [log], found),
            _check_lengths("length of the data files", asked, found, self.data_file_mb),
            _check_lengths("length of the log", [log], found, self.log_file_mb),
            # The table is clustered by its key, and is in the filegroup of the data files.
            check_same("table", f"CLUSTERED in {FILEGROUP}", table, "sys.indexes"),
        ]


def _file_text(file: DataFile, size_mb: int | None, growth_mb: int) -> str:
    """The T-SQL for a file. If `size_mb` is None, the server uses the size of its database `model`.

    A primary file can't be smaller than this.
    """
    size = "" if size_mb is None else f"SIZE = {size_mb}MB, "
    return f"(NAME = {db.text(file.name)}, FILENAME = {db.text(file.path)}, {size}FILEGROWTH = {growth_mb}MB)"


def in_folder(folder: str, name: str) -> str:
    r"""The path of a file in a folder on the server's machine.

    If the folder looks like `D:\data`, the server runs on Windows. Otherwise, the server runs on Linux.
    """
    separator = "\\" if is_windows_path(folder) else "/"
    return folder + name if folder.endswith(("\\", "/")) else folder + separator + name


def is_windows_path(path: str) -> bool:
    return not path.startswith("/") and ("\\" in path or re.match(r"[A-Za-z]:", path) is not None)


# --- read back -------------------------------------------------------------------------------------------------------


def _check_place(name: str, asked: Sequence[DataFile], found: Mapping[str, Mapping[str, Any]]) -> Check:
    """Checks the places of all files. The check's result has their folders, or the first file that is in another
    folder.
    """
    there = {file.name: str(found.get(file.name, {}).get("physical_name", "absent")) for file in asked}
    wrong = [f"{file.name}: {there[file.name]}" for file in asked if not _same_path(file.path, there[file.name])]
    folders = ", ".join(dict.fromkeys(re.sub(r"[\\/][^\\/]*$", "", file.path) for file in asked))
    return Check(name=name, asked=folders, got=wrong[0] if wrong else folders, ok=not wrong, read_from=_CATALOGUE)


def _same_path(asked: str, got: str) -> bool:
    """Whether two paths on the server's machine are equal. Two separators count as one. On Windows, case is ignored."""
    if is_windows_path(asked):
        return plain(asked).casefold() == plain(got).casefold()
    return re.sub("/+", "/", asked) == re.sub("/+", "/", got)


def plain(path: str) -> str:
    return re.sub(r"(?<!^)[\\/]+", r"\\", path)


def _check_lengths(
    name: str, asked: Sequence[DataFile], found: Mapping[str, Mapping[str, Any]], wanted_mb: int
) -> Check:
    sizes = sorted({int(found.get(file.name, {}).get("size_bytes", 0)) for file in asked})
    got = " and ".join(f"{size / 2**20:g} MB" for size in sizes) + " each"
    return check_same(name, f"{wanted_mb} MB each", got, _CATALOGUE)


def record_of(records: Records) -> Mapping[str, Any]:
    return records[0] if records else {}


# --- moves an administrator's objects ---------------------------------------------------------------------------------


def moving(moves: Sequence[Move], folders: Mapping[str, str]) -> Iterator[str]:
    """The lines of a script that moves tables, the log or tempdb. Comments say what to do before each step."""
    yield "-- Before you begin: make a backup. Let the server write to the folder. Replace DB by your database's name."
    for to in dict.fromkeys(one.to for one in moves if one.names or one.what == TABLES):
        group, file = f"[{to}]", f"{folders[to]}/{to}.ndf".replace("'", "''")
        yield f"ALTER DATABASE DB ADD FILEGROUP {group};"
        yield f"ALTER DATABASE DB ADD FILE (NAME = N'{to}', FILENAME = N'{file}') TO FILEGROUP {group};"
    for one in moves:
        name = ".".join(f"[{part.replace(']', ']]')}]" for part in one.names) or "each table"
        if one.names or one.what == TABLES:
            yield f"-- {name}: make its clustered index again WITH (DROP_EXISTING = ON) ON [{one.to}]. This locks it."
        elif one.kind == "log":
            yield f"ALTER DATABASE DB MODIFY FILE (NAME = DB_log, FILENAME = N'{folders[one.to]}/DB_log.ldf');"
            yield "ALTER DATABASE DB SET OFFLINE;  -- move the file, then SET ONLINE; until then, the database is down"
        else:
            yield f"ALTER DATABASE tempdb MODIFY FILE (NAME = tempdev, FILENAME = N'{folders[one.to]}/tempdb.mdf');"
            yield "-- The server moves tempdb when it starts again."
