"""Values that are read before and after a run: counters of the server, the drives and the CPUs, and clocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from storagelab.errors import RunFailed
from storagelab.machine import processes
from storagelab.machine.counts import DeviceCounters, Throttling
from storagelab.machine.counts import difference as difference_of_devices
from storagelab.model.measurement import AWAKE, CLOCK, HELD_BACK, THROTTLED, Check, held_back
from storagelab.model.values import Frozen
from storagelab.watching.pace import Standstill

Counters = dict[str, dict[str, float]]
"""A server's counters: group -> name -> value. Each name ends with the unit."""


def difference(before: Counters, after: Counters) -> Counters:
    """The differences between two readings. Counters that did not change are left out."""
    changed: Counters = {}
    for group, counters in after.items():
        then = before.get(group, {})
        changed[group] = {name: by for name, value in counters.items() if (by := value - then.get(name, 0.0))}
    return {group: counters for group, counters in changed.items() if counters}


def counting(read: Callable[[], Counters]) -> Callable[[], Counters]:
    """Reads the counters now. The function that it returns reads them again, and gives the differences."""
    before = read()
    return lambda: difference(before, read())


LARGEST_HELD_BACK = 0.1
"""If a run lost a larger share of its time because of a CPU quota, it measured the quota, not the layout."""


class MachineCounters:
    """Counters of this machine, from the object's creation to `end`. `server_process` is None if the server's CPU time
    is unknown.
    """

    def __init__(self, devices: DeviceCounters, server_process: int | None) -> None:
        self._devices, self._server_process = devices, server_process
        self._throttling = Throttling(server_process)
        self.standstill = Standstill(self._throttling.processes)
        self._throttled: dict[str, float] = {}
        self._began = self._ended = self._read()

    def _read(self) -> tuple[dict[str, float], dict[str, float]]:
        return self._devices.read(), processes.read_cpu_time(self._server_process)

    def look(self) -> None:
        """Reads the processes. Must be called every 0.2 s, so that stopped processes, and processes that end before the
        run, are noticed.
        """
        self._throttling.look()
        self.standstill.look()

    def end(self) -> None:
        self.standstill.look()
        self._ended = self._read()
        self._throttled = self._throttling.end()

    def counted(self, *, with_checkpoint: bool) -> Counters:
        """The run's counters by group. If the run had a final checkpoint, its counters are a separate group."""
        (devices_before, cpu_before), (devices_after, cpu_after) = self._began, self._ended
        groups = {
            "volumes": difference_of_devices(devices_before, devices_after),
            "cpu": processes.cpu_time_between(cpu_before, cpu_after) | self._throttled,
        }  # fmt: skip
        if with_checkpoint:
            groups["volumes, final checkpoint"] = difference_of_devices(devices_after, self._devices.read())
        return groups

    def checks(self, elapsed_s: float) -> list[Check]:
        """A check that fails if a group's CPU quota took too large a part of the run, or [] if it did not."""
        found = held_back(self._throttled, elapsed_s)
        worst = max(found, key=lambda who: found[who][1], default=None)
        if worst is None or found[worst][1] <= LARGEST_HELD_BACK:
            return []
        held_s, share = found[worst]
        got = f"{HELD_BACK[worst]} held back for {held_s:.1f} s of CPU time, {100 * share:.0f} % of {elapsed_s:.1f} s"
        read_from = "cpu.stat of the control groups"
        return [Check(name=THROTTLED, asked="nobody held back", got=got, ok=False, read_from=read_from)]


# --- clocks ----------------------------------------------------------------------------------------------------------
#
# Checks whether a run's elapsed time can be trusted. The server's clock measures it, and somebody may change this
# clock.
#
# The server's time is read before the gate opens and after the last loop has ended. The difference is compared with a
# monotonic clock of this machine. Each reading is uncertain by the time of its round trip.


TOLERANCE_S = 0.01
TOLERANCE_SHARE = 0.001
"""The largest normal difference of two clocks. A time service changes the speed of each clock by at most half a
thousandth.
"""
_SUSPENDED_S = 0.1
_STEADY = time.CLOCK_BOOTTIME
"""Like a server's clock, this clock continues to run while the machine is suspended."""


class Loop(Frozen):
    """The work of one connection. Its times are read from the server's clock. They are in seconds since the epoch."""

    started_s: float
    finished_s: float
    reads_done: int = 0
    reads_found: int = 0


class _Reading(NamedTuple):
    """The server's time, read between two readings of this machine's clock. `running_s` is read from another clock.
    This clock stops while the machine is suspended.
    """

    asked_s: float
    server_s: float
    answered_s: float
    running_s: float


class Clocks:
    """Checks the clocks of one run. Call the methods in this order: `begin` before the gate opens, `end` after the last
    loop has ended, `checks`.

    `ask_server` returns the time of the clock that the loops use, in seconds since the epoch.
    """

    def __init__(self, ask_server: Callable[[], float]) -> None:
        self._ask_server = ask_server
        self._begun: _Reading
        self._ended: _Reading

    def begin(self) -> None:
        self._begun = self._read()

    def end(self) -> None:
        self._ended = self._read()

    def _read(self) -> _Reading:
        asked_s = time.clock_gettime(_STEADY)
        server_s = self._ask_server()
        return _Reading(asked_s, server_s, time.clock_gettime(_STEADY), time.monotonic())

    def checks(self, loops: Sequence[Loop]) -> list[Check]:
        """The checks that failed. Raises RunFailed if the run ended before it began, by the server's clock.

        Without loops, the server's clock measured nothing. Then only this machine's clocks are checked.
        """
        if not loops:
            return self._check_suspension()
        shortest_s = min(loop.finished_s - loop.started_s for loop in loops)
        elapsed_s = max(loop.finished_s for loop in loops) - min(loop.started_s for loop in loops)
        if shortest_s < 0 or elapsed_s <= 0:
            how = f"by {-self._step_s:.2f} s during the run" if self._step_s < -self._tolerance_s else "during the run"
            raise RunFailed(
                f"the server's clock was set back {how}: by that clock, work ended {abs(shortest_s):.2f} s before it "
                f"began, but {self._passed_s:.2f} s passed by storagelab's own clock"
            )
        return [*self._check_agreement(loops), *self._check_suspension()]

    @property
    def _passed_s(self) -> float:
        """The seconds between the two readings, by this machine's clock."""
        begun, ended = self._begun, self._ended
        return (ended.asked_s + ended.answered_s - begun.asked_s - begun.answered_s) / 2

    @property
    def _step_s(self) -> float:
        """The number of seconds by which the server's clock was set forward between the two readings. It is negative if
        the clock was set back.
        """
        return self._ended.server_s - self._begun.server_s - self._passed_s

    @property
    def _tolerance_s(self) -> float:
        begun, ended = self._begun, self._ended
        unsure_s = (begun.answered_s - begun.asked_s + ended.answered_s - ended.asked_s) / 2
        return unsure_s + TOLERANCE_S + TOLERANCE_SHARE * self._passed_s

    def _check_agreement(self, loops: Sequence[Loop]) -> list[Check]:
        step_s, moments_s = self._step_s, [at_s for loop in loops for at_s in (loop.started_s, loop.finished_s)]
        early_s, late_s = self._begun.server_s - min(moments_s), max(moments_s) - self._ended.server_s
        if abs(step_s) > self._tolerance_s:
            way = "forward" if step_s > 0 else "back"
            got = f"{step_s + self._passed_s:.2f} s: it was set {way} by {abs(step_s):.2f} s in the run"
        elif max(early_s, late_s) > self._tolerance_s:
            way, again = ("forward", "back") if late_s > early_s else ("back", "forward")
            size = f"by at least {max(early_s, late_s):.2f} s during the run"
            got = f"the load's start or end is outside the run: the clock was set {way} {size}, and then {again}"
        else:
            return []
        return [
            Check(
                name=CLOCK, asked=f"the {self._passed_s:.2f} s that passed by storagelab's own clock",
                got=f"{got}: the elapsed time can't be trusted", ok=False, read_from="both clocks",
            )
        ]  # fmt: skip

    def _check_suspension(self) -> list[Check]:
        suspended_s = self._ended.answered_s - self._begun.answered_s - (self._ended.running_s - self._begun.running_s)
        got, read_from = f"suspended for {suspended_s:.1f} s of it", "the kernel's clocks"
        check = Check(name=AWAKE, asked="awake during the whole run", got=got, ok=False, read_from=read_from)
        return [] if suspended_s < _SUSPENDED_S else [check]
