"""Virtual machines with throw-away drives. They run this checkout's own code on these drives.

QEMU emulates a machine with NVMe drives (`booting`). User-mode Linux is a kernel that runs as a program, with SCSI
drives in memory (`user_mode`). It is several times as fast. Both need only the right to read this machine's files. A
guest can only read these files. What it writes is kept in its memory. Kernels, and programs that this machine lacks,
are taken from Debian's packages. They are unpacked into build/guest and not installed.
"""

from bench.guest.booting import Drive, Finished, absent, run

__all__ = ["Drive", "Finished", "absent", "run"]
