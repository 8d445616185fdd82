"""Output to the terminal: everything is escaped, and text that the terminal can't show stops nothing."""

import io
import json
import re
from pathlib import Path

import pytest
from builders import make_experiment, make_runs
from shell import typed
from simulated_specs import SMALL

from storagelab.run.store import Store
from storagelab.screen import Screen
from storagelab.spec.matrix import expand

pytestmark = pytest.mark.slow

ODD = "1.2.7 \x1b[31mred\x07 \x9b2J \u202eturned \ufffe"
SPEC = '[target]\nengine = "postgres"\n[volumes.a]\npath = "."\n'
FEW = SMALL.replace("repetitions = 2", "repetitions = 1").replace("500_000", "5_000").replace("[1, 4]", "[1]")


@pytest.fixture(scope="module")
def old(tmp_path_factory) -> Path:
    """A folder with results whose labels hold what specs once could; FABRICATED."""
    folder = tmp_path_factory.mktemp("old")
    experiment = make_experiment({"driver": [ODD, "2.2.3"]}, question=f"Which driver{ODD}?")
    plan = expand(experiment)
    with Store.writing(folder / "results" / experiment.name, experiment) as store:
        for run in make_runs(experiment, plan):
            store.append(run.model_copy(update={"reason": ODD, "status": "unverified"}))
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["waits"], ["report"], ["report", "--format", "md"], ["report", "--format", "svg"], ["export"],
        ["export", "--format", "csv"],
    ],
)  # fmt: skip
def test_old_labels_with_control_characters_are_reported_and_drawn_and_reach_no_terminal(old, words):
    said = typed(old, words[0], "files-and-log-place", *words[1:])
    assert said.returncode == 0
    written = [file for file in (old / "results").rglob("*") if file.suffix in (".html", ".svg")]
    for text in (said.stdout, said.stderr, *(file.read_text() for file in written)):
        assert not set(text) & set("\x1b\x07\x9b\u202e\ufffe")
    assert words[0] != "waits" or "1.2.7 \\u001b[31mred" in said.stdout
    if words == ["export"]:
        assert json.loads(said.stdout)["cells"][0]["levels"]["driver"] == ODD


def test_colour_is_the_screens_own_and_brackets_are_words():
    text = io.StringIO()
    Screen(file=text, force_terminal=True, color_system="standard", width=60).print("a [/b] \x1b[2J", style="red")
    assert text.getvalue() == "\x1b[31ma [/b] \\u001b[2J\x1b[0m\n"


def test_an_encoding_without_dashes_gets_them_written_out_and_documents_stay_utf_8(old):
    (old / "dash.toml").write_text(f'question = "what – or not?"\n{SPEC}')
    said = typed(old, "plan", "dash.toml", PYTHONIOENCODING="ascii")
    assert (said.returncode, said.stderr) == (0, "")
    assert "what \\u2013 or not?" in said.stdout
    for words in (["report", "files-and-log-place", "--format", "md"], ["export", "files-and-log-place"]):
        assert typed(old, *words, PYTHONIOENCODING="ascii").stdout == typed(old, *words).stdout


@pytest.mark.parametrize("columns", ["0", "1", "²"])
def test_a_terminal_of_no_width_is_none(old, columns):
    (old / "plain.toml").write_text(SPEC)
    of_no_width, of_any = (typed(old, "plan", "plain.toml", **also).stdout for also in ({"COLUMNS": columns}, {}))
    free_space = re.compile(r"\d+ GiB")  # changes meanwhile
    assert free_space.sub("", of_no_width) == free_space.sub("", of_any)


@pytest.mark.parametrize(
    "redirect",
    [*(pytest.param(one, marks=pytest.mark.campaign) for one in ("2>&-", ">&- 2>&-")), "<&- >&- 2>&-", "2>/dev/full"],
)
def test_a_stderr_that_takes_nothing_stops_no_run(tmp_path, redirect):
    (tmp_path / "small.toml").write_text(FEW)
    assert typed(tmp_path, "run", "small.toml", redirect=redirect).returncode == 0
    with Store.reading(tmp_path / "results" / "small") as store:
        assert [run.status for run in store.runs()] == ["ok", "ok"]


def test_a_log_that_cannot_be_written_is_told_of_once(tmp_path):
    (tmp_path / "small.toml").write_text(FEW)
    (tmp_path / "results" / "small").mkdir(parents=True)
    for place in ("/dev/full", "."):
        log = tmp_path / "results" / "small" / "run.log"
        log.unlink(missing_ok=True)
        log.symlink_to(place)
        said = typed(tmp_path, "run", "small.toml")
        assert said.returncode == 0
        assert said.stderr.count("can't be written") == 1
