"""Cautions about devices that are not separate drives (virtual disks, and one device for several volumes), and about
volumes whose burst credits run out during measurements.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import median

from storagelab.findings.basis import Evidence, Names, is_in_memory, table_in, text_in, volumes_of
from storagelab.findings.model import Caution, Findings, Severity
from storagelab.model.measurement import LOAD, Measurement
from storagelab.model.objects import KEY
from storagelab.words.names import in_brackets, without_stop
from storagelab.words.numbers import plural, seconds

SHARE_LEAST = 0.02
"""If the volume had its second rate in less than this fraction of a run, the run's time is still meaningful."""


class BurstCredits(Caution):
    """The burst credits of `volume` ran out in `runs` of `of` runs. `after_s` is the median time from the start of the
    measurement until then."""

    kind, group = "burst-credits", "runs"
    next_step = (
        'start with an empty bucket (burst = { ..., start = "empty" }), or make runs short enough for its credits'
    )
    volume: str
    runs: int
    of: int
    after_s: float

    def sentence(self, findings: Findings) -> str:
        return (
            f"The burst credits of volume {self.volume} ran out after {seconds(self.after_s)} in {self.runs} of "
            f"{plural(self.of, 'run')}{self.where(findings)}. So the times of runs mix the rates with and without "
            "credits, and runs of another length would have other ratios. To measure the lasting rate, set start = "
            '"empty" in the volume\'s burst. To measure bursts alone, make runs end before the credits do.'
        )

    def brief(self, findings: Findings) -> str:
        return f"burst credits of {self.volume} ran out within runs{self.in_some(findings)}"


def check_burst_credits(evidence: Evidence) -> Iterator[BurstCredits]:
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    counted: dict[str, int] = defaultdict(int)
    for cell_id, _, one in evidence.measurements():
        for volume, facts in volumes_of(one):
            if not (burst := table_in(table_in(facts, "made"), "burst")):
                continue
            counted[volume] += 1
            after_s = _emptied_while_counted(one, burst)
            if after_s is not None:
                found[volume][cell_id].append(after_s)
    for volume, of_cells in found.items():
        times_s = [after_s for times in of_cells.values() for after_s in times]
        yield BurstCredits(
            cells=evidence.named(of_cells), volume=volume, runs=len(times_s), of=counted[volume],
            after_s=median(times_s),
        )  # fmt: skip


def _emptied_while_counted(measurement: Measurement, burst: Mapping[str, object]) -> float | None:
    """The seconds from the start of the measurement until the bucket first became empty.

    None if the bucket did not become empty, or if it did so only near the start or the end of the measurement. Also
    None for runs of earlier versions that stored no such time. The stored times are counted from the start of the load.
    """
    found, counts_s = burst.get("empty_after_s"), measurement.counters.get(LOAD, {}).get("counts_after_s")
    times_s = found if isinstance(found, list) else [found]
    if counts_s is None:
        return None
    edge_s = SHARE_LEAST * measurement.elapsed_s
    after_s = [one - counts_s for one in times_s if isinstance(one, int | float)]
    return next((one for one in after_s if edge_s < one < measurement.elapsed_s - edge_s), None)


PLACES = {"layout.data", "layout.log", "layout.indexes", "layout.tables", "layout.temp"}


class VirtualDisk(Caution):
    """Volumes are on a virtual or caching disk, which is not a drive, or in memory."""

    kind, group = "virtual-disk", "drive"
    severity: Severity = "note"
    volumes: Names
    reason: str
    device_model: str
    in_memory: bool = False

    def sentence(self, findings: Findings) -> str:
        names = ", ".join(self.volumes)
        what = f"Volumes {names} are" if len(self.volumes) > 1 else f"Volume {names} is"
        if self.in_memory:
            return f"{what} in memory, so a crash loses everything on it: put no data and no log there."
        reason = in_brackets(without_stop(self.device_model), without_stop(self.reason))
        return (
            f"{what} on a virtual or caching disk{reason}. The storage below it is unknown and may be shared, so times "
            "hold for this machine now, and not for a drive. To judge a drive, use a volume on a real drive."
        )

    def brief(self, findings: Findings) -> str:
        return "nothing in memory is durable" if self.in_memory else "a virtual or caching disk"


class SharedDevice(Caution):
    """Several volumes share one device, so placement among them has no effect."""

    kind, group, unable = "shared-device", "drive", "shared-device"
    next_step = "give each volume a device of its own, so that places can be compared"
    severity: Severity = "note"
    volumes: Names
    device: str

    def sentence(self, findings: Findings) -> str:
        return (
            f"Volumes {', '.join(self.volumes)} are on one device ({self.device}), so they don't separate data, "
            "indexes or log. To learn about placement, give each volume a path on a drive of its own."
        )

    def brief(self, findings: Findings) -> str:
        return f"volumes {', '.join(self.volumes)} are on one device"

    def is_unable(self, findings: Findings) -> bool:
        return any(_is_place(path) for factor in findings.factors for level in factor.levels for path in level.sets)


def _is_place(path: str) -> bool:
    """Whether a key of a spec sets the place of a file, of an object, or of a volume."""
    return path in PLACES or path.startswith(f"{KEY}.") or (path.startswith("volumes.") and path.endswith(".path"))


def check_devices(evidence: Evidence) -> Iterator[Caution]:
    """Gives one caution for each kind of virtual disk, and one for each shared device. Volumes that are throttled
    separately count as separate, even if they are on one device.
    """
    virtual: dict[tuple[str, str, bool], set[str]] = defaultdict(set)
    shared: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    seen: dict[str, set[str]] = defaultdict(set)
    for _, _, m in evidence.measurements():
        for name, volume in volumes_of(m):
            place = text_in(volume, "path")
            seen[name].add(place)
            made = text_in(table_in(volume, "made"), "device")  # the kernel gives it a new number in each run
            if volume.get("virtual") is True:
                reason = text_in(volume, "virtual_reason").removeprefix(f"{made}: ")
                virtual[reason, text_in(volume, "device_model"), is_in_memory(volume)].add(name)
            if (device := text_in(volume, "device") or text_in(volume, "source")) and device != made:
                apart = (name if made else _throttled_disk(volume)) if table_in(volume, "throttle") else ""
                shared[device, apart].add((name, place))
    for (reason, model, in_memory), names in virtual.items():
        yield VirtualDisk(volumes=tuple(sorted(names)), reason=reason, device_model=model, in_memory=in_memory)
    for (device, _), places in shared.items():
        if len(places) > 1:
            # If a volume's path varies, each of its paths is a place of its own.
            names = {f"{name} at {path}" if len(seen[name]) > 1 else name for name, path in places}
            yield SharedDevice(volumes=tuple(sorted(names)), device=device)


def _throttled_disk(volume: Mapping[str, object]) -> str:
    """The disk that contains a volume's file system. For a partition, this is its disk ("loop0" for "loop0p1"), because
    all partitions of a disk share its limit and queue."""
    stack = volume.get("device_stack")
    own, *below = stack if isinstance(stack, list | tuple) and stack else [text_in(volume, "device_numbers")]
    disk = str(below[0]) if below else ""
    mark = "p" if disk[-1:].isdigit() else ""
    return disk if disk and re.fullmatch(rf"{re.escape(disk)}{mark}\d+", str(own)) else str(own)
