"""Limits a drive through version 2 of the control groups, and prints what reached it in a second."""

import json
import mmap
import os
import time
from pathlib import Path

from storagelab.machine.disks import read_text
from storagelab.provisioning import file_systems, limits

DEVICE = Path(os.path.realpath("/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_D0")).name
SECONDS = 6.0
READS, WRITE_BYTES = 60, 2**20


def reads_per_s() -> float:
    opened = os.open(f"/dev/{DEVICE}", os.O_RDONLY | os.O_DIRECT)
    began, count = time.monotonic(), 0
    with mmap.mmap(-1, 4096) as buffer:
        while time.monotonic() - began < SECONDS:
            os.preadv(opened, [buffer], 4096 * count)
            count += 1
    os.close(opened)
    return count / (time.monotonic() - began)


def written_bytes_per_s(place: Path) -> float:
    """Through the page cache, so it is the kernel that writes."""
    began = time.monotonic()
    with (place / "file").open("wb") as file:
        file.write(os.urandom(int(WRITE_BYTES * SECONDS)))
        file.flush()
        os.fsync(file.fileno())
    return WRITE_BYTES * SECONDS / (time.monotonic() - began)


def main() -> None:
    found = limits.groups()
    assert found is not None
    told = {"version": found.version, "group_before": read_text(Path("/proc/self/cgroup"))}
    file_systems.make(f"/dev/{DEVICE}", "ext4", None)
    with file_systems.mounted(f"/dev/{DEVICE}", Path("/mnt/limited"), "ext4", None):
        told["free_reads"], told["free_bytes"] = reads_per_s(), written_bytes_per_s(Path("/mnt/limited"))
        with limits.limited(DEVICE) as drive:
            asked = {"read_iops": READS, "write_bytes_per_s": WRITE_BYTES}
            drive.set(asked)
            told["checks"] = [(check.name, check.ok, check.got) for check in limits.checks("a", asked, drive.read())]
            told["group"] = read_text(Path("/proc/self/cgroup"))
            before = drive.requests()
            told["reads"], told["counted"] = reads_per_s(), drive.requests() - before
            told["bytes"] = written_bytes_per_s(Path("/mnt/limited"))
        told["reads_afterwards"] = reads_per_s()
        told["left"] = Path("/sys/fs/cgroup").is_dir() and [
            str(file) for file in Path("/sys/fs/cgroup").rglob("io.max") if read_text(file)
        ]
    print(json.dumps(told))


main()
