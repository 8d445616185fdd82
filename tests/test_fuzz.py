"""The fuzzer itself, and a small campaign of it; the large one is a part of the bench."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench import fuzz
from bench.fuzz import Said

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent


def test_a_small_campaign_breaks_no_promise():
    words = ["--seed", "5", "--typed", "1", "--forked", "10", "--stores", "1"]
    said = subprocess.run(
        [sys.executable, "-m", "bench.fuzz", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert ": 0 promises broken" in said.stdout


@pytest.mark.parametrize(
    ("said", "promise"),
    [
        (Said(None, "", ""), "ends within 60 s"),
        (Said(-6, "", "panic"), "is not aborted"),
        (Said(1, "", "Traceback (most recent call last):"), "no traceback"),
        (Said(70, "", "wrong.toml"), "exit code 0, 1 or 2"),
        (Said(2, "", "storagelab: something is wrong"), "names the file"),
        (Said(0, "\x1b[2J", ""), "nothing raw on the terminal"),
    ],
)
def test_a_broken_promise_is_told_of(tmp_path, said, promise):
    found = list(fuzz.specs(tmp_path, 1, 1, lambda words, folder: said))
    assert [one.promise for one in found] == [promise]
    assert (tmp_path / "spec-0.toml").exists()
