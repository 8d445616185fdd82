"""The wheel, as a newcomer installs it: on a bare root file system with Python alone, without compiler and checkout."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
AS_A_NEWCOMER = """
set -e
! command -v cc && ! command -v cargo && ! command -v git
cd /home/me
python3 -m venv lab
lab/bin/pip install --quiet --no-index --find-links /wheels storagelab
lab/bin/storagelab init wal-volume > my.toml
lab/bin/storagelab plan my.toml
lab/bin/storagelab demo
"""
needs_bare_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mmdebstrap") or not shutil.which("unshare"),
    reason="needs root and mmdebstrap",
)


@pytest.fixture
def bare(scratch) -> Iterator[Path]:
    """A root file system with Debian's Python, and the wheel and its dependencies in /wheels."""
    built = sorted((ROOT / "build" / "wheels").glob(f"*_{platform.machine()}.whl"))
    if not built:
        pytest.skip("no wheel: make wheel")
    root = scratch / "root"
    packages = "--include=python3,python3-venv"
    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", packages, "bookworm", root], check=True)
    (root / "home" / "me").mkdir()
    download = ["-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", root / "wheels", built[-1]]
    subprocess.run([sys.executable, *download], check=True)
    yield root
    shutil.rmtree(root)


@pytest.mark.campaign
@pytest.mark.timeout(1800)
@needs_bare_root
def test_a_wheel_on_a_bare_system_runs_the_demo(bare):
    inside = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" && '
    inside += 'exec env -i PATH=/usr/sbin:/usr/bin:/bin LANG=C.UTF-8 chroot "$0" /bin/sh -c "$1"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, bare, AS_A_NEWCOMER]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr[-2000:]
    assert "2 cells x 3 repetitions" in said.stdout
    assert "MEASURED, 25 runs, 5 layouts" in said.stdout
    assert (bare / "home" / "me" / "results" / "quickstart" / "report.html").is_file()
