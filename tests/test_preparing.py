"""Volumes made of whole drives, in a guest: each kind is made, read back and returned. Others stay untouched."""

import json

import pytest

from bench import topologies
from bench.guest import Drive, user_mode
from storagelab.errors import PreflightError
from storagelab.machine.disks import Kernel
from storagelab.model.volume import VolumeConfig
from storagelab.volumes import file_systems

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


# --- RAID, LVM and encryption, made of real drives of a guest ---------------------------------------------------------


@pytest.mark.timeout(900)
def test_each_layer_is_made_as_asked_read_back_and_leaves_nothing(quick_guest):
    finished = quick_guest("makes_layers", 4, 128, limit_s=800)
    assert finished.exit_code == 0, finished.output[-3000:]
    told = [json.loads(line) for line in finished.output.splitlines() if line.startswith("{")]
    made = {one["keys"]["raid_level"]: one for one in told if "keys" in one}
    assert list(made) == ["raid0", "raid1", "raid5", "raid10", "striped"]
    for one in made.values():
        assert (one["refused"], one["left"], one["signatures"]) == ([], [], [])
        assert len(one["checked"]) >= 3
    sizes = {level: one["size"] / 2**27 for level, one in made.items()}
    assert sizes["raid0"] == pytest.approx(4, rel=0.03)
    assert sizes["raid1"] == pytest.approx(1, rel=0.03)
    assert sizes["raid5"] == pytest.approx(2, rel=0.03)
    # The guest's timer catches up after the host has stood still, which may cut one delay short, or lengthen one read.
    assert max(made["raid1"]["reads_take_s"]) >= 0.05 > min(made["raid0"]["reads_take_s"])
    # The head of LUKS2 takes 16 MiB.
    assert sizes["raid10"] == pytest.approx(2 - 0.125, rel=0.03)
    assert sizes["striped"] == pytest.approx(4 - 0.125, rel=0.05)
    assert {"no_read_workqueue", "no_write_workqueue", "discards"} <= set(
        made["raid10"]["facts"]["encryption"]["flags"].split()
    )
    assert made["striped"]["facts"]["logical_volume"]["stripe_bytes"] == 65536
    killed = [one for one in told if "killed" in one]
    assert [(one["killed"], one["left"]) for one in killed] == [(9, []), (9, [])]
    assert all(one["found"] for one in killed)


def test_a_kernel_without_the_driver_is_named_before_anything_is_touched(tmp_path):
    kernel = Kernel(tmp_path, tmp_path)
    with pytest.raises(PreflightError, match="this kernel lacks the driver no_such_driver"):
        file_systems.check_driver(("no_such_driver",), "volumes.a.raid_level", kernel)


def test_plan_says_what_the_layers_are():
    volume = VolumeConfig(
        path="/mnt", devices=("/dev/disk/by-id/a", "/dev/disk/by-id/b", "/dev/disk/by-id/c"), raid_level="raid5",
        raid_chunk_size_bytes=65536, encryption="luks2", encryption_flags=("no-read-workqueue",),
    )  # fmt: skip
    assert list(file_systems.layer_steps(volume)) == [
        "mdadm: a RAID 5 of 3 drives, chunks of 64 KiB; wait until its drives are synchronized",
        "cryptsetup: LUKS2 with a random key that is kept nowhere, no-read-workqueue",
    ]
