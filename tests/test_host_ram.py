"""Host memory for the maps of flash drives: refused at `plan` where it would run out, saying why and what would do."""

from dataclasses import replace
from pathlib import Path

import pytest
from real_servers import site_at
from simulated_specs import planned, small

from storagelab import profiles
from storagelab.errors import PreflightError
from storagelab.run.engine import preflight
from storagelab.run.scheduling import InFile
from storagelab.spec.matrix import expand

ONE_BLOCK = ('"drives.ssd.format" = ["basic", "maximum-write"]\n', "")


def look(*changes: tuple[str, str]) -> None:
    experiment = small(ONE_BLOCK, *changes)
    preflight(expand(experiment), site_at(Path("lab")))


def test_the_map_is_that_of_the_user_guide_in_the_worst_case_and_smaller_for_whole_pages():
    profile = profiles.load("iodrive-320", Path())
    assert isinstance(profile, profiles.FlashProfile)
    assert profile.map_bytes(80e9, "1.2.7", 512, extent_bytes=512) == pytest.approx(5.6e9)
    assert profile.map_bytes(80e9, "1.2.7", 4096, extent_bytes=4096) == pytest.approx(0.8e9)
    assert profile.map_bytes(80e9, "1.2.7", 512) == pytest.approx(5.6e9 / 16)
    assert profile.map_bytes(80e9, "2.2.3", 512) == pytest.approx(5.6e9 / 160)


def test_a_drive_whose_map_would_not_fit_the_host_is_refused_with_what_would_do():
    # 8 connections x 500,000 rows at 34.66 a page are 945 MB, their log 1,040 MB, and the map 0.87 MB.
    look(("sector_bytes = 512", "sector_bytes = 512\nhost_ram_bytes = 900_000"))
    with pytest.raises(PreflightError) as caught:
        look(("sector_bytes = 512", "sector_bytes = 512\nhost_ram_bytes = 800_000"))
    said = str(caught.value)
    assert caught.value.key == "drives.ssd.host_ram_bytes"
    assert "1.99 GB of data on it take a map of 0.869 MB with driver 2.2.3 and sectors of 512 B" in said
    assert "raise host_ram_bytes to more than 868" in said


def test_a_mirror_maps_all_of_it_on_each_drive_and_a_stripe_half():
    two = ('drives = ["ssd"]', 'drives = ["ssd"]\nraid = "{}"')
    short = ("sector_bytes = 512", "sector_bytes = 512\ncount = 2\nhost_ram_bytes = 600_000")
    look((two[0], two[1].format("0")), short)
    with pytest.raises(PreflightError, match="memory would run out"):
        look((two[0], two[1].format("1")), short)


def test_what_is_refused_would_have_gone_off_line_and_what_passes_does_not(tmp_path):
    from storagelab.engines.simulated.engine import SimulatedBlock

    # Such a short run must be forced to write its pages before it ends.
    often = ("cores = 4", "cores = 4\ncosts = { checkpoint_period_ns = 10_000_000_000 }")
    for ram_bytes, fails in ((800_000, True), (1_300_000, False)):
        plan = planned(ONE_BLOCK, often, ("sector_bytes = 512", f"sector_bytes = 512\nhost_ram_bytes = {ram_bytes}"))
        first = replace(plan.blocks[0], runs=plan.runs[:1])
        block = SimulatedBlock(first, site_at(Path("lab")), InFile(tmp_path / str(ram_bytes)))
        assert list(block.needed([0])) == [0]
        assert bool(block.make(lambda _: None)["failure"]) is fails
