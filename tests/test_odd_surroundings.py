"""Unexpected machines and folders: reported in one sentence, or worked around."""

import subprocess

import pytest
from shell import typed
from simulated_specs import SMALL

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
