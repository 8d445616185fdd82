"""A virtual machine with throw-away drives, which runs this checkout's own code on them.

QEMU emulates its processor, so it needs no rights but to read this machine's files. The guest sees these files read-only;
what it writes stays in its memory. Its kernel and the programs that this machine lacks come from Debian's packages, which
are unpacked into build/guest and not installed.
"""

from bench.guest.booting import Drive, Finished, absent, run

__all__ = ["Drive", "Finished", "absent", "run"]
