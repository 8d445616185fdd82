"""What devices did in a run, in figures by which any two cells can be compared. Pure.

The simulator counts by drive and by volume, a machine by volume, each with its own names; here they have the same
names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from storagelab.findings.model import Estimate
from storagelab.findings.samples import ALPHA, change, estimate, leaves_out_zero, mean
from storagelab.model.measurement import Measurement, Run, TimeSeries

Quantity = Literal[
    "write_amplification", "read_bytes_per_s", "write_bytes_per_s", "read_latency_s", "write_latency_s", "queue"
]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
ALL_DEVICES = "all devices"
_BYTES: tuple[Quantity, Quantity] = ("read_bytes_per_s", "write_bytes_per_s")


class Figure(NamedTuple):
    """A quantity of a device: "ssd", or "volume a"."""

    device: str
    quantity: Quantity


@dataclass(frozen=True)
class DeviceChange:
    """A figure before and after; the intervals of all figures that are compared hold together at 95 %."""

    figure: Figure
    before: float
    after: float
    change: Estimate

    @property
    def sure(self) -> bool:
        return leaves_out_zero(self.change)

    @property
    def ratio(self) -> float:
        return self.after / self.before if self.before else float("inf")


def device_changes(pairs: Sequence[tuple[Sequence[Run], Sequence[Run]]]) -> tuple[DeviceChange, ...]:
    """What changed at the devices from the runs of one cell to those of another, averaged over the pairs of cells.

    Only figures that every run has: a mean over some of the runs would compare different runs.
    """
    sides = [tuple([_figures(run) for run in runs] for runs in pair) for pair in pairs]
    runs = [figures for pair in sides for side in pair for figures in side]
    if not runs or not all(side for pair in sides for side in pair):
        return ()
    known = [figure for figure in runs[0] if all(figure in figures for figures in runs)]
    found = []
    for figure in sorted(known, key=lambda one: (QUANTITIES.index(one.quantity), one.device)):
        rows = [change([one[figure] for one in before], [one[figure] for one in after]) for before, after in sides]
        found.append(DeviceChange(figure, *mean(rows), estimate(rows, ALPHA / len(known))))
    return tuple(found)


def _figures(run: Run) -> dict[Figure, float]:
    return dict(_of(run.measurement)) if run.measurement is not None and run.measurement.elapsed_s > 0 else {}


def _of(measurement: Measurement) -> Iterator[tuple[Figure, float]]:
    for group, counters in measurement.counters.items():
        kind, _, name = group.partition(" ")
        if kind == "drive" and "write_amplification" in counters:
            yield Figure(name, "write_amplification"), counters["write_amplification"]
    engine = measurement.counters.get("engine", {})
    for what in ("read", "write"):
        latency = engine.get(f"{what}_latency_s")
        if latency is not None and engine.get(f"{what}s"):
            yield Figure(ALL_DEVICES, "read_latency_s" if what == "read" else "write_latency_s"), latency
    yield from _of_volumes(measurement.counters.get("volumes", {}), measurement.elapsed_s)
    if "volumes" not in measurement.counters:
        yield from _of_series(measurement.series)


def _of_volumes(counters: Mapping[str, float], elapsed_s: float) -> Iterator[tuple[Figure, float]]:
    """The kernel's counters of the disks below each volume: `volume.NAME.write_bytes` and so on."""
    volumes = dict.fromkeys(key.split(".")[1] for key in counters if key.count(".") == 2)
    for volume in volumes:
        of = {key.rsplit(".", 1)[1]: value for key, value in counters.items() if key.split(".")[1] == volume}
        name = f"volume {volume}"
        for what, quantity in zip(("read", "write"), _BYTES, strict=True):
            if f"{what}_bytes" in of:
                yield Figure(name, quantity), of[f"{what}_bytes"] / elapsed_s
            if of.get(f"{what}s") and f"{what}_time_s" in of:
                latency = of[f"{what}_time_s"] / of[f"{what}s"]
                yield Figure(name, "read_latency_s" if what == "read" else "write_latency_s"), latency
        if "read_time_s" in of and "write_time_s" in of:
            yield Figure(name, "queue"), (of["read_time_s"] + of["write_time_s"]) / elapsed_s


def _of_series(series: TimeSeries) -> Iterator[tuple[Figure, float]]:
    for column, values in series.columns.items():
        mean_value = _over_time(series.at_s, values)
        if mean_value is None:
            continue
        parts = column.split(".")
        if column == "io_in_progress":
            yield Figure(ALL_DEVICES, "queue"), mean_value
        for quantity in _BYTES:
            if len(parts) == 3 and parts[0] == "volume" and parts[2] == quantity:
                yield Figure(f"volume {parts[1]}", quantity), mean_value


def _over_time(at_s: Sequence[float], values: Sequence[float | None]) -> float | None:
    """The mean of a column over the run; each value is that of the interval that ends at its time."""
    starts = (0.0, *at_s[:-1])
    known = [(end - start, value) for start, end, value in zip(starts, at_s, values, strict=True) if value is not None]
    total = sum(width for width, _ in known)
    return sum(width * value for width, value in known) / total if total > 0 else None
