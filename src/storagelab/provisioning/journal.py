"""The journal of what storagelab does to drives, written before it is done, so that a killed run can be undone.

It lies in the results folder of its experiment, a line for each event. A drive that is claimed has a file in
/var/lib/storagelab, too, which names the results folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from storagelab.errors import RunFailed
from storagelab.model.values import Frozen
from storagelab.provisioning import at_work
from storagelab.provisioning.drives import Drive

FILE = "drives.jsonl"
REGISTRY = Path("/var/lib/storagelab")


class Claim(Frozen):
    """A drive that an experiment uses: as it was before, and the index of its LBA format then."""

    drive: Drive
    results: str
    lba_format: int | None = None


class History(NamedTuple):
    """What the journal says about one drive: as it was last confirmed or given back, the claim that is not given back yet,
    the steps begun since, and whether it was given back before. `made` = the UUIDs that may lie on it: of what it held, and
    of what storagelab makes; None = unknown (a journal of an earlier version). `queue` = its queue's settings before.
    """

    confirmed: Drive | None = None
    claim: Claim | None = None
    steps: tuple[str, ...] = ()
    released: bool = False
    made: frozenset[str] | None = None
    queue: Mapping[str, str | int] = MappingProxyType({})


class Journal:
    def __init__(self, results: Path) -> None:
        self.results = results.absolute()
        self._file = self.results / FILE

    def confirmed(self, drive: Drive) -> None:
        """The user has confirmed that everything on the drive may be destroyed."""
        self._append("confirmed", drive.id, drive=drive.model_dump())

    def claimed(self, drive: Drive, lba_format: int | None, uuids: Iterable[str] | None = None) -> None:
        """`uuids` are those of what it holds, and of what will be made on it. Raises RunFailed if another experiment has
        claimed the drive.
        """
        claim = Claim(drive=drive, results=str(self.results), lba_format=lba_format)
        self.refuse_claimed_by_others(drive)
        _write_whole(REGISTRY / f"{drive.key}.json", claim.model_dump_json())
        self._append("claimed", drive.id, claim=claim.model_dump(), uuids=None if uuids is None else sorted(uuids))

    def refuse_claimed_by_others(self, drive: Drive) -> None:
        """Raises RunFailed if another experiment has the drive."""
        for claim in claims():
            if claim.drive.is_same_as(drive) and claim.results != str(self.results):
                raise RunFailed(
                    f"{drive.id} was not given back by the runs whose results are in {claim.results}\n"
                    f"  if they have ended: storagelab volumes undo {claim.results}"
                )

    def step(self, drive: Drive, what: str) -> None:
        """Is written to the medium before it is done."""
        self._append("step", drive.id, what=what)

    def made(self, drive: Drive, uuids: Iterable[str]) -> None:
        """The volume is made; these are the UUIDs of what lies on its drive."""
        self._append("made", drive.id, uuids=sorted(uuids))

    def queue(self, drive: Drive, before: Mapping[str, str | int]) -> None:
        """These settings of its queue are changed next."""
        self._append("queue", drive.id, before=dict(before))

    def released(self, drive: Drive) -> None:
        self._append("released", drive.id)
        (REGISTRY / f"{drive.key}.json").unlink(missing_ok=True)

    def of(self, device: str) -> History:
        """What it says about the drive with this stable name."""
        history = History()
        for event in self._events():
            if event.get("device") != device:
                continue
            match event["event"]:
                case "confirmed":
                    history = history._replace(confirmed=Drive.model_validate(event["drive"]))
                case "claimed":
                    uuids = event.get("uuids")
                    history = history._replace(
                        claim=Claim.model_validate(event["claim"]), steps=(), queue={},
                        made=None if uuids is None else frozenset(uuids),
                    )  # fmt: skip
                case "step":
                    history = history._replace(steps=(*history.steps, event["what"]))
                case "made":
                    history = history._replace(made=frozenset(event["uuids"]))
                case "queue":
                    history = history._replace(queue=event["before"])
                case "released":
                    blank = history.confirmed and history.confirmed.model_copy(update={"holds": ()})
                    history = History(confirmed=blank, released=True)
        return history

    def left(self) -> list[Claim]:
        """The drives that were not given back. The registry may know one that the journal does not: a kill came between."""
        devices = dict.fromkeys(str(event.get("device")) for event in self._events())
        found = [history.claim for history in map(self.of, devices) if history.claim is not None]
        known = {claim.drive.id for claim in found}
        return found + [one for one in claims() if one.results == str(self.results) and one.drive.id not in known]

    def _events(self) -> Iterator[dict[str, Any]]:
        """The lines. The last one may have been cut off by a kill: then what it announces was not begun."""
        try:
            lines = self._file.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise RunFailed(f"{self._file} can't be read: {error.strerror}") from error
        for number, line in enumerate(lines, 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                if number < len(lines):
                    raise RunFailed(f"{self._file}: line {number} is damaged") from error

    def _append(self, event: str, device: str, **facts: object) -> None:
        line = json.dumps(
            {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event, "device": device, **facts}
        )
        try:
            self.results.mkdir(parents=True, exist_ok=True)
            is_new = not self._file.exists()
            opened = os.open(self._file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                begin = os.fstat(opened).st_size
                cut_off = begin > 0 and os.pread(opened, 1, begin - 1) != b"\n"
                if cut_off:
                    os.ftruncate(opened, _end_of_last_line(opened, begin))
                os.write(opened, f"{line}\n".encode())
                os.fsync(opened)
            finally:
                os.close(opened)
            if is_new:
                _sync_folder(self.results)
        except OSError as error:
            raise RunFailed(
                f"{self._file} can't be written, so nothing is done to a drive: {error.strerror}"
            ) from error


@contextlib.contextmanager
def locked(drive: Drive) -> Iterator[None]:
    """Keeps the drive to this process until it ends, and to the programs that it starts until they end. First waits for those
    that a killed process left at work. Raises RunFailed if a process of storagelab has the drive.
    """
    with _lock_file(drive, "lock") as own, _lock_file(drive, "programs"):
        try:
            fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunFailed(f"{drive.id} is in use by a campaign that runs") from None
        with at_work.alone_at(REGISTRY / f"{drive.key}.programs"):
            yield


@contextlib.contextmanager
def _lock_file(drive: Drive, what: str) -> Iterator[int]:
    file = REGISTRY / f"{drive.key}.{what}"
    try:
        REGISTRY.mkdir(parents=True, exist_ok=True)
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise RunFailed(f"{file} can't be written, so nothing is done to a drive: {error.strerror}") from error
    try:
        yield opened
    finally:
        os.close(opened)


def claims() -> list[Claim]:
    """Every drive that an experiment on this machine has claimed and not given back."""
    found = []
    for file in sorted(REGISTRY.glob("*.json")):
        try:
            found.append(Claim.model_validate_json(file.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise RunFailed(f"{file} can't be read: {error}") from error
    return found


def _end_of_last_line(opened: int, size: int) -> int:
    return os.pread(opened, size, 0).rfind(b"\n") + 1


def _write_whole(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_suffix(".new")
        with beside.open("w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        beside.replace(file)
        _sync_folder(file.parent)
    except OSError as error:
        raise RunFailed(f"{file} can't be written, so nothing is done to a drive: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
