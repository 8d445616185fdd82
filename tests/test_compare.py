"""`storagelab compare`, as typed: two cells, campaigns, every format, the gate's exit codes, and what is refused."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from simulated_specs import SMALL

from storagelab.findings import beside
from storagelab.findings.analysis import analyse
from storagelab.findings.basis import basis_of
from storagelab.findings.campaigns import Campaign, compare
from storagelab.predicting import prediction
from storagelab.run import stored as results_of
from storagelab.run.store import FILE_NAME
from storagelab.verbs._running import Asked, run

SPEC = SMALL.replace("cell-by-cell", "randomised").replace("repetitions = 2", "repetitions = 3").split('"drives.ssd')[0]

HISTORY = [f"old{number}" for number in range(5)]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory):
    """The results of campaigns of two layouts: before, five with other seeds, and after with half the cores."""
    folder = tmp_path_factory.mktemp("campaigns")
    for seed, name in enumerate(("before", *HISTORY, "after"), 1):
        text = SPEC.replace('"small"', f'"{name}"').replace("cores = 4", f"cores = {2 if name == 'after' else 4}")
        text = f"seed = {seed}\n{text}"
        spec = folder / f"{name}.toml"
        spec.write_text(f'{text}"layout.data_files" = [1, 4]\n')
        assert run(spec, folder / "results", Asked(jobs=1))
    return folder / "results"


@pytest.fixture
def stored(campaigns, typed, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STORAGELAB_RESULTS", str(campaigns))
    return typed


def test_two_cells_and_two_campaigns_in_every_format(stored, campaigns, tmp_path):
    code, out, _ = stored("compare", "before", "c1", "data_files=4")
    assert code == 0
    assert "\n\nc02 and c01 can't be told apart: " in out
    assert "How a connection spent its time (-: a part of the row above) (simulated)" in out
    assert max(map(len, out.splitlines())) <= 80

    code, out, _ = stored("compare", "before", "c1", "c2", "--format", "json")
    found = json.loads(out)
    assert sum(step["change"]["value"] for step in found["waterfall"]["steps"]) == pytest.approx(
        found["waterfall"]["after_s"] - found["waterfall"]["before_s"]
    )
    assert found["provenance"] == "simulated"

    code, out, _ = stored("compare", "before", "after")
    verdict = " ".join(out.split("\n\n")[-1].split())
    assert (code, verdict.startswith("after against before: ")) == (0, True)
    assert "over 2 matched layouts; 2 layouts take" in verdict
    assert "spec: server.cores" in out

    code, out, _ = stored("compare", "before", "after", "--format", "md")
    assert out.startswith("# before and after compared\n")
    code, out, _ = stored("compare", "before", campaigns / "after", "--format", "html")
    assert code == 0
    assert stored("compare", "before", "c1", "c2", "--format", "html")[0] == 0
    assert {file.name for file in tmp_path.iterdir()} == {
        "comparison-before-and-after.html", "comparison-before-c01-against-c02.html"
    }  # fmt: skip
    page = (tmp_path / "comparison-before-and-after.html").read_text()
    assert "<h1>before and after compared</h1>" in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_campaign_beside_a_prediction_of_its_layouts_says_what_is_off_and_what_was_not_measured(stored, tmp_path):
    code, out, _ = stored("compare", "before", "c1", "c2", "--format", "json")
    compared = json.loads(out)["waterfall"]
    truth = compared["before_s"] / compared["after_s"]
    layouts = [
        prediction.LayoutPrediction(
            name=name, per_s=None, latency_s=None, at_most_per_s=None, limited_by="", volumes=(),
            times_present={"value": times, "low": 0.9 * times, "high": 1.1 * times, "confidence": 0.9},
        )
        for name, times in (("c01", 1.0), ("c02", 2 * truth), ("elsewhere", 3.0))
    ]  # fmt: skip
    said = prediction.Prediction(
        capture="shop", engine="postgres", captured_per_s=1.0, sessions=1.0, layouts=tuple(layouts), notes=()
    )
    (tmp_path / "prediction.json").write_text(prediction.as_text(said))
    code, out, _ = stored("compare", "before", "prediction.json")
    words = " ".join(out.split())
    assert code == 0
    assert "ratios are off by 100 % (median). Missed: c02." in words
    assert "Only in the prediction: elsewhere." in words
    assert re.search(r"c02 +measured +[\d.]+ +\S.*times\n +c02 +predicted +[\d.]+ +\S.*times +missed\n", out)
    code, _, err = stored("compare", "before", "prediction.json", "--fail-if-slower", "5%")
    assert code == 2
    assert "--fail-if-slower: judges campaigns and cells, not a prediction" in err


def test_a_measured_campaign_is_the_truth_beside_a_simulated_one_whichever_is_named_first(campaigns):
    read = [results_of.read(name, campaigns) for name in ("before", "after")]
    measured, simulated = (
        Campaign(one.experiment.name, one.experiment,
                 analyse(one.experiment, one.plan, one.runs).model_copy(update={"provenance": kind}),
                 basis_of(one.experiment, one.plan, one.runs))
        for one, kind in zip(read, ("measured", "simulated"), strict=True)
    )  # fmt: skip
    plans = [one.plan for one in read]
    one_way, _ = beside.of_campaigns(compare(measured, simulated, 1), *plans)
    other_way, _ = beside.of_campaigns(compare(simulated, measured, 1), *plans[::-1])
    assert one_way == other_way
    assert one_way.rows[1].measured == beside.speeds(measured.basis, plans[0])("c01", "c02")
    assert one_way.rows[1].predicted.value == beside.speeds(simulated.basis, plans[1])("c01", "c02").value
    assert one_way.rows[1].predicted.low is None
    same = compare(simulated, replace(measured, findings=simulated.findings), 1)
    assert beside.of_campaigns(same, *plans) is None


def test_the_gate_sets_the_exit_code(stored):
    code, out, _ = stored("compare", "before", "after", "--fail-if-slower", "5%")
    assert (code, "\n\nGate: slower by more than 5 % in these runs." in out) == (1, True)
    assert "run the two specs in turns: storagelab run SPEC --against SPEC" in " ".join(out.split())
    assert stored("compare", "after", "before", "--fail-if-slower", "5 %")[0] == 0
    code, out, _ = stored("compare", "before", "after", "--fail-if-slower", "86%", "--format", "json")
    assert json.loads(out)["gate"] == {0: "not-slower", 1: "slower", 3: "cant-tell"}[code]


def test_each_pair_of_cells_that_differ_in_a_factor_is_judged(stored):
    code, out, _ = stored("compare", "before", "--by", "data_files", "--json")
    assert code == 0
    assert [(one["before"], one["after"]) for one in json.loads(out)["pairs"]] == [("c01", "c02")]
    code, out, _ = stored("compare", "before", "--by", "layout.data_files", "--fail-if-slower", "0.1%")
    assert (code, "Gate: " in out) in ((3, True), (1, True))
    code, _, err = stored("compare", "before", "--by", "spec")
    assert (code, "--by: 'spec': no factor is called 'spec'\n  factors: layout.data_files" in err) == (2, True)


def test_a_new_campaign_is_compared_with_all_before_it(stored, campaigns, tmp_path):
    code, out, _ = stored("compare", "--history", *HISTORY, "after", "--fail-if-slower", "5%", "--format", "md")
    assert code == 1
    assert out.startswith("# after and the 5 campaigns before it compared")
    assert "Gate: slower by more than 5 %, beyond what campaigns differ by themselves. after against the" in out
    assert "| spec: server.cores | 4 | 2 |" in out
    code, out, _ = stored("compare", "--history", *HISTORY, "before", "--fail-if-slower", "86%", "--json")
    found = [ratio for _, ratio in json.loads(out)["comparisons"][0]["history"]]
    assert (code, found) == (0, [pytest.approx(1, abs=0.1)] * 5)
    shutil.copytree(campaigns / "old1", tmp_path / "copy")
    code, _, err = stored("compare", "--history", *HISTORY, "copy", "before")
    assert (code, "old1 and copy hold the same runs" in err) == (2, True)
    with closing(sqlite3.connect(tmp_path / "copy" / FILE_NAME)) as store:
        store.executescript("DROP TRIGGER run_is_never_deleted; DELETE FROM run WHERE cell_id = 'c02'")
    code, out, _ = stored("compare", "--history", *HISTORY, "copy", "after", "--fail-if-slower", "5%", "--format", "md")
    assert (code, "no usable run: copy." in out, "differs between old4 and after" in out) == (1, True, True)
    code, out, _ = stored("compare", "--history", "old1", "before", "--fail-if-slower", "5%")
    assert (code, "5 campaigns before it are the least" in " ".join(out.split())) == (3, True)
    code, _, err = stored("compare", "--history", "after", *HISTORY)
    assert (code, "after has another spec than old3, the last before the new one" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("before",), "needs two things to compare"),
        (("before", "nowhere"), "no experiment 'nowhere' has been run here"),
        (("before", "before"), "the same results are named twice"),
        (("before", "c1"), "c1 is one cell of before, and nothing to compare it with"),
        (("before", "c1", "c01"), "are the same cell, c01"),
        (("before", "c1", "c9"), "there is no cell 'c9'"),
        (("before", "after", "--fail-if-slower", "5"), 'write it in per cent: "5%"'),
    ],
)
def test_what_can_not_be_compared_is_refused(stored, words, message):
    code, _, err = stored("compare", *words)
    assert code == 2
    assert message in err


def test_waits_takes_cells_by_levels(stored):
    code, out, _ = stored("waits", "before", "data_files=4")
    assert code == 0
    assert "Waits of c02, 4 data files" in out


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("asked", [("before", "after"), ("before", "c1", "c2")])
def test_axe_finds_nothing_that_keeps_people_from_reading_a_comparison(stored, browser, tmp_path, asked, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    assert stored("compare", *asked, "--format", "html", "--output", "page.html")[0] == 0
    seen = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    tab = browser.new_context(**seen, bypass_csp=True).new_page()
    tab.goto((tmp_path / "page.html").as_uri())
    found = axe.Axe().run(tab)
    assert found.violations_count == 0, found.generate_report()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.locator("main").bounding_box()["width"] > 0.6 * width
    tab.context.close()
