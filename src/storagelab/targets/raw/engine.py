"""What the seam asks of raw I/O on real drives."""

from __future__ import annotations

from storagelab.errors import PreflightError
from storagelab.machine.doctor import Ability
from storagelab.targets.engines import Engine
from storagelab.targets.raw import block, fio, preflight

# --- doctor ----------------------------------------------------------------------------------------------------------
#
# Whether this machine can do raw I/O on real drives, for the doctor.


def abilities() -> tuple[Ability, ...]:
    name = "raw I/O on drives"
    try:
        found = fio.find()
    except PreflightError as error:
        return (Ability(name=name, state="no", detail=error.problem, mend=error.hint),)
    return (Ability(name=name, state="yes", detail=f"fio {found.version} ({found.program})"),)


ENGINE = Engine(check=preflight.check, open_block=block.opened, abilities=abilities)
