"""Prints what the guest sees of its drives, before and after one more namespace is attached."""

import os
import subprocess
import sys
from pathlib import Path

from storagelab.machine.disks import node_of, read_text

LINK = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_"


def show() -> None:
    links = sorted(link for link in Path("/dev/disk/by-id").iterdir() if str(link).startswith(LINK))
    for link in links:
        node = node_of(link.resolve().name)
        print(link.name, read_text(node / "size"), read_text(node / "queue" / "logical_block_size"))


show()
controller = Path(LINK + "TWO").resolve().name.removesuffix("n1")
number = read_text(Path("/sys/class/nvme") / controller / "cntlid")
subprocess.run(["nvme", "attach-ns", f"/dev/{controller}", "-n", "2", "-c", number], check=True)
subprocess.run(["nvme", "ns-rescan", f"/dev/{controller}"], check=True)
subprocess.run(["udevadm", "settle"], check=True)
print("after attach-ns")
show()
Path(os.environ["RESULTS"], "file").write_text("from the guest")
Path("/etc/only-in-the-guest").write_text("")
Path(LINK + "ONE").write_bytes(b"\1" * 4096)
sys.exit(7)
