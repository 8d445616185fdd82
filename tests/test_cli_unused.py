"""A verb refuses an option that it does not use in the given case, before it reads or touches anything."""

from __future__ import annotations

import pytest
import typer.main
from simulated_specs import SMALL
from test_capture_folder import some_capture

from storagelab import cli
from storagelab.capture import folder
from storagelab.verbs import unused_of

JOB = ("--class x", "--size 1Gi", "--results-class x", "--cpu 1", "--memory 1Gi", "--namespace x", "--without-rights")
CASES = [
    ("plan small.toml --json", "--all"),
    ("plan listed.toml", "--pilot small"),
    ("run listed.toml", "--jobs 2"),
    ("run small.toml --executor dask --scheduler tcp://127.0.0.1:1", "--jobs 2"),
    *(("run small.toml", one) for one in ("--scheduler x", "--trust-network", "--time-limit 1min")),
    *(("run small.toml", one) for one in ("--within 3%", "--budget 2h")),
    *(("run listed.toml", one) for one in ("--prepared a", "--yes-wipe S1234")),
    ("simulate small.toml --every-io", "--trace"),
    *(("report cap", one) for one in ("--results r", "--fit robust", "--chart waits", "--embed-data", "--brief",
                                      "--sql-server-names", "--format png", "--format svg")),
    *((f"report small{form}", "--chart waits") for form in ("", " --format md")),
    *((f"report small --format {form}", one) for form in ("md", "png", "svg") for one in ("--brief", "--embed-data")),
    *(("report small --brief", one) for one in ("--embed-data", "--sql-server-names")),
    ("report small --format png", "--sql-server-names"),
    ("compare small prediction.json", "--fail-if-slower 5%"),
    ("compare small other --json", "--format html"),
    *((path, "--by spec") for path in ("compare small other", "compare --history small")),
    *((f"export small --format {form}", "--fit robust") for form in ("csv", "waits-csv")),
    *(("doctor --target postgresql://127.0.0.1:1/", one) for one in ("--results r", "--all")),
    ("doctor --json", "--all"),
    ("capture postgresql://127.0.0.1:1/ --no-trace", "--requests"),
    ("recommend cap volumes.toml", "--load x"),
    ("drives show iodrive-320 --toml", "--sources"),
    *(("k8s small.toml --look -", one) for one in (*JOB, "--node x", "--output x", "--image x", "--fetch")),
    *(("k8s small.toml --fetch", one) for one in JOB),
    ("init", "--output x"),
    ("init wal-volume", "--json"),
]  # fmt: skip


@pytest.fixture
def around(home):
    (home / "small.toml").write_text(SMALL)
    (home / "listed.toml").write_text(
        'order = "as-listed"\n[target]\nengine = "postgres"\n[volumes.a]\npath = "."\n[factors]\n'
        '"layout.data_files" = [1, 2]\n'
    )
    folder.write(home / "cap", some_capture())
    (home / "prediction.json").write_text("{}")
    return home


@pytest.mark.parametrize(("path", "option"), CASES, ids=lambda words: words)
def test_an_option_that_a_path_does_not_use_is_refused_with_the_way_out_and_nothing_is_touched(
    typed, around, monkeypatch, path, option
):
    monkeypatch.setenv("STORAGELAB_RESULTS", "results")  # what is in the environment is for other verbs, too
    before = sorted(around.rglob("*"))
    code, out, err = typed(*path.split(), *option.split())
    name = option.split()[0]
    assert (code, out) == (2, "")
    refused, way_out = err.splitlines()
    assert refused.startswith(f"storagelab: {name}: ")
    assert way_out.startswith("  ")
    assert sorted(around.rglob("*")) == before


def rules(command, verb):
    """(verb, option) for each rule of a verb, and of the verbs below it."""
    for one in unused_of(command):
        yield from ((verb, option) for option in one.options.split())
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from rules(command.get_command(None, name), verb or name)


def test_every_rule_of_every_verb_has_been_tried():
    tried = {(path.split(" ")[0], option.split()[0]) for path, option in CASES}
    assert set(rules(typer.main.get_command(cli.app), "")) == tried


@pytest.mark.parametrize("words", [["report", "cap"], ["simulate", "small.toml"], ["plan", "small.toml", "--json"]])
def test_a_variable_of_the_environment_is_no_option_that_was_given(typed, around, monkeypatch, words):
    monkeypatch.setenv("STORAGELAB_RESULTS", "elsewhere")
    assert typed(*words)[0] == 0
