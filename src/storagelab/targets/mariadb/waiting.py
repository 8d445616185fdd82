"""What sessions were waiting for at one moment: the server names the file of an I/O, and the kind of any other wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from storagelab.model.measurement import Resource, WaitingTask
from storagelab.model.waits import NO_EVENT, UNINSTRUMENTED
from storagelab.targets.mariadb.events import event_of


class Sighting(NamedTuple):
    """One session: its wait, or `NO_EVENT`; its activity in the server's words; the file, if the server names one; whether
    the kernel saw it asleep."""

    wait_type: str
    state: str
    object_name: str | None
    asleep: bool


def waiting_tasks(at_s: float, seen: Sequence[Sighting], data_files: Mapping[str, int]) -> tuple[WaitingTask, ...]:
    """One moment. `data_files` maps the path of a data file to its number. Most sessions first."""
    groups: Counter[tuple[str, Resource, int | None]] = Counter()
    for sighting in seen:
        if sighting.wait_type == NO_EVENT and not sighting.asleep:  # on a CPU, or queueing for one
            continue
        groups[_waits_for(sighting, data_files)] += 1
    return tuple(
        WaitingTask(at_s=at_s, wait_type=wait_type, resource=resource, sessions=sessions, data_file=data_file)
        for (wait_type, resource, data_file), sessions in groups.most_common()
    )


def _waits_for(sighting: Sighting, data_files: Mapping[str, int]) -> tuple[str, Resource, int | None]:
    if sighting.wait_type == NO_EVENT:
        return UNINSTRUMENTED, Resource(kind=f'something without a timer, in the state "{sighting.state}"'), None
    number = data_files.get(sighting.object_name or "")
    if number is None:
        return sighting.wait_type, Resource(kind=event_of(sighting.wait_type).resource), None
    return sighting.wait_type, Resource(kind="data file", name=str(number)), number
