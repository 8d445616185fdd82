"""This program runs in the guest. For each seed, it generates random contents of the drives and an experiment on some
of them. It prepares the experiment's volume, kills the preparation at a random moment, and frees the drives. Then it
compares every byte of the other drives with their former content.

`one_topology.py FIRST COUNT` prints a line of JSON for each seed.
"""

from __future__ import annotations

import fcntl
import functools
import glob
import hashlib
import itertools
import json
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.guest import user_mode
from storagelab.errors import PreflightError, RunFailed
from storagelab.machine.disks import mounts_here, node_of, read_text
from storagelab.machine.processes import until
from storagelab.model.volume import VolumeConfig
from storagelab.volumes import drives, file_systems
from storagelab.volumes import volume as volumes
from storagelab.volumes.file_systems import sector_bytes
from storagelab.volumes.journal import REGISTRY

_IDS = sorted(glob.glob("/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_D?")) or sorted(glob.glob(user_mode.DRIVES))
LINKS = dict(zip("ABCDE", _IDS, strict=True))
NVME = "nvme" in _IDS[0]
BLKDISCARD, BLKRRPART = 0x1277, 0x125F
PLACE, PIECE_BYTES = Path("/mnt/topology"), 2**20
PROGRAMS_UNTIL_DONE = 60
"""The number of programs that run while a volume is made and disassembled. A kill may come during any of them."""
COUNTS = {"raid0": 2, "raid1": 2, "raid5": 3, "raid10": 4, "striped": 2}


def said(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.stderr}")
    return done.stdout


def node(letter: str) -> str:
    return os.path.realpath(LINKS[letter])


def size_of(letter: str) -> int:
    return int(read_text(node_of(Path(node(letter)).name) / "size")) * 512


# --- what lies on the drives before -----------------------------------------------------------------------------------


def nothing(_: str) -> None:
    """Leaves the drive as it came from the factory."""


def unknown(device: str) -> None:
    Path(device).write_bytes(os.urandom(2**16))


def file_system(device: str) -> None:
    said("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)


def mounted(device: str) -> None:
    file_system(device)
    place = Path("/mnt") / f"others-{Path(device).name}"
    place.mkdir(exist_ok=True)
    said("mount", "-o", "noatime", device, place)
    (place / "precious").write_bytes(os.urandom(2**18))


def partitioned(device: str) -> None:
    subprocess.run(["sfdisk", "-q", device], input="label: gpt\n,16M\n,\n", text=True, check=True, capture_output=True)
    said("udevadm", "settle")
    file_system(f"/dev/{drives.partitions_of(Path(device).name)[-1]}")


def swap(device: str) -> None:
    said("mkswap", device)


def swapped(device: str) -> None:
    swap(device)
    said("swapon", device)


def raid_member(device: str) -> None:
    said(
        "mdadm",
        "--create",
        f"/dev/md/others-{Path(device).name}",
        "--run",
        "--quiet",
        "--level=1",
        "--force",
        "--raid-devices=1",
        device,
    )
    file_system(f"/dev/{file_systems.made_of(Path(device).name)}")


def idle_raid_member(device: str) -> None:
    raid_member(device)
    said("mdadm", "--stop", f"/dev/{file_systems.made_of(Path(device).name)}")


def physical_volume(device: str) -> None:
    said("pvcreate", "--yes", "--devices", device, device)


def encrypted(device: str) -> None:
    words = [
        "cryptsetup",
        "luksFormat",
        "--batch-mode",
        "--key-file=-",
        "--pbkdf=pbkdf2",
        "--pbkdf-force-iterations=1000",
    ]
    subprocess.run([*words, device], input="not ours", text=True, check=True, capture_output=True)


CONTENTS: tuple[Callable[[str], None], ...] = (
    nothing, unknown, file_system, mounted, partitioned, swap, swapped, raid_member, idle_raid_member, physical_volume,
    encrypted,
)  # fmt: skip
IN_USE = (mounted, swapped, raid_member)


def reread(opened: int) -> bool:
    """Lets the kernel read the partition table again. Returns false if it does not do so because another program, such
    as udev, has a partition open.
    """
    try:
        fcntl.ioctl(opened, BLKRRPART)
    except OSError:
        return False
    return True


def emptied() -> None:
    """Removes all remains of an earlier topology."""
    for mount in reversed(mounts_here()):
        if mount.mount_point.startswith("/mnt/"):
            said("umount", mount.mount_point)
    for line in Path("/proc/swaps").read_text().splitlines()[1:]:
        said("swapoff", line.split()[0])
    for letter in LINKS:
        device = node(letter)
        for name in (*drives.partitions_of(Path(device).name), Path(device).name):
            file_systems.take_apart(name)
        opened = os.open(device, os.O_RDWR)
        try:
            fcntl.ioctl(opened, BLKDISCARD, struct.pack("QQ", 0, os.lseek(opened, 0, os.SEEK_END)))
            assert until(functools.partial(reread, opened), 30, pause_s=0.2), f"{device} is busy"
        finally:
            os.close(opened)
    said("udevadm", "settle")
    shutil.rmtree(REGISTRY, ignore_errors=True)
    shutil.rmtree(PLACE, ignore_errors=True)


# --- the experiment ---------------------------------------------------------------------------------------------------


def drawn_volume(rng: random.Random, contents: dict[str, Callable[[str], None]]) -> VolumeConfig:
    level = rng.choice([None, *COUNTS])
    # Usually the drives are ones that may be used, so that storagelab makes most experiments. Sometimes they are any
    # drives.
    free = [letter for letter in LINKS if contents[letter] not in IN_USE]
    letters = free if rng.random() < 0.85 and len(free) >= COUNTS.get(level or "", 1) else list(LINKS)
    own = rng.sample(letters, COUNTS.get(level or "", 1))
    serials = tuple(drives.serial_of(Path(node(letter)).name) for letter in own)
    encryption = "luks2" if rng.random() < 0.3 else None
    return VolumeConfig.model_validate({
        "path": str(PLACE), "devices": [LINKS[letter] for letter in own], "raid_level": level,
        "wipe": serials if rng.random() < 0.85 else None, "encryption": encryption,
        "capacity": rng.choice(["100%", "100%", "80%", "50%"]),
        "sector_bytes": rng.choice([None, None, 512, 4096]) if NVME else None,
        "raid_chunk_size_bytes": None if level in (None, "raid1") else rng.choice([None, 4096, 65536]),
    })  # fmt: skip


def time_of_a_program_s() -> float:
    """Returns how long a program takes now. A busy machine takes ten times as long as an idle one."""
    began = time.monotonic()
    said("wipefs", "--version")
    return time.monotonic() - began


def in_a_process(rng: random.Random, work: Callable[[], None], kills: bool) -> str:
    """Does the work in a separate process, and kills it at a random moment if `kills`. Returns how the work ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setpgid(0, 0)
        try:
            work()
            os.write(writing, b"done")
        except (PreflightError, RunFailed) as error:
            os.write(writing, f"refused: {error}".encode())
        except BaseException as error:  # noqa: BLE001
            os.write(writing, f"BROKE: {type(error).__name__} {error}".encode())
        os._exit(0)
    os.close(writing)
    if kills:
        time.sleep(rng.uniform(0, PROGRAMS_UNTIL_DONE) * time_of_a_program_s())
        os.kill(child, signal.SIGKILL)  # the programs that it started continue, as after a real kill
    with os.fdopen(reading) as end:
        told = end.read()  # this waits until its programs have ended, too
    os.waitpid(child, 0)
    return told or "killed"


def make(volume: VolumeConfig, results: Path, folder: Path) -> None:
    volumes.confirm("a", volume, results)
    with volumes.made("a", volume, folder, Path("/"), {}, results) as one:
        wrong = [f"{check.name}: {check.asked}, got {check.got}" for check in one.checks if not check.ok]
        if wrong:
            raise RuntimeError("; ".join(wrong))
        (one.path / "file").write_bytes(os.urandom(2**18))
        os.sync()


def undo(folder: Path, results: Path) -> None:
    volumes.remove_left([folder])
    volumes.put_back(results)


# --- one topology -----------------------------------------------------------------------------------------------------


def content_of(letter: str) -> list[bytes]:
    """Returns a digest of each piece of the drive. It bypasses the page cache, because the cache does not see writes
    through other devices.
    """
    opened = os.open(node(letter), os.O_RDONLY | os.O_DIRECT)
    digests = []
    try:
        with mmap.mmap(-1, PIECE_BYTES) as piece:
            while read := os.readv(opened, [piece]):
                digests.append(hashlib.sha1(memoryview(piece)[:read]).digest())
    finally:
        os.close(opened)
    return digests


def differing(before: list[bytes], after: list[bytes]) -> int:
    """Returns the number of bytes in the pieces that differ."""
    pairs = itertools.zip_longest(before, after)
    return PIECE_BYTES * sum(one != other for one, other in pairs)


def topology(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    emptied()
    contents = {letter: rng.choice(CONTENTS) for letter in LINKS}
    for letter, fill in contents.items():
        fill(node(letter))
    os.sync()
    said("udevadm", "settle")
    time.sleep(0.5)  # 0.2 s after a write, a RAID records that it is clean
    before = {letter: content_of(letter) for letter in LINKS}
    sectors = {letter: sector_bytes(Path(node(letter)).name) for letter in LINKS}

    volume, results, folder = drawn_volume(rng, contents), PLACE / "results", PLACE / "volume"
    folder.mkdir(parents=True)
    own = {letter for letter, link in LINKS.items() if link in (volume.devices or ())}
    told = in_a_process(rng, lambda: make(volume, results, folder), kills=rng.random() < 0.6)
    undone = [in_a_process(rng, lambda: undo(folder, results), kills=rng.random() < 0.3)]
    while undone[-1] != "done" and len(undone) < 4:
        undone.append(in_a_process(rng, lambda: undo(folder, results), kills=False))
    os.sync()
    said("udevadm", "settle")

    journal = results / "drives.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    # A kill may come before all drives are claimed.
    taken = {event["device"] for event in events if event["event"] == "claimed"}
    claimed = {letter for letter in own if LINKS[letter] in taken}
    changed = {letter: differing(before[letter], content_of(letter)) for letter in LINKS if letter not in claimed}
    left = [f"{letter}: {held}" for letter in claimed for held in file_systems.holders(Path(node(letter)).name)]
    left += [mount.mount_point for mount in mounts_here() if mount.mount_point.startswith(str(PLACE))]
    for letter in claimed:
        now = drives.describe(LINKS[letter], Path(node(letter)).name)
        left += [f"{letter} holds {one}" for one in now.holds or () if one != drives.UNKNOWN_DATA]
        left += [] if now.sector_bytes == sectors[letter] else [f"{letter} has sectors of {now.sector_bytes} B"]
    left += [str(claim) for claim in REGISTRY.glob("*.json")] if undone[-1] == "done" else []
    keys = volume.model_dump(
        include={"raid_level", "encryption", "capacity", "sector_bytes", "wipe"}, exclude_none=True
    )
    keys["journal_lines"] = len(events)
    return {
        "seed": seed, "contents": {letter: fill.__name__ for letter, fill in contents.items()}, "own": sorted(own),
        "keys": keys, "told": told, "undone": undone, "claimed": bool(claimed), "left": left,
        "changed_outside": sum(changed.values()), "compared_bytes": sum(size_of(letter) for letter in changed),
    }  # fmt: skip


if __name__ == "__main__":
    Path("/proc/sys/vm/swappiness").write_text("0")
    first, count = int(sys.argv[1]), int(sys.argv[2])
    for number in range(first, first + count):
        began = time.monotonic()
        try:
            found = topology(number)
        except Exception as error:  # noqa: BLE001
            found = {"seed": number, "broke": f"{type(error).__name__}: {error}"}
        print(json.dumps({**found, "took_s": round(time.monotonic() - began, 1)}))
