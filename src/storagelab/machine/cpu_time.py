"""Where the machine's CPU time goes during a run: to the server, to storagelab, to others, or stolen by the hypervisor.

A load average can't distinguish others from ourselves; these counters can. Linux only: elsewhere readings are empty.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_BUSY = ("user", "nice", "system", "irq", "softirq")
_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def read_cpu_time(server_parent_pid: int | None, proc: Path = _PROC) -> dict[str, float]:
    """Cumulative CPU seconds: `busy_s`, `idle_s`, `iowait_s`, `steal_s` of the whole machine, `storagelab_s` of this
    process, and `server_s` of `server_parent_pid` and its living children. Empty where /proc does not give them."""
    try:
        first = (proc / "stat").read_text(encoding="utf-8").split("\n", maxsplit=1)[0].split()
        machine = {name: int(text) / _TICKS_PER_S for name, text in zip(_FIELDS, first[1:], strict=False)}
    except (OSError, ValueError, IndexError):
        return {}
    seconds = {name + "_s": machine.get(name, 0.0) for name in ("idle", "iowait", "steal")}
    seconds["busy_s"] = sum(machine.get(name, 0.0) for name in _BUSY)
    seconds["storagelab_s"] = time.process_time()
    if server_parent_pid is not None:
        seconds["server_s"] = _family_s(server_parent_pid, proc)
    return seconds


def _family_s(parent_pid: int, proc: Path) -> float:
    """CPU seconds of a process and its living children."""
    ticks = 0
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            after_name = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # it ended between the listing and the look
            continue
        if int(folder.name) == parent_pid or int(after_name[1]) == parent_pid:
            ticks += int(after_name[11]) + int(after_name[12])
    return ticks / _TICKS_PER_S


def difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """CPU seconds between two readings, with `others_s`: busy, but neither the server's nor storagelab's."""
    spent = {name: after[name] - before[name] for name in after if name in before}
    if "server_s" in spent:
        spent["others_s"] = max(0.0, spent["busy_s"] - spent["server_s"] - spent["storagelab_s"])
    return spent
