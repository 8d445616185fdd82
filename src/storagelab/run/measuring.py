"""Measures the drive of a folder with fio. First, a file is written full. Then come long periods of writes and reads,
and at last the points in random order.

Each measurement is stored at once. So the same command continues after an interruption."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from storagelab.drives.fitting import Law, LoadPoint, Result, fit
from storagelab.drives.measured import Identity, LongStretch, Measured, MeasuredDrive, Point
from storagelab.errors import PreflightError, RunFailed
from storagelab.loads import fio
from storagelab.loads.fio import Job, Place, check_direct, sector_bytes
from storagelab.machine import host
from storagelab.machine.descriptors import write_whole
from storagelab.machine.disks import serial_of
from storagelab.model.target import Tell
from storagelab.run.engine import sweep_temporary
from storagelab.spec.given_files import text_of
from storagelab.stopping import uninterrupted
from storagelab.volumes.folders import Folders, Site, locked

_FILE = "drives-fit"
_ROOM = 1.05
_FELL = 0.85
"""A burst has ended when the rate stays below this share of the rate in the first seconds."""
_FIRST_S = 3


class Effort(NamedTuple):
    """How long and how often each point is measured, and how large the file is."""

    point_s: float
    passes: int
    stretch_s: float
    file_bytes: int
    at_most_s: float
    """After this time, in seconds, no further point is measured."""

    def about_s(self, measurements: int) -> float:
        """Returns the approximate time in seconds for the long periods and for this number of measurements of points.
        The time to write the file is not included."""
        return min(self.at_most_s, measurements * (self.point_s + _START_S) + len(_STRETCHES) * self.stretch_s)


_START_S = 0.4
"""The time, in seconds, that fio takes to start."""
QUICK = Effort(point_s=1.0, passes=1, stretch_s=8.0, file_bytes=2**29, at_most_s=150.0)
FULL = Effort(point_s=3.0, passes=2, stretch_s=25.0, file_bytes=2**31, at_most_s=840.0)
_STRETCHES = (
    Job("write", "sequential", 2**20, 0.0, outstanding=16),
    Job("write", "random", 4096, 0.0, outstanding=16),
    Job("read", "random", 4096, 0.0, outstanding=16),
)


class KeptResults:
    """The file that stores the measurements. Each line has one measurement."""

    def __init__(self, file: Path, of: dict[str, Any]) -> None:
        """Reads the stored measurements. `of` describes what is measured. Raises PreflightError if the file describes
        something else, or can't be read.
        """
        self.file, self._of = file, of
        self._lines: list[str] = []
        self.results: list[Result] = []
        self.sustained: list[LongStretch] = []
        try:
            lines = text_of(file, 2**26).splitlines(keepends=True) if file.exists() else []
            first = json.loads(lines[0]) if lines else of
            for line in lines[1:] if first == of else ():
                if not line.endswith("\n"):
                    break  # a kill cut off this line
                content = json.loads(line)
                self._lines.append(line)
                if "asked" in content:
                    content["asked"] = LoadPoint(*content["asked"])
                    self.results.append(Result(**content))
                else:
                    self.sustained.append(LongStretch(**content))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            hint = "choose another name, or remove the file and measure anew"
            raise PreflightError(f"it can't be read: {' '.join(str(error).split())}", file=file, hint=hint) from None
        if first != of:
            before = first if isinstance(first, dict) else {}
            keys = [key for key in {**before, **of} if before.get(key) != of.get(key)]
            changed = [f"{key} was {before.get(key)}, is {of.get(key)}" for key in keys]
            raise PreflightError(
                f"it has measurements of another volume, or with other options: {'; '.join(changed)}", file=file,
                hint="continue with that volume and those options, choose another name, or remove the file",
            )  # fmt: skip

    @property
    def many(self) -> int:
        return len(self.results) + len(self.sustained)

    def add(self, one: Result | LongStretch) -> None:
        self._lines.append(json.dumps(one._asdict() if isinstance(one, Result) else one.model_dump()) + "\n")
        with uninterrupted():
            try:  # the whole file is rewritten, because its last line may be incomplete
                write_whole(self.file, ["".join([json.dumps(self._of), "\n", *self._lines]).encode()])
            except OSError as error:
                hint = "make room; the same command continues"
                raise PreflightError(f"can't be written: {error.strerror}", file=self.file, hint=hint) from None
        (self.results if isinstance(one, Result) else self.sustained).append(one)  # type: ignore[arg-type]


def check(folder: Path, file_bytes: int) -> None:
    """Raises PreflightError if the folder can't be measured. The check makes only a file without a name."""
    fio.find("--volume")
    host.try_writing(folder)
    check_direct(folder, "--volume")
    free = host.free_bytes(folder)
    if file_bytes * _ROOM > free:
        raise PreflightError(
            f"a file of {file_bytes / 2**20:.0f} MiB does not fit: {folder} has {free / 2**20:.0f} MiB free",
            key="--volume", hint="free some space, or give a smaller file with --size",
        )  # fmt: skip


@contextmanager
def file_on(folder: Path, file_bytes: int) -> Iterator[tuple[Place, str]]:
    """Yields the file, after it was written full, and the engine of fio that works on it. The file is removed at the
    end.
    """
    folders = Folders(Site(experiment="drives-fit", identity="fit", spec_folder=folder), {"v": folder})
    with locked({folder: "--volume"}):
        folders.leftovers()  # raises an error if another file has the name
        sweep_temporary()
        folders.make()
        try:
            place = Place(folders["v"], _FILE, file_bytes)
            yield place, fio.lay_out(fio.find("--volume"), place, sector_bytes(folder) or 4096)
        finally:
            with uninterrupted():
                folders.remove()


def stretches(place: Place, engine: str, effort: Effort, kept: KeptResults, tell: Tell) -> None:
    """Measures long periods of writes and reads before any points. These periods show the burst of an idle volume, and
    use the burst up. After an interruption, the volume may burst again, so periods with a burst are repeated.
    """
    program = fio.find("--volume")
    for number, job in enumerate(_STRETCHES):
        tell("long periods", number, len(_STRETCHES))
        known = kept.sustained[number] if number < len(kept.sustained) else None
        if known is not None and known.fell_after_s is None:
            continue
        outcome = fio.make(program, place, job._replace(seconds=effort.stretch_s, seed=number), engine)
        if known is None:
            kept.add(sustained_of(job, outcome.per_s[job.operation]))  # type: ignore[index]
    tell("long periods", len(_STRETCHES), len(_STRETCHES))


def sustained_of(job: Job, per_s: Sequence[float]) -> LongStretch:
    if not per_s:
        raise RunFailed("fio logged no full second of a long period: the machine is too busy to measure")
    burst, sustained = statistics.fmean(per_s[:_FIRST_S]), statistics.fmean(per_s[-max(_FIRST_S, len(per_s) // 3) :])
    slow = [
        second for second in range(len(per_s)) if statistics.fmean(per_s[second : second + _FIRST_S]) < _FELL * burst
    ]
    fell = None
    if slow and sustained < _FELL * burst:
        # The mean of several seconds already falls before the first slow second.
        halfway = (burst + sustained) / 2
        fell = float(next((second for second in range(slow[0], len(per_s)) if per_s[second] < halfway), slow[0]))
    return LongStretch(
        operation=job.operation, sequential=job.pattern == "sequential", block_bytes=job.block_bytes,
        depth=job.outstanding, burst_per_s=burst, sustained_per_s=sustained, fell_after_s=fell,
    )  # fmt: skip


def points(place: Place, engine: str, planned: list[LoadPoint], effort: Effort, kept: KeptResults, tell: Tell) -> None:
    """Makes the missing measurements of points. If the time is over, ends even if points are missing."""
    program, began, done = fio.find("--volume"), time.monotonic(), len(kept.results)
    wanted = (planned * effort.passes)[done:]
    for number, asked in enumerate(wanted):
        tell("points", number, len(wanted))
        if time.monotonic() - began > effort.at_most_s:
            break
        operation = {1.0: "read", 0.0: "write"}.get(asked.read_share, "mixed")
        job = Job(
            operation, "sequential" if asked.sequential else "random",  # type: ignore[arg-type]
            asked.block_bytes, effort.point_s, outstanding=asked.depth, read_fraction=asked.read_share,
            seed=done + number,
        )  # fmt: skip
        outcome = fio.make(program, place, job, engine, logged=False)
        latency = outcome.latency
        assert latency is not None
        kept.add(Result(asked, outcome.requests / outcome.elapsed_s, latency.mean_s))
    tell("points", len(wanted), len(wanted))


def averaged(results: Sequence[Result]) -> list[Result]:
    """Returns each point once, with the geometric mean of its measurements."""
    by_point: dict[LoadPoint, list[Result]] = {}
    for one in results:
        by_point.setdefault(one.asked, []).append(one)
    return [
        Result(
            asked,
            statistics.geometric_mean(one.requests_per_s for one in found),
            statistics.geometric_mean(one.mean_latency_s for one in found),
        )
        for asked, found in by_point.items()
    ]


# --- the profile of a volume ------------------------------------------------------------------------------------------


class MeasuredVolume(NamedTuple):
    """The place of a measurement. The volume's limits apply while the context `loaded` lasts."""

    folder: Path
    loaded: Callable[[], AbstractContextManager[None]]
    identity: dict[str, Any]
    """Facts that must be unchanged if a measurement is continued."""


def volume_at(folder: Path) -> MeasuredVolume:
    facts = host.describe_volume(folder)
    names: list[str] = facts["disks"]  # type: ignore[assignment]
    identity = {
        "path": os.path.realpath(folder), "device": facts["device"], "serial": [serial_of(one) or one for one in names],
        "model": facts["device_model"], "firmware": facts["device_firmware"], "filesystem": facts["filesystem"],
        "filesystem_id": os.statvfs(folder).f_fsid if folder.exists() else None, "limits": facts["throttle"],
    }  # fmt: skip
    return MeasuredVolume(folder, nullcontext, identity)


def measured(
    name: str, volume: MeasuredVolume, effort: Effort, asked: list[LoadPoint], kept: KeptResults, tell: Tell
) -> tuple[MeasuredDrive, int, int]:
    began = time.monotonic()
    with file_on(volume.folder, effort.file_bytes) as (place, engine), volume.loaded():
        facts = host.describe_volume(volume.folder)
        stretches(place, engine, effort, kept, tell)
        points(place, engine, asked, effort, kept, tell)
    results = averaged(kept.results)
    try:
        law = fit(results)
    except ValueError as error:
        raise PreflightError(f"{error}: the volume is too slow or the machine too busy", key="--volume") from None
    identity = _identity(facts)
    return (
        MeasuredDrive(
            name=name,
            title=f"{identity.model or 'Drive'} with {identity.filesystem}, as measured",
            law=law,
            measured=Measured(
                identity=identity,
                measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
                seconds=round(time.monotonic() - began, 1),
                by=f"fio {fio.find().version} with {engine}",
                complete=len(results) == len(asked),
                file_bytes=effort.file_bytes,
                sustained=tuple(kept.sustained),
                points=tuple(_point(law, one) for one in results),
            ),
        ),
        int(facts["size_bytes"]),  # type: ignore[call-overload]
        sector_bytes(volume.folder) or 512,
    )


def _identity(facts: dict[str, Any]) -> Identity:
    return Identity(
        model=" ".join(filter(None, (facts["device_vendor"], facts["device_model"]))) or facts["device"] or "",
        firmware=facts["device_firmware"] or "",
        lba_bytes=(facts["file_system_queue"] or facts["queue"]).get("logical_block_bytes"),
        limits={limit: float(value) for limit, value in facts["throttle"].items()},
        filesystem=facts["filesystem"] or "",
        virtual=facts["virtual"],
    )


def _point(law: Law, one: Result) -> Point:
    asked = one.asked
    fitted_per_s = law.requests_per_s(
        block_bytes=asked.block_bytes,
        read_share=asked.read_share,
        depth=asked.depth,
        sequential_share=float(asked.sequential),
    )
    return Point(
        **asked._asdict(), requests_per_s=round(one.requests_per_s, 3), mean_latency_s=round(one.mean_latency_s, 9),
        fitted_per_s=round(float(fitted_per_s), 3),
    )  # fmt: skip
