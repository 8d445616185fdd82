"""A volume whose limit applies only to processes in its own control group. So the bench can exempt one process from it.

The limits of a spec's volumes apply to all processes instead (`storagelab.volumes`). This needs root and version 1 of
control groups.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import known_answers
from storagelab.machine.counts import V1_LIMITS
from storagelab.machine.disks import device_numbers_of
from storagelab.volumes import file_systems, limits

_PATIENCE_S = 5.0


def why_not() -> str:
    """Returns why no volume can be throttled in this way here, or "" if one can."""
    found = limits.groups()
    return known_answers.why_not() or (
        "" if found and found.version == 1 else "it needs version 1 of the control groups"
    )


class Throttled(NamedTuple):
    """A mounted volume, its device number ("major:minor"), and the group that throttles processes which `command`
    starts."""

    path: Path
    number: str
    group: Path

    def limit(self, speed: Mapping[str, int]) -> None:
        """Sets the volume's speed from now on. `speed` has the spec's keys."""
        for name, file in V1_LIMITS.items():
            (self.group / file).write_text(f"{self.number} {speed.get(name, 0)}")

    def free(self, pid: int) -> None:
        """Moves a process out of the group, so that it is not throttled any more."""
        (self.group.parent / "cgroup.procs").write_text(str(pid))

    def command(self, words: Sequence[str]) -> list[str]:
        """The command that joins the group and then becomes `words`. All processes that it starts are throttled,
        too."""
        join = f'echo $$ > {self.group / "cgroup.procs"} && exec "$@"'
        return ["sh", "-c", join, "sh", *words]


@contextlib.contextmanager
def volume(folder: Path, size_bytes: int) -> Iterator[Throttled]:
    """Mounts a volume below `folder`. The volume's file is in memory. Everything is removed at the end, even after a
    failure.
    """
    found = limits.groups()
    assert found is not None, why_not()
    with contextlib.ExitStack() as undo:
        memory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="slab-throttled-", dir="/dev/shm")))
        device = undo.enter_context(file_systems.made_of_file(memory / "drive", size_bytes, None))
        file_systems.make(f"/dev/{device}", "ext4", "-m 0")
        place = folder / "throttled"
        undo.enter_context(file_systems.mounted(f"/dev/{device}", place, "ext4", "noatime"))
        group = Path(tempfile.mkdtemp(prefix="storagelab-throttle-", dir=found.root))
        undo.callback(_remove, group)
        yield Throttled(place, device_numbers_of(place), group)


def _remove(group: Path) -> None:
    """Removes a group. Processes in the group remain from a failure, or are ending. The function waits for these
    processes, and then kills them.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while members := (group / "cgroup.procs").read_text().split():
        if time.monotonic() > deadline:
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.05)
    group.rmdir()
