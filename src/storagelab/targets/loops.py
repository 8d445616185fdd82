"""One connection's loop on any engine: the start gate, its start and end times, how often it reports."""

from __future__ import annotations

import time
from collections.abc import Callable

from storagelab.errors import RunFailed
from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.values import Frozen

POLL_S = 0.2
"""How often the run checks whether its connections are done."""
GATE_TIMEOUT_S = 60.0
"""How long it may take until all connections stand at the start gate."""
REPORT_ROWS = 200
"""A connection publishes its progress about this often, so that publishing costs nothing next to small transactions."""


class Loop(Frozen):
    """One connection's work, by the server's clock, in seconds since the epoch."""

    started_s: float
    finished_s: float
    reads_done: int = 0
    reads_found: int = 0


def rows_per_report(workload: InsertLoad) -> int:
    """The number of rows between two reports of a connection's progress: whole transactions, at least REPORT_ROWS rows."""
    per_transaction = workload.rows_per_transaction
    return per_transaction * max(1, -(-REPORT_ROWS // per_transaction))


def await_gate(all_stand: Callable[[], bool], refuse: Callable[[], None], pause_s: float) -> None:
    """Wait until all connections stand at the start gate. Raises RunFailed when that takes too long; `refuse` raises it when
    one of them never will."""
    deadline = time.monotonic() + GATE_TIMEOUT_S
    while time.monotonic() < deadline:
        if all_stand():
            return
        refuse()
        time.sleep(pause_s)
    raise RunFailed(f"after {GATE_TIMEOUT_S:.0f} s not all connections were ready to start")
