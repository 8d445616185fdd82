"""Volumes made of whole drives, in a guest: each kind is made, read back and given back; what must not be touched is
not.
"""

import pytest

from bench import topologies
from bench.guest import Drive, user_mode

MIB = 2**20
SIZES = {"ONE": 512, "TWO": 512, "SMALL": 64, "PAIR": 256, "GONE": 256}


def drives(folder):
    one_more = [Drive("PAIR", 256 * MIB, folder / "second")]
    return [*(Drive(serial, size * MIB, folder / serial) for serial, size in SIZES.items()), *one_more]


@pytest.mark.timeout(1500)
def test_drives_are_prepared_and_given_back_and_others_are_refused(guest, tmp_path):
    parts = ("makes_each_kind", "refuses", "refuses_swapped_names", "survives_kills", "loses_a_drive")
    finished = guest("prepares_drives", drives(tmp_path), arguments=parts, limit_s=1200)
    assert finished.exit_code == 0, finished.output
    assert done(finished) == list(parts)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "parts",
    [
        ("tells_its_own_from_what_others_made", "waits_for_what_a_kill_left",
         "forgets_partitions_that_somebody_looks_at", "waits_for_udev", "refuses_drives_in_use", "runs_a_spec"),
        pytest.param(("survives_kills",), marks=pytest.mark.campaign),
    ],
    ids=["once", "killed at each step"],
)  # fmt: skip
def test_a_killed_preparation_is_undone_drives_in_use_are_refused_and_a_spec_runs(quick_guest, parts):
    finished = quick_guest("keeps_its_promises", 2, 128, arguments=parts, limit_s=600)
    assert finished.exit_code == 0, finished.output
    assert done(finished) == list(parts)


def done(finished):
    return [line.removeprefix("done: ") for line in finished.output.splitlines() if line.startswith("done: ")]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("first_seed", "count"), [(1, 5), pytest.param(6, 20, marks=pytest.mark.campaign)])
def test_random_experiments_on_random_drives_change_no_byte_outside_of_them(tmp_path, first_seed, count):
    if reason := user_mode.absent():
        pytest.skip(f"no quick guest: {reason}")
    found = topologies.drawn(tmp_path, first_seed, count)
    assert [one["seed"] for one in found] == [*range(first_seed, first_seed + count)]
    assert not [one for one in found if topologies.is_wrong(one)]
    assert sum(one["claimed"] for one in found) >= count // 2
    assert sum(one["compared_bytes"] for one in found) > count * 2**25
