"""Kills a preparation after the journal has announced a step, and before any of the step is done."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from storagelab.model.volume import VolumeConfig
from storagelab.volumes import drives, volume
from storagelab.volumes.journal import Journal


def killed_at(number: int, asked: VolumeConfig, place: Path, results: Path, *, begins: str = "") -> str | None:
    """Makes the volume in a process that is killed at the step of this number among the steps that begin with these
    words. Returns the step; None if there are fewer, and the process reached its end.
    """
    child = os.fork()
    if child == 0:
        _kill_at(number, begins)
        with volume.made("a", asked, place, Path("/"), {}, results):
            pass
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == 0:
        return None
    return Journal(results).of(asked.devices[0]).steps[-1]


def _kill_at(number: int, begins: str) -> None:
    count, write = itertools.count(1), Journal.step

    def step(journal: Journal, drive: drives.Drive, what: str) -> None:
        write(journal, drive, what)
        if what.startswith(begins) and next(count) == number:
            os.kill(os.getpid(), 9)

    Journal.step = step  # type: ignore[method-assign]
