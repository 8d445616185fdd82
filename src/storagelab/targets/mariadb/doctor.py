"""Can this machine start a private MariaDB?"""

from __future__ import annotations

from storagelab.errors import PreflightError
from storagelab.machine.doctor import Ability
from storagelab.targets.mariadb.binaries import find_binaries


def abilities() -> tuple[Ability, ...]:
    name = "private MariaDB"
    try:
        found = find_binaries(None)
    except PreflightError as error:
        return (Ability(name=name, state="no", detail=error.problem, mend=error.hint),)
    return (Ability(name=name, state="yes", detail=f"MariaDB {found.version} from {found.origin}"),)
