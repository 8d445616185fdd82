"""Runs in the guest: what a limit through version 2 of the control groups does to a process in a group of its own, and in none."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from storagelab.provisioning import limits

DEVICE = Path(os.path.realpath("/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_D0")).name
LIMIT_BYTES_PER_S, WRITTEN_BYTES = 2**20, 4 * 2**20
GROUP = Path("/sys/fs/cgroup/own")


def rate(buffered: bool) -> float:
    """Bytes that a new process writes to the drive in a second."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        began = time.monotonic()
        opened = os.open(f"/dev/{DEVICE}", os.O_WRONLY | (0 if buffered else os.O_SYNC))
        for _ in range(WRITTEN_BYTES // 2**18):
            os.write(opened, os.urandom(2**18))
        os.fsync(opened)
        os.write(writing, str(WRITTEN_BYTES / (time.monotonic() - began)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as told:
        return float(told.read())


def told(where: str) -> None:
    with limits.limited(DEVICE) as drive:
        drive.set({"write_bytes_per_s": LIMIT_BYTES_PER_S})
        rates = {f"{how}_bytes_per_s": round(rate(how == "buffered")) for how in ("buffered", "synchronous")}
        print(json.dumps({"where": where, **rates, "read_back": drive.read()}), flush=True)


if __name__ == "__main__":
    print(limits.groups())
    print(json.dumps({"where": "no limit", "synchronous_bytes_per_s": round(rate(buffered=False))}), flush=True)
    told("in the root group")
    GROUP.mkdir()
    told("in the root group, another group has the limit")
    (GROUP / "cgroup.procs").write_text(str(os.getpid()))
    told("in a group of its own")
    print(json.dumps({"where": "limit taken back", "synchronous_bytes_per_s": round(rate(buffered=False))}))
