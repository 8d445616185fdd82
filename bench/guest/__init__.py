"""Virtual machines with throw-away drives, which run this checkout's own code on them.

QEMU emulates one with NVMe drives (`booting`). User-mode Linux is a kernel that runs as a program, several times as
fast, with SCSI drives in memory (`user_mode`). Neither needs rights but to read this machine's files. A guest sees
these files read-only; what it writes stays in its memory. Kernels and the programs that this machine lacks come from
Debian's packages, which are unpacked into build/guest and not installed.
"""

from bench.guest.booting import Drive, Finished, absent, run

__all__ = ["Drive", "Finished", "absent", "run"]
