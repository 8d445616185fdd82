"""Simulates other machines: their kernel's files, laid out in a folder like /proc and /sys.

Device numbers are larger than any that a kernel assigns, so they never collide with those of the machine under test.
"""

from pathlib import Path
from typing import Self

from storagelab.machine.disks import Kernel

QUEUE = {
    "scheduler": "[none] mq-deadline kyber", "write_cache": "write through", "rotational": "0",
    "logical_block_size": "512", "physical_block_size": "4096", "nr_requests": "1023", "read_ahead_kb": "128",
    "discard_max_bytes": "2199023255040",
}  # fmt: skip


def stat(reads: int = 0, sectors_read: int = 0, writes: int = 0, sectors_written: int = 0) -> str:
    """The text of a `stat` file of kernel 5.5 or later; 1.5 s busy, 3 discards of 8 sectors, 7 flushes in 21 ms."""
    return f"{reads} 0 {sectors_read} 20 {writes} 0 {sectors_written} 40 0 1500 60 3 0 24 1 7 21\n"


class RecordedMachine:
    """Builds the files; `kernel` is what the code under test reads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kernel = Kernel(root / "proc", root / "sys")
        for folder in ("proc/self", "sys/dev/block", "sys/class/block", "sys/devices"):
            (root / folder).mkdir(parents=True)

    def write(self, path: str, text: str) -> None:
        """Writes one file, named as on that machine but without the first slash."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def mounts(self, *lines: str) -> Self:
        self.write("proc/self/mountinfo", "".join(f"{line}\n" for line in lines))
        return self

    def disk(self, name: str, numbers: str, model: str = "", vendor: str = "", stat_text: str | None = None) -> None:
        node = self._node(f"sys/devices/pci0000:00/block/{name}", numbers, stat_text)
        for key, text in QUEUE.items():
            self.write(f"{node}/queue/{key}", f"{text}\n")
        self.write(f"{node}/device/model", f"{model:<40}\n")
        self.write(f"{node}/device/vendor", f"{vendor:<8}\n")

    def partition(self, disk: str, name: str, numbers: str, stat_text: str | None = None) -> None:
        node = self._node(f"sys/devices/pci0000:00/block/{disk}/{name}", numbers, stat_text)
        self.write(f"{node}/partition", "2\n")

    def stacked(self, name: str, numbers: str, *slaves: str, stat_text: str | None = None) -> None:
        """A device-mapper or md device on `slaves`."""
        node = self._node(f"sys/devices/virtual/block/{name}", numbers, stat_text)
        (self.root / node / "slaves").mkdir()
        for slave in slaves:
            (self.root / node / "slaves" / slave).symlink_to(self.root / "sys/class/block" / slave)
        for key, text in {**QUEUE, "logical_block_size": "4096"}.items():
            self.write(f"{node}/queue/{key}", f"{text}\n")

    def loop(self, name: str, numbers: str, backing_file: str) -> None:
        node = self._node(f"sys/devices/virtual/block/{name}", numbers, None)
        self.write(f"{node}/loop/backing_file", f"{backing_file}\n")
        self.write(f"{node}/queue/logical_block_size", "4096\n")

    def _node(self, node: str, numbers: str, stat_text: str | None) -> str:
        folder = self.root / node
        folder.mkdir(parents=True)
        self.write(f"{node}/stat", stat() if stat_text is None else stat_text)
        self.write(f"{node}/dev", f"{numbers}\n")
        (self.root / "sys/dev/block" / numbers).symlink_to(folder)
        (self.root / "sys/class/block" / folder.name).symlink_to(folder)
        return node
