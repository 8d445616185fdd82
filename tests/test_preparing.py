"""Volumes made of whole drives, in a guest: each kind is made, read back and given back; what must not be touched is not."""

from __future__ import annotations

import json
import os

import pytest

from bench import topologies
from bench.guest import Drive

MIB = 2**20
SIZES = {"ONE": 512, "TWO": 512, "SMALL": 64, "PAIR": 256, "GONE": 256}


def drives(folder):
    one_more = [Drive("PAIR", 256 * MIB, folder / "second")]
    return [*(Drive(serial, size * MIB, folder / serial) for serial, size in SIZES.items()), *one_more]


def run_parts(guest, folder, *parts, limit_s):
    finished = guest("prepares_drives", drives(folder), arguments=parts, limit_s=limit_s)
    assert finished.exit_code == 0, finished.output
    assert [line for line in finished.output.splitlines() if line.startswith("done: ")] == [
        f"done: {one}" for one in parts
    ]


@pytest.mark.timeout(900)
def test_drives_are_prepared_and_given_back_and_others_are_refused(guest, tmp_path):
    run_parts(guest, tmp_path, "makes_each_kind", "refuses", "refuses_swapped_names", limit_s=600)


@pytest.mark.campaign
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("part", ["survives_kills", "loses_a_drive", "runs_a_spec"])
def test_a_killed_preparation_is_undone_a_lost_drive_fails_its_run_and_a_spec_runs(part, guest, tmp_path):
    run_parts(guest, tmp_path, part, limit_s=2000)


@pytest.mark.timeout(900)
def test_random_experiments_on_random_drives_change_no_byte_outside_of_them(guest, tmp_path):
    found = topologies.drawn(tmp_path, 18, 2)
    assert [one["seed"] for one in found] == [18, 19]
    assert not [one for one in found if topologies.is_wrong(one)]
    # The first makes a RAID of two drives; the second is killed while it makes one.
    assert found[0]["claimed"]
    assert found[0]["compared_bytes"] == 3 * 48 * MIB


@pytest.mark.campaign
@pytest.mark.skipif("STORAGELAB_TEST_LONG" not in os.environ, reason="takes ten minutes: STORAGELAB_TEST_LONG=1")
@pytest.mark.timeout(2400)
def test_a_campaign_of_postgres_over_file_systems_and_raid_levels_ends_verified_and_leaves_nothing(guest, tmp_path):
    two = [Drive(f"D{number}", 1024 * MIB, tmp_path / f"drive{number}") for number in range(2)]
    finished = guest("measures_postgres", two, arguments=["1"], limit_s=2000)
    assert finished.exit_code == 0, finished.output
    assert "no mounts left" in finished.output
    assert "no drive is in use" in finished.output
    exported = json.loads((finished.folder / "campaign.json").read_text())
    made = [run["environment"]["volumes"]["a"]["made"] for cell in exported["cells"] for run in cell["runs"]]
    assert sorted(one["raid"]["level"] for one in made) == ["raid0", "raid0", "raid1", "raid1"]
    assert [cell["summary"]["runs_ok"] for cell in exported["cells"]] == [1, 1, 1, 1]
