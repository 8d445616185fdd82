"""Messages between the machine that stores runs and those that make them: bytes with a schema, never code or
pickles.

A message has parts, each preceded by its length: JSON that a model describes, or the packed state of drives. The first
part of an answer is empty, or says what went wrong.
"""

from __future__ import annotations

import struct
import traceback
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from storagelab.errors import PreflightError, StoragelabError
from storagelab.model.values import Frozen
from storagelab.run.damage import reason_of
from storagelab.spec.characters import escaped

LARGEST_BYTES = 2**30
"""The largest message. A batch of the largest published layout takes a thousandth of that."""
_MOST_PARTS = 8
_MOST_WORDS = 2_000
_LENGTH = struct.Struct("<Q")

Task = TypeVar("Task", contravariant=True)
Report = TypeVar("Report", covariant=True)
Reported = TypeVar("Reported")


class NoMessage(ValueError):
    """These bytes are not the message that was expected."""


class Request(Protocol[Task, Report]):
    """How a task is sent to a worker, and how its answer is read."""

    @property
    def entry(self) -> str:
        """The function that does the task there, as "module:function"; it takes a message and returns an answer."""
        ...

    def message(self, task: Task) -> bytes: ...

    def reports(self, task: Task, host: str, parts: Sequence[bytes]) -> tuple[Report, ...]:
        """What the parts of an answer report on the task. Raises ValueError if they don't fit the task or `host`."""
        ...


def packed(*parts: bytes) -> bytes:
    return b"".join(piece for part in parts for piece in (_LENGTH.pack(len(part)), part))


def unpacked(message: object) -> list[bytes]:
    """The parts of a message. Raises NoMessage."""
    if not isinstance(message, bytes):
        raise NoMessage(f"it is {type(message).__name__}, not bytes")
    if not message:
        raise NoMessage("it is empty, or not bytes")
    if len(message) > LARGEST_BYTES:
        raise NoMessage(f"it has {len(message):,} bytes, and {LARGEST_BYTES:,} are the most")
    parts, at = list[bytes](), 0
    while at < len(message):
        begins = at + _LENGTH.size
        if begins > len(message) or len(parts) == _MOST_PARTS:
            raise NoMessage("it is not in parts")
        (length,) = _LENGTH.unpack_from(message, at)
        at = begins + length
        if at > len(message):
            raise NoMessage("it is cut off")
        parts.append(message[begins:at])
    return parts


def words(text: object) -> str:
    """Another machine's words, in a form that can be shown here."""
    shown = escaped(str(text))
    return shown if len(shown) <= _MOST_WORDS else f"{shown[:_MOST_WORDS]}..."


# --- answers ---------------------------------------------------------------------------------------------------------


class Trouble(Frozen):
    """Why there is no report: what is wrong with the worker's machine, or how and where the work failed."""

    machine: str = ""
    broke: str = ""
    where: str = ""
    is_for_users: bool = False
    """Whether the words say what the user can do about it."""


class Answer(NamedTuple, Generic[Reported]):
    """An answer that was read: its reports; or an error of the work; or one of its machine, in words."""

    reports: tuple[Reported, ...] = ()
    broke: Exception | None = None
    machine: str = ""


def answer_of(work: Callable[[], Sequence[bytes]]) -> bytes:
    """Does the work on a worker; returns the parts of its report, or what went wrong."""
    try:
        return packed(b"", *work())
    except (OSError, MemoryError) as error:
        trouble = Trouble(machine=f"{type(error).__name__}: {error}")
    except PreflightError as error:
        trouble = Trouble(machine=str(error))
    except StoragelabError as error:
        trouble = Trouble(broke=str(error), is_for_users=True)
    except BaseException as error:  # noqa: BLE001 - it is raised again by the client
        trouble = Trouble(broke=f"{type(error).__name__}: {error}", where=traceback.format_exc())
    return packed(trouble.model_dump_json().encode())


def read(request: Request[Task, Reported], task: Task, host: str, message: object) -> Answer[Reported]:
    """The answer to a task. Raises NoMessage if it is not a message."""
    try:
        trouble, *parts = unpacked(message)
        if not trouble:
            return Answer(request.reports(task, host, parts))
        failure = Trouble.model_validate_json(trouble)
    except ValueError as error:
        raise NoMessage(words(reason_of(error))) from None
    if bool(failure.machine) == bool(failure.broke):
        raise NoMessage("it says neither what was done nor what went wrong")
    if failure.machine:
        return Answer(machine=words(failure.machine))
    if failure.is_for_users:
        return Answer(broke=StoragelabError(words(failure.broke)))
    broke = RuntimeError(words(failure.broke))
    broke.add_note(words(failure.where))
    return Answer(broke=broke)
