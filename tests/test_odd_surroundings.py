"""Unexpected machines and folders: storagelab reports them in one sentence, or copes with them."""

import subprocess
import sys

import pytest
from shell import typed
from simulated_specs import SMALL

from storagelab import cli
from storagelab.run.store import Store

pytestmark = pytest.mark.slow

FEW = SMALL.replace("repetitions = 2", "repetitions = 1").replace("500_000", "5_000").replace("[1, 4]", "[1]")
READ_ONLY_SHM = "unshare -m sh -c 'mount -t tmpfs -o ro none /dev/shm && exec \"$@\"' sh"
MAY_MOUNT = subprocess.run(["bash", "-c", f"{READ_ONLY_SHM} true"], capture_output=True, check=False).returncode == 0


@pytest.fixture
def small(tmp_path):
    (tmp_path / "small.toml").write_text(FEW)
    return tmp_path


def test_a_file_where_saved_drives_go_is_told_of_before_the_first_run(small):
    folder = small / "results" / "small"
    folder.mkdir(parents=True)
    (folder / "state").write_text("mine")
    said = typed(small, "run", "small.toml")
    assert said.returncode == 2
    assert f"{folder.relative_to(small) / 'state'} can't be created: File exists" in said.stderr
    (folder / "state").unlink()
    assert typed(small, "run", "small.toml").returncode == 0


@pytest.mark.skipif(not MAY_MOUNT, reason="nobody may mount here")
def test_where_processes_get_no_semaphores_runs_are_made_side_by_side_all_the_same(small):
    said = typed(small, "run", "small.toml", "--jobs", "2", before=READ_ONLY_SHM)
    assert (said.returncode, "Traceback" in said.stderr) == (0, False)
    with Store.reading(small / "results" / "small") as store:
        assert [run.status for run in store.runs()] == ["ok", "ok"]


def test_a_report_that_gets_too_few_addresses_for_its_charts_says_so(small):
    typed(small, "run", "small.toml")
    command = ["prlimit", "--as=8000000000", sys.executable, "-m", "storagelab", "report", "small"]
    said = subprocess.run(command, cwd=small, capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert "storagelab: charts can't be drawn: this process may have only 7.5 GiB" in said.stderr


def test_a_library_that_gets_no_memory_and_a_folder_that_is_gone_are_told_in_words(capsys, tmp_path):
    for error in (MemoryError(), ImportError("lib.so: failed to map segment from shared object")):
        with pytest.raises(SystemExit, match="2"):
            cli._fail(error)
        assert capsys.readouterr().err.startswith("storagelab: out of memory")
    (tmp_path / "gone").mkdir()
    said = typed(tmp_path / "gone", "plan", "x.toml", before='sh -c \'rmdir "$PWD"; exec "$@"\' sh')
    assert (said.returncode, said.stderr) == (2, "storagelab: this folder no longer exists: go to another (cd)\n")
