"""Work for executors, in a module of its own because each worker process loads it."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from storagelab.model.measurement import Run
from storagelab.run import messages, requests
from storagelab.run.scheduling import Batch


def tell_who(task: str, tell: Callable[[tuple[str, int]], None]) -> None:
    """A task is a name and a duration: "a 0.5". It reports its process when it begins and when it ends."""
    name, _, seconds = task.partition(" ")
    tell((f"{name} began", os.getpid()))
    time.sleep(float(seconds or 0))
    tell((name, os.getpid()))


def wait_for_file(task: str, tell: Callable[[tuple[str, int]], None]) -> None:
    """A task is a name and a file: "a /tmp/go". It ends once the file exists."""
    name, _, file = task.partition(" ")
    deadline = time.monotonic() + 60
    while not os.path.exists(file):
        assert time.monotonic() < deadline, f"{file} was never made"
        time.sleep(0.02)
    tell((name, os.getpid()))


TOLD = 50


def tell_often(task: str, tell: Callable[[tuple[str, int]], None]) -> None:
    """Reports many times at once."""
    for number in range(TOLD):
        tell((f"{task} {number}", os.getpid()))


def refuse(task: str, tell: object) -> None:
    raise LookupError(f"there is no {task}")


def fill_the_disk(task: str, tell: Callable[[tuple[str, int]], None]) -> None:
    """Writes a megabyte beside other temporary files."""
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(16):
            file.write(bytes(2**16))
    tell_who(task, tell)


def fabricate(slow: str, work: Batch, tell: Callable[[Run], None]) -> None:
    """FABRICATED runs of 0.2 s, which say that 4 data files are the fastest, and that the host `slow` takes 20 % longer."""
    from builders import make_environment, make_measurement, make_run  # only where it is asked for

    ((at, attempt),) = work.wanted.items()
    planned, host = work.block.runs[at], os.environ["STORAGELAB_HOST"]
    cell = work.block.cell_of(planned)
    time.sleep(0.2)
    noise = random.Random(f"{host}{planned.sequence}").gauss(0, 0.002)
    elapsed_s = FABRICATED_S[cell.config.layout.data_files] * (1.2 if host == slow else 1.0) * (1 + noise)
    environment = {**make_environment(), "host": {"name": host}}
    tell(make_run(planned, cell, make_measurement(cell.config, elapsed_s, None, environment), attempt=attempt))


FABRICATED_S = {1: 11.0, 4: 9.0}


# --- as requests of a cluster's workers -------------------------------------------------------------------------------


class Texts:
    """Work of this module whose tasks are texts and whose reports are lists."""

    entry = "some_work:do_texts"

    def __init__(self, work: Callable[..., None] = tell_who) -> None:
        self.work = work

    def message(self, task: str) -> bytes:
        return messages.packed(self.work.__name__.encode(), task.encode())

    def reports(self, task: str, host: str, parts: Sequence[bytes]) -> tuple[Any, ...]:
        return tuple(tuple(one) for one in json.loads(parts[0]))


def do_texts(message: bytes) -> bytes:
    work, task = messages.unpacked(message)

    def do() -> list[bytes]:
        told: list[tuple[str, int]] = []
        globals()[work.decode()](task.decode(), told.append)
        return [json.dumps(told).encode()]

    return messages.answer_of(do)


class Fabricated(requests.MeasuredRun):
    """`fabricate`; the campaign's name is that of the slow host."""

    entry = "some_work:do_fabricate"


def do_fabricate(message: bytes) -> bytes:
    def do() -> list[bytes]:
        work, slow = requests.batch_in(message)
        runs: list[Run] = []
        fabricate(slow, work, runs.append)
        return [requests.outcomes(runs)]

    return messages.answer_of(do)
