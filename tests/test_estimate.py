"""How long runs will take, learned from those that are done."""

import pytest
from builders import make_experiment, make_plan
from hypothesis import given
from hypothesis import strategies as st

from storagelab.run.estimate import estimate
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse

PLAN = make_plan(make_experiment({"layout.data_files": [1, 2]}, repetitions=3))
FIRST, SECOND = (cell.cell_id for cell in PLAN.cells)
ROWS = PLAN.cells[0].config.workload.rows


def test_before_the_first_run_it_is_a_guess_and_says_so():
    guess = estimate(PLAN, PLAN.runs, [])
    assert guess.learned_from == 0
    assert guess.seconds == pytest.approx(6 * (ROWS / 50_000 + 2))


def test_a_cell_takes_as_long_as_its_own_runs_did():
    known = estimate(PLAN, PLAN.runs, [(FIRST, 10.0), (FIRST, 12.0), (SECOND, 30.0)])
    assert known.seconds == pytest.approx(3 * 11 + 3 * 30)
    assert known.learned_from == 3


def test_a_limit_of_the_log_s_volume_bounds_how_fast_commits_follow_each_other():
    text = (
        '[target]\nengine = "postgres"\n[volumes.a]\npath = "/x"\nfile = "8GiB"\nlimit = { write_iops = 92 }\n'
        '[workload]\nkind = "pgbench"\nconnections = 1\ntransactions_per_connection = 900\n'
    )
    plan = expand(parse(text, "x.toml"))
    made_s = plan.cells[0].config.workload.rows_made / plan.cells[0].config.workload.rows_made_per_s
    # a write and a flush for each commit, and 90 of them in a second
    assert estimate(plan, plan.runs[:1], []).seconds == pytest.approx(2 + made_s + 900 * 2 / 90)


def by_rows(*rows_per_connection):
    """A plan of one run for each size of 16 connections, and its cells."""
    plan = make_plan(make_experiment({"workload.rows_per_connection": rows_per_connection}, repetitions=1))
    return plan, [cell.cell_id for cell in plan.cells]


def test_a_first_cell_that_took_twice_the_guess_doubles_the_guess_of_the_others():
    plan, (small, _) = by_rows(10_000, 40_000)
    known = estimate(plan, plan.runs, [(small, 2 * (2 + 3.2))])
    assert known.seconds == pytest.approx(2 * (2 + 3.2) + 2 * (2 + 12.8))


@given(st.floats(0, 60), st.floats(1e-7, 1e-3))
def test_set_up_and_seconds_per_row_are_learned_from_cells_of_two_sizes(setup_s, s_per_row):
    plan, ids = by_rows(100, 50_000, 400_000)
    walls = [setup_s + cell.config.workload.rows * s_per_row for cell in plan.cells]
    known = estimate(plan, plan.runs, list(zip(ids, walls, strict=True))[:2])
    assert known.seconds == pytest.approx(sum(walls), rel=1e-6)


@given(st.lists(st.floats(0.01, 1e5), min_size=2, max_size=2))
def test_no_time_is_learned_to_be_negative(walls):
    plan, ids = by_rows(1_000, 2_000, 1, 1_000_000)
    assert estimate(plan, plan.runs, list(zip(ids, walls, strict=False))).seconds >= sum(walls) * 0.999


PGBENCH = """
name = "transactions"
repetitions = 3
[target]
engine = "postgres"
[volumes.a]
path = "a"
[workload]
kind = "pgbench"
duration = "20s"
{}
"""


def test_a_warm_up_that_is_to_be_found_may_take_its_longest_time():
    plan = expand(parse(PGBENCH.format('warm_up = "auto"'), "found.toml"))
    known = expand(parse(PGBENCH.format('warm_up = "100s"'), "known.toml"))
    assert estimate(plan, plan.runs, []) == estimate(known, known.runs, [])


def test_tables_are_made_for_each_run_or_once_for_each_template_and_then_copied():
    spec = PGBENCH.format("scale = 30") + '[factors]\n"workload.connections" = [1, 2]\n"layout.data_files" = [1, 4]\n'
    template = '[between_runs]\ndata = "template"\n'
    rebuilt, copied = expand(parse(spec, "a.toml")), expand(parse(spec + template, "b.toml"))
    assert estimate(rebuilt, rebuilt.runs, []).seconds == pytest.approx(12 * (2 + 20 + 20))
    assert estimate(copied, copied.runs, []).seconds == pytest.approx(12 * (2 + 2 + 20) + 2 * 20)
    # The first run of a template made it. All that was added to its 20 s took 1.25 times as long as guessed.
    first, other = (cell.cell_id for cell in copied.cells[:2])
    assert estimate(copied, copied.runs, [(first, 50.0)]).seconds == pytest.approx(12 * (20 + 5) + 2 * 25)
    # The next run of its cell shows what is no part of making it: a copy and a server, 10 s.
    assert estimate(copied, copied.runs, [(first, 80.0), (first, 30.0)]).seconds == pytest.approx(12 * 30 + 2 * 50)
    both = estimate(copied, copied.runs, [(first, 80.0), (first, 30.0), (other, 90.0), (other, 40.0)])
    assert both.seconds == pytest.approx(3 * 30 + 3 * 40 + 6 * 35 + 2 * 50)
    # After an interruption the template is made again: that run says nothing about the next runs of its cell.
    again = estimate(copied, copied.runs, [(first, 80.0), (first, 30.0), (first, 80.0), (first, 30.0)])
    assert again.seconds == pytest.approx(12 * 30 + 2 * 50)


def test_only_what_is_added_to_a_set_time_is_learned_and_its_share_is_said():
    spec = PGBENCH.format('scale = 15\nwarm_up = "20s"') + '[between_runs]\npause = "5s"\n'
    plan = expand(parse(spec + '[factors]\n"workload.duration" = ["20s", "200s"]\n', "a.toml"))
    short = plan.cells[0].cell_id
    guessed = estimate(plan, plan.runs, [])
    assert guessed.seconds == pytest.approx(3 * (2 + 10 + 20 + 20 + 5) + 3 * (2 + 10 + 20 + 200 + 5))
    assert guessed.set_up == pytest.approx(1 - 3 * 220 / guessed.seconds)
    # It took 30 s longer than its 45 s, not 12: so will the other one, whose set time is 225 s.
    known = estimate(plan, plan.runs, [(short, 75.0)])
    assert known.seconds == pytest.approx(3 * 75 + 3 * (225 + 30))
    assert known.set_up == pytest.approx(1 - 660 / 990)


@given(st.lists(st.tuples(st.sampled_from([FIRST, SECOND]), st.floats(0.01, 1e6)), min_size=1))
def test_it_stays_between_the_quickest_and_the_slowest_run_there_was(finished):
    known = estimate(PLAN, PLAN.runs, finished)
    walls = [wall_s for _, wall_s in finished]
    assert 6 * min(walls) * 0.999 <= known.seconds <= 6 * max(walls) * 1.001
    assert known.learned_from == len(finished)
