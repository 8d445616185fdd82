"""The speed of a volume under the load that a layout puts on it. It follows from the volume's limits, or from a
measured drive.

A limit works in slices of a tenth of a second. At the start of each slice, it admits as many requests at once as it
allows in a slice (`allowance`). So it does not delay a load that stays below it. If sessions send requests at the same
time, they don't queue as they would at a drive.
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
"""The fraction of a volume's capacity that sessions keep in any case. If background writes need more than the rest,
they are delayed.
"""


class VolumeDemand(NamedTuple):
    """The requests to a volume. Some are counted for one transaction. The `background_` ones are counted per second,
    and no session waits for them.
    """

    read: Amount = Amount()
    write: Amount = Amount()
    log: Amount = Amount()
    evicted: Amount = Amount()
    """Writes of dirty pages to free buffers. Each transaction causes some. No session waits for them until the volume
    is saturated.
    """
    background_reads: Amount = Amount()
    background_writes: Amount = Amount()
    used: LogUse = LogUse()
    """How the captured commits used the log."""

    @property
    def background(self) -> Amount:
        return self.background_reads.plus(self.background_writes)

    @property
    def of_transaction(self) -> Amount:
        return self.read.plus(self.write).plus(self.log).plus(self.evicted)


class Offer(NamedTuple):
    """What a volume offers: its stations in the network. `allowances`: how many requests each station with a limit
    admits at once. `delay_s`: the time in seconds that a transaction spends at the volume and that does not depend on
    queues.
    """

    stations: tuple[Station, ...]
    allowances: Mapping[str, float] = {}
    delay_s: float = 0.0


@dataclass(frozen=True)
class LimitedVolume:
    """A volume with known limits per second. The keys of `rates` are those of `LIMITS`."""

    name: str
    rates: Mapping[str, int]
    shares_limit: bool
    latency_s: float = 0.0
    relative_error: float = field(default=0.0, init=False)

    def offers(self, asked: VolumeDemand, sessions: float, per_s: float) -> Offer:
        """The volume's stations if there are `per_s` transactions a second."""
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
        """The requests if there are `per_s` transactions a second. If the limit is reached, commits are served with as
        few log writes as possible.
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
        """The largest utilisation: requests at `per_s` transactions a second, divided by the limit. Returns None
        without limits.
        """
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
        """For each station: its name, whether the limits of reads apply to it, the requests of a transaction, and those
        of the background.
        """
        writes = asked.write.plus(asked.log).plus(asked.evicted)
        if self.shares_limit:
            return [(self.name, True, asked.read.plus(writes), asked.background)]
        return [
            (f"reads of {self.name}", True, asked.read, asked.background_reads),
            (f"writes of {self.name}", False, writes, asked.background_writes),
        ]


def _least(asked: VolumeDemand, sessions: float, per_s: float) -> Amount:
    """The requests of a transaction for the log if a limit is reached.

    While requests stay below the limit, a log write serves `one` commits. When a slice is used up, its last log write,
    which is for `one` commits, waits. All other sessions queue behind this log write, except those that wait for other
    writes to this volume. The next log write serves all of them. This saves `gathered` / `one` - 2 log writes. So the
    commits per second are `one` times the log writes, plus `gathered` - 2 `one` for each slice that was used up. `one`
    is calculated from the capture with the same equation. There, the slices that were used up are those in which a log
    write was in progress.
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
    """The part of a limit that background writes leave to sessions."""
    return max(limit - background, limit * _LEFT_LEAST)


def _amount(key: str, amount: Amount) -> float:
    return amount.bytes if "bytes" in key else amount.requests


@dataclass(frozen=True)
class MeasuredVolume:
    """A volume on a measured drive. Commits share log writes: if more sessions wait, a log write serves
    more commits.
    """

    name: str
    drive: MeasuredDrive

    @property
    def relative_error(self) -> float:
        return self.drive.relative_error

    def offers(self, asked: VolumeDemand, sessions: float, per_s: float) -> Offer:
        """The volume's stations if there are `per_s` transactions a second. Log writes and background writes use a part
        of its capacity. Raises OutsideMeasured if no request of this kind was measured, not even a single one.
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
            # If a log write is in progress, a commit waits for its end, and then for its own log write. So of n
            # sessions at the log, half share the current write, and the other half share the next one.
            together = 1.0 if asked.used.commits is None else max(1.0, asked.used.commits / asked.used.writes)
            sharing = range(1, max(1, math.ceil(sessions)) + 1) if together > 1 else (1,)
            visits = asked.log.requests * together
            stations.append(Station(f"log on {self.name}", visits, tuple(alone * (n + 1) / 2 for n in sharing)))
        return Offer(tuple(stations))

    def shared(self, asked: VolumeDemand, _per_s: float, _sessions: float) -> VolumeDemand:
        """The requests. Commits share log writes as in the capture."""
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
        """The largest number of requests in progress that was measured."""
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
    """The limits that decide. If reads and writes share a limit, it is the smaller one of both, under the name for
    reads.
    """
    if not shared:
        return {key: rates[key] for key in LIMITS if key in rates}
    found: dict[str, int] = {}
    for key in ("iops", "bytes_per_s"):
        known = [rates[one] for one in (f"read_{key}", f"write_{key}") if one in rates]
        if known:
            found[f"read_{key}"] = min(known)
    return found
