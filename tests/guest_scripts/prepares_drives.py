"""Runs in the guest: makes volumes of throw-away drives in each way, and tries all cases that must be refused."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from pathlib import Path

from guest_scripts.kills import killed_at
from guest_scripts.trials import expect, failed_of, sh

from storagelab.errors import RunFailed, StoragelabError
from storagelab.model.volume import VolumeConfig
from storagelab.volumes import drives, preparing
from storagelab.volumes import volume as volumes
from storagelab.volumes.journal import Journal, claims

RESULTS, PLACE = Path("/mnt/results"), Path("/mnt/place")
ID = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_"


def of(*serials: str, **keys: object) -> VolumeConfig:
    devices = tuple(f"{ID}{serial}" for serial in serials)
    return VolumeConfig.model_validate({"path": str(PLACE), "devices": devices, **keys})


def refusal(volume: VolumeConfig, results: Path | None = None) -> str:
    try:
        preparing.check("a", volume, results and Journal(results))
    except StoragelabError as error:
        return str(error)
    return ""


def folder() -> Path:
    for number in itertools.count():
        place = PLACE / str(number)
        if not place.exists():
            place.mkdir(parents=True)
            return place
    raise AssertionError


def makes_each_kind() -> None:
    for keys in (
        {"filesystem": "ext4", "capacity": "80%", "sector_bytes": 4096, "mount_options": "noatime", "trim": True},
        {"filesystem": "xfs", "capacity": "70%", "trim": False, "read_ahead_bytes": 2**20, "scheduler": "none"},
        {"filesystem": "btrfs", "sector_bytes": 4096},
    ):
        asked = of("ONE", **keys)
        volumes.confirm("a", asked, RESULTS)
        with volumes.made("a", asked, folder(), PLACE, {}, RESULTS) as made, made.loaded():
            (made.path / "file").write_bytes(os.urandom(2**20))
            os.sync()
            assert claims()[0].drive.serial == "ONE"
            expect("not given back by the runs", refusal(of("ONE"), Path("/tmp/others")))
        refused = [one for one in made.checks if not one.ok]
        assert not refused, refused
        print(
            "made", keys["filesystem"], sorted({one.name.split(" of ")[0] for one in made.checks}), made.facts["drives"]
        )
        after = drives.look(f"{ID}ONE", "key")
        assert (after.sector_bytes, after.holds, after.used_by) == (512, (), ()), after
        assert claims() == []
        assert drives.partitions_of(after.name) == ()


def refuses() -> None:
    print(*sorted(path.name for path in Path("/dev/disk/by-id").iterdir()))
    two = os.path.realpath(f"{ID}TWO")
    sh("mkfs.ext4", "-q", "-F", "-L", "precious", two)
    expect('holds ext4 "precious"', refusal(of("TWO")))
    assert refusal(of("TWO", wipe="TWO")) == ""
    os.mkdir("/tmp/mounted")
    sh("mount", two, "/tmp/mounted")
    expect("is in use: it is mounted at /tmp/mounted", refusal(of("TWO", wipe="TWO")))
    sh("umount", "/tmp/mounted")
    sh("mkswap", "-f", two)
    sh("swapon", two)
    expect("is the system's own drive: the kernel swaps to it", refusal(of("TWO", wipe="TWO")))
    sh("swapoff", two)
    held = os.open(two, os.O_RDONLY | os.O_EXCL)
    expect("another program holds it", refusal(of("TWO", wipe="TWO")))
    os.close(held)
    sh("wipefs", "--all", two)
    sh("sfdisk", "-q", two, given="label: gpt\nsize=10MiB\n")
    sh("udevadm", "settle")
    expect("a partition table", refusal(of("TWO")))
    expect("is a partition of", refusal(of("TWO-part1", wipe="TWO")))
    sh("wipefs", "--all", two)
    sh("udevadm", "settle")
    with open(two, "r+b") as drive:
        drive.write(b"without a signature")
        os.fsync(drive.fileno())
    expect("holds data of an unknown kind", refusal(of("TWO")))
    sh("blkdiscard", "-f", two)
    expect("is not there", refusal(of("NONE")))
    controller = Path("/dev/disk/by-id/controller")
    controller.symlink_to("/dev/nvme0")
    expect("may be a controller", refusal(of("TWO").model_copy(update={"devices": (str(controller),)})))
    expect("has no format with sectors of 2048", refusal(of("TWO", sector_bytes=2048)))
    expect("are one drive", refusal(of("TWO", "TWO_1", raid_level="raid0")))
    assert drives.formats(Path(os.path.realpath(f"{ID}PAIR_1")).name).namespaces == 2
    expect("is the name of every namespace of its controller", refusal(of("PAIR", wipe="PAIR")))
    assert refusal(of("PAIR_1")) == ""
    one, theirs = drives.look(f"{ID}PAIR_1", "key"), Journal(Path("/mnt/theirs"))
    theirs.claimed(one, None)
    expect("not given back by the runs", refusal(of("PAIR_1"), RESULTS))
    assert refusal(of("PAIR_2"), RESULTS) == ""
    theirs.released(one)
    expect("names drives of unequal size", refusal(of("TWO", "SMALL", raid_level="raid0")))
    unconfirmed = folder()
    with contextlib.suppress(RunFailed), volumes.made("a", of("TWO"), unconfirmed, PLACE, {}, RESULTS):
        raise AssertionError("made without a confirmation")


def survives_kills() -> None:
    """Kills the preparation and the return of a drive at each step that formats it. The next call returns it. Kills at
    the other steps need no NVMe drive: `keeps_its_promises`.
    """
    asked = of("TWO", capacity="80%", sector_bytes=4096)
    volumes.confirm("a", asked, RESULTS)
    for number in (1, 2):
        print("killed at", killed_at(number, asked, folder(), RESULTS, begins="nvme format"))
        volumes.put_back(RESULTS)
        drive = drives.look(f"{ID}TWO", "key")
        assert (drive.sector_bytes, drive.holds, drive.used_by) == (512, (), ()), (number, drive)
        assert claims() == []


def hash_of(serial: str) -> str:
    return sh("md5sum", os.path.realpath(f"{ID}{serial}")).split()[0]


def refuses_swapped_names() -> None:
    """The names of two drives are swapped after the plan; and in the middle of a preparation."""
    asked = of("TWO")
    one, two = os.path.realpath(f"{ID}ONE"), os.path.realpath(f"{ID}TWO")
    with open(one, "r+b") as drive:
        drive.write(b"precious")
        os.fsync(drive.fileno())
    before = hash_of("ONE")

    def point_two_to(node: str) -> None:
        Path(f"{ID}TWO").unlink()
        Path(f"{ID}TWO").symlink_to(node)

    volumes.confirm("a", asked, RESULTS)
    point_two_to(one)
    expect("is not the drive with which this campaign began", refusal(of("TWO", wipe=["ONE", "TWO"]), RESULTS))
    try:
        with volumes.made("a", of("TWO", wipe=["ONE", "TWO"]), folder(), PLACE, {}, RESULTS):
            raise AssertionError("made on another drive")
    except RunFailed as error:
        expect("is not the drive with which", str(error))
    point_two_to(two)
    do = preparing._do

    def swapping(held, journal, what, step):
        if what == "blkdiscard":
            point_two_to(one)
        do(held, journal, what, step)

    preparing._do = swapping
    try:
        with volumes.made("a", asked, folder(), PLACE, {}, RESULTS):
            raise AssertionError("made on another drive")
    except RunFailed as error:
        expect("is now another drive", str(error))
    finally:
        preparing._do = do
        point_two_to(two)
    assert hash_of("ONE") == before
    print("given back:", volumes.put_back(RESULTS))
    sh("blkdiscard", "-f", one)


def loses_a_drive() -> None:
    """The drive vanishes while its volume is in use."""
    asked = of("GONE")
    volumes.confirm("a", asked, RESULTS)
    controllers = Path("/sys/class/nvme").iterdir()
    controller = next(one for one in controllers if (one / "serial").read_text().strip() == "GONE")
    said = ""
    try:
        with volumes.made("a", asked, folder(), PLACE, {}, RESULTS) as made:
            (made.path / "file").write_bytes(os.urandom(2**20))
            (controller / "device" / "remove").write_text("1")
    except RunFailed as error:
        said = str(error)
    print("lost:", said)
    expect("GONE", said)
    assert str(PLACE) not in Path("/proc/mounts").read_text()
    assert [one.drive.serial for one in claims()] == ["GONE"], claims()
    try:
        raise AssertionError(volumes.put_back(RESULTS))
    except RunFailed as error:
        expect(f"{ID}GONE is not there", str(error))


if __name__ == "__main__":
    PLACE.mkdir()
    sys.exit(failed_of(globals()))
