"""What is known of PostgreSQL without its driver."""

from __future__ import annotations

from storagelab.targets.knowledge import Known
from storagelab.targets.postgres.durability import judge

KNOWN = Known(judge)
