"""What is known of SQL Server without its driver, above all what survives a crash under its settings."""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.model.durability import Deciding, Durability, Loss
from storagelab.model.waits import BenignList
from storagelab.watching.wait_events import Known

# --- facts -----------------------------------------------------------------------------------------------------------
#
# Documented facts about SQL Server for the report and the target: versions, allocation latches, benign waits. Pure;
# does not need the driver.


NAMES = {13: "2016", 14: "2017", 15: "2019", 16: "2022", 17: "2025"}
"""Major version -> its common name."""
MAJOR_2017, MAJOR_2019, MAJOR_2022 = 14, 15, 16

PFS_SOURCE = "Microsoft, What's new in SQL Server 2019"
GAM_SOURCE = "Microsoft's SQL Server blog of 2022-07-21, on system page latch concurrency"


def latch_note(major: int) -> str:
    """A caution for comparisons of numbers of data files: how much more files gain depends on the version."""
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
"""In the well-known list of benign waits, yet about storage: checkpoints, their throttling, flushes of files, and
memory for them.
"""
BENIGN = BenignList(
    name="sqlskills.com's list as in public copies of 2021, without " + ", ".join(SHOWN_ALL_THE_SAME),
    date="2026-11-21",
    wait_types=frozenset(_IDLE.split()),
)
"""Applied when waits are shown, never to stored waits. Other engines' waits have other names, so it does not affect
them.
"""


def judge(settings: Mapping[str, str], _version: str = "") -> Durability:
    """Judges `settings`, named like the columns of sys.databases. Loads don't use delayed durability if it is only
    allowed.

    A log record holds enough to redo a page. Checksums and torn-page bits detect a half-written page but don't repair
    it, so pages count as whole only if the medium writes them whole.
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


KNOWN = Known(judge, BENIGN, latch_note)
