"""What one connection's loop is, whatever the engine: when it began and ended, and how often it publishes its progress."""

from __future__ import annotations

from storagelab.model.values import Frozen
from storagelab.model.workload import DatabaseLoad

REPORT_ROWS = 200
"""A connection publishes its progress about this often, so that publishing costs nothing beside small transactions."""


class Loop(Frozen):
    """One connection's work, by the server's clock, in seconds since the epoch."""

    started_s: float
    finished_s: float
    reads_done: int = 0
    reads_found: int = 0


def rows_per_report(workload: DatabaseLoad) -> int:
    """Every how many rows a connection publishes its progress: whole transactions, at least REPORT_ROWS rows."""
    per_transaction = workload.rows_per_transaction
    return per_transaction * max(1, -(-REPORT_ROWS // per_transaction))
