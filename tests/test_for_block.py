"""Volumes that the runs of a block share: made once, prepared again for the next block, and prepared by hand."""

import os
import pty
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import shortcuts
from raw_io_specs import needs_fio, parsed, runs_of
from shell import typed
from test_for_run import as_root, left_of

from storagelab.findings.analysis import analyse
from storagelab.findings.kinds.preparations import PreparedAgain
from storagelab.findings.statements import state
from storagelab.findings.times import blocks_of
from storagelab.model.measurement import preparation_of
from storagelab.report.charts import drawn_charts
from storagelab.run.stored import read
from storagelab.spec.matrix import expand
from storagelab.stats import stalls
from storagelab.stats.fit import prepared


def spec(place: Path, volume: str, factors: str, header: str = "repetitions = 4\nblocks = 2") -> str:
    return (
        f'{header}\n[target]\nengine = "raw-io"\n[volumes.a]\npath = "{place}"\n{volume}\n[layout]\ndata_size = '
        '"8MiB"\n'
        '[workload]\noperation = "read"\npattern = "random"\nblock = "8KiB"\noutstanding = 8\nduration = "1s"\n'
        f'warm_up = "0s"\n[factors]\n{factors}\n'
    )


MADE = 'file = "64MiB"\nmade_for = "block"'
TWO = '"volumes.a.mkfs_options" = ["-m 0", "-m 1"]'
BY_HAND = 'prepare = "by-hand"\nprepare_text = "Turn the switch."\nvariables = { cache = "on" }'
CACHE = '"volumes.a.variables.cache" = ["on", "off"]'


def test_blocks_of_each_level_come_in_random_order_and_share_the_repetitions(tmp_path):
    text = spec(tmp_path, MADE, TWO + '\n"workload.outstanding" = [4, 8]', "repetitions = 6\nblocks = 3")
    plan = expand(parsed(tmp_path, text))
    level = {cell.cell_id: cell.levels["volumes.a.mkfs_options"] for cell in plan.cells}
    of_block = {number: {level[run.cell_id] for run in block.runs} for number, block in plan.blocks.items()}
    assert all(len(levels) == 1 for levels in of_block.values())
    assert Counter(str(levels) for levels in of_block.values()) == {"{'-m 0'}": 3, "{'-m 1'}": 3}
    assert [len(block.runs) for block in plan.blocks.values()] == [4] * 6
    assert len({(run.cell_id, run.repetition) for run in plan.runs}) == len(plan.runs) == 24
    firsts = {next(iter(expand(parsed(tmp_path, f"seed = {seed}\n{text}")).runs)).cell_id[:3] for seed in range(1, 9)}
    assert len(firsts) > 1


def _stated(tmp_path: Path, blocks: int, luck: float, slower: float):
    """What is stated of two levels that were prepared so many times, 3 runs each, with runs that differ by 0.1 %."""
    plan = expand(parsed(tmp_path, spec(tmp_path, MADE, TWO, f"repetitions = {3 * blocks}\nblocks = {blocks}")))
    rng = np.random.default_rng(blocks)
    of_block = rng.normal(0, luck, len(plan.blocks))
    log_s, made_in = np.zeros((2, 3 * blocks)), np.zeros((2, 3 * blocks), dtype=int)
    for run in plan.runs:
        cell, column = int(run.cell_id[1:]) - 1, run.repetition - 1
        log_s[cell, column] = of_block[run.block] + slower * cell + rng.normal(0, 0.001)
        made_in[cell, column] = run.block
    kinds = blocks_of(plan)
    fitted = prepared(stalls.fit(log_s, kinds), made_in)
    return state(parsed(tmp_path, spec(tmp_path, MADE, TWO)).factors, plan, fitted, kinds)


def test_levels_are_compared_by_the_scatter_of_their_preparations_and_not_at_all_if_each_was_prepared_once(tmp_path):
    assert _stated(tmp_path, 1, 0.05, 0.3).judged.verdict == "untested"
    assert _stated(tmp_path, 5, 0.05, 0.0).judged.verdict == "indistinguishable"  # whatever the runs of a block share
    assert _stated(tmp_path, 5, 0.05, 0.3).judged.verdict == "winner"
    (effect,) = _stated(tmp_path, 5, 0.05, 0.3).effects
    assert effect.ratio.low < np.exp(0.3) < effect.ratio.high
    assert effect.ratio.high / effect.ratio.low > 1.05  # as wide as preparations differ, and not as runs do


@as_root
@needs_fio
@pytest.mark.slow
def test_a_volume_is_made_once_for_each_block_and_says_what_was_written_to_it_since(scratch):
    text = spec(scratch, MADE, TWO, "repetitions = 4\nblocks = 2")
    runs = runs_of(scratch, text)
    assert {run.status for run in runs} == {"ok"}
    of_block = {block: [run for run in runs if run.block == block] for block in {run.block for run in runs}}
    assert len(of_block) == len({preparation_of(run) for run in runs}) == 4
    for first, second in of_block.values():
        assert preparation_of(first) == preparation_of(second)
        written = [
            run.measurement.counters["volumes"]["volume.a.written_since_prepared_bytes"] for run in (first, second)
        ]
        assert written[0] < written[1] - 8e6  # the file that fio reads was written between
    assert left_of(scratch) == []
    experiment = parsed(scratch, text)
    findings = analyse(experiment, expand(experiment), runs)
    (again,) = PreparedAgain.of(findings)
    assert again.preparations == 4
    past = drawn_charts(findings, runs)["drive-past"].data
    written_gb = [float(row["x"]) for row in past.rows]
    assert [row["block"] for row in past.rows] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert all(before < after for before, after in zip(written_gb[::2], written_gb[1::2], strict=True))
    assert not any(comparison.across_blocks for comparison in findings.comparisons)


@needs_fio
def test_run_ends_until_a_person_has_prepared_the_next_block_and_goes_on_when_told_so(scratch):
    (scratch / "hand.toml").write_text(spec(scratch, BY_HAND, CACHE, "repetitions = 1"))
    waits = typed(scratch, "run", "hand.toml")
    assert waits.returncode == 4
    assert "block 1 of 2: prepare volume a at" in waits.stderr
    assert "Turn the switch." in waits.stderr
    assert "storagelab run hand.toml --prepared a" in waits.stderr
    first = typed(scratch, "run", "hand.toml", "--prepared", "a")
    assert (first.returncode, "block 2 of 2" in first.stderr) == (4, True)  # it counts for one block
    assert typed(scratch, "run", "hand.toml", "--prepared", "a").returncode == 0
    runs = read("hand", scratch / "results").runs
    assert len({preparation_of(run) for run in runs}) == 2
    assert len(runs) == 2


@needs_fio
def test_run_asks_at_a_terminal_and_does_not_go_on_before_the_volume_is_as_asked(scratch):
    asked = BY_HAND + '\ncheck = "test -e ready"'
    (scratch / "hand.toml").write_text(spec(scratch, asked, '"workload.outstanding" = [4, 8]', "repetitions = 1"))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*shortcuts.command(scratch), "run", "hand.toml", "--allow-commands"], cwd=scratch, stdin=theirs, stdout=theirs,
        stderr=theirs, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TERM": "dumb"},
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    assert "Turn the switch." in _until(ours, "Type yes when it is done.")
    os.write(ours, b"yes\n")
    assert "check of volume a" in _until(ours, "confirm it again")
    (scratch / "ready").write_text("")
    os.write(ours, b"yes\n")
    _until(ours, "report:")
    assert process.wait(60) == 0
    os.close(ours)


@needs_fio
@pytest.mark.timeout(600)
def test_a_volume_prepared_by_hand_is_used_on_after_the_power_failed(quick_guest, tmp_path):
    drive = tmp_path / "drive"
    with drive.open("wb") as file:
        file.truncate(2**26)
    first, second = (quick_guest("reboots", 0, 8, arguments=[boot], kept=drive, limit_s=250) for boot in "12")
    assert (first.exit_code, second.exit_code) == (None, 0), second.output
    assert "block 2 of 2" in second.output
    assert "the block is whole" in second.output


def _until(terminal: int, words: str) -> str:
    """What is shown until these words are."""
    shown, ends_at = "", time.monotonic() + 60
    while words not in shown and time.monotonic() < ends_at:
        try:
            shown += os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # the program has ended
            break
    assert words in shown, shown
    return shown
