"""Makes volumes of drives in several layers, disassembles them, and prints a line of JSON about each. The arguments are
RAID levels; without arguments, all levels.
"""

import contextlib
import glob
import json
import mmap
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

from bench.guest import user_mode
from storagelab.model.volume import VolumeConfig
from storagelab.volumes import file_systems

DRIVES = sorted(Path(link).resolve().name for link in glob.glob(user_mode.DRIVES))
WANTED = [
    {"raid_level": "raid0", "raid_chunk_size_bytes": 65536, "filesystem": "xfs"},
    {"raid_level": "raid1", "filesystem": "ext4", "added_latency_ms": 50},
    {"raid_level": "raid5", "raid_chunk_size_bytes": 131072, "filesystem": "btrfs"},
    {
        "raid_level": "raid10", "raid_chunk_size_bytes": 32768, "encryption": "luks2", "encryption_sector_bytes": 4096,
        "encryption_flags": ("no-read-workqueue", "no-write-workqueue"), "trim": True,
    },
    {
        "raid_level": "striped", "raid_chunk_size_bytes": 65536, "encryption": "luks2", "filesystem": "xfs",
        "encryption_flags": ("same-cpu-crypt",),
    },
]  # fmt: skip
COUNTS = {"raid1": 2, "raid5": 3}
KILLED = {"raid5", "striped"}
"""Made again by a process that is killed when it is done."""


def said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def left(devices: list[str]) -> list[str]:
    """What is still there of layers."""
    found = [f"{device} is a part of {held}" for device in devices for held in file_systems.holders(device)]
    found += [mount.mount_point for mount in file_systems.mounts_here() if mount.mount_point.startswith("/mnt/")]
    return found + glob.glob("/etc/lvm/backup/*") + glob.glob("/etc/lvm/archive/*")


def signatures(devices: list[str]) -> list[str]:
    return [
        kind for device in devices for kind in said("wipefs", "--noheadings", "--output=TYPE", f"/dev/{device}").split()
    ]


def make(undo: contextlib.ExitStack, volume: VolumeConfig, devices: list[str]) -> file_systems.Stack:
    file_systems.check_layers(volume, "volumes.a")
    stack = undo.enter_context(file_systems.stacked("a", volume, devices, [uuid4() for _ in devices]))
    filesystem = volume.filesystem or "ext4"
    file_systems.make(f"/dev/{stack.device}", filesystem, None)
    place = Path("/mnt") / secrets.token_hex(4)
    undo.enter_context(file_systems.mounted(f"/dev/{stack.device}", place, filesystem, None))
    (place / "file").write_bytes(os.urandom(2**20))
    return stack


def reads_s(device: str) -> list[float]:
    """How long each of some reads past all caches takes."""
    opened = os.open(f"/dev/{device}", os.O_RDONLY | os.O_DIRECT)
    took = []
    with mmap.mmap(-1, 4096) as block:
        for _ in range(5):
            began = time.monotonic()
            os.preadv(opened, [block], 0)
            took.append(time.monotonic() - began)
    os.close(opened)
    return took


for keys in WANTED:
    if sys.argv[1:] and keys["raid_level"] not in sys.argv[1:]:
        continue
    devices = DRIVES[: COUNTS.get(keys["raid_level"], 4)]
    volume = VolumeConfig(path="/mnt", devices=tuple(devices), **keys)
    with contextlib.ExitStack() as undo:
        stack = make(undo, volume, devices)
        told = {
            "keys": keys, "steps": list(file_systems.layer_steps(volume)), "facts": stack.facts,
            "refused": [check.name for check in stack.read_back() if not check.ok],
            "checked": [f"{check.name}: {check.got}" for check in stack.read_back()],
            "reads_take_s": reads_s(stack.device),
            "size": int(Path(f"/sys/class/block/{stack.device}/size").read_text()) * 512,
        }  # fmt: skip
    print(json.dumps({**told, "left": left(devices), "signatures": signatures(devices)}))

    if volume.raid_level not in KILLED:
        continue
    child = os.fork()
    if child == 0:
        undo = contextlib.ExitStack()
        make(undo, volume, devices)
        os._exit(9)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = left(devices)
    for device in devices:
        file_systems.take_down(device)
        said("wipefs", "--all", f"/dev/{device}")
    said("udevadm", "settle")
    print(json.dumps({"killed": code, "found": len(found), "left": left(devices)}))
