"""The interface to the simulated server, and to raw I/O on simulated drives."""

from __future__ import annotations

from storagelab.targets.engine import Engine
from storagelab.targets.simulated import block, preflight

ENGINE = Engine(check=preflight.check, open_block=block.opened)
