"""The journal of the steps on drives.

Before each step, a line about it is written to the journal, so that a killed run can be undone. The journal is a file
in the results folder of its experiment. Each claimed drive also has a file in /var/lib/storagelab (the registry), which
names the results folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from pydantic import Field, ValidationError, model_validator

from storagelab.errors import RunFailed, first_problem
from storagelab.machine.descriptors import opened, write_whole
from storagelab.model.values import Frozen
from storagelab.volumes import programs
from storagelab.volumes.drives import Drive

FILE = "drives.jsonl"
REGISTRY = Path("/var/lib/storagelab")
_READ_AND_WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
_LONGEST_LINE_BYTES = 2**18
_BY_HAND = (
    "to get drives back by hand: `storagelab volumes` lists them; unmount what is on each, wipefs --all it if nobody "
    f"needs that, delete its .json file in {REGISTRY}, and begin a new campaign: --results FOLDER"
)


class Claim(Frozen):
    """A drive that an experiment uses, as it was before, and the index of its former LBA format.

    `token` is random. The registry and the journal must have the same token. `made` has all UUIDs that may be on the
    drive: those of its former content, and those of everything that storagelab makes on it. Claims of earlier versions
    have neither `token` nor `made`.
    """

    drive: Drive
    results: str
    lba_format: int | None = Field(None, ge=0, lt=64)
    token: str = ""
    made: tuple[str, ...] = ()


class _Event(Frozen):
    """A line of the journal. Only lines of earlier versions have `uuids`, and nothing reads them."""

    at: str = ""
    event: Literal["confirmed", "claimed", "step", "made", "queue", "released"]
    device: str = Field(pattern=r"^/[^\x00-\x1f\x7f]+$", max_length=4096)
    drive: Drive | None = None
    claim: Claim | None = None
    what: str | None = None
    before: dict[Literal["scheduler", "read_ahead_bytes"], str | int] | None = None
    uuids: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> _Event:
        needed = {"confirmed": "drive", "claimed": "claim", "step": "what", "queue": "before"}.get(self.event, "event")
        drive = self.drive or (self.claim and self.claim.drive)
        if getattr(self, needed) is None:
            raise ValueError(f"it lacks {needed}")
        if drive and drive.id != self.device:
            raise ValueError("it names two drives")
        return self


class History(NamedTuple):
    """The journal's facts about one drive. `confirmed`: the drive when it was last confirmed or given back. `claim` and
    `steps`: the claim and its steps, if the drive is claimed now. `released`: whether the drive was given back before.
    `queue`: the drive's former queue settings.
    """

    confirmed: Drive | None = None
    claim: Claim | None = None
    steps: tuple[str, ...] = ()
    released: bool = False
    queue: Mapping[str, str | int] = MappingProxyType({})


class Journal:
    def __init__(self, results: Path) -> None:
        self.results = Path(os.path.realpath(results))
        self._file = self.results / FILE

    def confirmed(self, drive: Drive) -> None:
        """Notes that the user agreed to the loss of everything on the drive."""
        self._append("confirmed", drive.id, drive=drive.model_dump())

    def claimed(self, drive: Drive, lba_format: int | None, uuids: Iterable[str] = ()) -> Claim:
        """Claims the drive in the registry and in the journal. `uuids` has the UUIDs of the drive's content, and the
        UUIDs of the content that will be made. Raises RunFailed if another experiment has claimed the drive.
        """
        token = secrets.token_hex(16)
        claim = Claim(drive=drive, results=str(self.results), lba_format=lba_format, token=token, made=tuple(uuids))
        self.refuse_claimed_by_others(drive)
        _write_whole(REGISTRY / f"{drive.key}.json", claim.model_dump_json())
        self._append("claimed", drive.id, claim=claim.model_dump())
        return claim

    def refuse_claimed_by_others(self, drive: Drive) -> None:
        """Raises RunFailed if another experiment has claimed the drive."""
        for claim in claims():
            if claim.drive.is_same_as(drive) and claim.results != str(self.results):
                raise RunFailed(
                    f"{drive.id} was not given back by the runs whose results are in {claim.results}\n"
                    f"  if they have ended: storagelab volumes undo {claim.results}"
                )

    def step(self, drive: Drive, what: str) -> None:
        """Writes a step to the journal, and waits until it is on the medium. Call this before the step is made."""
        self._append("step", drive.id, what=what)

    def made(self, drive: Drive, uuids: Iterable[str]) -> None:
        """Adds the UUIDs of the drive's content to its claim. Called when the volume was made."""
        for claim in claims():
            if claim.drive.id == drive.id:
                known = claim.model_copy(update={"made": (*claim.made, *uuids)})
                _write_whole(REGISTRY / f"{drive.key}.json", known.model_dump_json())

    def queue(self, drive: Drive, before: Mapping[str, str | int]) -> None:
        """Notes the drive's current queue settings, because the next step changes them."""
        self._append("queue", drive.id, before=dict(before))

    def released(self, drive: Drive) -> None:
        self._append("released", drive.id)
        (REGISTRY / f"{drive.key}.json").unlink(missing_ok=True)

    def of(self, device: str) -> History:
        """The journal's facts about the drive with this stable name. Raises RunFailed if the journal is damaged."""
        history = History()
        for number, event in self._events():
            if event.device != device:
                continue
            match event.event:
                case "confirmed":
                    history = history._replace(confirmed=event.drive)
                case "claimed":
                    if history.claim is not None:
                        raise self._damaged(number, "the drive is claimed a second time, but was not given back")
                    history = history._replace(claim=event.claim, steps=(), queue={})
                case "step":
                    history = history._replace(steps=(*history.steps, event.what or ""))
                case "queue":
                    history = history._replace(queue={str(key): value for key, value in (event.before or {}).items()})
                case "released":
                    blank = history.confirmed and history.confirmed.model_copy(update={"holds": ()})
                    history = History(confirmed=blank, released=True)
        return history

    def left(self) -> list[tuple[Claim, bool]]:
        """The claimed drives that were not given back. The second value of each pair says whether both the journal and
        root's registry have the claim, with this results folder and the same token.

        If only one of them has it, nothing may be destroyed unless the user agrees: others may have written the
        journal, or storagelab may have been killed before the first step.
        """
        registered = {one.drive.id: one for one in claims() if one.results == str(self.results)}
        found = []
        for device in dict.fromkeys([*(event.device for _, event in self._events()), *registered]):
            ours, theirs = self.of(device).claim, registered.get(device)
            if (claim := theirs or ours) is not None:
                found.append((claim, bool(ours and theirs and ours.token and ours.token == theirs.token)))
        return found

    def _events(self) -> Iterator[tuple[int, _Event]]:
        """The journal's lines with their numbers. If a kill cut off the last line, it is left out, because its step was
        not begun. Raises RunFailed.
        """
        try:
            file = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        except OSError as error:
            raise RunFailed(f"{self._file} can't be read: {error.strerror}") from error
        with os.fdopen(file, "rb") as lines:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise RunFailed(f"{self._file} is not a regular file\n  {_BY_HAND}")
            for number in itertools.count(1):
                line = lines.readline(_LONGEST_LINE_BYTES)
                if not line or (not line.endswith(b"\n") and len(line) < _LONGEST_LINE_BYTES):
                    return
                try:
                    yield number, _Event.model_validate_json(line)
                except ValidationError as error:
                    raise self._damaged(number, first_problem(error)) from None

    def _damaged(self, number: int, why: str) -> RunFailed:
        return RunFailed(
            f"{self._file}: line {number} is damaged ({why[:200]}); nothing is done to a drive\n  {_BY_HAND}"
        )

    def _append(self, event: str, device: str, **facts: object) -> None:
        line = json.dumps(
            {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event, "device": device, **facts}
        )
        with _or_nothing_is_done(self._file):
            self.results.mkdir(parents=True, exist_ok=True)
            is_new = not self._file.exists()
            with opened(self._file, os.O_APPEND | _READ_AND_WRITE, 0o644) as file:
                begin = os.fstat(file).st_size
                cut_off = begin > 0 and os.pread(file, 1, begin - 1) != b"\n"
                if cut_off:
                    os.ftruncate(file, os.pread(file, begin, 0).rfind(b"\n") + 1)
                os.write(file, f"{line}\n".encode())
                os.fsync(file)
            if is_new:
                _sync_folder(self.results)


@contextlib.contextmanager
def locked(drive: Drive) -> Iterator[None]:
    """Locks the drive for this process and the programs that it starts, until all of them end. First waits for programs
    of a killed process that still run. Raises RunFailed if another storagelab has the lock.
    """
    lock, of_programs = (REGISTRY / f"{drive.key}.{what}" for what in ("lock", "programs"))
    with contextlib.ExitStack() as undo:
        with _or_nothing_is_done(lock):
            REGISTRY.mkdir(parents=True, exist_ok=True)
            own, _ = (undo.enter_context(opened(file, _READ_AND_WRITE)) for file in (lock, of_programs))
        try:
            fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunFailed(f"{drive.id} is in use by a campaign that runs") from None
        with programs.alone_at(of_programs):
            yield


@contextlib.contextmanager
def _or_nothing_is_done(file: Path) -> Iterator[None]:
    """Raises RunFailed if the file can't be written."""
    try:
        yield
    except OSError as error:
        raise RunFailed(f"{file} can't be written, so nothing is done to a drive: {error.strerror}") from error


def claims() -> list[Claim]:
    """Every drive that an experiment on this machine has claimed and not given back. Raises RunFailed."""
    found, file = [], REGISTRY
    try:
        for file in sorted(REGISTRY.glob("*.json")):
            found.append(Claim.model_validate_json(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise RunFailed(f"{file} can't be read, so nothing is done to a drive\n  {_BY_HAND}") from error
    return found


def _write_whole(file: Path, text: str) -> None:
    with _or_nothing_is_done(file):
        write_whole(file, [text.encode()])
        _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    with opened(folder, os.O_DIRECTORY) as number:
        os.fsync(number)
