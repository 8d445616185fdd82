"""The profile of a measured drive as TOML: figures with label and source, then the table `measurement`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from storagelab.drives.measured import KIND, MeasuredDrive
from storagelab.spec.as_toml import value_text


def as_toml(drive: MeasuredDrive, *, usable_bytes: int, sector_bytes: int) -> str:
    """The whole file; `MeasuredDrive.from_toml` and `profiles.load` read it."""
    return "\n".join(_lines(drive, usable_bytes, sector_bytes)) + "\n"


def _lines(drive: MeasuredDrive, usable_bytes: int, sector_bytes: int) -> Iterator[str]:
    law, measured = drive.law, drive.measured
    fitted = sum(not point.held_out for point in measured.points)
    source = f"Fitted to {fitted} measured points, {measured.measured_at}"
    yield f"# {drive.title}, measured by `storagelab drives fit`"
    yield ""
    yield f"name = {json.dumps(drive.name)}"
    yield f"title = {json.dumps(drive.title, ensure_ascii=False)}"
    yield f'kind = "{KIND}"'
    yield from _figure("host.usable_bytes", usable_bytes, "The size of the file system that was measured")
    yield from _figure("host.sector_bytes", sector_bytes, "What the kernel says of the device")
    yield from _figure("host.host_cpu_ns", 0, "The host's time is in the times of requests")
    for name in ("read_ns", "write_ns", "read_in_order_ns", "write_in_order_ns"):
        yield from _figure(f"service.{name}", max(1, round(getattr(law, name))), source)
    for name in ("read_data_bytes_per_s", "write_data_bytes_per_s"):
        yield from _figure(f"service.{name}", round(getattr(law, name)), source)
    for name in ("reads_parallel", "writes_parallel", "data_parallel"):
        yield from _figure(f"service.{name}_per_mille", round(getattr(law, name) * 1000), source)
    yield from _figure("service.knee", law.knee, source)
    for name, per_s in law.limits.items():
        yield from _figure(f"limits.{name}", max(1, round(per_s)), source)
    yield ""
    yield "[measurement]"
    for name in ("measured_at", "seconds", "by", "complete", "file_bytes"):
        yield f"{name} = {value_text(getattr(measured, name))}"
    yield f"identity = {value_text(measured.identity.model_dump(exclude_none=True))}"
    for name in ("sustained", "points"):
        yield f"{name} = ["
        for one in getattr(measured, name):
            yield f"  {value_text(one.model_dump(exclude_none=True))},"
        yield "]"


def _figure(path: str, value: int, source: str) -> Iterator[str]:
    yield ""
    yield f"[{path}]"
    yield f"value = {value}"
    yield 'label = "measured"'
    yield f"source = {json.dumps(source)}"
