"""What file systems write to their devices on their own account: journal, metadata, and flushes without data.

The kernel counts a flush that a file system asks for as a write without bytes, beside its count of flushes. So a device
has more writes than a server asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from storagelab.capture.perf import Rings
from storagelab.capture.tracefs import NoTracing, event, open_tracefs

_RING_BYTES = 1 << 20
_SECTOR_BYTES = 512
_OF_METADATA = 'rwbs ~ "*W*M*"'
_WRITE = 'rwbs ~ "*W*"'
_BLOCK = Path("/sys/class/block")


class OwnWrites(NamedTuple):
    """What a file system wrote beside the server's data. The kernel's counts of writes have them all."""

    requests: int
    bytes: int
    flushes: int
    """Writes without data."""


class FileSystems:
    """Counts the own writes of the file systems on these devices (name -> device, as in /sys/class/block)."""

    def __init__(self, devices: Mapping[str, str]) -> None:
        """Raises NoTracing."""
        self._rings: dict[tuple[str, int], Rings] = {}
        self._counts = dict.fromkeys(devices, OwnWrites(0, 0, 0))
        root = open_tracefs()
        try:
            for name, device in devices.items():
                place = (_BLOCK / device).resolve()
                # A stacked device has no requests of its own: the kernel counts what is sent to it.
                stacked = any((place / kind).is_dir() for kind in ("dm", "md"))
                point = event(root, "block/block_bio_queue" if stacked else "block/block_rq_complete")
                if point is None or "nr_sector" not in point.fields:
                    raise NoTracing("this kernel lacks the trace points of block devices")
                here, of_disk = _places(place)
                filters = (
                    f"{here} && nr_sector > 0 && {_OF_METADATA}",
                    f"{of_disk} && nr_sector == 0 && {_WRITE} && !({_OF_METADATA})",
                )
                for number, one in enumerate(filters):
                    self._rings[name, number] = Rings(point, one, _RING_BYTES)
        except OSError as error:
            self.close()
            raise NoTracing(f"a device can't be read ({error.strerror})") from error
        except BaseException:
            self.close()
            raise
        finally:
            os.close(root)

    def run(self, *, on: bool) -> None:
        """Goes on with the trace, or rests."""
        for rings in self._rings.values():
            rings.run(on=on)

    def drain(self) -> None:
        """Takes what the rings hold."""
        for name, known in self._counts.items():
            own, empty = (self._rings[name, number].drain(("nr_sector",))["nr_sector"] for number in (0, 1))
            self._counts[name] = OwnWrites(
                known.requests + len(own), known.bytes + int(own.sum()) * _SECTOR_BYTES, known.flushes + len(empty)
            )

    def begin(self) -> None:
        """Counts from now on."""
        self.drain()
        self._counts = dict.fromkeys(self._counts, OwnWrites(0, 0, 0))

    @property
    def counts(self) -> Mapping[str, OwnWrites]:
        return self._counts

    def close(self) -> None:
        while self._rings:
            self._rings.popitem()[1].close()


def _places(device: Path) -> tuple[str, str]:
    """Filters for requests to a device, and for those to its whole disk: a flush names no place on it."""
    if not (device / "partition").exists():
        whole = f"dev == {_number(device)}"
        return whole, whole
    begin, length = (int((device / name).read_text("ascii")) for name in ("start", "size"))
    whole = f"dev == {_number(device.parent)}"
    return f"{whole} && sector >= {begin} && sector < {begin + length}", whole


def _number(device: Path) -> int:
    """The device's number as trace points show it."""
    major, minor = (device / "dev").read_text("ascii").split(":")
    return int(major) << 20 | int(minor)


def told(volume: str, own: OwnWrites, writes: int) -> str:
    """What they are of all writes at the volume's device."""
    return (
        f"Of {writes:,} writes at the device of volume {volume}, {own.flushes:,} were flushes without data, and "
        f"{own.requests:,} were the file system's own (journal and metadata)."
    )
