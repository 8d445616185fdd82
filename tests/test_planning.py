"""A plan begins with what needs a decision, and checks that take long say how far they have come."""

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from builders import make_planned
from rich.console import Console
from test_terminal import volume

from storagelab.engines.postgres.server import find_binaries
from storagelab.report.text.plan import PlanFacts, print_plan

SPEC = """
name = "slow"
target = { engine = "postgres", bin_dir = "bin" }
volumes.a = { path = "a" }
[factors]
"target.settings.wal_compression" = ["off", "on"]
"target.settings.synchronous_commit" = ["off", "on", "local"]
"target.settings.wal_recycle" = ["off", "on"]
"""
HOW_FAR = re.compile(r"checking whether settings work together: (\d+) of 12(, about [\d.]+ (s|min)( \d+ s)? left)?")
"""Without an estimate while nothing is done yet."""


@pytest.fixture
def slow(scratch) -> Path:
    """A folder with a spec for a PostgreSQL whose programs take a while to start."""
    real = find_binaries(None).folder
    (scratch / "bin").mkdir()
    (scratch / "a").mkdir()
    for name in ("postgres", "initdb"):
        program = scratch / "bin" / name
        program.write_text(f'#!/bin/sh\nsleep 0.15\nexec "{real}/{name}" "$@"\n')
        program.chmod(0o755)
    (scratch / "slow.toml").write_text(SPEC)
    return scratch


def test_a_plan_whose_checks_take_long_says_how_far_they_are_and_writes_nothing_of_that_into_its_output(slow):
    said = subprocess.run(
        [sys.executable, "-m", "storagelab", "plan", "slow.toml", "--allow-commands"], cwd=slow, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    lines = said.stderr.splitlines()
    assert lines
    assert all(HOW_FAR.fullmatch(line) or re.match(r"checking settings: \d+ of 12", line) for line in lines), (
        said.stderr
    )
    assert "checking" not in said.stdout


def test_on_a_terminal_one_line_moves_and_goes_away(slow):
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "storagelab", "plan", "slow.toml", "--allow-commands"],
        cwd=slow, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = bytearray()
        while part := _read(ours):
            shown += part
        process.communicate()
    os.close(ours)
    assert process.returncode == 0
    numbers = [int(found[1]) for found in HOW_FAR.finditer(shown.decode())]
    assert numbers == sorted(numbers)
    assert len(numbers) > 2
    assert shown.decode().endswith("\x1b[2K"), "the line is wiped out at the end"


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


def test_a_plan_of_twelve_cells_is_one_screen_whose_first_lines_say_what_to_decide_and_all_shows_the_rest():
    experiment, plan = make_planned({"layout.data_files": [1, 2, 4, 8], "layout.log": ["a", "b", "c"]}, repetitions=3)
    facts = PlanFacts(
        server="PostgreSQL 18.4, private", estimate_s=433.0, steps=("mkfs",) * 20, tells="differences of 15 % or more",
        volumes=tuple(volume(name, "nvme0n1, ext4", 3 * 2**30, 2**30) for name in "abc"),
        warnings=("volume a lacks space", "volumes b, c are on one device\na reason" + " of many words" * 30),
    )  # fmt: skip
    brief, whole = io.StringIO(), io.StringIO()
    print_plan(Console(file=brief, width=80), experiment, plan, facts)
    lines = brief.getvalue().splitlines()
    assert [line[:8].strip() for line in lines[1:6]] == ["! volume", "! volume", "Runs", "Time", "Tells"]
    assert (len(lines) <= 24, max(map(len, lines)) <= 80, "a reason" in brief.getvalue()) == (True, True, False)
    print_plan(Console(file=whole, width=80), experiment, plan, facts, whole=True)
    assert ("a reason" in whole.getvalue(), whole.getvalue().count("- mkfs")) == (True, 20)
    listed = [line.split()[:3] for line in whole.getvalue().splitlines()[-len(plan.runs) :]]
    assert listed == [[str(n), str(run.repetition), run.cell_id] for n, run in enumerate(plan.runs, 1)]
