"""The sessions of a load that inserts rows, each in a loop inside the server."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from storagelab.errors import RunFailed
from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.measurement import Check
from storagelab.targets.clocks import Clocks
from storagelab.targets.parts import C, Sessions
from storagelab.targets.steps import Counters, Done, Loop
from storagelab.targets.watching import Seen


class InsertingSessions(Sessions[C]):
    """An engine's sessions; `count_rows` asks the server how many rows there are."""

    driver_error: ClassVar[type[Exception]]

    def __init__(self, workload: InsertLoad, count_rows: Callable[[], int]) -> None:
        self.workload, self._count_rows = workload, count_rows

    @abstractmethod
    def _add(self) -> None:
        """Open one more."""

    def open(self) -> None:
        """Opens all connections. Raises RunFailed with the server's words if that fails."""
        try:
            for _ in range(self.workload.connections):
                self._add()
        except self.driver_error as error:
            raise RunFailed(f"connection {len(self.ids) + 1} could not be opened: {self._words(error)}") from error

    def _words(self, error: BaseException) -> str:
        return str(error)

    def done(self, loops: list[Loop], seen: Seen, clocks: Clocks) -> Done:
        rows = self._count_rows()
        if rows != self.workload.rows:
            raise RunFailed(f"the table holds {rows} rows instead of {self.workload.rows}")
        return Done(
            elapsed_s=max(loop.finished_s for loop in loops) - min(loop.started_s for loop in loops),
            connection_s=tuple(loop.finished_s - loop.started_s for loop in loops),
            checks=(*clocks.checks(loops), *_check_reads(self.workload, loops)),
            counters=_reads_made(loops), series=seen.series, rows=rows,
        )  # fmt: skip


def _reads_made(loops: Sequence[Loop]) -> Counters:
    """The point reads of all connections as a group of counters; empty if there were none."""
    made = sum(loop.reads_done for loop in loops)
    return {"workload": {"reads": float(made)}} if made else {}


def _check_reads(workload: InsertLoad, loops: Sequence[Loop]) -> list[Check]:
    """Checks that the mixed workload made its reads, each of an existing row."""
    if not workload.with_reads:
        return []
    made, found = sum(loop.reads_done for loop in loops), sum(loop.reads_found for loop in loops)
    wanted = len(loops) * round(workload.reads_per_row * workload.rows_per_connection)
    # The reads due are added up row by row, so a connection may be one read short of its share, or one ahead.
    ok = found == made and abs(made - wanted) <= len(loops)
    return [
        Check(
            name="point reads", asked=f"{wanted} reads of existing rows",
            got=f"{made} reads, {found} of existing rows", ok=ok, read_from="the loops",
        )
    ]  # fmt: skip
