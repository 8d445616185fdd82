"""Volumes made of whole drives, in a guest: each kind is made, read back and given back; what must not be touched is not."""

from __future__ import annotations

import pytest

from bench.guest import Drive

MIB = 2**20
SIZES = {"ONE": 512, "TWO": 512, "SMALL": 64, "PAIR": 256, "GONE": 256}


def drives(folder):
    one_more = [Drive("PAIR", 256 * MIB, folder / "second")]
    return [*(Drive(serial, size * MIB, folder / serial) for serial, size in SIZES.items()), *one_more]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", ["makes_each_kind", "refuses", "refuses_swapped_names"])
def test_drives_are_prepared_and_given_back_and_others_are_refused(part, guest, tmp_path):
    finished = guest("prepares_drives", drives(tmp_path), arguments=[part], limit_s=300)
    assert finished.exit_code == 0, finished.output
    assert f"done: {part}" in finished.output


@pytest.mark.campaign
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("part", ["survives_kills", "loses_a_drive", "runs_a_spec"])
def test_a_killed_preparation_is_undone_a_lost_drive_fails_its_run_and_a_spec_runs(part, guest, tmp_path):
    finished = guest("prepares_drives", drives(tmp_path), arguments=[part], limit_s=2000)
    assert finished.exit_code == 0, finished.output
