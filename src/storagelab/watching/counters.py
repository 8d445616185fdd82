"""Counters of a run: the server's, the drives', who uses this machine's CPUs, and whom a CPU quota limits."""

from __future__ import annotations

from collections.abc import Callable

from storagelab.machine import processes
from storagelab.machine.control_groups import Throttling
from storagelab.machine.devices import DeviceCounters
from storagelab.machine.devices import difference as difference_of_devices
from storagelab.model.measurement import HELD_BACK, THROTTLED, Check, held_back
from storagelab.watching.pace import Standstill

Counters = dict[str, dict[str, float]]
"""A server's counters, `group -> name -> value`, units last in names."""


def difference(before: Counters, after: Counters) -> Counters:
    """What was counted between two readings; counters that did not change are left out."""
    changed: Counters = {}
    for group, counters in after.items():
        earlier = before.get(group, {})
        moved = {name: value - earlier.get(name, 0.0) for name, value in counters.items()}
        moved = {name: value for name, value in moved.items() if value}
        if moved:
            changed[group] = moved
    return changed


def counting(read: Callable[[], Counters]) -> Callable[[], Counters]:
    """Read the counters now; the function returned reads them again and gives the difference."""
    before = read()
    return lambda: difference(before, read())


LARGEST_HELD_BACK = 0.1
"""If a run lost a larger share of its time to a CPU quota, it measured the quota."""


class MachineCounters:
    """Counts from its creation to `end`. `server_process` is None if the server's CPU time is unknown."""

    def __init__(self, devices: DeviceCounters, server_process: int | None) -> None:
        self._devices, self._server_process = devices, server_process
        self._throttling = Throttling(server_process)
        self.standstill = Standstill(self._throttling.processes)
        self._throttled: dict[str, float] = {}
        self._began = self._ended = self._read()

    def _read(self) -> tuple[dict[str, float], dict[str, float]]:
        return self._devices.read(), processes.read_cpu_time(self._server_process)

    def look(self) -> None:
        """Reads the processes; to be called every 0.2 s, to see one that ends before the run does, or stands still."""
        self._throttling.look()
        self.standstill.look()

    def end(self) -> None:
        self.standstill.look()
        self._ended = self._read()
        self._throttled = self._throttling.end()

    def counted(self, *, with_checkpoint: bool) -> Counters:
        """The run's counters by group, and those of the final checkpoint, if there was one."""
        (devices_before, cpu_before), (devices_after, cpu_after) = self._began, self._ended
        groups = {
            "volumes": difference_of_devices(devices_before, devices_after),
            "cpu": processes.cpu_time_between(cpu_before, cpu_after) | self._throttled,
        }  # fmt: skip
        if with_checkpoint:
            groups["volumes, final checkpoint"] = difference_of_devices(devices_after, self._devices.read())
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
