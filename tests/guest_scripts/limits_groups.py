"""Runs in the guest: a limit by version 2 of the control groups, for a process in its own group and for a process in no
group.
"""

from __future__ import annotations

import glob
import json
import mmap
import os
import subprocess
import time
from pathlib import Path

from bench.guest import user_mode
from storagelab.errors import PreflightError
from storagelab.volumes import limits

DEVICE = Path(os.path.realpath(glob.glob(user_mode.DRIVES)[0])).name
LIMIT_BYTES_PER_S, WRITTEN_BYTES = 2**20, 8 * 2**20
GROUP = Path("/sys/fs/cgroup/own")


def rate(buffered: bool) -> float:
    """Bytes that a new process writes to a file in a second."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        Path("/mnt/drive/file").unlink(
            missing_ok=True
        )  # a file's writeback belongs to the group that wrote to it first
        began = time.monotonic()
        opened = os.open("/mnt/drive/file", os.O_WRONLY | os.O_CREAT | (0 if buffered else os.O_DIRECT))
        with mmap.mmap(-1, 2**18) as block:
            block.write(os.urandom(2**18))
            for _ in range(WRITTEN_BYTES // 2**18):
                os.write(opened, block)
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
        rates = {f"{how}_bytes_per_s": round(rate(how == "buffered")) for how in ("buffered", "direct")}
        print(json.dumps({"where": where, **rates, "read_back": drive.read()}), flush=True)


def refused() -> str:
    try:
        limits.check("volumes.a.limit")
    except PreflightError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    Path("/mnt/drive").mkdir()
    for words in (["mkfs.ext4", "-q", f"/dev/{DEVICE}"], ["mount", f"/dev/{DEVICE}", "/mnt/drive"]):
        subprocess.run(words, check=True)
    print(json.dumps({"where": "no limit", "direct_bytes_per_s": round(rate(buffered=False))}), flush=True)
    GROUP.mkdir()
    print(json.dumps({"refused": refused()}), flush=True)
    told("in the root group")
    (GROUP / "cgroup.procs").write_text(str(os.getpid()))
    print(json.dumps({"refused": refused()}), flush=True)
    told("in a group of its own")
    print(json.dumps({"where": "limit taken back", "direct_bytes_per_s": round(rate(buffered=False))}))
