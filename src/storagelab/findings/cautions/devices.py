"""Devices that are no drives of their own: virtual disks, and one for several volumes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, Self

from storagelab.findings.evidence import Evidence, Names, table_in, text_in, volumes_of
from storagelab.findings.model import Caution, Findings
from storagelab.words.phrases import in_brackets, without_stop

PLACES = {"layout.data", "layout.log"}


class VirtualDisk(Caution):
    """Volumes lie on a virtual or caching disk, which is not a drive."""

    place, weight = 170, 140
    kind: Literal["virtual-disk"] = "virtual-disk"
    severity: Literal["note", "caution"] = "note"
    volumes: Names
    reason: str
    device_model: str

    def sentence(self, findings: Findings) -> str:
        names = ", ".join(self.volumes)
        what = f"Volumes {names} are" if len(self.volumes) > 1 else f"Volume {names} is"
        reason = in_brackets(without_stop(self.device_model), without_stop(self.reason))
        return (
            f"{what} on a virtual or caching disk{reason}: the storage below it is unknown and may be shared, so times "
            "hold for this machine now, not for a drive. To judge a drive, use a volume on a real one."
        )

    @classmethod
    def brief(cls, found: Sequence[Self], findings: Findings) -> str:
        return "a virtual or caching disk"


class SharedDevice(Caution):
    """Several volumes share one device, so placement among them can't matter."""

    place, weight, unable = 190, 230, "shared-device"
    kind: Literal["shared-device"] = "shared-device"
    severity: Literal["note", "caution"] = "note"
    volumes: Names
    device: str

    def sentence(self, findings: Findings) -> str:
        return (
            f"Volumes {', '.join(self.volumes)} are on one device ({self.device}): moving data or log from one to another "
            "separates nothing. To learn about placement, give each volume a path on a drive of its own."
        )

    @classmethod
    def brief(cls, found: Sequence[Self], findings: Findings) -> str:
        return f"volumes {', '.join(found[0].volumes)} are on one device"

    def is_unable(self, findings: Findings) -> bool:
        return any(not PLACES.isdisjoint(level.sets) for factor in findings.factors for level in factor.levels)


def check(evidence: Evidence) -> Iterator[Caution]:
    """One for each reason, and one for each device. Volumes that are throttled apart are apart, whatever is below them."""
    virtual: dict[tuple[str, str], set[str]] = defaultdict(set)
    shared: dict[tuple[str, str], set[str]] = defaultdict(set)
    for _, _, m in evidence.measurements():
        for name, volume in volumes_of(m):
            if volume.get("virtual") is True:
                virtual[text_in(volume, "virtual_reason"), text_in(volume, "device_model")].add(name)
            if device := text_in(volume, "device"):
                throttled = text_in(volume, "device_numbers") if table_in(volume, "throttle") else ""
                shared[device, throttled].add(name)
    for (reason, model), names in virtual.items():
        yield VirtualDisk(volumes=tuple(sorted(names)), reason=reason, device_model=model)
    for (device, _), names in shared.items():
        if len(names) > 1:
            yield SharedDevice(volumes=tuple(sorted(names)), device=device)
