"""The interface to raw I/O on real drives."""

from __future__ import annotations

from storagelab.machine.doctor import Ability, ability
from storagelab.targets.engine import Engine
from storagelab.targets.raw import block, fio, preflight

# --- doctor ----------------------------------------------------------------------------------------------------------
#
# Whether this machine can do raw I/O on real drives, for the doctor.


def abilities() -> tuple[Ability, ...]:
    return (ability("raw I/O on drives", fio.find, lambda found: f"fio {found.version} ({found.program})"),)


ENGINE = Engine(check=preflight.check, open_block=block.opened, abilities=abilities)
