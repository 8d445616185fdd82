"""A verb, a load, an engine, a layer of a volume and a key that tests add are found everywhere. A verb, a load or a
layer needs no change of storagelab's files. An engine needs one line, and a key needs a line in each of two files.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

COMMAND = Path(__file__).resolve().parent / "added" / "command.py"

SPEC = """name = "added"
repetitions = 1
[target]
engine = "{engine}"
[volumes.a]
path = "."
[workload]
kind = "{kind}"
connections = 2
"""
TRICKLE = SPEC.format(engine="postgres", kind="trickle") + 'duration = "1s"\n[factors]\n"workload.width" = [8, 16]\n'
KEYED = (
    SPEC.format(engine="postgres", kind="random-insert")
    + 'rows_per_connection = 50\n[factors]\n"between_runs.rest_s" = [0, 0.5]\n'
)
LEDGER = (
    SPEC.format(engine="ledger", kind="random-insert")
    + 'rows_per_connection = 50\n[factors]\n"layout.data_files" = [1, 2]\n'
)


@pytest.fixture(scope="module")
def typed(templates) -> Iterator[Callable[..., str]]:
    """Runs a command in a folder; returns what it said."""
    command = [sys.executable, COMMAND, templates]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as lab:

        def type_(folder: Path, *words: str, code: int = 0) -> str:
            print(json.dumps([str(folder), words]), file=lab.stdin, flush=True)
            ended, said = json.loads(lab.stdout.readline())
            assert ended == code, said
            return said

        yield type_


def exported(typed: Callable[..., str], folder: Path) -> dict:
    typed(folder, "export", "added", "--format", "json", "-o", "added.json")
    return json.loads((folder / "added.json").read_text())


def test_the_files_of_the_test_are_no_files_of_storagelabs():
    import storagelab

    names = {path.name for path in Path(storagelab.__file__).parent.rglob("*")}
    assert not {"tally.py", "trickle.py", "ledger", "nested.py"} & names


def test_a_verb_is_listed_explained_run_and_refuses_what_it_would_not_use(typed, scratch):
    assert "  tally    List the cells of a spec." in typed(scratch, "--help")
    assert "--count  Print their number." in typed(scratch, "tally", "--help")
    (scratch / "added.toml").write_text(LEDGER)
    assert typed(scratch, "tally", "added.toml", "--count") == "2\n"
    assert "c02 {'layout.data_files': 2}" in typed(scratch, "tally", "added.toml", "--long")
    assert "--long: is for the list\n  Leave it out." in typed(
        scratch, "tally", "added.toml", "--count", "--long", code=2
    )


def test_a_load_is_in_the_reference_and_in_the_words_of_errors(typed, scratch):
    assert '| `"trickle"` | Reads single rows of a small table. |' in typed(scratch, "keys")
    assert "| Bytes of a row's text, an even number. |" in typed(scratch, "keys")
    spec = scratch / "added.toml"
    spec.write_text(TRICKLE.replace('"trickle"', '"trickel"'))
    assert '"trickle"' in typed(scratch, "plan", str(spec), code=2)
    spec.write_text(TRICKLE.replace("[8, 16]", "[8, 15]"))
    assert "workload.width: 15 is odd (in the cell workload.width = 15)\n  Set 16." in typed(
        scratch, "plan", str(spec), code=2
    )
    spec.write_text(TRICKLE.replace("postgres", "mariadb"))
    assert "trickle loads postgres, and target.engine is mariadb" in typed(scratch, "plan", str(spec), code=2)


@pytest.mark.slow
def test_a_load_is_planned_run_reported_and_exported(typed, scratch):
    (scratch / "added.toml").write_text(TRICKLE)
    planned = typed(scratch, "plan", "added.toml", "--all")
    assert "trickle by pgbench" in planned
    assert "the data of trickle of width 8 takes about" in planned
    typed(scratch, "run", "added.toml")
    assert "width = 16" in typed(scratch, "report", "added", "--format", "md")
    cells = exported(typed, scratch)["cells"]
    assert [cell["config"]["workload"]["kind"] for cell in cells] == ["trickle"] * 2
    assert all(run["measurement"]["work"]["amount"] > 0 for cell in cells for run in cell["runs"])


def test_an_engine_is_planned_run_reported_and_exported(typed, scratch):
    assert '"ledger"' in typed(scratch, "keys")
    (scratch / "added.toml").write_text(LEDGER)
    assert "Ledger 3." in typed(scratch, "plan", "added.toml")
    typed(scratch, "run", "added.toml")
    assert "2 data files" in typed(scratch, "report", "added", "--format", "md")
    cells = exported(typed, scratch)["cells"]
    assert {cell["config"]["target"]["engine"] for cell in cells} == {"ledger"}
    assert all(run["measurement"]["work"]["amount"] == 100 for cell in cells for run in cell["runs"])


def test_a_flavour_of_an_engine_is_planned_and_politely_refused_where_its_server_is_not(typed, scratch):
    assert '"mysql"' in typed(scratch, "keys")
    (scratch / "added.toml").write_text(SPEC.format(engine="mysql", kind="sysbench"))
    said = typed(scratch, "plan", "added.toml", code=2)
    assert "target.engine: no server program of MySQL is on this machine\n  install MySQL 8" in said
    (scratch / "added.toml").write_text(SPEC.format(engine="mysql", kind="pgbench"))
    assert "pgbench loads postgres, and target.engine is mysql" in typed(scratch, "plan", "added.toml", code=2)


NESTED = LEDGER.replace('path = "."', 'path = "."\nfile = "64MiB"\nnested = 2')


def test_a_kind_of_volume_is_in_the_reference_and_in_the_words_of_errors(typed, scratch):
    assert "how many loop devices lie between" in typed(scratch, "keys")
    spec = scratch / "added.toml"
    spec.write_text(NESTED.replace("nested = 2", "nested = 2\nsector_bytes = 1024"))
    assert "volumes.a.nested: takes no such sectors" in typed(scratch, "plan", "added.toml", code=2)
    spec.write_text(NESTED.replace('file = "64MiB"\n', ""))
    assert "volumes.a.nested: is for a volume that storagelab makes" in typed(scratch, "plan", "added.toml", code=2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make drives")
def test_a_kind_of_volume_is_planned_made_read_back_and_undone(typed, scratch):
    (scratch / "added.toml").write_text(NESTED)
    assert "a: losetup: loop device 2 of 2 on the drive" in typed(scratch, "plan", "added.toml", "--all")
    typed(scratch, "run", "added.toml")
    runs = [run | run["measurement"] for cell in exported(typed, scratch)["cells"] for run in cell["runs"]]
    assert [run["status"] for run in runs] == ["ok"] * 2
    assert all(run["environment"]["volumes"]["a"]["made"]["nested"].startswith("/dev/loop") for run in runs)
    assert str(scratch) not in subprocess.run(["losetup", "--list"], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_a_key_is_documented_checked_varied_run_and_exported(typed, scratch):
    assert "let the drives rest, once all is written out." in typed(scratch, "keys")
    spec = scratch / "added.toml"
    for wrong, said in (("[0, 61]", "60"), ('[0, "half"]', "between_runs.rest_s")):
        spec.write_text(KEYED.replace("[0, 0.5]", wrong))
        assert said in typed(scratch, "plan", "added.toml", code=2)
    spec.write_text(KEYED.replace("rest_s", "rset_s"))
    assert 'Did you mean "between_runs.rest_s"?' in typed(scratch, "plan", "added.toml", code=2)
    spec.write_text(KEYED)
    assert "rest" in typed(scratch, "plan", "added.toml")
    typed(scratch, "run", "added.toml")
    assert (scratch / "rested").read_text() == "0.5"
    assert "rest" in typed(scratch, "report", "added", "--format", "md")
    cells = exported(typed, scratch)["cells"]
    assert [cell["config"]["between_runs"]["rest_s"] for cell in cells] == [0.0, 0.5]
    assert all(run["measurement"]["work"]["amount"] == 100 for cell in cells for run in cell["runs"])
