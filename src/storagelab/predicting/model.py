"""Predicts the rate of a captured load in given layouts on volumes. The method is the operational analysis of a closed
network.

A transaction has demands: its requests by volume and kind, CPU time, and time elsewhere (locks, the network, the
client). The captured number of sessions circulates in this network. Commits share log writes. Background writes use a
part of a volume's capacity, but no session waits for them. The number of background writes depends on how many pages
change again before they are written. The model predicts ratios: all rates are scaled so that the captured layout has
the captured rate.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from storagelab.capture.folder import Capture, CapturedObject
from storagelab.drives.measured import OutsideMeasured
from storagelab.model.values import Estimate
from storagelab.predicting.capability import MeasuredVolume, Offer, Volume, VolumeDemand
from storagelab.predicting.demands import BY_SECOND, Demands, grown
from storagelab.predicting.network import Solution, Station, bound, solve, zero_of
from storagelab.predicting.prediction import Errors, LayoutPrediction, VolumeLoad, spread

CPU, SESSIONS = "the CPUs", "the sessions"
_BUSY = 0.9
"""If no station has at least this utilisation, the sessions are named as the limit."""
_ALLOWANCE_MOST = 200.0
OVER = 1.05
"""If the captured rate exceeds the volumes' capacity by more than this factor, the figures of the volumes are wrong."""


@dataclass(frozen=True)
class Layout:
    """A layout: the volume of each captured object, by the object's ID."""

    places: Mapping[str, str]
    named: frozenset[str] = frozenset()
    """The IDs of the objects that the request for this layout names, by a name, a pattern or a keyword."""

    def volume_of(self, one: CapturedObject) -> str:
        return self.places[one.id]


def present(capture: Capture) -> Layout:
    """The captured layout."""
    return Layout({one.id: one.volume for one in capture.manifest.objects})


class ModelledRate(NamedTuple):
    """The model's result for a layout. It is not scaled to the captured rate."""

    per_s: float
    at_most_per_s: float
    limited_by: str
    asked: Mapping[str, VolumeDemand]


@dataclass(frozen=True)
class Server:
    """The captured load and the volumes. `cpus` is None if the number of CPUs is unknown."""

    demands: Demands
    volumes: Mapping[str, Volume]
    cpus: int | None = None

    def expected(self, layout: Layout) -> ModelledRate:
        """The model's rate for a layout. Raises OutsideMeasured if the load of a volume is outside of what was
        measured.
        """
        # A rate is assumed, and the model calculates the rate that results. If a higher rate is assumed, each
        # transaction gets less of a volume's capacity. So there is exactly one assumed rate that equals the resulting
        # rate.
        most = self._at(layout, 0.0)[0].per_s
        per_s = zero_of(lambda rate: self._at(layout, rate)[0].per_s - rate, most)
        found, solution = self._at(layout, per_s)
        self._check(solution)
        return found._replace(per_s=min(per_s, found.at_most_per_s))

    def _at(self, layout: Layout, per_s: float) -> tuple[ModelledRate, Solution]:
        """The rate that layout and volumes allow if there are the background writes of `per_s` transactions
        a second.
        """
        demands = self.demands
        asked = self.asked(layout, per_s)
        offers = [self.volumes[name].offers(one, demands.sessions, per_s) for name, one in asked.items()]
        stations = [station for one in offers for station in one.stations]
        delay_s = (demands.elsewhere_s or 0.0) + sum(one.delay_s for one in offers)
        if demands.cpu_s > 0 and self.cpus is not None:
            stations.append(Station(CPU, 1.0, tuple(n / demands.cpu_s for n in range(1, self.cpus + 1))))
        else:
            delay_s += demands.cpu_s
        if not stations and delay_s <= 0:
            raise OutsideMeasured("no volume that the load uses has a limit, so nothing is known that takes time")
        found, most = _solved(stations, offers, delay_s, demands.sessions)
        return ModelledRate(found.per_s, most, _limited_by(stations, found), asked), found

    def _check(self, found: Solution) -> None:
        measured = {name: one for name, one in self.volumes.items() if isinstance(one, MeasuredVolume)}
        at = found.at() if measured else {}
        for name, volume in measured.items():
            deep = min(at.get(name, 0.0), self.demands.sessions)
            if deep > volume.deepest():
                raise OutsideMeasured(
                    f"{name}: {deep:.0f} requests would be in progress, but at most {volume.deepest():g} were measured"
                )

    def moved(self, layout: Layout, before: Layout) -> float:
        """The fraction of the captured requests that go to another volume than in the layout `before`."""
        whole = elsewhere = 0.0
        for need in self.demands.needs:
            requests = need.amount.requests * (1.0 if need.way in BY_SECOND else self.demands.per_s)
            whole += requests
            elsewhere += requests * (layout.volume_of(need.object) != before.volume_of(need.object))
        return elsewhere / whole if whole else 0.0

    def asked(self, layout: Layout, per_s: float) -> dict[str, VolumeDemand]:
        """The requests to each volume if there are `per_s` transactions a second."""
        found: dict[str, VolumeDemand] = defaultdict(VolumeDemand)
        times = per_s / self.demands.per_s
        for need in self.demands.needs:
            name = layout.volume_of(need.object)
            one = found[name]
            amount = need.amount.times(grown(need.covered, times)) if need.way in BY_SECOND else need.amount
            found[name] = one._replace(**{need.way: getattr(one, need.way).plus(amount)})
            if need.way == "log":
                found[name] = found[name]._replace(used=self.demands.log)
        return dict(found)


def _solved(stations: list[Station], offers: list[Offer], delay_s: float, sessions: float) -> tuple[Solution, float]:
    """The network's solution, and an upper bound of its rate. A limit admits some requests at once, and no session
    waits for these. So they are modelled as additional sessions. The result is never faster than without limits.
    """
    allowances = {name: most for one in offers for name, most in one.allowances.items()}
    unlimited = [one for one in stations if one.name not in allowances]
    most = bound(unlimited, delay_s, sessions)
    alone = solve(unlimited, delay_s, sessions) if unlimited or delay_s > 0 else Solution(math.inf, dict)
    if not allowances:
        return alone, most
    tight = min((one for one in stations if one.name in allowances), key=lambda one: one.capacity)
    # With more than about 200 additional sessions, the rate hardly changes any more.
    together = solve(stations, delay_s, math.ceil(sessions + min(allowances[tight.name], _ALLOWANCE_MOST)))
    limits = min(one.capacity for one in stations if one.name in allowances)
    return (together if together.per_s < alone.per_s else alone), min(most, limits)


def _limited_by(stations: list[Station], found: Solution) -> str:
    """The name of the station with the highest utilisation. If no station is busy, returns SESSIONS."""
    if not stations:
        return SESSIONS
    used = {one.name: found.per_s / one.capacity for one in stations}
    name = max(used, key=lambda one: used[one])
    return name if used[name] >= _BUSY else SESSIONS


# ---------------------------------------------------------------------------------------------------------------------
# Layouts as predictions
# ---------------------------------------------------------------------------------------------------------------------


def predicted(server: Server, present: Layout, layouts: Mapping[str, Layout], errors: Errors) -> list[LayoutPrediction]:
    """The predictions of the layouts, in their order. The captured layout gets the captured rate."""
    server = calibrated(server, present)
    try:
        base = server.expected(present)
    except OutsideMeasured as error:
        return [cant_say(name, str(error)) for name in layouts]
    return [_predicted(name, server, layout, base, errors, present) for name, layout in layouts.items()]


def captured_over_modelled(server: Server, present: Layout) -> float | None:
    """The captured rate divided by the model's rate for the captured layout. Returns None if the model can't
    calculate a rate.
    """
    try:
        return server.demands.per_s / calibrated(server, present).expected(present).per_s
    except OutsideMeasured:
        return None


def calibrated(server: Server, present: Layout) -> Server:
    """The server with a time elsewhere that makes the model's rate equal the captured rate. This time is at most what
    I/O and CPU leave of a transaction's time. If the times of requests are unknown and a busy volume explains the
    captured rate, the time elsewhere is 0.
    """
    demands = server.demands
    try:
        if demands.elsewhere_s is None and demands.per_s >= _BUSY * _with(server, 0.0).expected(present).per_s:
            return _with(server, 0.0)
        most_s = demands.sessions / demands.per_s if demands.elsewhere_s is None else demands.elsewhere_s
        elsewhere_s = zero_of(lambda one_s: _with(server, one_s).expected(present).per_s - demands.per_s, most_s)
        return _with(server, elsewhere_s)
    except OutsideMeasured:
        return server


def _with(server: Server, elsewhere_s: float) -> Server:
    return replace(server, demands=replace(server.demands, elsewhere_s=elsewhere_s))


def cant_say(name: str, why: str) -> LayoutPrediction:
    return LayoutPrediction(
        name=name, per_s=None, latency_s=None, times_present=None, at_most_per_s=None, limited_by="", volumes=(),
        cant_say=why,
    )  # fmt: skip


def _predicted(
    name: str, server: Server, layout: Layout, base: ModelledRate, errors: Errors, present: Layout
) -> LayoutPrediction:
    try:
        found = server.expected(layout)
    except OutsideMeasured as error:
        return cant_say(name, str(error))
    demands = server.demands
    times = found.per_s / base.per_s
    per_s = demands.per_s * times
    most_per_s = per_s if found.at_most_per_s < per_s <= OVER * found.at_most_per_s else found.at_most_per_s
    of_drives = max((server.volumes[one].relative_error for one in found.asked), default=0.0)
    moved = server.moved(layout, present)
    rate, ratio = (
        (Estimate(value=per_s), Estimate(value=1.0))
        if layout is present
        else tuple(errors.around(one, spread(moved, times), of_drives) for one in (per_s, times))
    )
    latency = rate.inverse
    latency_s = latency.model_copy(
        update={end: None if (value := getattr(latency, end)) is None else demands.sessions * value for end in _ENDS}
    )
    return LayoutPrediction(
        name=name, per_s=rate, latency_s=latency_s, times_present=ratio, moved=moved,
        at_most_per_s=most_per_s, limited_by=found.limited_by,
        volumes=tuple(_loads(server, layout, per_s)),
    )  # fmt: skip


_ENDS = ("value", "low", "high")


def _loads(server: Server, layout: Layout, per_s: float) -> list[VolumeLoad]:
    loads = []
    asked = server.asked(layout, per_s)
    for name, volume in server.volumes.items():
        one = volume.shared(asked.get(name, VolumeDemand()), per_s, server.demands.sessions)
        whole = one.of_transaction.times(per_s).plus(one.background)
        reads = one.read.requests * per_s + one.background_reads.requests
        loads.append(
            VolumeLoad(
                volume=name, requests_per_s=whole.requests, bytes_per_s=whole.bytes,
                read_share=reads / whole.requests if whole.requests else None,
                used_share=volume.used_share(one, per_s, server.demands.sessions),
            )
        )  # fmt: skip
    return loads
