"""Messages between machines: data in parts, which say at once when they are not whole."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence

import pytest

from storagelab.errors import PreflightError, SpecError
from storagelab.run import messages
from storagelab.run.messages import NoMessage, answer_of, packed, read, unpacked


class Counting:
    """A request whose report is a number."""

    entry = "somewhere:else"

    def message(self, task: str) -> bytes:
        return packed(task.encode())

    def reports(self, task: str, host: str, parts: Sequence[bytes]) -> tuple[int, ...]:
        return (int(parts[0]),)


def test_parts_arrive_as_they_left():
    assert unpacked(packed(b"", b"a", bytes(1000))) == [b"", b"a", bytes(1000)]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("text", "it is str, not bytes"),
        (b"", "it is empty, or not bytes"),
        (b"abc", "it is not in parts"),
        (packed(b"abc")[:-1], "it is cut off"),
        (struct.pack("<Q", 2**63) + b"a", "it is cut off"),
        (packed(*[b""] * 9), "it is not in parts"),
    ],
)
def test_what_is_no_message_is_refused(message, words):
    with pytest.raises(NoMessage, match=words):
        unpacked(message)


def test_a_message_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(messages, "LARGEST_BYTES", 10)
    with pytest.raises(NoMessage, match="it has 11 bytes, and 10 are the most"):
        unpacked(bytes(11))


def test_news_come_back_as_they_were_told():
    assert read(Counting(), "count", "", answer_of(lambda: [b"7"])).reports == (7,)


def raising(error: BaseException):
    def work() -> Sequence[bytes]:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "machine", "broke"),
    [
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device", ""),
        (PreflightError("is full", key="volumes.a"), "volumes.a: is full", ""),
        (SpecError("is odd"), "", "is odd"),
        (LookupError("nothing there"), "", "LookupError: nothing there"),
        (KeyboardInterrupt(), "", "KeyboardInterrupt: "),
    ],
)
def test_an_error_comes_back_as_words_alone(error, machine, broke):
    answer = read(Counting(), "count", "", answer_of(raising(error)))
    assert (answer.reports, answer.machine) == ((), machine)
    assert str(answer.broke or "") == broke


@pytest.mark.parametrize("trouble", [{}, {"machine": "a", "broke": "b"}, {"cls": "os.system"}, [], 7])
def test_trouble_that_is_none_is_refused(trouble):
    with pytest.raises(NoMessage):
        read(Counting(), "count", "", packed(json.dumps(trouble).encode()))


def test_another_machines_words_move_no_cursor_and_are_not_endless():
    answer = read(Counting(), "count", "", packed(json.dumps({"machine": "\x1b[2J" + "a" * 10**6}).encode()))
    assert answer.machine.startswith("\\u001b[2Jaaa")
    assert len(answer.machine) < 3_000


def test_bytes_of_any_kind_are_either_an_answer_or_refused():
    for length in range(200):
        with pytest.raises(NoMessage):
            read(Counting(), "count", "", os.urandom(length))
