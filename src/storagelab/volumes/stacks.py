"""Block devices that are made of others, as the kernel shows them: which there are, and taking them apart again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine.disks import HERE, Kernel, block_devices_of, mounts_here, node_of, read_text
from storagelab.machine.processes import until
from storagelab.volumes.file_systems import unmount
from storagelab.volumes.programs import said

PROGRAMS = ("dmsetup",)
_BUSY_S = 10.0
"""How long something may be busy after its last use: udev looks into each device that was written to."""


def holders(device: str, kernel: Kernel = HERE) -> list[str]:
    """The devices that are made of this one, by the kernel's names."""
    with contextlib.suppress(OSError):
        return sorted(os.listdir(node_of(device, kernel) / "holders"))
    return []


def made_of(device: str) -> str:
    """The one device that was just made of `device`. Raises RunFailed."""
    if not until(lambda: bool(holders(device)), _BUSY_S, pause_s=0.05):
        raise RunFailed(f"the kernel shows nothing that is made of {device}")
    return holders(device)[0]


def number_in(device: str, file: str) -> int | None:
    """A number that the kernel shows of a device in this file of its folder."""
    text = read_text(node_of(device) / file)
    return int(text) if text.isdigit() else None


def check_driver(modules: tuple[str, ...], what: str, key: str, kernel: Kernel = HERE) -> None:
    """Raises PreflightError if the kernel has one of these drivers neither in it nor as a module that it can load."""
    folder = Path("/lib/modules") / os.uname().release
    known = {
        Path(line.partition(":")[0]).name.partition(".ko")[0].replace("-", "_")
        for file in ("modules.dep", "modules.builtin")
        for line in read_text(folder / file).splitlines()
    }
    missing = [one for one in modules if one not in known and not (kernel.sys / "module" / one).exists()]
    if missing:
        raise PreflightError(
            f"this kernel can't make {what}: it lacks the driver {missing[0]}", key=key,
            hint="use a kernel with it (those of distributions have it), or leave the key out",
        )  # fmt: skip


def take_down(device: str, kernel: Kernel = HERE) -> None:
    """Unmounts what lies on the device, and takes apart all that is made of it, from the top down. What the device
    itself holds stays, so that a program may find it and put it together again until that is wiped. Raises RunFailed.
    """
    for mount in reversed(mounts_here(kernel)):
        if device in block_devices_of(mount, kernel):
            unmount(Path(mount.mount_point))
    for holder in holders(device, kernel):
        take_down(holder, kernel)
        patiently(lambda holder=holder: _take_apart(holder, kernel))  # type: ignore[misc]


def patiently(step: Callable[[], object]) -> None:
    """Does the step, again while it fails for a while: something may still look at the device. Raises RunFailed."""
    problems: list[RunFailed] = []

    def is_done() -> bool:
        try:
            step()
        except RunFailed as error:
            problems.append(error)
            return False
        return True

    if not until(is_done, _BUSY_S, pause_s=0.2):
        raise problems[-1]


def _take_apart(device: str, kernel: Kernel) -> None:
    node = node_of(device, kernel)
    if not node.exists():
        return
    if (node / "md").exists():
        said("mdadm", "--stop", f"/dev/{device}")
    elif name := read_text(node / "dm" / "name"):
        said("dmsetup", "remove", name)
