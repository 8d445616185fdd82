"""The interface to the simulated server, and to raw I/O on simulated drives."""

from __future__ import annotations

from storagelab.engines.simulated import block, preflight
from storagelab.run.engine import Engine

ENGINE = Engine(check=preflight.check, open_block=block.opened)
