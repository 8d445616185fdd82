"""A SQL Server that already runs: what it is, what this login may do on it, and what its operator has set."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.model.values import Frozen
from storagelab.targets.attaching import require, room_for
from storagelab.targets.sqlserver.connecting import DriverError, Session
from storagelab.targets.sqlserver.facts import MAJOR_2022, NAMES
from storagelab.targets.sqlserver.settings import ServerState

OLDEST_MAJOR = 13
"""SQL Server 2016: older ones keep no wait statistics by session."""
_WITHOUT_FILES = {5: "Azure SQL Database", 6: "Azure Synapse", 8: "Azure SQL Managed Instance", 11: "Azure Synapse"}
"""Engine editions (SERVERPROPERTY) where users can't choose the files of a database."""

_THREADS_OF_ITS_OWN = 64
"""Worker threads that stay free for the server itself and for others."""

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
    """What a server is and what its login may do. `data_path` and `log_path` are its default folders for files."""

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
    """Assumed to be on another machine: of its volumes only the operator's description is known."""
    process_owner: ClassVar[None] = None

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    @property
    def name(self) -> str:
        """The server's common name, such as SQL Server 2022 (16.0.4085.2)."""
        year = NAMES.get(self.major)
        return f"SQL Server {year} ({self.version})" if year else f"SQL Server {self.version}"


def read_facts(session: Session) -> ServerFacts:
    (found,) = session.records(FACTS)
    major = int(str(found["version"]).partition(".")[0])
    # From 2022 on the smaller right is enough; older versions give NULL for its name.
    may_view = found["may_view_state"] or (major >= MAJOR_2022 and found["may_view_performance"])
    return ServerFacts(
        version=found["version"], version_text=_one_line(found["version_text"]), edition=found["edition"],
        engine_edition=found["engine_edition"], data_path=found["data_path"] or "", log_path=found["log_path"] or "",
        max_connections=found["max_connections"], may_create=bool(found["may_create"]), may_view_state=bool(may_view),
    )  # fmt: skip


def check_rights(target: TargetConfig, facts: ServerFacts) -> None:
    """Checks the server and the login. Raises a PreflightError that names what they lack."""
    login = "as its administrator: "
    state = "VIEW SERVER PERFORMANCE STATE" if facts.major >= MAJOR_2022 else "VIEW SERVER STATE"
    needs = [
        (
            facts.engine_edition not in _WITHOUT_FILES,
            f"the server is {_WITHOUT_FILES.get(facts.engine_edition)}, where users can't choose the place of data files",
            "use a SQL Server of your own",
        ),
        (
            facts.major >= OLDEST_MAJOR,
            f"the server is {facts.name}, which is too old",
            "storagelab measures SQL Server 2016 and later: older ones keep no wait statistics by session",
        ),
        (
            facts.may_create,
            "the login lacks the right CREATE ANY DATABASE, needed for storagelab's own database",
            f"{login}GRANT CREATE ANY DATABASE TO [the login]",
        ),
        (
            facts.may_view_state,
            f"the login lacks the right {state}, needed to read what sessions wait for",
            f"{login}GRANT {state} TO [the login]",
        ),
    ]
    require(target, needs)


def check_connections(target: TargetConfig, facts: ServerFacts, session: Session, connections: int) -> None:
    """Checks the room for that many more sessions. Raises PreflightError if there is none."""
    free = facts.max_connections - int(session.value(OPEN_CONNECTIONS))
    require(target, [room_for(connections, free, "its setting user connections")])
    threads = int(session.value(WORKER_THREADS))
    if threads < connections + _THREADS_OF_ITS_OWN:
        raise PreflightError(
            f"the server has {threads} worker threads, and {connections} connections that start together need one each",
            key="workload.connections",
            hint=f"lower it to at most {max(1, threads - _THREADS_OF_ITS_OWN)}, or raise max worker threads on the server",
        )


def read_state(session: Session) -> ServerState:
    """The operator's settings. Needs the right to view the server's state."""
    return ServerState(
        configurations={str(name): int(value) for name, value in session.rows(CONFIGURATIONS)},
        trace_flags=tuple(sorted(flag["traceflag"] for flag in session.records(TRACE_STATUS) if flag.get("global"))),
        file_initialisation=_file_initialisation(session),
    )


def _file_initialisation(session: Session) -> bool | None:
    """Whether the server makes data files without zeroing them.

    2016 before its first service pack does not show it; from 2022 on this view requires a right of its own.
    """
    services = list[dict[str, Any]]()
    with contextlib.suppress(DriverError):
        services = session.records(SERVICES)
    for service in services:
        said = service.get("instant_file_initialization_enabled")
        if str(service.get("servicename", "")).startswith("SQL Server (") and said in ("Y", "N"):
            return bool(said == "Y")
    return None


def _one_line(text: str) -> str:
    return " ".join(str(text).split())
