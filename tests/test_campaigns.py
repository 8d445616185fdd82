"""Two campaigns: layouts matched by their levels, ratios with random errors, and a gate that says if it can't tell."""

import math
import random

import numpy as np
import pytest
from builders import make_environment, make_experiment, make_plan, make_planned, make_runs

from bench import drawn
from bench.drawn_orders import campaign as drawn_campaign
from bench.drawn_orders import one_after_the_other
from storagelab.findings.analysis import analyse
from storagelab.findings.basis import basis_of
from storagelab.findings.campaigns import Campaign, Gate, compare, gate, varied_by_one
from storagelab.report.words.campaigns import environment_differences, matched_table, verdict_sentence
from storagelab.stats.fit import fit

FILES, LOG = "layout.data_files", "layout.log"


def campaign(name, factors=None, slower=1.0, repetitions=5, odd=None, failed="", **fields):
    """A campaign of 10 s a run, scattered by 1 %; `odd` = levels of the cell that takes half as long again, `failed` =
    the cell of which no run counts."""
    experiment, plan = make_planned(factors or {FILES: [1, 4, 8]}, repetitions, **fields)

    def elapsed(levels, repetition):
        noise = random.Random(f"{name}{sorted(levels.items())}{repetition}").gauss(0, 0.01)
        return 10.0 * slower * math.exp(noise) * (1.5 if dict(levels) == odd else 1.0)

    runs = make_runs(experiment, plan, elapsed=elapsed, failed=lambda run: "crashed" * (run.cell_id == failed))
    return Campaign(name, experiment, analyse(experiment, plan, runs), basis_of(experiment, plan, runs))


def test_a_slower_campaign_is_found_with_every_layout():
    found = compare(campaign("before"), campaign("after", slower=1.1))
    assert found.overall.low < 1.1 < found.overall.high
    assert (found.differs, len(found.slower)) == (True, 3)
    assert verdict_sentence(found).startswith("after against before: 1")
    assert "3 layouts take" in verdict_sentence(found)


def test_equal_campaigns_can_not_be_told_apart():
    found = compare(campaign("before"), campaign("after"))
    assert (found.differs, found.slower, found.faster) == (False, (), ())
    assert "can't be told apart over 3 matched layouts" in verdict_sentence(found)


def test_one_layout_that_is_slower_is_found_among_equal_ones():
    found = compare(campaign("before"), campaign("after", odd={FILES: 4}))
    assert [one.levels for one in found.slower] == [{FILES: 4}]
    assert gate([found], 0.2) == Gate.SLOWER


def test_layouts_are_matched_by_levels_and_the_others_named():
    before = campaign("before", {FILES: [1, 4], LOG: ["a"]})
    after = campaign("after", {LOG: ["a"], FILES: [4, 16]})
    found = compare(before, after)
    assert [(one.first_id, one.second_id) for one in found.matched] == [("cell-002", "cell-001")]
    assert (found.only_first, found.only_second) == (("cell-001",), ("cell-002",))
    assert found.overall == found.matched[0].ratio


def test_a_factor_of_one_level_in_one_campaign_alone_does_not_keep_layouts_apart():
    found = compare(campaign("before"), campaign("after", {FILES: [1, 4, 8], LOG: ["b"]}))
    assert len(found.matched) == 3
    assert found.matched[0].levels == {FILES: 1, LOG: "b"}


def test_campaigns_without_a_layout_in_common_are_refused():
    before, after = campaign("before", {FILES: [4, 16]}), campaign("after", {LOG: ["a", "b"]})
    with pytest.raises(LookupError):
        compare(before, after)
    assert varied_by_one(before, after) == (FILES,)


def test_a_factor_that_one_campaign_varies_is_matched_with_what_the_other_is_set_to():
    before, after = campaign("before", {FILES: [1, 4]}), campaign("after", {LOG: ["a", "b"]})
    found = compare(before, after)
    assert [(one.first_id, one.second_id) for one in found.matched] == [("cell-001", "cell-001")]
    assert varied_by_one(before, after) == ()
    assert len(compare(before, campaign("after", {FILES: [1, 4], LOG: ["a", "b"]})).matched) == 2


def test_with_another_number_of_rows_times_are_compared_per_row():
    base = {
        "target": {"engine": "postgres"}, "volumes": {"a": {"path": "a"}, "b": {"path": "b"}},
        "layout": {"data": ["a"], "log": "a"}, "workload": {"connections": 16, "rows_per_connection": 100_000},
    }  # fmt: skip
    found = compare(campaign("before"), campaign("after", slower=2.0, base=base))
    assert (found.compared, found.overall.value) == ("time-per-row", pytest.approx(1.0, abs=0.02))
    assert any("µs per row" in heading.text for heading in matched_table(found).headings)


@pytest.mark.parametrize(
    ("order", "why"), [("cell-by-cell", "made in one stretch of time"), ("as-listed", "has its place in every round")]
)
def test_runs_that_are_not_in_turns_are_shown_and_not_tested(order, why):
    found = compare(campaign("before", order=order), campaign("after", slower=1.5))
    assert (why in found.untested, found.overall.low, found.slower) == (True, None, ())
    assert gate([found], 0.05) == Gate.CANT_TELL
    assert "not tested" in verdict_sentence(found)


def test_of_several_campaigns_each_is_compared_more_strictly():
    before, after = campaign("before"), campaign("after", slower=1.02)
    alone, of_three = compare(before, after), compare(before, after, others=3)
    assert of_three.overall.low < alone.overall.low < alone.overall.high < of_three.overall.high


@pytest.mark.parametrize(
    ("slower", "expected"), [(1.0, Gate.NOT_SLOWER), (1.05, Gate.CANT_TELL), (1.2, Gate.SLOWER), (0.8, Gate.NOT_SLOWER)]
)
def test_the_gate_says_slower_not_slower_or_that_it_can_not_tell(slower, expected):
    assert gate([compare(campaign("before"), campaign("after", slower=slower))], 0.05) == expected


def test_what_differs_in_server_and_host_is_named_and_what_moves_by_itself_is_not():
    before, after = make_environment(), make_environment()
    after["server"] = after["server"] | {"version": "19.0"}
    after["host"] = after["host"] | {"load_1min": 3.0}
    of = make_experiment({FILES: [1, 4, 8]})
    runs = [make_runs(of, make_plan(of), environment=environment) for environment in (before, after)]
    found = compare(campaign("before"), campaign("after"))
    assert environment_differences(found, tuple(runs)) == [("server.version", "18.4", "19.0")]


def pairs(kind, count, slower=1.0):
    """So many comparisons of two drawn campaigns of one spec, the second slower by this factor."""
    made = list(drawn.draw(kind, 8, 5, 2 * count))
    for (of, log_s), (other, later) in zip(made[::2], made[1::2], strict=True):
        yield compare(drawn_campaign(of, fit(log_s)), drawn_campaign(other, fit(later + math.log(slower))))


@pytest.mark.slow
def test_the_gate_errs_in_at_most_one_of_twenty():
    """At exactly the margin it must neither fail nor pass; well above it, it must fail."""

    def says(answer, slower, count):
        return sum(gate([found], 0.05) == answer for found in pairs("normal", count, slower))

    assert says(Gate.SLOWER, 1.05, 100) <= 12
    assert says(Gate.NOT_SLOWER, 1.05, 100) <= 12
    assert says(Gate.SLOWER, 1.12, 50) >= 48


def drawn_after_five(count, luck, slower=1.0):
    rng = np.random.default_rng(5)
    drawn = (one_after_the_other(rng, n, (3, 5), "normal", before=5, luck=luck) for n in range(count))
    return [one.said(np.full(2, math.log(slower))) for one in drawn]


@pytest.mark.slow
@pytest.mark.parametrize("luck", [0.01, 0.02])
def test_after_five_campaigns_one_more_is_rarely_said_to_differ_whatever_luck_each_had(luck):
    """Compared with one before it, it is in 16 and 36 of 100."""
    assert sum(said.differs for said in drawn_after_five(100, luck)) <= 12
    assert sum(bool(said.slower) for said in drawn_after_five(20, luck, slower=1.2)) >= 18


def test_a_new_campaign_is_judged_by_how_far_those_before_it_are_apart():
    history = [campaign(str(n), slower=1 + 0.02 * (n % 2)) for n in range(5)]
    within, beyond = (
        compare(history[0], campaign("new", slower=slower), earlier=history[1:]) for slower in (1.03, 1.2)
    )
    assert (within.differs, within.slower, beyond.differs, len(beyond.slower)) == (False, (), True, 3)
    assert compare(history[0], campaign("new", slower=1.03)).differs, "one campaign alone knows nothing of that"
    assert beyond.overall.value == pytest.approx(1.2 / 1.02**0.4, abs=0.01)
    assert [name for name, ratio in beyond.history if ratio > 1] == ["1", "3"]
    assert verdict_sentence(beyond).startswith("new against the 5 campaigns before it: ")
    assert gate([compare(history[0], beyond.second, earlier=history[2:])], 0.05) == Gate.CANT_TELL


def test_a_layout_that_was_run_in_one_campaign_alone_keeps_a_gate_from_passing():
    history = [campaign(str(n)) for n in range(6)]
    worse, failed = campaign("new", slower=3), campaign("new", failed="cell-003")
    for earlier in (None, history[1:]):
        found = compare(history[0], failed, earlier=earlier)
        assert (gate([found], 5.0), found.only_first, found.lacking) == (Gate.CANT_TELL, (), (("new", "cell-003"),))
        assert gate([compare(history[0], worse, earlier=earlier)], 0.05) == Gate.SLOWER
    found = compare(campaign("cut", failed="cell-001"), worse, earlier=history)
    assert (found.left_out, len(found.matched), gate([found], 0.05)) == (("cut",), 3, Gate.SLOWER)
