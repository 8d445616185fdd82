"""The wheel, as a newcomer installs it: on a bare root file system with Python alone, without compiler and checkout."""

import os
import platform
import shutil
import subprocess
import sys
import zipfile
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
    assert "MEASURED, 15 runs, 3 layouts" in said.stdout
    assert (bare / "home" / "me" / "results" / "demo" / "report.html").is_file()


NAME = "storagelab-0.3.0-cp311-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
METADATA = """Metadata-Version: 2.1
Name: storagelab
Version: 0.3.0
Requires-Python: >=3.11
Requires-Dist: pydantic>=2.12,<3
"""
OF_GLIBC = ("--platform", "manylinux_2_28_x86_64", "--platform", "manylinux2014_x86_64")


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        (("--platform", "musllinux_1_2_x86_64"), "is not a supported wheel on this platform"),
        (("--platform", "manylinux2014_aarch64"), "is not a supported wheel on this platform"),
        (("--python-version", "3.9", *OF_GLIBC), "is not a supported wheel on this platform"),
        (("--python-version", "3.11", *OF_GLIBC), "No matching distribution found for pydantic"),
    ],
    ids=["musl", "another processor", "an old Python", "no index"],
)
def test_the_page_of_installation_has_what_pip_says_where_the_wheel_does_not_fit(tmp_path, machine, says):
    """The wheel is empty but for its name and what it needs: pip reads no more before it refuses."""
    with zipfile.ZipFile(tmp_path / NAME, "w") as wheel:
        wheel.writestr("storagelab-0.3.0.dist-info/METADATA", METADATA)
        wheel.writestr("storagelab-0.3.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n")
        wheel.writestr("storagelab-0.3.0.dist-info/RECORD", "")
    download = [
        "download", "--no-index", "--only-binary", ":all:", "--dest", tmp_path / "into", *machine, tmp_path / NAME,
    ]  # fmt: skip
    refused = subprocess.run([sys.executable, "-m", "pip", *download], capture_output=True, text=True, check=False)
    assert says in refused.stderr
    assert f"`{says}`" in (ROOT / "docs" / "how-to" / "install.md").read_text("utf-8")


def test_make_with_a_python_that_is_too_old_says_which_it_needs(tmp_path):
    """A stand-in answers as Python 3.9 does."""
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2\nexit 1\n')
    old.chmod(0o755)
    command = ["sh", ROOT / "tools" / "make-venv.sh", tmp_path / "venv"]
    said = subprocess.run(command, env={**os.environ, "PYTHON": str(old)}, capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert f"it needs Python 3.11, 3.12, 3.13 or 3.14; {old} is" in said.stderr
    assert "make setup PYTHON=" in said.stderr
    assert not (tmp_path / "venv").exists()
