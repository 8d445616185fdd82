"""This machine's counters during a run: the I/O of the drives below the volumes, and where CPU time goes."""

from __future__ import annotations

from storagelab.machine import cpu_time
from storagelab.machine.devices import DeviceCounters, difference
from storagelab.targets.steps import Counters


class MachineCounters:
    """Counts from its creation to `end`. `server_process` is None where the server's CPU time is unknown."""

    def __init__(self, devices: DeviceCounters, server_process: int | None) -> None:
        self._devices, self._server_process = devices, server_process
        self._began = self._ended = self._read()

    def _read(self) -> tuple[dict[str, float], dict[str, float]]:
        return self._devices.read(), cpu_time.read_cpu_time(self._server_process)

    def end(self) -> None:
        self._ended = self._read()

    def counted(self, *, with_checkpoint: bool) -> Counters:
        """The run's counters by group, and those of the final checkpoint, if there was one."""
        (devices_before, cpu_before), (devices_after, cpu_after) = self._began, self._ended
        groups = {
            "volumes": difference(devices_before, devices_after), "cpu": cpu_time.difference(cpu_before, cpu_after)
        }  # fmt: skip
        if with_checkpoint:
            groups["volumes, final checkpoint"] = difference(devices_after, self._devices.read())
        return groups
