"""Runs a Python script in a kernel that is a program of this machine (User-mode Linux), with throw-away drives in
memory.

The kernel uses the real processor, so it is some thirty times as fast as an emulated machine. Its drives are SCSI
drives of the kernel's own `scsi_debug`. They have serial numbers, stable names and discard, but no choice of formats.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from bench.guest import packages
from bench.guest.booting import Finished, finished, program

DRIVES = "/dev/disk/by-id/scsi-3*"
"""The stable names of the drives."""


@cache
def absent() -> str:
    """Returns why this machine can't run such a kernel, or "" if it can. The first call unpacks the needed files."""
    try:
        packages.user_mode_prepared()
    except packages.Unavailable as problem:
        return str(problem)
    return ""


def run(
    script: Path, drives: int, drive_mib: int, folder: Path, *, arguments: Sequence[str] = (), limit_s: float = 120.0,
    kept: Path | None = None,
) -> Finished:  # fmt: skip
    """Runs the script as root, with this many drives of this size. `folder` is its working folder and $RESULTS. The
    file `kept` is one more drive, /dev/ubda. Its content is still there after the guest's end.
    """
    memory_mib = 512 + drives * drive_mib
    words = [
        str(packages.USER_MODE / "usr/bin/linux.uml"), f"mem={memory_mib}M", "con=null", "con0=null,fd:1", "con1=null",
        "quiet", "panic=-1", f"initrd={packages.USER_MODE_INITRAMFS}", f"unpacked={packages.ROOT}",
        f"kernel={packages.USER_MODE}", f"results={folder.resolve()}",
        *([f"drives=per_host_store=1,add_host={drives},dev_size_mb={drive_mib},lbpu=1,delay=0"] if drives else []),
        *([f"ubd0={kept}"] if kept is not None else []),
    ]  # fmt: skip
    # The guest gets one processor. It changes between the guest's processes and the kernel at each system call, which
    # is slow if they are on two processors.
    pinned = ["taskset", "--cpu-list", str(random.choice(sorted(os.sched_getaffinity(0))))]
    return finished([*pinned, *words], folder, program(script, arguments), limit_s)
