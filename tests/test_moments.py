"""The bench's kills: their moments lie all over a campaign, and what a kill leaves is found."""

import random
import statistics
import subprocess

import psycopg
import pytest

from bench.faults import table
from bench.faults.campaigns import Campaign, World, timeless
from bench.faults.found import Found
from bench.faults.moments import draw


@pytest.mark.parametrize("runs", [1, 6, 8])
def test_moments_are_spread_evenly_over_start_runs_and_end(runs):
    dice = random.Random(1)
    drawn = [moment for _ in range(400) for moment in draw(dice, runs, 5)]
    assert all(0 <= moment.share <= 1 for moment in drawn)
    for stored, part in ((None, 0.2), *((number, 0.65 / runs) for number in range(runs)), (runs, 0.15)):
        hit = [moment.share for moment in drawn if moment.stored == stored]
        assert len(hit) == pytest.approx(2000 * part, rel=0.25)
        assert statistics.mean(hit) == pytest.approx(0.5, abs=0.1)


def test_moments_come_in_the_order_of_the_campaign_and_those_at_its_start_at_any_time():
    dice = random.Random(2)
    drawn = [draw(dice, 6, 5) for _ in range(50)]
    for moments in drawn:
        stored = [moment.stored for moment in moments if moment.stored is not None]
        assert stored == sorted(stored)
    assert {[moment.stored for moment in moments].index(None) for moments in drawn} >= {0, 1, 2}


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
            left = campaign.left()
            assert [str(process.pid) in what for what in left] == [False, False, False, True]
            process.kill()
        assert len(campaign.left(done=False)) == 2


def test_objects_that_are_left_on_a_server_are_found(scratch):
    with World(scratch, "attached", own_view=False).open() as world:
        assert world.left() == []
        dsn = world.environment["STORAGELAB_BENCH_DSN"]
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA storagelab_1")
            connection.execute("CREATE DATABASE storagelab_2 TEMPLATE template0")
        assert world.left() == ["schema storagelab_1", "database storagelab_2"]


def test_an_export_is_compared_without_times_of_day():
    assert timeless({"runs": [{"started_at": "today", "elapsed_s": 1.5}]}) == {"runs": [{"elapsed_s": 1.5}]}


def test_what_was_found_survives_being_written_down_and_is_counted_in_the_table():
    found = Found(kills=3, lost=["x"], signals_took_s=[0.5], campaigns=1)
    found.hit("load")
    found.add(Found.from_data(found.as_data()))
    assert (found.kills, found.lost, found.phases) == (6, ["x", "x"], {"load": 2})
    head, row, total = table({"postgres": found}).splitlines()
    assert dict(zip(head.split()[1:3], row.split()[1:3], strict=True)) == {"kills": "6", "lost": "2"}
    assert total.startswith("all")
