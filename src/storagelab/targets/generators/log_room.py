"""How much of its redo log's room a server has used, where pages must be written once it is full: when that began.

Until the log is full the server need not write changed pages, so the first part of a load costs less than all that follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from storagelab.model.measurement import LOG_ROOM
from storagelab.targets.generators.cycles import LOOK_S

FULL = 7 / 8
"""InnoDB hurries to write pages from this share on (`max_modified_age_async`), and then stays between it and all."""


class LogRoom:
    """Watches the room. `ask` returns the used bytes and all bytes, None if the server doesn't tell; times are those of
    `now_s`."""

    def __init__(self, ask: Callable[[], tuple[int, int] | None] | None, now_s: Callable[[], float]) -> None:
        self._ask, self._now_s = ask, now_s
        self._due_s = -math.inf
        self._seen: list[tuple[float, float]] = []
        self._all = 0

    def look(self) -> None:
        """To be called often; asks the server now and then."""
        now_s = self._now_s()
        if self._ask is None or now_s < self._due_s:
            return
        self._due_s = now_s + LOOK_S
        found = self._ask()
        if found is None or found[1] <= 0:
            self._ask = None
            return
        self._seen.append((now_s, found[0] / found[1]))
        self._all = found[1]

    def counters(self, began_s: float, end_s: float) -> dict[str, dict[str, float]]:
        """What a run stores, of a part that counted from `began_s` to `end_s`."""
        counted = [share for at_s, share in self._seen if began_s <= at_s <= end_s]
        if not counted:
            return {}
        full_s = next((at_s - began_s for at_s, share in self._seen if share >= FULL and at_s <= end_s), None)
        told = {"all_bytes": float(self._all), "begin_share": counted[0], "end_share": counted[-1]}
        return {LOG_ROOM: told if full_s is None else {**told, "full_after_s": full_s}}
