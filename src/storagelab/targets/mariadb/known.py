"""What is known of MariaDB without its driver."""

from __future__ import annotations

from storagelab.targets.knowledge import Known
from storagelab.targets.mariadb.durability import judge

KNOWN = Known(judge)
