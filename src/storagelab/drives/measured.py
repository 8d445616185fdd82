"""A measured drive: the figures of a fit, the ranges in which they apply, and every measured point with its residual.

It is stored as a profile like those of the articles' drives (`profiles`), of kind "measured". The simulator uses its
figures, and `storagelab drives list` lists it. In addition to the figures, the file has one table, `measurement`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from storagelab.drives.fitting import LIMITS, Law
from storagelab.errors import PreflightError, StoragelabError
from storagelab.model.values import Frozen
from storagelab.spec.given_files import text_of, toml_of
from storagelab.spec.keys import value_text

KIND = "measured"
_COVERED = 0.95
_ENOUGH_HELD_OUT = 5


class OutsideMeasured(StoragelabError):
    """The request is outside the measured range. The message names the request and the range."""


class ExpectedSpeed(NamedTuple):
    """The rate and the latency of a drive under a load."""

    requests_per_s: float
    mean_latency_s: float
    relative_error: float
    """The relative error of the prediction. 19 of 20 test points, which were not used for the fit, had at most this
    error.
    """


class Point(Frozen):
    """One measured point, with the value that the fit gives."""

    block_bytes: int
    read_share: float
    depth: int
    sequential: bool
    held_out: bool
    """Whether it is a test point, which was not used for the fit."""
    requests_per_s: float
    mean_latency_s: float
    fitted_per_s: float

    @property
    def residual(self) -> float:
        """The fitted rate divided by the measured rate, minus 1."""
        return self.fitted_per_s / self.requests_per_s - 1


class LongStretch(Frozen):
    """A long period of one load. It shows the drive's initial rate and its sustained rate."""

    operation: str
    """"read" or "write"."""
    sequential: bool
    block_bytes: int
    depth: int
    burst_per_s: float
    sustained_per_s: float
    fell_after_s: float | None = None
    """The time, in seconds, after which the burst had ended. The value is None without a burst."""


class Identity(Frozen):
    """The identity of the measured drive. If model, firmware, format or limits differ, it counts as another drive."""

    model: str
    firmware: str
    lba_bytes: int | None = None
    limits: dict[str, float]
    filesystem: str
    virtual: bool | None = None
    """Whether the drive is virtual. The value is None if this is unknown."""


class Measured(Frozen):
    """The table `measurement` of a profile."""

    identity: Identity
    measured_at: str
    """The time of the measurement, in ISO 8601, UTC."""
    seconds: float
    by: str
    """The programs that measured the drive, with their versions."""
    complete: bool
    """Whether every planned point was measured."""
    file_bytes: int
    sustained: tuple[LongStretch, ...]
    points: tuple[Point, ...]


class MeasuredDrive(Frozen):
    """A profile of kind "measured"."""

    name: str
    title: str
    law: Law
    measured: Measured

    def expected(
        self, *, block_bytes: float, read_share: float, depth: float, sequential_share: float = 0.0
    ) -> ExpectedSpeed:
        """Returns the drive's speed if `depth` requests are in progress on average. A depth below 1 means that the
        drive is idle for a part of the time. Such a depth needs no figure that was not measured. Raises
        OutsideMeasured.
        """
        self._check(block_bytes, read_share, depth, sequential_share)
        per_s = float(
            self.law.requests_per_s(
                block_bytes=block_bytes, read_share=read_share, depth=depth, sequential_share=sequential_share
            )
        )
        return ExpectedSpeed(per_s, depth / per_s, self.relative_error)

    @property
    def relative_error(self) -> float:
        """The relative error that 19 of 20 test points do not exceed. If there are few test points, all points count
        instead.
        """
        held_out = [abs(point.residual) for point in self.measured.points if point.held_out]
        every = [abs(point.residual) for point in self.measured.points]
        return _quantile(held_out if len(held_out) >= _ENOUGH_HELD_OUT else every, _COVERED)

    @property
    def median_error(self) -> float | None:
        """The median error of the test points. The value is None without test points."""
        held_out = [abs(point.residual) for point in self.measured.points if point.held_out]
        return _quantile(held_out, 0.5) if held_out else None

    def _check(self, block_bytes: float, read_share: float, depth: float, sequential_share: float) -> None:
        points = self.measured.points
        asked = [
            ("blocks of {} bytes", block_bytes, _range(point.block_bytes for point in points)),
            ("{} requests in progress", depth, (0.0, max(point.depth for point in points))),
            ("a share of reads of {}", read_share, _range(point.read_share for point in points)),
            ("a share of requests in order of {}", sequential_share, _range(float(one.sequential) for one in points)),
        ]
        for words, value, (least, most) in asked:
            if not (math.isfinite(value) and least <= value <= most):
                raise OutsideMeasured(
                    f"{self.name}: {words.format(f'{value:g}')} was asked, and {least:g} to {most:g} was measured: "
                    "measure further with `storagelab drives fit`"
                )
        if depth <= 0:
            raise OutsideMeasured(f"{self.name}: no request in progress was asked: a load has more than 0 on average")

    # --- its file ---------------------------------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, text: str) -> MeasuredDrive:
        """Reads a profile. Raises ValueError with a message for users."""
        content = toml_of(text)
        if content.get("kind") != KIND:
            raise ValueError(f"kind is {content.get('kind')!r}: only a drive of kind {KIND!r} knows what was measured")
        try:
            service = {name: figure["value"] for name, figure in content["service"].items()}
            limits = {name: float(figure["value"]) for name, figure in content.get("limits", {}).items()}
            law = Law(
                **{name: float(service[name]) for name in _SERVICE},
                reads_parallel=service["reads_parallel_per_mille"] / 1000,
                writes_parallel=service["writes_parallel_per_mille"] / 1000,
                data_parallel=service["data_parallel_per_mille"] / 1000,
                knee=int(service["knee"]),
                limits={name: limits[name] for name in LIMITS if name in limits},
            )
            return cls(
                name=content["name"], title=content["title"], law=law, measured=Measured(**content["measurement"])
            )
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError, ZeroDivisionError) as error:
            raise ValueError(f"{error} is missing or not as `storagelab drives fit` writes it") from None

    @classmethod
    def read(cls, file: Path) -> MeasuredDrive:
        """Reads a file. Raises PreflightError with the file's name."""
        try:
            return cls.from_toml(text_of(file))
        except (OSError, ValueError) as error:
            raise PreflightError(
                getattr(error, "strerror", None) or str(error),
                file=file,
                hint="write it with `storagelab drives fit NAME --volume PATH`",
            ) from None


_SERVICE = (
    "read_ns", "write_ns", "read_in_order_ns", "write_in_order_ns", "read_data_bytes_per_s", "write_data_bytes_per_s",
)  # fmt: skip


def _range(values: Any) -> tuple[float, float]:
    found = list(values)
    return min(found), max(found)


def _quantile(values: Sequence[float], share: float) -> float:
    """Returns the smallest of `values` that is at least as large as the share `share` of them."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


# --- the profile as TOML ----------------------------------------------------------------------------------------------


def as_toml(drive: MeasuredDrive, *, usable_bytes: int, sector_bytes: int) -> str:
    """Returns the text of the profile's file. `MeasuredDrive.from_toml` and `profiles.load` can read it."""
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
