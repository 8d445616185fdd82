"""What waiting sessions were seen waiting for, over the looks at the runs of a cell. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from storagelab.model.measurement import Run


class Crowd(NamedTuple):
    """A kind of thing that sessions were seen waiting for: its share of all waits seen, and the most sessions on one."""

    wait_type: str
    kind: str
    share: float
    most: int


def crowds(runs: Iterable[Run]) -> tuple[Crowd, ...]:
    """The largest first; nothing without looks."""
    sessions: Counter[tuple[str, str]] = Counter()
    most: dict[tuple[str, str], int] = {}
    for run in runs:
        for task in run.measurement.waiting_tasks if run.measurement is not None else ():
            key = (task.wait_type, task.resource.kind)
            sessions[key] += task.sessions
            most[key] = max(most.get(key, 0), task.sessions)
    total = sessions.total()
    ranked = sorted(sessions.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Crowd(*key, seen / total, most[key]) for key, seen in ranked if seen)
