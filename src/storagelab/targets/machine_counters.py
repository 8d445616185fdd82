"""This machine's counters during a run: the drives' I/O, where CPU time goes, and whom a CPU quota holds back."""

from __future__ import annotations

from storagelab.machine import cpu_time
from storagelab.machine.devices import DeviceCounters, difference
from storagelab.machine.throttling import Throttling
from storagelab.model.measurement import HELD_BACK, THROTTLED, Check, held_back
from storagelab.targets.steps import Counters

LARGEST_HELD_BACK = 0.1
"""A run that lost more of its time to a CPU quota than this measured the quota."""


class MachineCounters:
    """Counts from its creation to `end`. `server_process` is None where the server's CPU time is unknown."""

    def __init__(self, devices: DeviceCounters, server_process: int | None) -> None:
        self._devices, self._server_process = devices, server_process
        self._throttling = Throttling(server_process)
        self._throttled: dict[str, float] = {}
        self._began = self._ended = self._read()

    def _read(self) -> tuple[dict[str, float], dict[str, float]]:
        return self._devices.read(), cpu_time.read_cpu_time(self._server_process)

    def look(self) -> None:
        """To be called now and then: a process that ends before the run does is seen while it lives."""
        self._throttling.look()

    def end(self) -> None:
        self._ended = self._read()
        self._throttled = self._throttling.end()

    def counted(self, *, with_checkpoint: bool) -> Counters:
        """The run's counters by group, and those of the final checkpoint, if there was one."""
        (devices_before, cpu_before), (devices_after, cpu_after) = self._began, self._ended
        groups = {
            "volumes": difference(devices_before, devices_after),
            "cpu": cpu_time.difference(cpu_before, cpu_after) | self._throttled,
        }  # fmt: skip
        if with_checkpoint:
            groups["volumes, final checkpoint"] = difference(devices_after, self._devices.read())
        return groups

    def checks(self, elapsed_s: float) -> list[Check]:
        """A check that fails if a control group's CPU quota took a large part of the run."""
        found = held_back(self._throttled, elapsed_s)
        worst = max(found, key=lambda who: found[who][1], default=None)
        if worst is None or found[worst][1] <= LARGEST_HELD_BACK:
            return []
        held_s, share = found[worst]
        got = f"{HELD_BACK[worst]} held back for {held_s:.1f} s of CPU time, {100 * share:.0f} % of {elapsed_s:.1f} s"
        return [
            Check(
                name=THROTTLED, asked="nobody held back", got=got, ok=False, read_from="cpu.stat of the control groups"
            )
        ]
