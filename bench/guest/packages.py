"""Unpacks Debian's packages into build/guest: the kernels and programs from which guests boot."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from storagelab.volumes.programs import path_of

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDER = CHECKOUT / "build" / "guest"
ROOT, INITRAMFS = FOLDER / "root", FOLDER / "initramfs"
USER_MODE, USER_MODE_INITRAMFS = FOLDER / "user-mode", FOLDER / "user-mode-initramfs"
"""The kernel that runs as a program, the kernel's modules, and the archive from which the kernel boots."""
_FORM = "2"
"""Increase this if the unpacked content changes. Then it is unpacked again."""

_WANTED = ("mdadm", "lvm2", "cryptsetup-bin", "nvme-cli", "udev", "kmod", "busybox-static", "dmsetup", "fdisk")
_NOT_NEEDED = re.compile(r"systemd(-sysv|-timesyncd)?|lib(nss|pam)-systemd|uuid-runtime")
_MODULES = tuple(
    f"./lib/modules/*/{part}"
    for part in (
        "modules.builtin*", "modules.order", "kernel/arch/*", "kernel/block/*", "kernel/crypto/*", "kernel/fs/*",
        "kernel/lib/*", "kernel/net/9p/*", "kernel/drivers/block/*", "kernel/drivers/char/hw_random/*",
        "kernel/drivers/dax/*", "kernel/drivers/md/*", "kernel/drivers/nvme/*", "kernel/drivers/virtio/*",
    )
)  # fmt: skip
"""The kernel's modules for drives, file systems and encryption. Other modules are not unpacked."""
_USER_MODE_PARTS = ("./usr/bin/*", "./usr/lib/uml/modules/*")
_TO_BOOT = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_USER_MODE_TO_BOOT = ("overlay",)


class Unavailable(Exception):
    """This machine can't run a guest. The message says what it lacks."""


def prepared() -> None:
    """Unpacks the files from which an emulated machine boots, if they are not there yet. Processes that call this at
    the same time wait for each other. Raises Unavailable if something is missing.
    """
    if path_of("qemu-system-x86_64") is None:
        raise Unavailable("no QEMU (Debian and Ubuntu: apt-get install qemu-system-x86)")
    with _alone():
        _once("ready", _unpack_all)
        _write_initramfs(next((ROOT / "usr/lib/modules").iterdir()), _TO_BOOT, INITRAMFS)


def user_mode_prepared() -> None:
    """Unpacks the files from which User-mode Linux boots, like `prepared`. Raises Unavailable."""
    with _alone():
        _once("ready", _unpack_all)
        _once("user-mode-ready", _unpack_user_mode)
        _write_initramfs(next((USER_MODE / "usr/lib/modules").iterdir()), _USER_MODE_TO_BOOT, USER_MODE_INITRAMFS)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    missing = [program for program in ("apt-get", "dpkg-deb") if path_of(program) is None]
    if missing:
        raise Unavailable(f"{', '.join(missing)} missing: guests are made of Debian's packages")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _once(stamp: str, unpack: Callable[[], None]) -> None:
    ready = FOLDER / stamp
    if not ready.exists() or ready.read_text() != _FORM:
        unpack()
        ready.write_text(_FORM)


def _unpack_all() -> None:
    _unpack_packages([*_missing_here(), _kernel_package()], ROOT)


def _unpack_user_mode() -> None:
    _unpack_packages(["user-mode-linux"], USER_MODE)


def _unpack_packages(names: Iterable[str], root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    with tempfile.TemporaryDirectory(dir=FOLDER) as downloads:
        for package in _downloaded(names, Path(downloads)):
            _unpack(package, root)
    _as_program("depmod", "-b", str(root / "usr"), next((root / "usr/lib/modules").iterdir()).name)


def _missing_here() -> list[str]:
    """Returns the packages that an installation of the wanted programs would add to this machine."""
    planned = _output("apt-get", "install", "--simulate", "--no-install-recommends", *_WANTED)
    names = re.findall(r"^Inst (\S+)", planned, re.MULTILINE)
    # busybox and kmod are taken from their packages even if they are installed.
    return sorted({*names, "busybox-static", "kmod"} - {name for name in names if _NOT_NEEDED.fullmatch(name)})


def kernel() -> Path:
    return next((ROOT / "boot").glob("vmlinuz*"))


def _kernel_package() -> str:
    found = re.search(r"Depends: (linux-image-\S+)", _output("apt-cache", "depends", "linux-image-amd64"))
    if found is None:
        raise Unavailable("the package lists name no linux-image-amd64")
    return found[1]


def _downloaded(packages: Iterable[str], folder: Path) -> list[Path]:
    _output("apt-get", "download", "-q", *packages, folder=folder)
    return sorted(folder.glob("*.deb"))


def _unpack(package: Path, root: Path) -> None:
    """On this machine, some folders are links into /usr. They must not hide files in the guest, so all files go to
    /usr."""
    wanted = {"linux-image-": ["./boot/vmlinuz*", *_MODULES], "user-mode-linux": [*_USER_MODE_PARTS]}
    parts = next((parts for name, parts in wanted.items() if package.name.startswith(name)), None)
    into_usr = [
        r"--transform=s,^\./\(bin\|sbin\|lib\|lib64\)\(/\|$\),./usr/\1\2,SH",
        "--transform=s,/uml/modules,/modules,",
    ]
    of_it = ["--exclude=./usr/share/doc"] if parts is None else ["--wildcards", *parts]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as unpacking:
        extracting = ["tar", "-x", "-C", root, "--no-same-owner", *into_usr, *of_it]
        subprocess.run(extracting, stdin=unpacking.stdout, stderr=subprocess.DEVNULL, check=False)
    if unpacking.returncode != 0:
        raise Unavailable(f"{package.name} can't be unpacked")


def _write_initramfs(modules: Path, to_boot: Iterable[str], initramfs: Path) -> None:
    order = list(dict.fromkeys(file for name in to_boot for file in _with_those_before(name, modules)))
    files = {f"modules/{number:02}.ko": modules / file for number, file in enumerate(order)}
    files |= {"bin/busybox": _busybox(), "init": Path(__file__).with_name("init.sh")}
    new = initramfs.with_suffix(".new")
    new.write_bytes(b"".join(_cpio(files)))
    new.replace(initramfs)  # a guest may be booting from the old file


def _with_those_before(name: str, modules: Path) -> list[str]:
    """Returns the files of the modules that a module needs, and then its own file. Returns none if it is built into the
    kernel."""
    for line in (modules / "modules.dep").read_text().splitlines():
        file, _, needed = line.partition(":")
        if re.sub(r"\.ko.*", "", Path(file).name).replace("-", "_") == name:
            return [*reversed(needed.split()), file]
    if f"/{name}.ko" in (modules / "modules.builtin").read_text():
        return []
    raise Unavailable(f"the kernel {modules.name} lacks the module {name}")


def _busybox() -> Path:
    return next(file for file in (ROOT / "usr/bin/busybox", Path("/bin/busybox")) if file.exists())


def _cpio(files: dict[str, Path]) -> Iterator[bytes]:
    """Yields an archive of these files in the kernel's format (its
    Documentation/driver-api/early-userspace/buffer-format)."""
    folders = dict.fromkeys(str(Path(name).parent) for name in files if "/" in name)
    entries = [
        (name, stat.S_IFDIR | 0o755, b"")
        for name in [*folders, "proc", "sys", "dev", "host", "unpacked", "kernel", "new", "written"]
    ]
    entries += [(name, stat.S_IFREG | 0o755, file.read_bytes()) for name, file in files.items()]
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        yield head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)


def _as_program(name: str, *arguments: str) -> None:
    """Runs kmod from its unpacked package, under one of its names."""
    libraries = ":".join(str(folder) for folder in (ROOT / "usr/lib").glob("*-linux-gnu"))
    subprocess.run(
        [name, *arguments],
        executable=ROOT / "usr/bin/kmod",
        check=True,
        env={**os.environ, "LD_LIBRARY_PATH": libraries},
    )


def _output(*command: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command[:2])}: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout
