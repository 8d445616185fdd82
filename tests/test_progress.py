"""The progress while runs are made: a live bar on a terminal, plain lines in a pipe, every line in a file."""

import io
import logging
import re

from builders import make_experiment, make_measurement, make_plan, make_run
from rich.console import Console
from simulated_specs import planned as planned_of_small

from storagelab.model.measurement import Check
from storagelab.run.progress import LOG_FILE, RunProgress, result_text
from storagelab.words.numbers import duration

PLAN = make_plan(make_experiment({"layout.data_files": [1, 2]}, repetitions=2))


def ended(planned, plan=PLAN, *, reason: str = "", elapsed_s: float = 8.0):
    cell = plan.cell(planned.cell_id)
    return make_run(planned, cell, None if reason else make_measurement(cell.config, elapsed_s, None), reason)


def shown(tmp_path, *, terminal: bool, reasons=("", "", "", "")) -> tuple[str, RunProgress]:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=100, highlight=False)
    with RunProgress(PLAN, PLAN.runs, [], console, tmp_path) as progress:
        for planned, reason in zip(PLAN.runs, reasons, strict=True):
            progress.started(planned, PLAN.cell(planned.cell_id))
            progress.work_done(planned, 100_000)
            progress.stored(ended(planned, reason=reason))
    return text.getvalue(), progress


def test_piped_progress_is_one_plain_line_a_run(tmp_path):
    text, progress = shown(tmp_path, terminal=False)
    lines = text.splitlines()
    assert len(lines) == 4
    assert "\x1b" not in text
    assert "\r" not in text
    assert re.match(r"\[1/4\] [^;]+ left; .+, repetition 1: 8\.0.* rows/s$", lines[0])
    assert lines[-1].startswith("[4/4] ")
    assert " left" not in lines[-1]
    assert progress.done == 4


def test_at_80_columns_the_time_left_is_in_sight_however_long_the_names_are_and_in_the_log(tmp_path):
    """Levels with brackets are shown as they are."""
    plan = make_plan(make_experiment({"driver": [name * 20 for name in ("[bold]x[/bold] ", "[/oops] ")]}, 1))
    text = io.StringIO()
    with RunProgress(plan, plan.runs, [], Console(file=text, force_terminal=True, width=80), tmp_path) as progress:
        progress.started(plan.runs[0], plan.cell(plan.runs[0].cell_id))
        progress._bar.refresh()
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.getvalue())
        drawn = plain.replace("\r", "\n").splitlines()[-1]
        assert re.match(r'0/2 runs, .+ left, a guess .*driver = "(\[bold\]|\[/oops\])', drawn)
        assert len(drawn) <= 80
        progress.stored(ended(plan.runs[0], plan))
    (line,) = [line for line in (tmp_path / LOG_FILE).read_text().splitlines() if "[1/2]" in line]
    assert re.search(r"\[1/2\] [^;]+ left; driver = ", line)


def test_on_a_terminal_a_bar_is_shown_beside_the_lines(tmp_path):
    text, _ = shown(tmp_path, terminal=True)
    assert "\x1b[" in text
    assert "[2/4] " in text
    assert "4/4 runs" in text


def test_every_line_is_in_the_log_with_its_time(tmp_path):
    shown(tmp_path, terminal=False)
    lines = (tmp_path / LOG_FILE).read_text().splitlines()
    assert sum("start " in line for line in lines) == 4
    assert sum("rows/s" in line for line in lines) == 4
    assert all(line[:2] == "20" for line in lines)
    assert logging.getLogger("storagelab").handlers == []


def test_failed_runs_are_counted_and_teach_no_duration(tmp_path):
    text, progress = shown(tmp_path, terminal=False, reasons=("", "the disk is full\nits log ends with", "", ""))
    assert progress.failed == 1
    assert "FAILED: the disk is full\n" in text
    assert "its log" not in text
    assert len(progress._finished) == 3


def test_the_result_line_says_what_is_unverified():
    planned = PLAN.runs[0]
    cell = PLAN.cell(planned.cell_id)
    check = Check(name="target.settings.fsync", asked="on", got="off", ok=False, read_from="pg_settings")
    measured = make_measurement(cell.config, 8.0, None, checks=(check,))
    run = make_run(planned, cell, measured, "target.settings.fsync: asked on, got off")
    assert result_text(run).endswith("UNVERIFIED: target.settings.fsync: asked on, got off")
    assert result_text(make_run(planned, cell, None)) == "FAILED: no reason given"


BLOCKS = planned_of_small()
"""Two blocks of four runs."""
TEN_SECONDS_EACH = [(cell.cell_id, 10.0) for cell in BLOCKS.cells]


def left(tmp_path, pending, *, at_once: int, half_done=()) -> str:
    console = Console(file=io.StringIO())
    with RunProgress(BLOCKS, pending, TEN_SECONDS_EACH, console, tmp_path, at_once=at_once) as progress:
        for planned in half_done:
            progress.started(planned, BLOCKS.cell(planned.cell_id))
            progress.work_done(planned, BLOCKS.cell(planned.cell_id).config.workload.rows // 2)
        return progress.time_left()


def test_two_processes_need_half_the_time(tmp_path):
    assert left(tmp_path, BLOCKS.runs, at_once=1) == f"{duration(80)} left"
    assert left(tmp_path, BLOCKS.runs, at_once=2) == f"{duration(40)} left"
    assert left(tmp_path, BLOCKS.runs, at_once=2, half_done=[BLOCKS.runs[0], BLOCKS.runs[4]]) == f"{duration(35)} left"


def test_but_no_less_than_the_longest_block_as_its_runs_are_made_in_order(tmp_path):
    assert left(tmp_path, BLOCKS.runs[:5], at_once=2) == f"{duration(40)} left"
    assert left(tmp_path, BLOCKS.runs[:4], at_once=2, half_done=BLOCKS.runs[:1]) == f"{duration(35)} left"
    assert left(tmp_path, [], at_once=2) == f"{duration(0)} left"
