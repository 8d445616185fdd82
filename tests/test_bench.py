"""The arithmetic of the bench: comparisons are measured side by side, and the order alternates."""

import random
import statistics
import subprocess

import pytest

from bench.faults.campaigns import Campaign, World
from bench.faults.moments import draw
from bench.figures import paired_ratios, ratio_figure, rounds


def test_in_rounds_everyone_goes_first_as_often_and_keeps_its_place():
    order: list[str] = []

    def way(name: str, value: float):
        def measured() -> float:
            order.append(name)
            return value

        return measured

    assert rounds(4, [way("a", 1.0), way("b", 2.0), way("c", 3.0)]) == [(1.0, 2.0, 3.0)] * 4
    assert "".join(order) == "abc" + "bca" + "cab" + "abc"


def test_a_ratio_stands_with_the_interval_of_its_median():
    values = iter([2.0, 1.0, 1.0, 2.1, 1.9, 1.0])
    ratios = paired_ratios(3, lambda: next(values), lambda: next(values))
    assert ratios == pytest.approx([2.0, 2.1, 1.9])
    figure = ratio_figure("x", ratios, "at least 0.97", lambda r: r >= 0.97, "")
    assert (figure.value, figure.met) == (2.0, True)
    assert 1.9 <= figure.low <= 2.0 <= figure.high <= 2.1


# --- the kills: their moments lie all over a campaign -----------------------------------------------------------------


@pytest.mark.parametrize("runs", [1, 6, 8])
def test_moments_are_spread_evenly_over_start_runs_and_end(runs):
    dice = random.Random(1)
    drawn = [moment for _ in range(400) for moment in draw(dice, runs, 5)]
    assert all(0 <= moment.share <= 1 for moment in drawn)
    for stored, part in ((None, 0.2), *((number, 0.65 / runs) for number in range(runs)), (runs, 0.15)):
        hit = [moment.share for moment in drawn if moment.stored == stored]
        assert len(hit) == pytest.approx(2000 * part, rel=0.25)
        assert statistics.mean(hit) == pytest.approx(0.5, abs=0.1)


def test_files_and_processes_that_are_left_are_found(scratch):
    with World(scratch, "postgres", own_view=False).open() as world:
        campaign = Campaign(world, scratch / "k1", seed=1)
        campaign.results.mkdir(parents=True)
        assert campaign.left() == []
        (campaign.home / "tmp" / "storagelab-fio-x").mkdir()
        (campaign.home / "a" / "storagelab-faults").mkdir()
        (campaign.results / "state").mkdir()
        (campaign.results / "state" / "block").touch()
        with subprocess.Popen(["sleep", "60"], cwd=campaign.home / "a") as process:
            assert [str(process.pid) in what for what in campaign.left()] == [False, False, False, True]
            process.kill()
        assert len(campaign.left(done=False)) == 2
