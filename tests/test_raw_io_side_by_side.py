"""One spec of raw I/O on simulated drives and on a real volume: one report, and no verdict between the two."""

import pytest
from raw_io_specs import needs_fio, parsed, runs_of

from storagelab.findings.analysis import analyse
from storagelab.report.words.answer import answer_lines
from storagelab.report.writing import render
from storagelab.spec.matrix import expand

SPEC = """
name = "raw"
repetitions = 2
target = { engine = "raw-io", scale = 8 }
drives.disk = { profile = "scsi-15k-300" }
drives.other = { profile = "scsi-15k-300", count = 2 }
volumes.disk = { drives = ["disk"] }
volumes.pair = { drives = ["other"], raid = "0" }
volumes.mine = { path = "." }
layout = { data_size = "16MiB" }
workload = { operation = "read", pattern = "random", block = "8KiB", outstanding = 2, duration = "1s" }
[factors]
"layout.data" = [["disk"], ["pair"], ["mine"]]
"workload.operation" = ["read", "write"]
"""


@needs_fio
@pytest.mark.slow
def test_simulated_and_measured_cells_stand_in_one_report_and_are_never_compared(scratch):
    experiment = parsed(scratch, SPEC)
    plan, runs = expand(experiment), runs_of(scratch, SPEC)
    assert [run.status for run in runs] == ["ok"] * 12, [run.reason for run in runs]
    for block in plan.blocks.values():
        assert len({cell.config.simulated for cell in block.cells.values()}) == 1, "no block is of both kinds"
    findings = analyse(experiment, plan, runs)
    kind_of = {cell.cell_id: cell.provenance for cell in findings.cells}
    assert sorted(kind_of.values()) == ["measured"] * 2 + ["simulated"] * 4
    assert findings.provenance == "measured and simulated"
    tested = [row for row in findings.comparisons if row.tested]
    assert tested, "the simulated ones are tested against each other"
    assert all(kind_of[row.cell_id] == kind_of[row.best_cell_id] for row in tested)
    assert answer_lines(findings)[1].startswith("MEASURED AND SIMULATED, 12 runs")
    assert "no drive was measured" not in answer_lines(findings)[1]
    table = render("md", experiment, plan, runs, findings)
    assert "| provenance |" in table
    assert "are not tested against each other: an error of the model would look like a difference" in table
    assert "measured and simulated" in render("html", experiment, plan, runs, findings)
