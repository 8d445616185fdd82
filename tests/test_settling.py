"""When throughput has settled: drawn series whose settling times are known."""

import numpy as np
import pytest

from bench.drawn_warm_ups import LEVELS, UNSEEN, judged
from storagelab.loads.settling import LEAST_S, trend

SEEN = [kind for kind in LEVELS if kind != UNSEEN]
MOST_TOO_EARLY = 0.05


@pytest.mark.parametrize("kind", SEEN)
def test_few_runs_count_while_they_still_move_by_2_per_cent_or_more(kind):
    found = judged(kind, 200, 20, seed=7)
    assert found.settled.sum() > 60  # else it would be no test
    assert found.too_early <= MOST_TOO_EARLY


def test_runs_that_are_settled_from_the_start_are_found_to_be_unless_they_are_very_noisy():
    found = judged("settled from the start", 200, 60, seed=7)
    assert found.never <= 0.1
    assert found.waited_s < 2.5 * 60


def test_a_line_that_climbs_by_a_known_share_is_measured():
    rates = 100 * (1 + 0.001 * (np.arange(40) - 19.5))
    found = trend(rates, 30)
    assert found.change == pytest.approx(0.03, rel=0.03)
    assert found.half == pytest.approx(0, abs=1e-6)
    assert not found.settled


def test_a_steep_climb_long_ago_does_not_count_against_a_level_that_holds():
    found = trend(np.concatenate([np.linspace(1, 100, 20), np.full(20, 100.0)]), 30)
    assert found.settled


def test_too_few_seconds_have_no_trend():
    assert trend(np.full(LEAST_S - 1, 100.0), 30) is None
