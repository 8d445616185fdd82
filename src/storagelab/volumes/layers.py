"""Makes the layers between drives and the file system, and undoes them. Each kind is a file of `model.layers`."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID, uuid4

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine import disks
from storagelab.machine.disks import HERE, Kernel, read_text
from storagelab.machine.processes import until
from storagelab.model.config import LAYERS, VolumeConfig
from storagelab.model.layers.base import Layer, Top
from storagelab.model.measurement import Check
from storagelab.volumes import programs
from storagelab.volumes.file_systems import compared, unmount
from storagelab.volumes.programs import patiently, said
from storagelab.words.numbers import bytes_

_BUSY_S = 10.0
"""How long a device may be busy after its last use: udev reads each device that was written to."""
_PROGRAMS = {"dmsetup": "dmsetup", "wipefs": "util-linux"}


@dataclass
class Stack:
    """One device made of several, by the kernel's name, and the layers of the volume `name` that it has."""

    name: str
    device: str
    tops: list[Top] = field(default_factory=list)

    @property
    def facts(self) -> dict[str, object]:
        return {key: value for top in self.tops for key, value in top.facts.items()}

    def read_back(self) -> Iterator[Check]:
        """How the layers are now."""
        for top in self.tops:
            yield from compared(self.name, top.look(), top.read_from)


def of(volume: VolumeConfig) -> list[Layer]:
    """The volume's layers, from the drives upward."""
    return [layer for file in LAYERS for layer in file.layers(volume, _TOOLS)]


def check(volume: VolumeConfig, key: str) -> None:
    """Raises PreflightError if this machine lacks what the layers need."""
    found = of(volume)
    for layer in found:
        check_driver(layer.drivers, layer.what, f"{key}.{layer.key}")
    if found:
        programs.check({**_PROGRAMS, **{name: package for one in found for name, package in one.programs.items()}}, key)


def steps(volume: VolumeConfig) -> Iterator[str]:
    """What is done to make the layers, in words."""
    return (layer.step for layer in of(volume))


@contextlib.contextmanager
def stacked(name: str, volume: VolumeConfig, devices: Sequence[str], uuids: Sequence[UUID]) -> Iterator[Stack]:
    """Makes one device of these (the kernel's names), and takes it apart at the end. What is made on each of them gets
    its UUID. Raises RunFailed.
    """
    own, stack = f"storagelab-{secrets.token_hex(4)}", Stack(name, devices[0])
    with contextlib.ExitStack() as undo:
        for layer in of(volume):
            top = undo.enter_context(layer.made(devices, own, uuids))
            stack.tops.append(top)
            stack.device, devices, uuids = top.device, [top.device], [uuid4()]
        yield stack


# --- what the kernel shows of layers ----------------------------------------------------------------------------------


def holders(device: str, kernel: Kernel = HERE) -> list[str]:
    """The devices that are made of this one, by the kernel's names."""
    return list(disks.names_in(disks.node_of(device, kernel) / "holders"))


def made_of(device: str) -> str:
    """The one device that was just made of `device`. Raises RunFailed."""
    if not until(lambda: bool(holders(device)), _BUSY_S, pause_s=0.05):
        raise RunFailed(f"the kernel shows nothing that is made of {device}")
    return holders(device)[0]


def check_driver(modules: tuple[str, ...], what: str, key: str, kernel: Kernel = HERE) -> None:
    """Raises PreflightError if the kernel lacks one of these drivers, built in or as a module."""
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


def take_apart(device: str, kernel: Kernel = HERE) -> None:
    """Unmounts everything on the device, and disassembles its layers from the top down. The device's own content stays,
    so programs may find and assemble it again until it is wiped. Raises RunFailed.
    """
    for mount in reversed(disks.mounts_here(kernel)):
        if device in disks.block_devices_of(mount, kernel):
            unmount(Path(mount.mount_point))
    for holder in holders(device, kernel):
        take_apart(holder, kernel)
        patiently(partial(_stop, holder, kernel), _BUSY_S)


def _stop(device: str, kernel: Kernel) -> None:
    node = disks.node_of(device, kernel)
    if (node / "md").exists():
        said("mdadm", "--stop", f"/dev/{device}")
    elif name := read_text(node / "dm" / "name"):
        said("dmsetup", "remove", name)


def take_down(*devices: str) -> None:
    """Disassembles the layers of these devices, and removes their array superblocks. Until then, udev may assemble an
    array again, so all steps are repeated if necessary. Raises RunFailed.
    """

    def once() -> None:
        for device in devices:
            take_apart(device)
        for device in _that_hold("linux_raid_member", devices):
            said("mdadm", "--zero-superblock", f"/dev/{device}")

    patiently(once, _BUSY_S)


def _that_hold(kind: str, devices: Sequence[str]) -> Iterator[str]:
    for device in devices:
        if kind in said("wipefs", "--noheadings", "--output=TYPE", f"/dev/{device}"):
            yield device


_TOOLS = SimpleNamespace(
    said=said, node=disks.node_of, text=read_text, made_of=made_of, take_apart=take_apart, take_down=take_down,
    holding=_that_hold, patiently=partial(patiently, within_s=_BUSY_S), until=until, size=bytes_,
)  # fmt: skip
"""`model.layers.base.Tools`."""
