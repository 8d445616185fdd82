"""Boots a guest with throw-away drives, runs a Python script in it, and returns what the script printed."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bench.guest import packages

_BOOT_S = 300.0
"""The time limit for a boot. An idle machine needs 10 s, but a busy machine needs minutes."""
_CONSOLE, _COMMAND, _OUTPUT, _EXIT_CODE = "console", "command", "output", "exit_code"


class Drive(NamedTuple):
    """An emulated NVMe drive. It is a namespace of the controller with its serial number. Drives with the same serial
    number share the controller.

    The file `image` keeps the drive's content. If it does not exist, it is made with zeros. `sector_bytes` is the
    format at the beginning. The guest may format the drive with 512 or 4096 bytes. A drive that is not attached needs
    `nvme attach-ns`.
    """

    serial: str
    size_bytes: int
    image: Path
    sector_bytes: int = 512
    attached: bool = True


class Finished(NamedTuple):
    """The result of a script: its exit code (None if the time limit ended it or the guest failed), what it printed,
    what the kernel printed, and the folder $RESULTS with the files that it wrote.
    """

    exit_code: int | None
    output: str
    console: str
    folder: Path


@cache
def absent() -> str:
    """Returns why this machine can't run a guest, or "" if it can. The first call unpacks the files that the guest
    needs.
    """
    try:
        packages.prepared()
    except packages.Unavailable as problem:
        return str(problem)
    return ""


def run(
    script: Path, drives: Sequence[Drive], folder: Path, *, arguments: Sequence[str] = (), limit_s: float = 120.0,
    memory_mib: int = 1024,
) -> Finished:  # fmt: skip
    """Runs a Python script with this checkout's packages, as root of a guest with these drives.

    `folder` is the script's working folder and $RESULTS. If the script has not ended `limit_s` after the boot, the
    guest is killed. The boot may take five minutes more.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return finished(_command(drives, folder, memory_mib), folder, program(script, arguments), limit_s)


def program(script: Path, arguments: Sequence[str]) -> str:
    """Returns the command that runs a Python script with this checkout's packages."""
    compiled = [str(packages.CHECKOUT / part) for part in ("src", "bench", "tests/guest_scripts")]
    # A guest can't store compiled files, so it would compile all modules each time.
    subprocess.run([sys.executable, "-m", "compileall", "-q", *compiled], check=False)
    paths = os.pathsep.join([str(packages.CHECKOUT), str(packages.CHECKOUT / "tests")])
    return shlex.join(
        [
            "env",
            f"PYTHONPATH={paths}",
            "PYTHONDONTWRITEBYTECODE=1",
            "PYTHONUNBUFFERED=1",
            sys.executable,
            str(script.resolve()),
            *arguments,
        ]
    )


def finished(words: Sequence[str | Path], folder: Path, command: str, limit_s: float) -> Finished:
    """Boots the guest with these words, and runs the command in it. Returns the result. The guest shares `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _EXIT_CODE).unlink(missing_ok=True)
    (folder / _COMMAND).write_text(f"exec timeout -k 5 {limit_s:g} {command}\n")
    with (folder / _CONSOLE).open("wb") as console:
        booted = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
        )
        try:
            booted.wait(_BOOT_S + limit_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(booted.pid, signal.SIGKILL)  # User-mode Linux has a process for each process of its own
            booted.wait()
    code = _text(folder / _EXIT_CODE).strip()
    return Finished(int(code) if code else None, _text(folder / _OUTPUT), _text(folder / _CONSOLE), folder)


def _text(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""


def _command(drives: Sequence[Drive], folder: Path, memory_mib: int) -> list[str | Path]:
    # The processor is always emulated, because a guest on the real processor does not boot inside some virtual
    # machines.
    kernel = "console=ttyS0 quiet no_timer_check mitigations=off random.trust_cpu=on panic=-1"
    share = "security_model=none,multidevs=remap"
    return [
        "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", f"{memory_mib}", "-smp", "1",
        "-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio",
        "-kernel", packages.kernel(), "-initrd", packages.INITRAMFS, "-append", kernel, "-device", "virtio-rng-pci",
        "-virtfs", f"local,path=/,mount_tag=host,readonly=on,{share}",
        "-virtfs", f"local,path={packages.ROOT},mount_tag=unpacked,readonly=on,{share}",
        "-virtfs", f"local,path={folder.resolve()},mount_tag=results,{share}",
        *(word for words in _drive_words(drives) for word in words),
    ]  # fmt: skip


def _drive_words(drives: Sequence[Drive]) -> list[list[str]]:
    words: list[list[str]] = []
    controllers: dict[str, int] = {}
    for number, drive in enumerate(drives):
        if not drive.image.exists():
            with drive.image.open("wb") as image:
                image.truncate(drive.size_bytes)
        if drive.serial not in controllers:
            controllers[drive.serial] = 0
            words.append(["-device", f"nvme-subsys,id=subsystem-{drive.serial}"])
            words.append(
                ["-device", f"nvme,id=controller-{drive.serial},serial={drive.serial},subsys=subsystem-{drive.serial}"]
            )
        controllers[drive.serial] += 1
        words.append(["-drive", f"id=drive{number},file={drive.image},format=raw,if=none,discard=unmap"])
        sectors = f"logical_block_size={drive.sector_bytes},physical_block_size={drive.sector_bytes}"
        words.append([
            "-device", f"nvme-ns,drive=drive{number},bus=controller-{drive.serial},nsid={controllers[drive.serial]},"
            f"{sectors},detached={'off' if drive.attached else 'on'}",
        ])  # fmt: skip
    return words
