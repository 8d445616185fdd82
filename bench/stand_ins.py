"""Workers of a cluster that only sleep, many in one process: `python -m bench.stand_ins ADDRESS COUNT`.

They return a run that was made once, under the names of the wanted runs, with the time that they slept.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from distributed import Worker

from storagelab.model.measurement import Run
from storagelab.model.plan import PlannedBlock
from storagelab.run import messages, requests
from storagelab.run.loop import make_batch
from storagelab.run.scheduling import Batch
from storagelab.targets import Site
from storagelab.targets.states import Carried

RUN_S, SLICE_S = 0.5, 5.0


class Sleeping(requests.SimulatedRuns):
    """Works as its parent class, for runs that all last `RUN_S`."""

    entry = "bench.stand_ins:sleep_elsewhere"


def sleep_elsewhere(message: bytes) -> bytes:
    return messages.answer_of(lambda: _slept(requests.batch_in(message)[0]))


def _slept(work: Batch) -> list[bytes]:
    state = work.state.read()
    pattern, drives = _ONCE.of(work.block)
    began, at = time.monotonic(), datetime.now(UTC)
    runs = []
    for position in sorted(work.wanted)[: round(SLICE_S / RUN_S)]:
        planned = work.block.runs[position]
        run = pattern.model_copy(
            update={
                **planned.model_dump(), "levels": work.block.cell_of(planned).levels,
                "config": work.block.cell_of(planned).config, "attempt": work.wanted[position], "wall_s": RUN_S,
                "started_at": (at + timedelta(seconds=len(runs) * RUN_S)).isoformat(timespec="milliseconds"),
                "finished_at": (at + timedelta(seconds=(len(runs) + 1) * RUN_S)).isoformat(timespec="milliseconds"),
            }
        )  # fmt: skip
        runs.append(run)
    time.sleep(max(0.0, began + len(runs) * RUN_S - time.monotonic()))
    return [requests.outcomes(runs), Carried(state or drives).packed()]


class _Once:
    """A run that was really made, and the state of its drives after it."""

    def __init__(self) -> None:
        self._made: tuple[Run, bytes] | None = None
        self._lock = threading.Lock()

    def of(self, block: PlannedBlock) -> tuple[Run, bytes]:
        with self._lock:
            if self._made is None:
                reports: list[object] = []
                state = Carried()
                site = Site(experiment="stand-in", identity="57a4d194", spec_folder=Path())
                make_batch(Batch(block, {0: 1}, site, state), reports.append)
                self._made = next(one for one in reports if isinstance(one, Run)), state.read()
        return self._made


_ONCE = _Once()


async def _serve(address: str, count: int) -> None:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="storagelab-stand-ins-") as folder:
        workers = [
            Worker(address, nthreads=1, local_directory=folder, memory_limit=0, dashboard=False) for _ in range(count)
        ]
        await asyncio.gather(*workers)
        await asyncio.gather(*(worker.finished() for worker in workers))


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))
