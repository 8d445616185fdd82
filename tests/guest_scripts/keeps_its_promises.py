"""Runs in the guest: kills preparations at each step, refuses drives that others use, and runs a spec from plan to
undo.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
import signal
import struct
import sys
import threading
from pathlib import Path
from time import sleep

from guest_scripts.commands import storagelab
from guest_scripts.kills import killed_at
from guest_scripts.trials import expect, failed_of, sh

from bench.guest import user_mode
from storagelab.errors import StoragelabError
from storagelab.machine.processes import until
from storagelab.model.volume import VolumeConfig
from storagelab.volumes import drives, file_systems, preparing, programs
from storagelab.volumes import volume as volumes
from storagelab.volumes.journal import claims

RESULTS, PLACE = Path("/mnt/results"), Path("/mnt/place")
IDS = sorted(glob.glob(user_mode.DRIVES))
NODES = [os.path.realpath(device) for device in IDS]
ONE, TWO = (drives.look(device, "key") for device in IDS[:2])


def of(*devices: str, **keys: object) -> VolumeConfig:
    return VolumeConfig.model_validate({"path": str(PLACE), "devices": devices, **keys})


def refusal(device: str) -> str:
    """Why the drive is refused, although everything on it may be destroyed."""
    try:
        preparing.check("a", of(device, wipe=ONE.serial), None)
    except StoragelabError as error:
        return str(error)
    return ""


def survives_kills() -> None:
    """Kills the preparation and the return of drives at each step that the journal announces, and at some steps of a
    RAID with encryption. The next call returns the drives.
    """
    alone = of(IDS[1], capacity="80%")
    stacked = of(*IDS[:2], raid_level="raid1", encryption="luks2", capacity="60%")
    volumes.confirm("a", alone, RESULTS)
    volumes.confirm("a", stacked, RESULTS)
    folders = (PLACE / str(number) for number in itertools.count())
    for asked, numbers in ((alone, itertools.count(1)), (stacked, (7, 8, 9, 11))):
        for number in numbers:
            place = next(folders)
            place.mkdir(parents=True)
            step = killed_at(number, asked, place, RESULTS)
            if step is None:
                print("survived", number - 1, "kills")
                break
            print("killed at", step)
            volumes.remove_left([place])
            volumes.put_back(RESULTS)
            for drive in (drives.look(device, "key") for device in asked.devices or ()):
                assert (drive.holds, drive.used_by) == ((), ()), (number, drive)
            assert claims() == []


def tells_its_own_from_what_others_made() -> None:
    """A kill leaves a half-made volume. The next call returns the drive, with the queue's settings. It does not if
    somebody has made a file system there since, or has written to one of storagelab's partitions.
    """
    asked = {"scheduler": "none", "read_ahead_bytes": 2**18}
    before = file_systems.queue_now(ONE.name, asked)
    assert not set(asked.items()) & set(before.items()), before
    for number, (devices, keys) in enumerate(
        ((IDS[:1], asked), (IDS[:1], {"encryption": "luks2"}), (IDS[:2], {"raid_level": "striped"}),
         (IDS[:2], {"raid_level": "raid0"}), (IDS[:1], {"capacity": "60%"}))
    ):  # fmt: skip
        volume, results, place = of(*devices, **keys), RESULTS / f"of-{number}", PLACE / f"others-{number}"
        place.mkdir(parents=True)
        volumes.confirm("a", volume, results)
        print("killed at", killed_at(1, volume, place, results, begins="mkfs"), drives.uuids_on(ONE.name))
        assert not keys.keys() & asked or file_systems.queue_now(ONE.name, asked) == asked
        if number == 0:
            sh("mkfs.ext4", "-q", "-F", NODES[0])
            expect("may hold what storagelab did not make", refusal_to_put_back(results))
            blank(NODES[0])
        if keys.keys() & {"capacity"}:
            part = Path(f"/dev/{preparing.only_one(ONE.name)}")
            with part.open("r+b") as opened:
                opened.write(b"a raw database")
            expect(f"{part.name} begins with 61 20 72 61 77 20 64 61", refusal_to_put_back(results))
            expect("a raw database", part.open("rb").read(16).decode("latin-1"))
            assert len(volumes.put_back(results, [ONE.serial])) == 1
            print("killed at", killed_at(1, volume, place, results, begins="mkfs"))
        volumes.remove_left([place])
        assert len(volumes.put_back(results)) == len(devices)
        assert (drives.look(IDS[0], "key").holds, claims()) == ((), [])
        assert file_systems.queue_now(ONE.name, asked) == before


def refusal_to_put_back(results: Path) -> str:
    try:
        raise AssertionError(volumes.put_back(results))
    except StoragelabError as error:
        return str(error)


def waits_for_what_a_kill_left() -> None:
    """A kill comes while cryptsetup slowly opens the volume. The next call waits for cryptsetup, and removes its
    volume.
    """
    slow, begun = Path("/mnt/slow"), Path("/mnt/begun")
    slow.mkdir()
    program = slow / "cryptsetup"
    real = programs.path_of("cryptsetup")
    program.write_text(  # it has read the header before it is slow, because the volume loses the header meanwhile
        f'#!/bin/sh\n[ "$1" = open ] || exec {real} "$@"\ndd if={NODES[0]} of=/mnt/header bs=1M count=16\n'
        f'touch {begun}; sleep 2; exec {real} "$@" --header=/mnt/header\n'
    )
    program.chmod(0o755)
    asked, place = of(IDS[0], encryption="luks2"), PLACE / "slow"
    place.mkdir(parents=True)
    volumes.confirm("a", asked, RESULTS)
    child = os.fork()
    if child == 0:
        os.environ["PATH"] = f"{slow}:{os.environ['PATH']}"
        with volumes.made("a", asked, place, Path("/"), {}, RESULTS):
            pass
    assert until(begun.exists, 30)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    volumes.remove_left([place])
    assert len(volumes.put_back(RESULTS)) == 1
    sleep(3)
    drive = drives.look(IDS[0], "key")
    assert (drive.holds, drive.used_by, claims()) == ((), (), []), drive


def partitioned() -> None:
    for node in NODES:
        sh("sfdisk", "-q", node, given="label: gpt\n,16M\n,\n")
    assert until(lambda: len([*drives.partitions_of(ONE.name), *drives.partitions_of(TWO.name)]) == 4, 10)
    sh("udevadm", "settle")


def forgets_partitions_that_somebody_looks_at() -> None:
    """As udev does when partitions change. Meanwhile, the kernel keeps them, although the drive has no table."""
    partitioned()
    asked, place = of(IDS[0], wipe=ONE.serial), PLACE / "looked-at"
    place.mkdir(parents=True)
    volumes.confirm("a", asked, RESULTS)
    looking = os.open(f"/dev/{drives.partitions_of(ONE.name)[0]}", os.O_RDONLY)
    threading.Timer(3, os.close, [looking]).start()
    with volumes.made("a", asked, place, Path("/"), {}, RESULTS):
        assert drives.partitions_of(ONE.name) == ()
    assert claims() == []


def waits_for_udev() -> None:
    """udev may learn late that a partition no longer exists. By then, a new partition has its name, and udev takes it
    out of its RAID.
    """
    partitioned()
    rule = Path("/run/udev/rules.d/10-slow.rules")
    rule.parent.mkdir(parents=True, exist_ok=True)
    rule.write_text('ACTION=="remove", KERNEL=="sd?1", PROGRAM="/bin/sleep 1"\n')
    sh("udevadm", "control", "--reload")
    serials = (ONE.serial, TWO.serial)
    asked, place = of(*IDS[:2], raid_level="raid1", capacity="80%", wipe=serials), PLACE / "udev"
    place.mkdir(parents=True)
    volumes.confirm("a", asked, RESULTS)
    with volumes.made("a", asked, place, Path("/"), {}, RESULTS) as one:
        sh("udevadm", "settle")
        wrong = [f"{check.name}: {check.got}" for check in one.read_back() if not check.ok]
        with one.loaded():
            sh("mdadm", "--fail", f"/dev/{one.facts['device']}", f"/dev/{drives.partitions_of(TWO.name)[0]}")
        failed = [f"{check.name}: {check.got}" for check in one.checks if not check.ok]
    rule.unlink()
    sh("udevadm", "control", "--reload")
    assert (wrong, failed, claims()) == (
        [],
        ["state of the RAID of volume a, at the end: idle, 1 of its drives not in use"],
        [],
    )


def refuses_drives_in_use() -> None:
    """RAID, LVM, LUKS, a file system of the system's, and ZFS's signature, each as its own programs make it."""
    node = NODES[0]
    sh("mdadm", "--create", "/dev/md/others", "--run", "--quiet", "--level=1", "--force", "--raid-devices=1", node)
    expect("is in use: the RAID md", refusal(IDS[0]))
    blank(node)

    sh("pvcreate", "--yes", "--devices", node, node)
    sh("vgcreate", "--yes", "--devices", node, "others", node)
    sh("lvcreate", "--yes", "--devices", node, "--extents=100%FREE", "--name=all", "others")
    expect("is in use: the logical volume dm-", refusal(IDS[0]))
    blank(node)

    fast = ("--batch-mode", "--key-file=-", "--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000")
    sh("cryptsetup", "luksFormat", *fast, node, given="key")
    sh("cryptsetup", "open", "--key-file=-", node, "others", given="key")
    expect("is in use: the encrypted volume dm-", refusal(IDS[0]))
    blank(node)

    with open(node, "r+b") as drive:  # ZFS's labels lie at both ends; each has a ring of blocks with this number
        for start in (0, 2**18, ONE.size_bytes - 2**19, ONE.size_bytes - 2**18):
            for block in range(32):
                drive.seek(start + 2**17 + 1024 * block)
                drive.write(struct.pack("<Q", 0x00BAB10C))
        os.fsync(drive.fileno())
    expect("zfs_member", ", ".join(drives.look(IDS[0], "key").holds or ()))
    unconfirmed = [str(error) for error in refusals(IDS[0])]
    expect("zfs_member", unconfirmed[0])
    blank(node)

    sh("mkfs.ext4", "-q", "-F", node)
    for place in ("/home", "/boot"):
        sh("mount", node, place)
        expect(f"is the system's own drive: it is mounted at {place}", refusal(IDS[0]))
        sh("umount", place)
    expect("is the system's own drive: it is mounted at /", refusal_with_root_on(node))
    blank(node)


def refusals(device: str) -> list[StoragelabError]:
    try:
        preparing.check("a", of(device), None)
    except StoragelabError as error:
        return [error]
    return []


def refusal_with_root_on(node: str) -> str:
    """What a process says whose root is a file system on the drive."""
    root = Path("/mnt/root")
    root.mkdir()
    sh("mount", node, str(root))
    folders = ("bin", "dev", "etc", "lib", "lib64", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var", "work")
    shared = {f"/{Path(place).resolve().parts[1]}" for place in (*sys.path, *map("/{}".format, folders)) if place}
    for place in sorted(shared):
        if Path(place).is_dir():
            (root / place[1:]).mkdir(exist_ok=True)
            sh("mount", "--rbind", place, str(root / place[1:]))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.chroot(root)
        os.write(writing, refusal(IDS[0]).encode() or b"not refused")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as told:
        said = told.read()
    sh("umount", "--recursive", str(root))
    return said


def blank(node: str) -> None:
    file_systems.take_down(Path(node).name)
    sh("wipefs", "--all", "--force", node)
    sh("blkdiscard", "--force", node)
    sh("udevadm", "settle")


def runs_a_spec() -> None:
    """The command line: refused without a confirmation, then a run whose volume is read back."""
    Path("/mnt/spec").mkdir()
    os.chdir("/mnt/spec")
    Path("drive.toml").write_text(
        'question = "Does it run?"\nrepetitions = 2\n[target]\nengine = "raw-io"\n[volumes.a]\npath = "."\n'
        f'devices = ["{IDS[0]}", "{IDS[1]}"]\ncapacity = "50%"\nmade_for = "block"\n'
        'raid_level = "raid1"\nencryption = "luks2"\n[layout]\ndata_size = "8MiB"\n[workload]\n'
        'operation = "read"\npattern = "random"\nblock = "8KiB"\nduration = "1s"\nwarm_up = "0s"\n'
    )
    expect("destroy everything on", storagelab("plan", "drive.toml"))
    wiped = ["--yes-wipe", ONE.serial, "--yes-wipe", TWO.serial]
    refused = storagelab("run", "drive.toml")
    expect(" ".join(wiped), refused)
    expect("exit 2", refused)
    ran = storagelab("run", "drive.toml", *wiped)
    print(ran)
    expect("exit 0", ran)
    exported = storagelab("export", "drive")
    # A busy host may leave a guest without a CPU while its run is watched.
    assert len(re.findall('"status":"(?:ok|unverified)"', exported)) == 2, exported
    expect("no drive is in use", storagelab("volumes"))
    expect("no drive to give back", storagelab("volumes", "undo", "results/drive"))


if __name__ == "__main__":
    PLACE.mkdir()
    sys.exit(failed_of(globals()))
