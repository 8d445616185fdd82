"""A bucket of credits, as cloud disks have it: a volume exceeds its limit while it has credits, one for each request.

A thread reads what the kernel counted, reckons the credits, and changes the limit when the bucket runs empty or fills.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from storagelab.model.limits import BurstConfig, effective
from storagelab.provisioning.limits import Limited, Rates

_LOOK_EVERY_S = 0.05
_REFILLED_S = 0.25
"""An empty bucket allows bursts again once it holds credits for this many seconds of one: the kernel lets requests through in
slices of 0.1 s, so the limit would flicker otherwise.
"""


class Bucket:
    """The credits of one volume. From the load's beginning to the end of the context, its limit on requests follows them;
    before, it is that of a bucket that nobody has used.
    """

    def __init__(self, drive: Limited, rates: Rates, burst: BurstConfig) -> None:
        self._drive, self._burst = drive, burst
        self._limited = dict(rates)
        self._bursting = {**rates, "read_iops": burst.iops, "write_iops": burst.iops}
        self._refill_per_s = max(effective(key, rates.get(key, 0)) for key in ("read_iops", "write_iops"))
        self.credits = float(burst.credits if burst.start == "full" else 0)
        self.emptied_after_s: float | None = None
        """When it first ran empty, in seconds since the load began."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="storagelab burst credits", daemon=True)

    @property
    def rates(self) -> Rates:
        """The limits that the bucket allows at its start."""
        return self._bursting if self.credits > 0 else self._limited

    def __enter__(self) -> Self:
        self._drive.set(self.rates)
        return self

    def begin(self) -> None:
        """The load begins."""
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def spend(self, requests: float, seconds: float) -> None:
        """Takes the credits of these requests out of the bucket, and refills it for these seconds."""
        filled = self.credits + self._refill_per_s * seconds - requests
        self.credits = min(float(self._burst.credits), max(0.0, filled))

    def _follow(self) -> None:
        began = last_s = time.monotonic()
        before, bursts = self._drive.requests(), self.credits > 0
        while not self._over.wait(_LOOK_EVERY_S):
            now_s, counted = time.monotonic(), self._drive.requests()
            self.spend(counted - before, now_s - last_s)
            before, last_s = counted, now_s
            may_burst = self.credits > (0 if bursts else _REFILLED_S * self._burst.iops)
            if may_burst != bursts:
                bursts = may_burst
                self._drive.set(self._bursting if bursts else self._limited)
                if not bursts and self.emptied_after_s is None:
                    self.emptied_after_s = now_s - began
