"""Reads the files of a running SQL Server's databases and their counters, for a capture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from storagelab.capture.folder import LOG, Count, Counters, CountKey, Thing, label_of
from storagelab.engines.sqlserver.connect import connect, read_facts
from storagelab.engines.sqlserver.meanings import MAJOR_2022
from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.servers.attached import key_of

_FILES = """
SELECT DB_NAME(s.database_id), f.name, f.type_desc, f.physical_name, s.num_of_reads, s.num_of_bytes_read,
       s.io_stall_read_ms, s.num_of_writes, s.num_of_bytes_written, s.io_stall_write_ms, s.size_on_disk_bytes
FROM sys.dm_io_virtual_file_stats(NULL, NULL) AS s
JOIN sys.master_files AS f ON f.database_id = s.database_id AND f.file_id = s.file_id"""
_COMMITS = """
SELECT SUM(cntr_value) FROM sys.dm_os_performance_counters
WHERE RTRIM(counter_name) = N'Transactions/sec' AND RTRIM(instance_name) = N'_Total'"""
_WORKING = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE session_id > 50 AND session_id <> @@SPID"
_MS = 1e-3


class WatchedSqlServer:
    engine: str = "sqlserver"
    local = False
    threads: tuple[str, ...] = ()
    views: tuple[str, ...] = ("sys.dm_io_virtual_file_stats", "sys.master_files", "sys.dm_exec_requests")

    def __init__(self, target: TargetConfig) -> None:
        """Raises PreflightError if the server can't be reached, or if the login may not read its counters."""
        self._session = connect(target)
        facts = read_facts(self._session)
        self.version = facts.version
        if not facts.may_view_state:
            self.close()
            right = f"VIEW SERVER {'PERFORMANCE ' if facts.major >= MAJOR_2022 else ''}STATE"
            raise PreflightError(
                f"the login lacks the right {right}, which is needed to read the server's I/O counters",
                key=key_of(target), hint=f"as an administrator: GRANT {right} TO ...",
            )  # fmt: skip
        self.notes = ["SQL Server counts by file, not by table: an object of this capture is a file of a database."]
        self._things: dict[str, Thing] = {}
        self.things()

    def things(self) -> dict[str, Thing]:
        found = {}
        for row in self._session.rows(_FILES):
            database, name, kind, path = map(str, row[:4])
            what = "temporary" if database == "tempdb" else LOG if kind == "LOG" else "other"
            folder = Path(path.replace("\\", "/")).parent
            thing = Thing(label_of(database, name), database, name, what, folder, int(row[-1]))
            found[thing.id] = thing
        self._things = found
        return found

    def thing_of(self, _path: str) -> Thing | None:
        return None

    def place_in(self, _path: str) -> tuple[str, int]:
        return "", 0

    def folders(self) -> Mapping[str, Path]:
        return {"data": next((thing.folder for thing in self._things.values()), Path("/"))}

    def has(self, _thread: int) -> bool:
        return False

    def by(self, _thread: int) -> str:
        return "session"

    def counters(self, *, objects: bool) -> Counters:
        counts: dict[CountKey, Count] = {}
        for database, name, _, _, reads, read_bytes, read_ms, writes, write_bytes, write_ms, _ in self._session.rows(
            _FILES
        ):
            one = label_of(database, name)
            counts[one, "read", "session"] = Count(int(reads), int(read_bytes), int(read_ms) * _MS)
            counts[one, "write", "session"] = Count(int(writes), int(write_bytes), int(write_ms) * _MS)
        commits = self._session.value(_COMMITS)
        return Counters(counts, None if commits is None else int(commits), int(self._session.value(_WORKING)))

    def processes(self) -> list[int]:
        return []

    def close(self) -> None:
        self._session.close()


watched = WatchedSqlServer
