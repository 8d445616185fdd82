"""The interface to raw I/O on real drives."""

from __future__ import annotations

from storagelab.engines.fio import block, preflight
from storagelab.loads import fio
from storagelab.machine.doctor import Ability, ability
from storagelab.run.engine import Engine

# --- doctor ----------------------------------------------------------------------------------------------------------
#
# Whether this machine can do raw I/O on real drives, for the doctor.


def abilities() -> tuple[Ability, ...]:
    return (ability("raw I/O on drives", fio.find, lambda found: f"fio {found.version} ({found.program})"),)


ENGINE = Engine(check=preflight.check, open_block=block.opened, abilities=abilities)
