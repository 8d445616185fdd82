"""What the seam asks of raw I/O on real drives."""

from __future__ import annotations

from storagelab.targets.engines import Engine
from storagelab.targets.raw import block, doctor, preflight

ENGINE = Engine(check=preflight.check, open_block=block.opened, abilities=doctor.abilities)
