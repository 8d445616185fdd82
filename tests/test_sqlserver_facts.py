from fabricated_findings import make_findings

from storagelab.engines.sqlserver.meanings import BENIGN, SHOWN_ALL_THE_SAME
from storagelab.findings.model import CellSummary
from storagelab.model.waits import CountedWait, CountedWaits, normalise
from storagelab.report.text.tables import waits_of
from storagelab.report.words.waiting import audit_sentences


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


def test_nothing_is_told_of_benign_waits_where_there_are_none():
    assert not [line for line in audit_sentences(cell_waiting_for(WRITELOG=5)) if "Benign" in line]


def test_the_list_hides_nothing_of_the_storage():
    assert BENIGN.wait_types.isdisjoint(SHOWN_ALL_THE_SAME)
    shown = {
        "CHKPT", "SLEEP_BPOOL_FLUSH", "PREEMPTIVE_OS_FLUSHFILEBUFFERS", "PREEMPTIVE_OS_WRITEFILEGATHER", "WRITELOG",
    }  # fmt: skip
    assert BENIGN.wait_types.isdisjoint(shown | {"IO_COMPLETION", "LATCH_EX", "SOS_SCHEDULER_YIELD", "LOGBUFFER"})
    assert not [name for name in BENIGN.wait_types if name.startswith(("PAGE", "LCK_", "LATCH_"))]
    assert len(BENIGN.wait_types) == 74


def test_the_list_hides_no_other_engines_waits():
    assert not [name for name in BENIGN.wait_types if ":" in name or "/" in name]
