"""How long runs will take, learned from those that are done."""

from __future__ import annotations

import pytest
from builders import make_experiment, make_plan
from hypothesis import given
from hypothesis import strategies as st

from storagelab.estimate import estimate

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


def test_a_cell_not_yet_run_takes_as_long_as_the_others_did_by_rows():
    big = make_plan(make_experiment({"workload.rows_per_connection": [10_000, 40_000]}, repetitions=1))
    known = estimate(big, big.runs, [(big.cells[0].cell_id, 5.0)])
    assert known.seconds == pytest.approx(5 + 20)


def test_no_runs_take_no_time():
    assert estimate(PLAN, [], [(FIRST, 10.0)]).seconds == 0


def test_runs_of_cells_that_there_are_no_more_teach_nothing():
    assert estimate(PLAN, PLAN.runs, [("gone", 1e9)]) == estimate(PLAN, PLAN.runs, [])


@given(st.lists(st.tuples(st.sampled_from([FIRST, SECOND]), st.floats(0.01, 1e6)), min_size=1))
def test_it_stays_between_the_quickest_and_the_slowest_run_there_was(finished):
    known = estimate(PLAN, PLAN.runs, finished)
    walls = [wall_s for _, wall_s in finished]
    assert 6 * min(walls) * 0.999 <= known.seconds <= 6 * max(walls) * 1.001
    assert known.learned_from == len(finished)
