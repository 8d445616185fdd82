"""`demo` gives an upper bound for the gain from faster storage here, and the rate of this disk's syncs."""

import re
import shutil
import tempfile
from pathlib import Path

import pytest
from builders import analysed

from storagelab import experiments
from storagelab.errors import PreflightError
from storagelab.findings.answer import answer, recommended
from storagelab.findings.answer_kinds import Next
from storagelab.findings.cautions.cpu_time import CpuSaturated
from storagelab.findings.kinds.ceiling import Ceiling
from storagelab.model.target import Preflight
from storagelab.report.words.answer import next_text, opening
from storagelab.spec import matrix, reading
from storagelab.verbs import _demo as demo
from storagelab.verbs import _planning as planning

LOG = "layout.log"


@pytest.fixture
def short(monkeypatch) -> None:
    """The demo's experiment in a few seconds, in a folder of its own in memory: a campaign locks its volumes."""
    folder = tempfile.mkdtemp(dir="/dev/shm")
    Path(folder).chmod(0o711)
    text = (
        experiments.text_of("ceiling")
        .replace('"/dev/shm"', f'"{folder}"')
        .replace('warm_up = "0.5s"', 'warm_up = "0s"')
    )
    text = (
        text.replace("repetitions = 5", "repetitions = 3").replace("scale = 5", "scale = 1").replace('"4s"', '"500ms"')
    )
    monkeypatch.setattr(experiments, "text_of", lambda _: text)
    monkeypatch.setattr(demo, "PROBE_S", 0.3)
    monkeypatch.setattr(demo, "SYNCS_S", 0.2)
    yield
    shutil.rmtree(folder)


@pytest.mark.slow
def test_the_demo_bounds_the_gain_tells_what_the_disk_allows_and_names_the_next_command(typed, home, short):
    code, out, err = typed("demo")
    assert (code, len(out.splitlines()) <= 20) == (0, True), err
    said = " ".join(out.split())
    assert re.search(r"with this load: log in memory [\d.]+ \([\d.]+ to [\d.]+\), all in memory|Storage is not", said)
    assert "Use " not in said
    assert re.search(
        r"This disk alone: [\d,]+ syncs of 8 KiB a second, 99 % of them within [\d.]+ .?s: at most about", said
    )
    assert said.endswith("storagelab init wal-volume --from-server DSN")
    assert (home / "results" / "demo" / "report.html").is_file()
    before = (home / "results" / "demo.toml").read_text("utf-8")
    code, _, err = typed("demo")
    assert (code, "sizing" in err, "0 runs to make, 9 stored already" in err) == (0, False, True), err
    assert (home / "results" / "demo.toml").read_text("utf-8") == before


def test_where_memory_lacks_room_the_bound_is_a_server_that_waits_for_no_disk(home, monkeypatch, capsys):
    def look_at(experiment, plan, *_, **__):
        lacks = PreflightError("/dev/shm lacks space", key="volumes.memory.path")
        in_memory = any("memory" in cell.config.volumes for cell in plan.cells)
        return Preflight(server="", volumes=(), lacks=(lacks,) * in_memory)

    monkeypatch.setattr(planning, "look_at", look_at)
    monkeypatch.setattr(demo, "_connections", lambda plan, site: 3)
    plan = matrix.expand(reading.parse(demo._sized(home / "demo.toml", home), "demo.toml"))
    assert [cell.config.target.settings.get("fsync") for cell in plan.cells] == [None, "off"]
    assert {cell.config.workload.connections for cell in plan.cells} == {3}
    assert "/dev/shm lacks space; so the bound is a server on this disk without syncs" in capsys.readouterr().err


def bounded(slower: float, factors=None, **environment):
    """FABRICATED. The log on volumes other than b, which is in memory, takes `slower` times as long."""
    volumes = {"a": {"filesystem": "ext4"}, "b": {"filesystem": "tmpfs"}}
    return analysed(
        factors or {LOG: ["a", "b"]},
        elapsed=lambda of, n: (1.0 if of[LOG] == "b" else slower) * (10 + 0.01 * n),
        environment={"volumes": volumes, **environment},
    )


@pytest.mark.parametrize(
    ("loads", "told"),
    [({}, "this load: log on b 1.50 ("), ({"workload.connections": [1, 4]}, "these loads: log on b 1.50 to ")],
)
def test_a_layout_in_memory_is_a_bound_under_each_load_and_not_to_be_used(loads, told):
    findings = bounded(1.5, {**loads, LOG: ["a", "b"]})
    gains = [one.gain for one in Ceiling.of(findings)]
    assert gains == [row.ratio for row in findings.comparisons]  # the one record of comparison
    assert opening(findings).head[0].startswith(f"No faster volume for the log can gain more with {told}")
    assert not any("Use" in text for text in opening(findings).head)
    assert not recommended(findings, answer(findings))


@pytest.mark.parametrize(("slower", "use"), [(1.5, set()), (0.5, {"a"})])
def test_beside_several_layouts_on_drives_none_in_memory_is_recommended(slower, use):
    findings = bounded(slower, {LOG: ["a", "b", "c"]})
    assert {findings.cell(cell_id).levels[LOG] for cell_id in recommended(findings, answer(findings))} == use
    lost = "Not to be used, because a crash loses data or log: log on b." in " ".join(opening(findings).head)
    assert lost is not bool(use)


def test_if_memory_gains_little_storage_is_not_what_limits_the_load():
    assert opening(bounded(1.02)).head[0].startswith("The log's volume is not what limits this load: log on b 1.02")


def test_busy_cpus_leave_a_bound_conclusive_as_they_are_what_remains_in_memory():
    busy = CpuSaturated(cells=("cell-002",), cpu_share=0.97, cpu_count=2, limit=0.9)
    doubt = opening(bounded(1.5).model_copy(update={"cautions": (busy,)})).doubt
    assert doubt == "Doubt: the CPUs were the limit (97 % busy) in 1 of 2 layouts."


def test_layouts_on_drives_are_no_bounds():
    assert not Ceiling.of(analysed({LOG: ["a", "b"]}))


def test_what_to_do_next_about_the_demo_is_a_command_that_it_has():
    findings = bounded(1.5).model_copy(update={"experiment": demo.NAME})
    assert "storagelab demo --results NEW" in next_text(findings, Next(step="short-runs"))
    left = findings.model_copy(update={"runs_planned": findings.runs_stored + 1})
    assert next_text(left, Next(step="runs")) == "make the 1 run that is missing: storagelab demo"
