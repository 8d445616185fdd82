"""Worlds that can't be, as a person meets them: `storagelab plan` refuses by the spec's key before anything is
touched.
"""

import json
import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
from fabricated_findings import golden
from real_servers import site_at
from simulated_specs import ONE_BLOCK, SMALL, changed, planned, small

from storagelab import _sim, cli, profiles
from storagelab.engines.simulated import preflight
from storagelab.engines.simulated.scenario import scenario
from storagelab.errors import PreflightError
from storagelab.model.engines import LARGEST_SCALE
from storagelab.run import engine, loop
from storagelab.run.scheduling import InFile
from storagelab.spec.matrix import expand

PROFILE = resources.files("storagelab.profiles").joinpath("iodrive-320.toml").read_text()


@pytest.fixture
def refused(tmp_path, monkeypatch, capfd):
    """Types `storagelab plan` and `run` on `SMALL` with changes; gives the words of the refusal, the same for both."""

    def type_(*changes: tuple[str, str]) -> str:
        spec = tmp_path / "small.toml"
        spec.write_text(changed(SMALL, *changes))
        before = sorted(tmp_path.iterdir())
        said = []
        for verb in ("plan", "run"):
            words = ["storagelab", verb, str(spec), "--results", str(tmp_path / "results")]
            monkeypatch.setattr(sys, "argv", words)
            with pytest.raises(SystemExit) as ended:
                cli.main()
            out, err = capfd.readouterr()
            assert (ended.value.code, out if verb == "run" else "") == (2, "")
            assert "Traceback" not in err
            said.append(" ".join(err.split()))
        assert said[0] == said[1]
        assert sorted(tmp_path.iterdir()) == before, "nothing is touched"
        return said[0].removeprefix(f"storagelab: {spec}: ")

    return type_


def test_a_drive_of_today_in_a_spec_of_2008_names_the_recipe_that_has_both(refused):
    for drive in ("nvme4-980-pro-1tb", "nvme3-970-evo-plus-1tb"):
        said = refused(("iodrive-320", drive), ONE_BLOCK)
        assert all(words in said for words in ("leave out format", "sector_bytes", "storagelab init todays-drives"))
    assert "todays-drives" not in refused(('format = "basic"', 'format = "fast"'), ONE_BLOCK)


@pytest.mark.parametrize("case", json.loads(golden("refused-worlds", "json").read_text("utf-8")))
def test_what_cannot_be_is_named_with_what_is_allowed(refused, case):
    assert refused(*case["changes"]) == case["says"]


def test_the_core_takes_worlds_as_small_as_specs_may_ask_for_and_no_smaller(tmp_path):
    content = scenario(planned(("scale = 256", f"scale = {LARGEST_SCALE}"), ONE_BLOCK).blocks[0], tmp_path)
    _sim.check(json.dumps(content))
    with pytest.raises(_sim.Refused, match=rf"scale: {LARGEST_SCALE + 1}: must be 1 .* to {LARGEST_SCALE}"):
        _sim.check(json.dumps({**content, "scale": LARGEST_SCALE + 1}))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("0", "geometry.dies must be a whole number from 1 to 65536, not 0"),
        ("4_000_000_000", "geometry.dies must be a whole number from 1 to 65536, not 4000000000"),
        (
            '"many"',
            "drives.ssd.profile: the profile mine.toml can't be used: geometry.dies must be a "
            "whole number from 1 to 65536",
        ),
        ("-3", "geometry.dies must be a whole number from 1 to 65536, not -3"),
        ("1.5", "geometry.dies must be a whole number from 1 to 65536, not 1.5"),
    ],
)
def test_a_drive_that_cannot_be_is_refused_with_its_figure(refused, tmp_path, value, words):
    head, dies, tail = PROFILE.partition("[geometry.dies]\nvalue = ")
    assert dies
    (tmp_path / "mine.toml").write_text(head + dies + value + tail[tail.index("\n") :])
    assert words in refused(('"iodrive-320"', '"mine.toml"'))


def test_a_world_too_big_for_this_machine_says_how_much_it_needs_and_a_scale_that_fits(refused, monkeypatch):
    monkeypatch.setattr(preflight, "_free_memory_bytes", lambda: 300_000_000)
    said = refused(("scale = 256", "scale = 1"))
    assert "target.scale: a simulation at scale 1 needs about 0.7 GiB of memory, but only 0.3 GiB are free here" in said
    assert said.endswith("Set scale = 8, which takes about 0.14 GiB.")


def test_no_more_blocks_are_made_side_by_side_than_memory_holds(monkeypatch, tmp_path):
    plan = planned()
    taken = preflight.memory_bytes(scenario(plan.blocks[0], tmp_path))
    for memory_bytes, fit in ((taken, 1), (3 * taken - 1, 2), (1000 * taken, 2)):
        monkeypatch.setattr(preflight, "_free_memory_bytes", lambda free=memory_bytes: free)
        found = preflight.check(plan, site_at(tmp_path))
        assert loop.processes(plan, plan.runs, found, jobs=8) == fit  # there are two blocks


# --- host memory for the maps of flash drives -------------------------------------------------------------------------


def look(*changes: tuple[str, str]) -> None:
    engine.preflight(expand(small(ONE_BLOCK, *changes)), site_at(Path("lab")))


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
    assert "1.99 GB of data on it need a map of 0.869 MB with driver 2.2.3 and sectors of 512 B" in said
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
