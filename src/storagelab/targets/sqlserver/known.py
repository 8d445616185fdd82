"""What is known of SQL Server without its driver."""

from __future__ import annotations

from storagelab.targets.knowledge import Known
from storagelab.targets.sqlserver.durability import judge
from storagelab.targets.sqlserver.facts import BENIGN, latch_note

KNOWN = Known(judge, BENIGN, latch_note)
