"""The command line: exit codes, the right streams, and never a traceback."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from builders import make_runs
from real_servers import left_behind

import storagelab
from storagelab.errors import SpecError
from storagelab.run.store import Store
from storagelab.spec import matrix, reading
from storagelab.verbs._planning import site_of
from storagelab.verbs.report import _limit

SPEC = """
name = "files"
question = "Do more data files help?"
repetitions = {repetitions}
[target]
engine = "postgres"
[target.settings]
shared_buffers = "32MB"
{setting}
[volumes.a]
path = "a"
[workload]
connections = 4
rows_per_connection = {rows}
rows_per_transaction = 100
[factors]
"layout.data_files" = [1, 2]
"""


def write_spec(folder: Path, *, repetitions=1, rows=500, setting="", name="files.toml", extra="") -> Path:
    (folder / "a").mkdir(exist_ok=True)
    file = folder / name
    file.write_text(SPEC.format(repetitions=repetitions, rows=rows, setting=setting) + extra)
    return file


@pytest.fixture
def results(home):
    """Results as a campaign would have left them; FABRICATED, as is all of builders."""
    experiment = reading.load(write_spec(home, repetitions=3))
    plan = matrix.expand(experiment)
    with Store.writing(home / "results" / "files", experiment) as store:
        for run in make_runs(experiment, plan):
            store.append(run)
    return home / "results"


# --- the whole of it -------------------------------------------------------------------------------------------------


def test_an_experiment_is_run_told_and_reported_and_run_again_does_nothing(typed, home, drawn_charts):
    file = write_spec(home)
    code, out, err = typed("run", file)
    assert code == 0, err
    assert "2 files" in out
    assert "2 runs to make" in err
    assert "[2/2] " in err
    report = home / "results" / "files" / "report.html"
    assert f"report: {report.relative_to(home)}" in err
    assert report.stat().st_size > 10_000
    assert left_behind(home) == []
    assert os.listdir(home / "a") == []

    before = report.read_bytes()
    code, out, err = typed("run", file)
    assert code == 0
    assert "0 runs to make, 2 stored already" in err
    assert len(report.read_bytes()) > 0.5 * len(before)
    assert [len(cell["runs"]) for cell in json.loads(typed("export", "files")[1])["cells"]] == [1, 1]


def test_a_failing_run_gives_exit_code_1_and_can_be_made_again(typed, home):
    file = write_spec(home, setting='statement_timeout = "1ms"')
    code, _, err = typed("run", file)
    assert code == 1
    assert err.count("FAILED: canceling statement") == 2
    assert typed("run", file)[0] == 1, "some runs are still failed ones"
    assert typed("run", file, "--again")[0] == 1
    with Store.reading(home / "results" / "files") as store:
        assert [run.attempt for run in store.runs()] == [1, 1, 2, 2]
    assert left_behind(home) == []


def test_a_plan_touches_nothing(typed, home):
    file = write_spec(home)
    before = sorted(home.rglob("*"))
    code, out, err = typed("plan", file)
    assert (code, err) == (0, "")
    assert "2 cells" in out
    assert sorted(home.rglob("*")) == before


def test_a_plan_learns_from_what_is_stored(typed, home):
    experiment = reading.load(write_spec(home, repetitions=3))
    plan = matrix.expand(experiment)
    with Store.writing(home / "results" / "files", experiment) as store:
        for run in make_runs(experiment, plan)[:4]:
            store.append(run)
    code, out, _ = typed("plan", "files.toml")
    assert code == 0
    assert "4 stored already, 2 to go" in out
    assert "learned from 4 finished runs" in " ".join(out.split())
    code, out, _ = typed("plan", write_spec(home, repetitions=5))
    assert code == 0
    assert "holds results of another spec" in " ".join(out.split())


def test_debris_of_a_killed_run_is_removed_and_said(typed, home):
    file = write_spec(home)
    identity = site_of(reading.load(file), Path("results/files")).identity
    left = home / "a" / f"storagelab-files-{identity}"
    left.mkdir()
    (left / ".storagelab.json").write_text(json.dumps({"made_by": "storagelab", "identity": identity}))
    (left / "server").mkdir()
    code, _, err = typed("run", file)
    assert code == 0
    assert f"removed {left}, left behind by a killed run" in err
    assert os.listdir(home / "a") == []


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_mistakes_in_the_spec_are_said_once_with_file_and_key(typed, home, verb):
    file = write_spec(home, extra="\n[workloda]\nconnections = 1\n")
    code, out, err = typed(verb, file)
    assert (code, out) == (2, "")
    assert err.startswith(f"storagelab: {file}: workloda: ")
    assert err.count("workloda") <= 2
    assert not (home / "results").exists()


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_all_that_can_not_run_here_is_said_before_anything_is_touched_and_a_plan_is_printed_all_the_same(
    typed, home, verb
):
    missing = '[volumes.b]\npath = "not/there"\n[volumes.c]\npath = "nor/there"\n'
    file = write_spec(home, setting='shared_bufers = "1MB"\nwork_mem = "lots"', extra=missing)
    code, out, err = typed(verb, file)
    assert (code, "2 cells x 1 repetition = 2 runs\nTime" in out) == (2, verb == "plan")
    keys = ["volumes.b.path", "volumes.c.path", "target.settings.shared_bufers", "target.settings.work_mem"]
    assert re.findall(rf"{file}: ([\w.]+): ", err) == keys
    assert not (home / "results").exists()
    assert os.listdir(home / "a") == []


def test_a_changed_spec_is_refused_naming_what_changed(typed, results, home):
    write_spec(home, repetitions=3, rows=700)
    code, _, err = typed("run", "files.toml")
    assert code == 2
    assert "with another spec:\n    workload.rows_per_connection: 500 -> 700\n" in err
    assert "give the spec a new name" in err


def test_a_change_of_comments_only_is_accepted(typed, results, home):
    write_spec(home, repetitions=3, extra="\n# an afterthought\n")
    code, _, err = typed("run", "files.toml")
    assert code == 0, err
    assert "0 runs to make, 6 stored already" in err


@pytest.mark.parametrize("place", ["blocked", "/proc/self"])
def test_a_results_folder_that_can_not_be_written_is_said_plainly(typed, home, place):
    (home / "blocked").write_text("x")
    code, _, err = typed("run", write_spec(home), "--results", home / place)
    assert code == 2
    assert f"storagelab: {home / place}/files can't be created: " in err
    assert "--results" in err


def test_an_unknown_experiment_lists_those_there_are(typed, results):
    code, out, err = typed("report", "flies")
    assert (code, out) == (2, "")
    assert "no experiment 'flies' has been run here" in err
    assert "experiments with results: files" in err


def test_where_nothing_was_ever_run_it_says_how_to_begin(typed, home):
    code, _, err = typed("report", "files")
    assert code == 2
    assert "run one: storagelab run SPEC" in err


@pytest.mark.parametrize(
    "words",
    [["rnu"], ["run"], ["run", "no-such.toml"], ["report", "files", "--format", "docx"], ["plan", "--nonsense"]],
)
def test_mistakes_in_the_command_give_exit_code_2(typed, results, words):
    code, out, err = typed(*words)
    assert (code, out) == (2, "")
    assert err


def test_formats_that_are_not_there_are_said_plainly_and_how_to_get_a_pdf(typed):
    code, _, err = typed("report", "files", "--format", "pdf")
    assert code == 2
    assert (
        "'pdf' is not one of 'html', 'md', 'text', 'png', 'svg'. For a PDF, print the page (html) in a browser" in err
    )
    assert "Value error" not in err


def test_a_report_says_where_everything_lies_and_one_chart_can_be_had_alone(typed, results):
    code, out, err = typed("report", "files")
    assert code == 0
    assert out.strip().endswith("report.html")
    assert "experiment.sqlite; as JSON: storagelab export files" in err
    assert "charts as files: storagelab report files --format png" in err
    code, out, _ = typed("report", "files", "--format", "svg", "--chart", "waits")
    assert code == 0
    assert Path(out.strip()).name == "waits.svg"
    assert Path(out.strip()).read_text("utf-8").startswith("<svg")
    for words, said in {
        "--chart waits": "--format png",
        "--limit 900/s": "judged by time\n  Give a time: 10ms.",
    }.items():
        code, out, err = typed("report", "files", *words.split())
        assert (code, out) == (2, "")
        assert said in err
    with pytest.raises(SpecError, match=r"'10ms' is no limit for layouts judged by throughput\n  Give a rate: 900/s"):
        _limit("10ms", by_rate=True)
    assert (_limit("10ms", by_rate=False), _limit("1,900/s", by_rate=True)) == (0.01, 1900)


def test_an_output_that_can_not_be_written_is_said_plainly(typed, results):
    code, out, err = typed("export", "files", "--output", "files.toml/all.json")
    assert (code, out, err.split("\n")[0]) == (2, "", "storagelab: --output: files.toml is no folder")
    for verb in ("report", "export", "compare"):
        code, out, err = typed(verb, "files", *(["files"] * (verb == "compare")), "-o", "not/there/x.html")
        assert (code, out, Path("not").exists()) == (2, "", False)
        assert "--output: the folder not/there doesn't exist\n  Correct the name, or make it" in err


# --- reading ---------------------------------------------------------------------------------------------------------


def test_a_name_or_its_spec_file_mean_the_same(typed, results):
    by_name, by_file = typed("export", "files"), typed("export", "files.toml")
    assert by_name[0] == 0
    assert json.loads(by_name[1])["cells"] == json.loads(by_file[1])["cells"]


def test_data_goes_to_stdout_and_nothing_else_does(typed, results):
    for words in (["export", "files"], ["export", "files", "--format", "json"]):
        code, out, err = typed(*words)
        assert (code, err) == (0, "")
        assert json.loads(out)["experiment"]
    code, out, err = typed("export", "files", "--format", "csv")
    assert len(out.splitlines()) == 7
    code, out, err = typed("report", "files", "--format", "md")
    assert out.startswith("# ")


def test_a_file_can_be_named_instead(typed, results, home):
    code, out, err = typed("export", "files", "--output", home / "out.json")
    assert (code, out) == (0, "")
    assert "written: " in err
    assert json.loads((home / "out.json").read_text())["experiment"]


def test_wait_tables_are_printed_of_all_cells_or_some(typed, results):
    code, everything, _ = typed("waits", "files")
    assert code == 0
    cells = json.loads(typed("export", "files")[1])["cells"]
    _, one, _ = typed("waits", "files", cells[0]["cell_id"])
    assert "Lock:extend" in one
    assert len(one) < len(everything)
    _, uncut, _ = typed("waits", "files", cells[0]["cell_id"], "--uncut")
    assert len(uncut) > len(one)


def test_results_may_live_elsewhere_by_option_or_variable(typed, results, home, monkeypatch):
    os.rename(results, home / "elsewhere")
    assert typed("export", "files")[0] == 2
    assert typed("export", "files", "--results", "elsewhere")[0] == 0
    monkeypatch.setenv("STORAGELAB_RESULTS", str(home / "elsewhere"))
    assert typed("export", "files")[0] == 0


def test_the_version_is_said(typed):
    assert typed("--version") == (0, f"storagelab {storagelab.__version__}\n", "")


def test_the_doctor_says_what_this_machine_can_measure(typed, home):
    code, out, err = typed("doctor")
    assert (code, err) == (0, "")
    assert "PostgreSQL" in out
    write_spec(home)
    assert "volume a" in typed("doctor", "files.toml")[1]
    spec = write_spec(home)
    devices = 'path = "a"\ndevices = ["/dev/disk/by-id/gone-1", "/dev/disk/by-id/gone-2"]\nraid_level = "raid0"'
    spec.write_text(spec.read_text().replace('path = "a"', devices))
    out = typed("doctor", "files.toml")[1]
    assert out.split()[:3] == ["no", "this", "spec:"]
    assert all(f"this spec: volumes.a.devices\n        /dev/disk/by-id/{one}" in out for one in ("gone-1", "gone-2"))


@pytest.mark.parametrize("verb", ["plan", "run", "report", "waits", "export", "doctor"])
def test_every_verb_explains_itself(typed, verb):
    code, out, _ = typed(verb, "--help")
    assert code == 0
    assert "Usage: " in out


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_without_a_word_the_verbs_are_listed_and_no_description_is_cut(typed, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, err = typed(*words)
    assert all(verb in out + err for verb in ("plan", "run", "report", "waits", "export", "doctor"))
    assert "..." not in (out + err).partition("Measure:")[2]


# --- as a process ----------------------------------------------------------------------------------------------------


def test_piped_output_is_plain(results, home):
    for words in (["report", "files", "--format", "md"], ["waits", "files"], ["plan", "files.toml"]):
        said = subprocess.run([sys.executable, "-m", "storagelab", *words], capture_output=True, cwd=home, check=True)
        assert b"\x1b" not in said.stdout + said.stderr
        assert said.stdout


def test_a_reader_that_has_had_enough_is_no_error(results, home):
    command = f"{sys.executable} -m storagelab export files | head -c 10"
    said = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, cwd=home, text=True, check=False
    )
    assert (said.returncode == 1, said.stderr, len(said.stdout)) == (False, "", 10)


def test_help_and_options_of_all_verbs_wait_for_no_library_but_the_one_that_reads_them():
    heavy = ("numpy", "pydantic", "rich.table", "scipy", "vl_convert")
    shown = "import sys; from storagelab import cli; cli.app(['--help'], standalone_mode=False)"
    asked = f"{shown}; print(*[name for name in {heavy} if name in sys.modules], 'none')"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert said.stdout.split("\n")[-2].split() == ["none"]
