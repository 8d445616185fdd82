"""Facts about SQL Server's waits, settings and durability. This module needs no database driver."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from storagelab.errors import PreflightError
from storagelab.model.durability import Deciding, Durability, Loss
from storagelab.model.values import Scalar
from storagelab.model.waits import BenignList, Category
from storagelab.watching.wait_events import Event, Kind, Knowledge, WaitEvents

# --- waits -----------------------------------------------------------------------------------------------------------
#
# The meaning of each wait type of SQL Server. To add a wait type, add one line to `LISTED`.
#
# The names are from Microsoft's page about sys.dm_os_wait_stats. The groups are Microsoft's categories in the
# documentation of sys.query_store_wait_stats, but only for waits that a storage layout can change. For other servers, a
# wait has the name of a similar wait of SQL Server. Here, this is not needed.


SCHEDULER_YIELD = "SOS_SCHEDULER_YIELD"
GATE = "LCK_M_IS"
"""At the start gate, workers wait for an application lock in a mode that no insert needs. The waits of a run don't
include this wait.
"""


def _about(category: Category) -> Event:
    return Event(Kind("", category))


LISTED = {
    "WRITELOG": _about("commit"),
    "HADR_SYNC_COMMIT": _about("commit"),
    "LOGBUFFER": _about("log-buffer"),
    SCHEDULER_YIELD: _about("cpu-queue"),
    "THREADPOOL": _about("cpu-queue"),
    "ASYNC_NETWORK_IO": _about("network"),
    # Sessions request update latches on pages with maps of the file (PFS, GAM, SGAM), not on pages with rows.
    "PAGELATCH_UP": _about("allocation"),
    "PREEMPTIVE_OS_WRITEFILEGATHER": _about("file-growth"),
    "PREEMPTIVE_OS_SETFILEVALIDDATA": _about("file-growth"),
    "PREEMPTIVE_OS_SETENDOFFILE": _about("file-growth"),
    "CHKPT": _about("data-write"),
    "SLEEP_BPOOL_FLUSH": _about("data-write"),
    "WRITE_COMPLETION": _about("data-write"),
    "PREEMPTIVE_OS_FLUSHFILEBUFFERS": _about("data-write"),
    "SLEEP_BPOOL_STEAL": _about("data-write"),
}
RULES = {
    "^PAGEIOLATCH_": _about("data-read"), "^PAGELATCH_": _about("page-latch"), "^LATCH_": _about("latch"),
    "^LCK_": _about("lock"), "^LOGMGR": _about("log-buffer"),
}  # fmt: skip
event_of = WaitEvents(LISTED, RULES)


# --- facts -----------------------------------------------------------------------------------------------------------
#
# Documented facts about SQL Server for the report and the target: versions, allocation latches and benign waits. Pure.


NAMES = {13: "2016", 14: "2017", 15: "2019", 16: "2022", 17: "2025"}
"""By major version: the usual name of the version."""
MAJOR_2017, MAJOR_2019, MAJOR_2022 = 14, 15, 16

PFS_SOURCE = "Microsoft, What's new in SQL Server 2019"
GAM_SOURCE = "Microsoft's SQL Server blog of 2022-07-21, on system page latch concurrency"


def latch_note(major: int) -> str:
    """The text of a caution for comparisons of numbers of data files: the version decides how much more files gain."""
    year = NAMES.get(major, f"of version {major}" if major else "of an unknown version")
    if major < MAJOR_2019:
        effect = "this server does neither, so waits for PFS, GAM and SGAM pages may well fall with more files"
    elif major < MAJOR_2022:
        effect = "so more files may gain less here than on older servers, and only on GAM and SGAM pages"
    else:
        effect = "so more files may gain little here compared with older servers"
    return (
        f"This is SQL Server {year}. From 2019 on PFS pages are updated under a shared latch ({PFS_SOURCE}), from 2022 "
        f"on GAM and SGAM pages, too ({GAM_SOURCE}): {effect}."
    )


_IDLE = """
BROKER_EVENTHANDLER BROKER_RECEIVE_WAITFOR BROKER_TASK_STOP BROKER_TO_FLUSH BROKER_TRANSMITTER CHECKPOINT_QUEUE
CLR_AUTO_EVENT CLR_MANUAL_EVENT CLR_SEMAPHORE CXCONSUMER DBMIRROR_DBM_EVENT DBMIRROR_EVENTS_QUEUE
DBMIRROR_WORKER_QUEUE DBMIRRORING_CMD DIRTY_PAGE_POLL DISPATCHER_QUEUE_SEMAPHORE EXECSYNC FSAGENT
FT_IFTS_SCHEDULER_IDLE_WAIT FT_IFTSHC_MUTEX HADR_CLUSAPI_CALL HADR_FILESTREAM_IOMGR_IOCOMPLETION
HADR_LOGCAPTURE_WAIT HADR_NOTIFICATION_DEQUEUE HADR_TIMER_TASK HADR_WORK_QUEUE KSOURCE_WAKEUP LAZYWRITER_SLEEP
LOGMGR_QUEUE ONDEMAND_TASK_QUEUE PARALLEL_REDO_DRAIN_WORKER PARALLEL_REDO_LOG_CACHE PARALLEL_REDO_TRAN_LIST
PARALLEL_REDO_WORKER_SYNC PARALLEL_REDO_WORKER_WAIT_WORK PREEMPTIVE_XE_GETTARGETSTATE PVS_PREALLOCATE
PWAIT_ALL_COMPONENTS_INITIALIZED PWAIT_DIRECTLOGCONSUMER_GETNEXT PWAIT_EXTENSIBILITY_CLEANUP_TASK QDS_ASYNC_QUEUE
QDS_CLEANUP_STALE_QUERIES_TASK_MAIN_LOOP_SLEEP QDS_PERSIST_TASK_MAIN_LOOP_SLEEP QDS_SHUTDOWN_QUEUE
REDO_THREAD_PENDING_WORK REQUEST_FOR_DEADLOCK_SEARCH RESOURCE_QUEUE SERVER_IDLE_CHECK SLEEP_DBSTARTUP
SLEEP_DCOMSTARTUP SLEEP_MASTERDBREADY SLEEP_MASTERMDREADY SLEEP_MASTERUPGRADED SLEEP_MSDBSTARTUP SLEEP_SYSTEMTASK
SLEEP_TASK SLEEP_TEMPDBSTARTUP SNI_HTTP_ACCEPT SOS_WORK_DISPATCHER SP_SERVER_DIAGNOSTICS_SLEEP
SQLTRACE_BUFFER_FLUSH SQLTRACE_INCREMENTAL_FLUSH_SLEEP SQLTRACE_WAIT_ENTRIES VDI_CLIENT_OTHER WAITFOR
WAITFOR_TASKSHUTDOWN WAIT_FOR_RESULTS WAIT_XTP_CKPT_CLOSE WAIT_XTP_HOST_WAIT WAIT_XTP_OFFLINE_CKPT_NEW_LOG
WAIT_XTP_RECOVERY XE_DISPATCHER_JOIN XE_DISPATCHER_WAIT XE_TIMER_EVENT
"""
SHOWN_ALL_THE_SAME = (
    "CHKPT", "SLEEP_BPOOL_FLUSH", "PREEMPTIVE_OS_FLUSHFILEBUFFERS", "MEMORY_ALLOCATION_EXT",
)  # fmt: skip
"""Waits that concern storage although they are in the well-known list of benign waits. They are waits for checkpoints,
for the throttling of checkpoints, for flushes of files, and for memory for these.
"""
BENIGN = BenignList(
    name="sqlskills.com's list as in public copies of 2021, without " + ", ".join(SHOWN_ALL_THE_SAME),
    date="2026-11-21",
    wait_types=frozenset(_IDLE.split()),
)
"""Waits in this list are not shown, but they are stored. The list does not change the waits of other engines, because
their waits have other names.
"""


def judge(settings: Mapping[str, str], _version: str = "") -> Durability:
    """The durability under these settings. Their names are the names of columns of sys.databases.

    If delayed durability is only allowed, it is not counted, because loads don't use it. A page is whole after a crash
    only if the medium writes whole pages: checksums and torn-page bits detect a half-written page but can't repair it.
    """
    delayed = settings.get("delayed_durability_desc", "DISABLED")
    lost: Loss | None = "commits not in the log" if delayed.upper() == "FORCED" else None
    return Durability(
        engine="SQL Server",
        settings=(
            Deciding(name="delayed_durability", value=delayed, loses=lost),
            Deciding(name="page_verify", value=settings.get("page_verify_option_desc", "CHECKSUM")),
        ),
        whole_pages=False,
    )


KNOWN = Knowledge(judge, BENIGN, latch_note)


# --- settings --------------------------------------------------------------------------------------------------------
# The settings that a spec may have in [target.settings], and how storagelab sets each of them.
#
# storagelab sets options of the database that it makes. Options of the server affect all its users, so storagelab only
# compares them. If one differs, storagelab refuses the spec and shows the statement that the server's operator can run.


ON_OFF = ("ON", "OFF")


class Option(NamedTuple):
    """An option of a database. `statement` is its text after ALTER DATABASE, `column` its column of sys.databases."""

    statement: str
    column: str
    allowed: tuple[str, ...] = ()
    """The allowed values. If this is empty, the value must be a whole number."""
    since: int = 13


DATABASE_OPTIONS: dict[str, Option] = {
    "recovery": Option("SET RECOVERY {}", "recovery_model_desc", ("SIMPLE", "FULL", "BULK_LOGGED")),
    "delayed_durability": Option(
        "SET DELAYED_DURABILITY = {}", "delayed_durability_desc", ("DISABLED", "ALLOWED", "FORCED")
    ),
    "page_verify": Option("SET PAGE_VERIFY {}", "page_verify_option_desc", ("CHECKSUM", "TORN_PAGE_DETECTION", "NONE")),
    "target_recovery_time_s": Option("SET TARGET_RECOVERY_TIME = {} SECONDS", "target_recovery_time_in_seconds"),
    "compatibility_level": Option("SET COMPATIBILITY_LEVEL = {}", "compatibility_level"),
    "read_committed_snapshot": Option("SET READ_COMMITTED_SNAPSHOT {}", "is_read_committed_snapshot_on", ON_OFF),
    "allow_snapshot_isolation": Option("SET ALLOW_SNAPSHOT_ISOLATION {}", "snapshot_isolation_state_desc", ON_OFF),
    "auto_update_statistics": Option("SET AUTO_UPDATE_STATISTICS {}", "is_auto_update_stats_on", ON_OFF),
    "query_store": Option("SET QUERY_STORE = {}", "is_query_store_on", ON_OFF),
    "accelerated_database_recovery": Option(
        "SET ACCELERATED_DATABASE_RECOVERY = {}", "is_accelerated_database_recovery_on", ON_OFF, MAJOR_2019
    ),
}
TABLE_OPTIONS: dict[str, tuple[str, ...]] = {
    "data_compression": ("NONE", "ROW", "PAGE"),
    "optimize_for_sequential_key": ON_OFF,
}
FILE_SIZES = ("data_file_mb", "log_file_mb")
TRACE_FLAGS = "trace_flags"
FILE_INITIALISATION = "instant_file_initialization"

ALWAYS = {"recovery": "SIMPLE", "page_verify": "CHECKSUM", "delayed_durability": "DISABLED"}
"""The options of storagelab's database that the spec does not set. Without these, the server would use the options of
its database `model`.
"""


def text_of(value: Scalar) -> str:
    """A value in the server's format: true becomes ON, and names are in capital letters."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value).strip().upper()


class ServerState(NamedTuple):
    """The settings of the whole server. `file_initialisation` is None if the server does not report it."""

    configurations: dict[str, int]
    trace_flags: tuple[int, ...]
    file_initialisation: bool | None


def database_options(settings: Mapping[str, Scalar]) -> dict[str, str]:
    """Every option of storagelab's database, in the order in which the options are set.

    Raises PreflightError if a value is not valid. This is checked here because the value becomes part of a statement.
    """
    allowed = {name: option.allowed for name, option in DATABASE_OPTIONS.items()}
    return {**ALWAYS, **_values(settings, allowed)}


def table_options(settings: Mapping[str, Scalar]) -> dict[str, str]:
    """The options of the table's index that the spec sets. Raises PreflightError if a value is not valid."""
    return _values(settings, TABLE_OPTIONS)


def file_mb(settings: Mapping[str, Scalar], name: str) -> int | None:
    """A length in MiB that the spec sets, or None. Raises PreflightError if the value is not valid."""
    if name not in settings:
        return None
    _check_value(name, settings[name], ())
    return int(settings[name])


def _values(settings: Mapping[str, Scalar], allowed: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    asked = {name: value for name, value in settings.items() if name in allowed}
    for name, value in asked.items():
        _check_value(name, value, allowed[name])
    return {name: text_of(value) for name, value in asked.items()}


def check_settings(settings: Mapping[str, Scalar], major: int, state: ServerState) -> None:
    """Raises PreflightError if the server lacks a setting, does not accept its value, or has another value that
    storagelab must not change.
    """
    for name, value in settings.items():
        _check_one(name, value, major, state)


def _check_one(name: str, value: Scalar, major: int, state: ServerState) -> None:
    if name in DATABASE_OPTIONS:
        option = DATABASE_OPTIONS[name]
        _check_version(name, option.since, major)
        _check_value(name, value, option.allowed)
    elif name in TABLE_OPTIONS:
        _check_version(name, MAJOR_2019 if name == "optimize_for_sequential_key" else 13, major)
        _check_value(name, value, TABLE_OPTIONS[name])
    elif name in FILE_SIZES:
        _check_value(name, value, ())
    elif name == TRACE_FLAGS:
        try:
            wanted = trace_flags_of(value)
        except ValueError:
            hint = 'write their numbers: trace_flags = "1117, 1118"'
            raise PreflightError("is not a list of trace flags", key=_key(TRACE_FLAGS), hint=hint) from None
        _refuse_difference(
            TRACE_FLAGS, [f"trace flag {flag} is off" for flag in wanted if flag not in state.trace_flags],
            lambda: f"DBCC TRACEON ({', '.join(str(flag) for flag in wanted)}, -1)",
        )  # fmt: skip
    elif name == FILE_INITIALISATION:
        _check_value(name, value, ON_OFF)
        wants_on, is_on = text_of(value) == "ON", state.file_initialisation
        shown = {True: "on", False: "off", None: "not reported by this server"}[is_on]
        _refuse_difference(
            name, [] if is_on is wants_on else [f"instant file initialisation is {shown}"],
            lambda: "(as administrator of its machine: the right SE_MANAGE_VOLUME_NAME for the server's account)",
        )  # fmt: skip
    elif name in state.configurations:
        found = state.configurations[name]
        _refuse_difference(
            name, [] if str(int(value) if isinstance(value, bool) else value) == str(found) else [f"it is {found}"],
            lambda: f"EXEC sp_configure N'{name}', {value}; RECONFIGURE; (set the old value {found} again afterwards)",
        )  # fmt: skip
    else:
        raise PreflightError("the server has no such setting", key=_key(name), hint=_nearest(name, state))


def _check_version(name: str, since: int, major: int) -> None:
    if major < since:
        raise PreflightError("this version has no such option", key=_key(name), hint="SQL Server 2019 introduced it")


def _check_value(name: str, value: Scalar, allowed: tuple[str, ...]) -> None:
    if allowed and text_of(value) not in allowed:
        raise PreflightError(f"must be one of {', '.join(allowed)}", key=_key(name))
    if not allowed and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31):
        raise PreflightError("must be a whole number", key=_key(name))


def trace_flags_of(value: Scalar) -> tuple[int, ...]:
    """The numbers of the trace flags in a setting. Raises ValueError if a part is not a number."""
    return tuple(sorted({int(part) for part in str(value).replace(",", " ").split()}))


def _refuse_difference(name: str, differences: Iterable[str], way: Callable[[], str]) -> None:
    found = "; ".join(differences)
    if found:
        raise PreflightError(
            f"on the server {found}, and storagelab does not change settings that affect other users",
            key=_key(name),
            hint=f"its operator may run: {way()} - or leave this setting out",
        )


def _nearest(name: str, state: ServerState) -> str:
    known = [*DATABASE_OPTIONS, *TABLE_OPTIONS, *FILE_SIZES, TRACE_FLAGS, FILE_INITIALISATION]
    near = difflib.get_close_matches(name, [*known, *state.configurations], 1)
    return (
        f"did you mean {near[0]}? " if near else ""
    ) + f"known settings are {', '.join(known)}, and those of sys.configurations"


def _key(name: str) -> str:
    return f"target.settings.{name}"
