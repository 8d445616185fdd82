"""Raw I/O on simulated drives: from a spec to requests a second, without a database."""

from pathlib import Path

import pytest
from raw_io_specs import needs_fio, parsed, runs_of

from storagelab.findings.analysis import analyse
from storagelab.findings.comparable import is_steady, rounds_of, steadiness
from storagelab.model.measurement import Measurement, TimeSeries
from storagelab.report.charts import drawn_charts
from storagelab.report.sections.contents import opened
from storagelab.report.words.answer import answer_lines
from storagelab.report.words.caution_texts import cautions_told
from storagelab.report.words.sentences import sentences
from storagelab.report.writing import render
from storagelab.run.loop import run_all
from storagelab.run.store import Store
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse
from storagelab.volumes.folders import Site

SPEC = (Path(__file__).parent / "given" / "raw-io.toml").read_text("utf-8")


class Quiet:
    def started(self, planned, cell): ...
    def work_done(self, planned, amount): ...
    def stored(self, run): ...


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return stored(SPEC, tmp_path_factory.mktemp("raw"))


def stored(spec, folder):
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
    _, _, runs = stored(text.replace("outstanding = 8", "outstanding = 1"), tmp_path)
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
    drawn = drawn_charts(findings, runs)
    assert drawn["cells"].title.endswith(": IO/s")
    assert {row["panel"] for row in drawn["latency"].data.rows} == {"p50", "p95", "p99"}
    assert "p50: half of all requests" in drawn["latency"].caption
    head = next(line for line in table.splitlines() if line.startswith("| cell |")).split("|")[1:-1]
    assert "| MB/s | mean ms | p50 ms |" in table
    assert len({*head}) == len(head)


# --- steady state by the storage industry's rule ----------------------------------------------------------------------


def run_with(*rates: float, requests: int = 100) -> Measurement:
    """FABRICATED."""
    series = (
        TimeSeries(at_s=tuple(range(1, len(rates) + 1)), columns={"requests_per_s": rates}) if rates else TimeSeries()
    )
    return Measurement(provenance="measured", elapsed_s=1, requests=requests, series=series)


def test_five_equal_rounds_are_steady_and_four_show_nothing():
    assert steadiness([500] * 5) == pytest.approx((0, 0))
    assert steadiness([500] * 4) is None


@pytest.mark.parametrize(
    ("rates", "steady"),
    [
        ([100, 109, 91, 100, 100], True),
        ([100, 111, 90, 100, 100], False),  # 21 % apart
        ([96, 98, 100, 102, 104], True),  # the line moves by 8 %
        ([94, 97, 100, 103, 106], False),  # by 12 %, within 20 %
        ([1000, 500, 100, 100, 100, 100, 100], True),  # only the last five count
    ],
)
def test_both_limits_of_the_rule_hold(rates, steady):
    assert steadiness(rates).steady is steady


def test_steady_state_is_not_claimed_before_it_is_reached():
    ageing = [1000, 800, 640, 500, 400, 320, 300, 300, 300, 300, 300]
    assert [number for number in range(5, 12) if steadiness(ageing[:number]).steady] == [10, 11]


def test_a_long_run_is_judged_by_tenths_and_a_short_one_by_seconds():
    assert rounds_of(run_with(*range(1, 41))) == [2.5 + 4 * number for number in range(10)]
    assert rounds_of(run_with(5, 6, 7)) == [5, 6, 7]


def test_every_run_of_a_cell_must_end_steady_and_without_series_the_repetitions_must():
    assert is_steady([run_with(*[500] * 5), run_with(*[500] * 5)]) is True
    assert is_steady([run_with(*[500] * 5), run_with(500, 400, 300, 200, 100)]) is False
    assert is_steady([run_with(requests=amount) for amount in (100, 101, 99, 100, 100)]) is True
    assert is_steady([run_with(requests=100)] * 4) is None


AGEING = """
name = "raw"
repetitions = 30
order = "as-listed"
target = { engine = "raw-io", scale = 256, prepared = "formatted" }
drives.card = { profile = "iodrive-320", format = "basic", driver = "2.2.3", sector_bytes = 512 }
volumes.a = { drives = ["card"] }
workload = { operation = "write", pattern = "random", block = "8KiB", outstanding = 8, duration = "150s" }
"""


def test_a_simulated_drive_that_ages_is_steady_only_after_its_fall(tmp_path):
    runs = runs_of(tmp_path, AGEING)
    rates = [run.measurement.work_per_s for run in runs]
    assert rates[0] > 1.5 * rates[-1], "it was formatted, so at first no page had to be moved"
    steady = [number for number in range(5, len(rates) + 1) if steadiness(rates[:number]).steady]
    reached = next((one for one in steady if steady[steady.index(one) :] == list(range(one, len(rates) + 1))), None)
    fallen = next(number for number, rate in enumerate(rates, 1) if rate < 1.1 * rates[-1])
    assert reached >= fallen, "not claimed while the rate still falls"

    experiment = parsed(tmp_path, AGEING)
    plan = expand(experiment)
    early = analyse(experiment, plan, runs[: max(5, fallen)])
    assert early.cells[0].steady is False
    assert any("not in steady state at the end" in text for _, text in cautions_told(early))
    assert analyse(experiment, plan, runs).cells[0].steady is True


# --- simulated drives and a real volume in one report, without a verdict between the two ------------------------------


ON_BOTH = """
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
    experiment = parsed(scratch, ON_BOTH)
    plan, runs = expand(experiment), runs_of(scratch, ON_BOTH)
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
    assert "not tested against each other, because an error of the model would look like a difference" in table
    assert "measured and simulated" in render("html", experiment, plan, runs, findings)
