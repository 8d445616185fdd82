"""One report in many forms, written whole or not at all."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys

import pytest
from builders import make_campaign, make_runs
from test_stored import SPEC

from storagelab.errors import StoragelabError
from storagelab.findings.analysis import analyse
from storagelab.report import writing
from storagelab.run.store import Store
from storagelab.spec import matrix, reading


@pytest.fixture(scope="module")
def inputs():
    experiment, plan, runs = make_campaign({"layout.data_files": [1, 4]}, repetitions=3)
    return experiment, plan, runs, analyse(experiment, plan, runs)


def test_the_page_is_written_into_the_results_folder(inputs, tmp_path):
    file = writing.write_report(tmp_path / "new", *inputs)
    assert file == tmp_path / "new" / "report.html"
    assert file.read_text("utf-8") == writing.render("html", *inputs)
    assert [path.name for path in file.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("form", "start"),
    [("html", "<!doctype html"), ("md", "# files-and-log-place"), ("csv", "cell_id,layout.data_files,repetition"),
     ("waits-csv", "cell_id,layout.data_files,repetition"), ("json", '{"schema":2,')],
)  # fmt: skip
def test_every_form_can_be_had(inputs, form, start):
    assert writing.render(form, *inputs).lower().startswith(start)


def test_names_of_sql_server_are_there_for_those_who_ask(inputs):
    asked = writing.How(sql_server_names=True)
    for form in ("html", "md"):
        assert "In SQL Server" in writing.render(form, *inputs, how=asked)
        plain = writing.render(form, *inputs)
        assert "In SQL Server" not in plain
        assert "PAGELATCH_" not in plain


def test_an_unknown_form_is_refused_with_those_known(inputs):
    with pytest.raises(StoragelabError, match=r"format 'pdf'\n  known formats: html, md, text, csv, waits-csv, json"):
        writing.render("pdf", *inputs)


def test_all_forms_agree_on_the_headline(inputs):
    headline = json.loads(writing.render("json", *inputs))["findings"]["headline"]
    assert headline.split(". ")[0] in writing.render("md", *inputs)
    assert headline.split(":")[0].replace("'", "&#x27;") in writing.render("html", *inputs).replace("\u00a0", " ")


def test_charts_are_written_as_files_one_each(inputs, tmp_path):
    writing.write_charts(tmp_path, tmp_path, "svg", inputs[3], inputs[2])
    files = list(tmp_path.iterdir())
    assert "cells.svg" in [file.name for file in files]
    assert all(file.read_text("utf-8").startswith("<svg") for file in files)


def test_one_chart_is_written_alone_and_an_unknown_one_is_refused_with_those_there_are(inputs, tmp_path):
    writing.write_chart("waits", tmp_path / "mine.svg", tmp_path, "svg", inputs[3], inputs[2])
    assert [file.name for file in tmp_path.iterdir()] == ["mine.svg"]
    assert (tmp_path / "mine.svg").read_text("utf-8").startswith("<svg")
    with pytest.raises(StoragelabError, match=r"no chart 'watis'\n  its charts: ladder, cells, effects, waits"):
        writing.write_chart("watis", tmp_path / "no.svg", tmp_path, "svg", inputs[3], inputs[2])


def test_a_write_that_breaks_off_leaves_the_old_file_and_no_debris(tmp_path, monkeypatch):
    file = tmp_path / "report.html"
    writing.write(file, "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoragelabError, match=r"report.html can't be written: No space left on device"):
        writing.write(file, "new")
    assert file.read_text("utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_what_was_half_written_when_somebody_was_killed_is_removed_by_the_next_one(tmp_path):
    with subprocess.Popen(["sleep", "60"]) as alive, subprocess.Popen(["true"]) as gone:
        gone.wait()
        for process in (alive, gone):
            (tmp_path / f".report.html.{process.pid}").write_text("half a rep")
        writing.write(tmp_path / "report.html", "new")
        assert {path.name for path in tmp_path.iterdir()} == {"report.html", f".report.html.{alive.pid}"}
        alive.kill()


def test_a_file_where_a_folder_should_be_is_an_error_with_a_way_out(inputs, tmp_path):
    (tmp_path / "here").write_text("")
    with pytest.raises(StoragelabError, match=r"another place: storagelab report .*/here --output FILE"):
        writing.write_report(tmp_path / "here", *inputs)


@pytest.fixture
def results(home):
    (home / "files.toml").write_text(SPEC)
    experiment = reading.load(home / "files.toml")
    with Store.writing(home / "results" / "files", experiment) as store:
        store.append(*make_runs(experiment, matrix.expand(experiment)))
    return home / "results" / "files"


@pytest.mark.parametrize("place", ["-", "/dev/stdout", "/dev/fd/1"])
@pytest.mark.parametrize(
    "command",
    [["export"], ["export", "--format", "csv"], ["report"], ["report", "--format", "md"],
     ["report", "--format", "svg", "--chart", "waits"]],
    ids=" ".join,
)  # fmt: skip
def test_stdout_as_output_holds_the_data_and_nothing_else(typed, results, command, place, tmp_path):
    verb, *options = command
    assert typed(verb, results.name, *options, "-o", tmp_path / "file")[0] == 0
    code, out, _ = typed(verb, results.name, *options, "-o", place)
    assert code == 0
    assert out.rstrip("\n") == (tmp_path / "file").read_text("utf-8").rstrip("\n")


def test_binary_data_goes_through_a_pipe(results, home):
    command = [sys.executable, "-m", "storagelab", "export", results.name, "--format", "sqlite", "-o", "-"]
    data = subprocess.run(command, cwd=home, stdout=subprocess.PIPE, check=True).stdout
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(data)
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (6,)


def test_binary_data_is_kept_from_a_terminal(results, home):
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "storagelab", "export", results.name, "--format", "sqlite", "-o", "-"]
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "wb") as terminal:
        ended = subprocess.run(command, cwd=home, stdout=terminal, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, "a terminal can't show this data" in ended.stderr) == (2, True)


def test_a_folder_of_charts_is_no_file(typed, results, home):
    (home / "file").write_text("mine")
    for place in ("file", "-", "/dev/stdout"):
        code, out, err = typed("report", results.name, "--format", "svg", "-o", place)
        assert (code, out) == (2, "")
        assert f"{place} is not a folder, and each chart is a file\n  name a folder with --output" in err
    assert (home / "file").read_text() == "mine"


def test_a_report_follows_no_link_out_of_its_folder(typed, results, home):
    (home / "mine").write_text("mine")
    (results / "report.html").symlink_to(home / "mine")
    code, _, err = typed("report", results.name)
    assert (code, "can't be written: it leads out of" in err) == (2, True)
    assert (home / "mine").read_text() == "mine"
