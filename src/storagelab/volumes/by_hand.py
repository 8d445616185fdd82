"""Volumes that a person prepares: what the spec asks, and what is read back of them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from storagelab.errors import RunFailed
from storagelab.machine.disks import block_devices_of, mount_of, mounts_here, size_bytes
from storagelab.model.config import PRICE, VolumeConfig
from storagelab.model.measurement import Check
from storagelab.volumes import block_devices, file_systems

_SIZE_OFF = 0.01
"""By how much the size may differ: partitions begin at whole MiB."""
_NOT_ASKED = frozenset({"path", "prepare", "prepare_text", "check", "made_for"})


def asked(volume: VolumeConfig) -> dict[str, object]:
    """What a person is asked to do, by the keys of the spec."""
    return {key: value for key, value in keys_of(volume).items() if key not in _NOT_ASKED}


def checks(name: str, volume: VolumeConfig, place: Path) -> Iterator[Check]:
    """What can be read back of the volume mounted at a place."""
    mount = mount_of(place, mounts_here())
    if volume.filesystem is not None or volume.mount_options is not None:
        filesystem = volume.filesystem or (mount.filesystem if mount is not None else "none")
        yield from file_systems.checks(name, place, filesystem, volume.mount_options, None)
    device = next(iter(block_devices_of(mount)), "") if mount is not None else ""
    for what, wanted, got in (
        ("sector", volume.sector_bytes, block_devices.sector_bytes(device) if device else None),
        ("size", volume.size_bytes, size_bytes(device) if device else None),
    ):
        if wanted is not None:
            near = got is not None and abs(got - wanted) <= (_SIZE_OFF * wanted if what == "size" else 0)
            yield Check(
                name=f"{what} of volume {name}", asked=str(wanted), got=str(got), ok=near, read_from="/sys/class/block"
            )
    yield from block_devices.queue_checks(name, device, block_devices.queue_asked(volume)) if device else ()


# --- commands of the user's own that prepare a volume, and that show how it was prepared ------------------------------

PREFIX = "STORAGELAB_"
_PATIENCE_S = 3600.0
_LONGEST_OUTPUT = 10_000


def environment(name: str, keys: Mapping[str, object], levels: Mapping[str, object]) -> dict[str, str]:
    """The variables that a command finds: the volume's name, its keys and own variables, and the levels of the cell.

    The level of the factor "layout.data_files" is in STORAGELAB_LEVEL_LAYOUT_DATA_FILES.
    """
    found = {"VOLUME": name} | {_variable(key): str(value) for key, value in keys.items()}
    found |= {f"LEVEL_{_variable(factor)}": str(level) for factor, level in levels.items()}
    return {f"{PREFIX}{variable}": value for variable, value in found.items()}


def _variable(factor: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", factor.upper()).strip("_")


def run(command: str, folder: Path, variables: Mapping[str, str], key: str) -> str:
    """What the command printed, both streams. It runs in `folder` by the shell. Raises RunFailed that names the key if
    it fails or has not ended after an hour; then everything that it started in its process group is killed.
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True, errors="replace", env={**os.environ, **variables}, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=_PATIENCE_S)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise RunFailed(f"{key}: the command has not ended after {_PATIENCE_S / 60:g} min") from None
        raise
    if process.returncode != 0:
        words = " ".join(output.split())[-400:] or "it printed nothing"
        raise RunFailed(f"{key}: the command failed with exit code {process.returncode}: {words}")
    return output.strip()[-_LONGEST_OUTPUT:]


def keys_of(volume: VolumeConfig) -> dict[str, object]:
    """The keys of the volume that the spec has, without its price, and its variables."""
    keys = volume.model_dump(exclude_unset=True, exclude={PRICE})
    return {**{key: value for key, value in keys.items() if not isinstance(value, dict)}, **volume.variables}
