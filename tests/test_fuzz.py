"""The fuzzer itself, and a small campaign of it; the large one is a part of the bench."""

import subprocess
import sys
import tomllib
from pathlib import Path
from random import Random

import pytest

from bench import fuzz
from bench.fuzz import Said
from bench.mutations import ODD, toml, wrong_spec

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent


def test_a_small_campaign_breaks_no_promise():
    words = ["--seed", "5", "--typed", "1", "--forked", "10", "--stores", "1"]
    said = subprocess.run(
        [sys.executable, "-m", "bench.fuzz", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert ": 0 promises broken" in said.stdout


def test_a_seed_makes_the_same_specs_again_and_another_makes_others():
    text = (ROOT / "experiments/quickstart.toml").read_bytes()
    document = tomllib.loads(text.decode())

    def made(seed: int) -> list[bytes]:
        return [wrong_spec(document, text, Random(f"{seed}/{number}")) for number in range(40)]

    assert made(1) == made(1)
    assert made(1) != made(2)
    assert len(set(made(1))) > 30


def test_what_is_odd_can_be_written_as_toml():
    values = {f"v{number}": value for number, value in enumerate(ODD) if value is not None and value == value}
    read = tomllib.loads(toml({name: value for name, value in values.items() if value != "\x7f"}))
    assert read.keys() >= {"v0", "v10"}


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


def test_a_fork_that_raises_aborts_or_says_no_is_told_apart(tmp_path):
    assert fuzz.in_process(("plan", "nothing.toml"), tmp_path).code == 2
    said = fuzz.in_process(("--version",), tmp_path)
    assert (said.code, said.out[:11]) == (0, "storagelab ")
