"""Raw I/O on simulated drives: from a spec to requests a second, without a database."""

import pytest

from storagelab.findings.analysis import analyse
from storagelab.report.charts import drawn_charts
from storagelab.report.sections.contents import opened
from storagelab.report.words.sentences import sentences
from storagelab.report.writing import render
from storagelab.run.loop import run_all
from storagelab.run.store import Store
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse
from storagelab.volumes.folders import Site

SPEC = """
name = "raw"
repetitions = 3
order = "as-listed"
[target]
engine = "raw-io"
scale = 256
[drives.disk]
profile = "scsi-15k-300"
count = 4
[volumes.array]
drives = ["disk"]
raid = "10"
[workload]
operation = "read"
pattern = "random"
block = "8KiB"
outstanding = 8
duration = "256s"
warm_up = "26s"
[factors]
"workload.operation" = ["read", "write"]
"workload.block" = ["8KiB", "64KiB"]
"""


class Quiet:
    def started(self, planned, cell): ...
    def work_done(self, planned, amount): ...
    def stored(self, run): ...


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return runs_of(SPEC, tmp_path_factory.mktemp("raw"))


def runs_of(spec, folder):
    experiment = parse(spec, str(folder / "raw.toml"))
    plan = expand(experiment)
    with Store.writing(folder / "raw", experiment) as store:
        run_all(plan, store, Site(experiment="raw", identity="0badcafe", spec_folder=folder), Quiet())
        runs = store.runs()
    return experiment, plan, runs


def test_a_run_says_its_requests_and_bytes_a_second_and_how_long_they_took(made):
    _, _, runs = made
    assert len(runs) == 12
    for run in runs:
        assert (run.status, run.measurement.provenance) == ("ok", "simulated")
        figures = run.measurement.counters["raw-io"]
        assert run.measurement.elapsed_s == pytest.approx(230, abs=0.01)
        assert (run.measurement.rows, run.measurement.work.unit) == (None, "requests")
        assert run.measurement.work_per_s == pytest.approx(figures["ios_per_s"], rel=1e-6)
        assert figures["bytes_per_s"] == pytest.approx(figures["ios_per_s"] * run.config.workload.block_bytes)
        in_progress = figures["ios_per_s"] * figures["latency_mean_s"]
        assert in_progress == pytest.approx(8, rel=0.02), "Little's law"
        assert figures["latency_p50_s"] <= figures["latency_p99_s"] <= figures["latency_longest_s"] * 1.03
        assert list(run.measurement.counters) == ["raw-io", "drive disk", "volume array"]


def test_a_mirrored_array_writes_about_half_as_much_as_it_reads(made):
    experiment, plan, runs = made
    rates = {tuple(cell.levels.values()): cell.work_per_s.mean.value for cell in analyse(experiment, plan, runs).cells}
    assert 0.35 < rates["write", "8KiB"] / rates["read", "8KiB"] < 0.75


def test_a_drive_with_trim_holds_the_file_that_is_read_and_without_memory_for_its_map_more_of_it_takes_longer(tmp_path):
    drive = '[drives.disk]\nprofile = "nvme3-980-1tb"\nsector_bytes = 4096\n[volumes.array]\ndrives = ["disk"]\n'
    factors = '[factors]\n"layout.data_size" = ["32GB", "900GB"]\n'
    text = SPEC[: SPEC.index("[drives")] + drive + SPEC[SPEC.index("[workload]") : SPEC.index("[factors]")] + factors
    _, _, runs = runs_of(text.replace("outstanding = 8", "outstanding = 1"), tmp_path)
    small, large = (run.measurement.work_per_s for run in runs if run.repetition == 1)
    # 17,000 a second are published, and a read of the map beside that of the data beyond 64 GB.
    assert small == pytest.approx(17_000, rel=0.05)
    assert large == pytest.approx(10_000, rel=0.1)


def test_cells_are_compared_by_requests_and_the_report_has_nothing_of_rows(made):
    experiment, plan, runs = made
    findings = analyse(experiment, plan, runs)
    assert findings.compared == "time-per-request"
    assert findings.verdict == "one-layout"
    assert findings.cell(findings.fastest).levels["workload.operation"] == "read"
    of = opened(findings)
    said = " ".join([*of.head, *sentences(findings)])
    assert [ladder.what for ladder in of.ladders] == ["IO/s"]
    assert "rows" not in said
    page, table = render("html", experiment, plan, runs, findings), render("md", experiment, plan, runs, findings)
    assert "Every cell by" in page
    assert drawn_charts(findings, runs)["cells"].title.endswith(": IO/s")
    head = next(line for line in table.splitlines() if line.startswith("| cell |")).split("|")[1:-1]
    assert "| MB/s | mean ms | p50 ms |" in table
    assert len({*head}) == len(head)
