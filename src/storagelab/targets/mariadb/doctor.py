"""Checks whether this machine can start a private MariaDB."""

from __future__ import annotations

from storagelab.machine.doctor import Ability
from storagelab.targets.mariadb.server import STARTER


def abilities() -> tuple[Ability, ...]:
    return (STARTER.ability(),)
