"""The speed of a volume under the load that a layout puts on it, from the volume's limits or from a measured drive.

At the start of each tenth of a second, a limit admits as many requests at once as it allows in that tenth
(`allowance`). So a limit does not delay a load below the limit, and sessions that arrive together don't queue as at a
drive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from storagelab.drives.measured import MeasuredDrive, OutsideMeasured
from storagelab.model.volume import LIMITS, SLICE_S, effective
from storagelab.predicting.demands import Amount, LogUse
from storagelab.predicting.network import Station

_LEFT_LEAST = 0.05
"""The least fraction of a volume's capacity that sessions keep. If background writes need more than the remaining
capacity, they fall behind.
"""


class VolumeDemand(NamedTuple):
    """The requests to a volume: those of one transaction, and those per second that no session waits for."""

    read: Amount = Amount()
    write: Amount = Amount()
    log: Amount = Amount()
    evicted: Amount = Amount()
    """Writes of dirty pages that make room in the buffer pool: each transaction causes some, and no session waits for
    them until the
    volume is saturated."""
    background_reads: Amount = Amount()
    background_writes: Amount = Amount()
    used: LogUse = LogUse()
    """The use of the log by the captured commits."""

    @property
    def background(self) -> Amount:
        return self.background_reads.plus(self.background_writes)

    @property
    def of_transaction(self) -> Amount:
        return self.read.plus(self.write).plus(self.log).plus(self.evicted)


class Offer(NamedTuple):
    """The stations of a volume. `allowances`: the requests that each station with a limit admits at once. `delay_s`: a
    transaction's time at the volume that does not depend on queues.
    """

    stations: tuple[Station, ...]
    allowances: Mapping[str, float] = {}
    delay_s: float = 0.0


@dataclass(frozen=True)
class LimitedVolume:
    """A volume with known limits, which have the names of `LIMITS`."""

    name: str
    rates: Mapping[str, int]
    shares_limit: bool
    latency_s: float = 0.0
    relative_error: float = field(default=0.0, init=False)

    def offers(self, asked: VolumeDemand, sessions: float, per_s: float) -> Offer:
        """The volume's stations at `per_s` transactions a second."""
        stations, allowances = [], {}
        asked = asked._replace(log=_least(asked, sessions, per_s))
        for name, reads, path, background in self._parts(asked):
            if path.requests <= 0:
                continue
            most_per_s = min(
                [
                    _left(effective(key, limit), _amount(key, background)) / _amount(key, path)
                    for key, limit in self.rates.items()
                    if key.startswith("read") == reads and _amount(key, path) > 0
                ],
                default=math.inf,
            )
            if math.isfinite(most_per_s):
                stations.append(Station(name, path.requests, (most_per_s * path.requests,)))
                allowances[name] = most_per_s * path.requests * SLICE_S
        waited_for = asked.read.plus(asked.write).plus(asked.log)
        return Offer(tuple(stations), allowances, waited_for.requests * self.latency_s)

    def shared(self, asked: VolumeDemand, per_s: float, sessions: float) -> VolumeDemand:
        """The requests at this many transactions a second, if the smallest possible number of log writes serves the
        commits.
        """
        key = "read_iops" if self.shares_limit else "write_iops"
        if per_s <= 0 or key not in self.rates or asked.log.requests <= 0:
            return asked
        _, _, path, background = self._parts(asked)[-1]
        room = (
            effective(key, self.rates[key]) / per_s - path.requests - background.requests / per_s + asked.log.requests
        )
        fits = max(_least(asked, sessions, per_s).requests, room)
        return asked._replace(log=asked.log._replace(requests=min(asked.log.requests, fits)))

    def used_share(self, asked: VolumeDemand, per_s: float, _sessions: float) -> float | None:
        """The requests at this many transactions a second, as a fraction of the tightest limit."""
        return max(
            (
                (per_s * _amount(key, path) + _amount(key, background)) / effective(key, limit)
                for _, reads, path, background in self._parts(asked)
                for key, limit in self.rates.items()
                if key.startswith("read") == reads
            ),
            default=None,
        )

    def _parts(self, asked: VolumeDemand) -> list[tuple[str, bool, Amount, Amount]]:
        """(name of the station, whether the limits of reads apply, a transaction's amount, the background's)."""
        writes = asked.write.plus(asked.log).plus(asked.evicted)
        if self.shares_limit:
            return [(self.name, True, asked.read.plus(writes), asked.background)]
        return [
            (f"reads of {self.name}", True, asked.read, asked.background_reads),
            (f"writes of {self.name}", False, writes, asked.background_writes),
        ]


def _least(asked: VolumeDemand, sessions: float, per_s: float) -> Amount:
    """A transaction's requests for the log, if a limit is used up.

    While the requests stay below the limit, a log write serves `one` commits. When a slice is used up, its last log
    write, for `one` commits, waits. All other sessions queue behind this log write, except sessions that wait for other
    writes to this volume. The next log write serves all of them. This saves `gathered` / `one` - 2 writes. So the
    commits per second are `one` times the writes, plus `gathered` - 2 `one` for each slice that was used up. The same
    equation gives `one` from the capture, whose log was busy in the slices that were used up.
    """
    used = asked.used
    if used.commits is None or used.writes <= 0:
        return asked.log
    held_per_s, mean = used.busy / SLICE_S, max(1.0, used.commits / used.writes)
    gathered = sessions * used.commits / (used.commits + used.beside)
    writes_per_s = used.writes * used.per_s - 2 * held_per_s
    one = (used.commits * used.per_s - held_per_s * gathered) / writes_per_s if writes_per_s > 0 else mean
    one = min(mean, max(1.0, one))
    gathered = sessions * used.commits / (used.commits + asked.write.requests)
    saved = max(0.0, gathered / one - 2) / SLICE_S / per_s if per_s > 0 else math.inf
    least = max(used.commits / one - saved, used.commits / sessions)
    return asked.log._replace(requests=asked.log.requests * least / used.writes)


def _left(limit: float, background: float) -> float:
    """The fraction of a volume's capacity that background writes leave to sessions."""
    return max(limit - background, limit * _LEFT_LEAST)


def _amount(key: str, amount: Amount) -> float:
    return amount.bytes if "bytes" in key else amount.requests


@dataclass(frozen=True)
class MeasuredVolume:
    """A volume on a measured drive. Commits share log writes: the more sessions wait, the more commits one log write
    serves.
    """

    name: str
    drive: MeasuredDrive

    @property
    def relative_error(self) -> float:
        return self.drive.relative_error

    def offers(self, asked: VolumeDemand, sessions: float, per_s: float) -> Offer:
        """The volume's stations at `per_s` transactions a second, whose log writes and background writes take a part of
        its capacity. Raises OutsideMeasured if not even one request of this kind was measured.
        """
        stations = []
        path = asked.read.plus(asked.write)
        if path.requests > 0:
            others = asked.background.requests + per_s * (asked.log.requests + asked.evicted.requests)
            speeds = self._speeds(asked.read, path, sessions)
            stations.append(
                Station(self.name, path.requests, tuple(max(one - others, one * _LEFT_LEAST) for one in speeds))
            )
        if asked.log.requests > 0:
            alone = self._speeds(Amount(), asked.log, 1)[0]
            # A commit waits for the rest of a log write that is in progress, and then for its own log write: of n
            # sessions at the log, half share the current write, and half share the next one.
            together = 1.0 if asked.used.commits is None else max(1.0, asked.used.commits / asked.used.writes)
            sharing = range(1, max(1, math.ceil(sessions)) + 1) if together > 1 else (1,)
            visits = asked.log.requests * together
            stations.append(Station(f"log on {self.name}", visits, tuple(alone * (n + 1) / 2 for n in sharing)))
        return Offer(tuple(stations))

    def shared(self, asked: VolumeDemand, _per_s: float, _sessions: float) -> VolumeDemand:
        """The requests, with log writes as captured."""
        return asked

    def used_share(self, asked: VolumeDemand, per_s: float, sessions: float) -> float | None:
        whole = asked.of_transaction
        requests_per_s = per_s * whole.requests + asked.background.requests
        if requests_per_s <= 0:
            return 0.0
        try:
            most = max(self._speeds(asked.read, whole, sessions)) if whole.requests > 0 else math.inf
        except OutsideMeasured:
            return None
        return requests_per_s / most

    def deepest(self) -> float:
        """The most requests in progress that were measured."""
        return max(point.depth for point in self.drive.measured.points)

    def _speeds(self, reads: Amount, whole: Amount, sessions: float) -> tuple[float, ...]:
        most = min(max(1, math.ceil(sessions)), int(self.deepest()))
        return tuple(
            self.drive.expected(
                block_bytes=whole.bytes / whole.requests, read_share=min(1.0, reads.requests / whole.requests), depth=n,
                sequential_share=min(1.0, whole.in_order / whole.requests),
            ).requests_per_s
            for n in range(1, most + 1)
        )  # fmt: skip


Volume = LimitedVolume | MeasuredVolume


def tightest(rates: Mapping[str, int], *, shared: bool) -> Mapping[str, int]:
    """The effective limits. If reads and writes share a limit, only the limit of reads, the smaller one."""
    if not shared:
        return {key: rates[key] for key in LIMITS if key in rates}
    found: dict[str, int] = {}
    for key in ("iops", "bytes_per_s"):
        known = [rates[one] for one in (f"read_{key}", f"write_{key}") if one in rates]
        if known:
            found[f"read_{key}"] = min(known)
    return found
