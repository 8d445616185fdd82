"""Orders by chance, in which layouts follow each other about equally often."""

import itertools
from collections import Counter
from collections.abc import Sequence

from builders import make_experiment
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_specs import ONE_BLOCK, small

from storagelab.model.plan import Experiment, Race
from storagelab.spec.matrix import FEW, expand, shuffled

FILES, LOG = "layout.data_files", "layout.log"


def layouts(number: int, repetitions: int, seed: int = 1) -> Experiment:
    files = list(range(1, number + 1))
    return make_experiment({FILES: files}, repetitions).model_copy(update={"seed": seed})


def order_of(experiment: Experiment) -> list[str]:
    return [run.cell_id for run in expand(experiment).runs]


def followers(order: Sequence[str], lag: int = 1) -> list[int]:
    """How often each layout follows each, itself included."""
    counts = Counter(itertools.pairwise(order) if lag == 1 else zip(order, order[lag:], strict=False))
    return [counts[pair] for pair in itertools.product(sorted(set(order)), repeat=2)]


@settings(max_examples=25, deadline=None)
@given(st.integers(2, FEW), st.integers(4, 12), st.integers(0, 2**62))
def test_each_of_a_few_layouts_follows_each_itself_included_about_equally_often(
    number: int, repetitions: int, seed: int
) -> None:
    order = order_of(layouts(number, repetitions, seed))
    of_next = followers(order)
    assert max(of_next) - min(of_next) <= 3
    assert sum(one == other for one, other in itertools.pairwise(order)) >= (repetitions - 3) / 2


@settings(max_examples=15, deadline=None)
@given(st.integers(FEW + 1, 12), st.integers(1, 12), st.integers(0, 2**62))
def test_in_complete_rounds_of_more_layouts_none_follows_another_much_more_often_than_a_third(
    number: int, repetitions: int, seed: int
) -> None:
    assert max(followers(order_of(layouts(number, repetitions, seed)))) <= 2 + 2 * repetitions / number


def test_the_order_is_far_more_balanced_than_rounds_that_are_shuffled_each_by_itself() -> None:
    def spread(experiment: Experiment) -> float:
        order = order_of(experiment)
        return sum(count**2 for lag in (1, 2, 3) for count in followers(order, lag))

    for number, repetitions in ((2, 10), (3, 10), (5, 10), (8, 10)):
        balanced = [layouts(number, repetitions, seed) for seed in range(10)]
        plain = [one.model_copy(update={"balanced": False}) for one in balanced]
        least = repetitions**2 * 3
        assert sum(map(spread, balanced)) - 10 * least < 0.5 * (sum(map(spread, plain)) - 10 * least)


def test_levels_of_a_factor_follow_each_other_about_equally_often_where_cells_are_many() -> None:
    plan = expand(make_experiment({FILES: [1, 2, 4, 8, 16, 32], LOG: ["a", "b"]}, 3))
    of_logs = followers([str(plan.cell(run.cell_id).levels[LOG]) for run in plan.runs])
    assert max(of_logs) - min(of_logs) <= 2


def test_two_rounds_of_few_layouts_are_made_in_turns_and_an_odd_last_one_by_itself() -> None:
    runs = expand(layouts(2, 5)).runs
    for first, together in ((0, [1, 2]), (4, [3, 4]), (8, [5])):
        assert sorted({run.repetition for run in runs[first : first + 2 * len(together)]}) == together
    orders = {"".join(order_of(layouts(2, 6, seed))) for seed in range(20)}
    assert any(
        order[at : at + 12] == "c01c01c02c02" for order in orders for at in (0, 12, 24)
    )  # which no complete rounds can have


def test_a_race_is_made_in_complete_rounds_as_it_looks_at_each_and_one_of_few_in_two_at_a_time() -> None:
    raced = layouts(4, 3).model_copy(update={"race": Race()})
    assert [run.repetition for run in expand(raced).runs] == [1] * 4 + [2] * 4 + [3] * 4
    few = expand(layouts(2, 6).model_copy(update={"race": Race()})).runs
    assert [sorted({run.repetition for run in few[at : at + 4]}) for at in (0, 4, 8)] == [[1, 2], [3, 4], [5, 6]]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**62))
def test_more_repetitions_change_nothing_of_the_rounds_before(number: int, some: int, more: int, seed: int) -> None:
    some += some % 2
    order = order_of(layouts(number, some, seed))
    assert order_of(layouts(number, some + more, seed))[: len(order)] == order


def test_a_balanced_order_is_the_same_for_ever() -> None:
    """Written down once: if this changes, stored campaigns go on in another order than they began."""
    assert order_of(layouts(2, 5)) == PAIR
    assert order_of(layouts(5, 2)) == FIVE


PAIR = ["c01", "c02", "c02", "c01", "c01", "c01", "c02", "c02", "c01", "c02"]
FIVE = ["c02", "c03", "c04", "c04", "c05", "c01", "c01", "c05", "c03", "c02"]


def test_simulated_runs_keep_the_order_of_earlier_versions_and_so_do_campaigns_that_began_in_it() -> None:
    measured = layouts(4, 3)
    assert order_of(measured.model_copy(update={"balanced": False})) != order_of(measured)
    simulated = small(ONE_BLOCK, ('order = "cell-by-cell"', 'order = "randomised"'))
    assert order_of(simulated) == order_of(simulated.model_copy(update={"balanced": False}))


def test_a_shuffle_gives_every_order_equally_often() -> None:
    counts = Counter("".join(shuffled("abc", seed, "test")) for seed in range(6000))
    assert len(counts) == 6
    # 1000 each, with a standard deviation of sqrt(6000 x 1/6 x 5/6) = 29. The seeds are fixed: no chance failures.
    assert all(abs(count - 1000) < 4 * 29 for count in counts.values())


def test_a_shuffle_of_nothing_and_of_one_is_itself() -> None:
    assert shuffled([], 1, "x") == []
    assert shuffled(["a"], 1, "x") == ["a"]


@given(st.lists(st.integers()), st.integers(0, 2**63 - 1), st.text())
def test_a_shuffle_keeps_all_it_was_given(items: list[int], seed: int, stream: str) -> None:
    before = list(items)
    assert Counter(shuffled(items, seed, stream)) == Counter(items)
    assert items == before
