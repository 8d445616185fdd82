"""Every kind of private MariaDB that a plan needs."""

from __future__ import annotations

from storagelab.targets.mariadb.server import STARTER

kinds = STARTER.kinds
