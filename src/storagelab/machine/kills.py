"""How a process was killed, as far as the kernel says."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path


class Kills:
    """Made before a process starts; `since` is that moment in words, e.g. "the campaign began"."""

    def __init__(self, since: str) -> None:
        self._since, self._before = since, _killed_for_memory()

    def words(self, code: int | None) -> str:
        """How a process with this exit code was killed: "killed by signal 9 (SIGKILL)", and why; empty if it was not."""
        if code is None or code >= 0:
            return ""
        how = f"killed by signal {-code} ({_name(-code)})"
        if code != -signal.SIGKILL:
            return how
        now = _killed_for_memory()
        if self._before is None or now is None:
            return f"{how}, as the kernel does when memory runs out"
        if now > self._before:
            return f"{how}: memory ran out, for which the kernel has killed {now - self._before} since {self._since}"
        return f"{how}, but not by the kernel for lack of memory"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return "no common one"


def _killed_for_memory() -> int | None:
    """How many processes the kernel has killed since boot because memory ran out; None if it doesn't say."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return None
