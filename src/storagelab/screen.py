"""Prints all output to the terminal. The module escapes all text from servers, stores and specs. No defect of the
terminal (a closed stream, an encoding without a dash, a width of 0) stops a measurement.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from storagelab.errors import escaped

if TYPE_CHECKING:
    from rich.console import Console

_STANDARD = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_WIDTH = re.compile(r"[1-9][0-9]{1,4}")


def out() -> Console:
    from storagelab.screen import Screen  # here, because not every verb prints

    return Screen()


def err() -> Console:
    from storagelab.screen import Screen

    return Screen(stderr=True)


def say(text: str, *, stdout: bool = False) -> None:
    """Prints one or more lines."""
    print(escaped(text), file=sys.stdout if stdout else sys.stderr, flush=True)


def write(content: str | bytes) -> None:
    """Writes a whole document to stdout. Text is UTF-8, whatever the terminal's encoding, because a program may read
    it."""
    if isinstance(content, str):
        content = escaped(content if content.endswith("\n") else content + "\n").encode()
    sys.stdout.flush()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(content.decode(errors="replace"))


def prepare() -> None:
    """Prepares the streams once, when the process starts. It opens closed streams on /dev/null, so that no store gets
    their number. Characters that the encoding lacks are escaped. A broken stderr stops nothing.
    """
    for number, (name, mode) in enumerate(_STANDARD):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this stream's
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stderr = _Unbreakable(sys.stderr)
    for name in ("COLUMNS", "LINES"):
        if not _WIDTH.fullmatch(os.environ.get(name, "")):
            os.environ.pop(name, None)


class _Unbreakable:
    """A stream whose errors (the reading program ended, the disk is full) stop nothing."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


# --- A terminal drawn by rich, with all text escaped ------------------------------------------------------------------


class Screen(Console):
    """rich's console with all text escaped. It may colour and arrange text, but it interprets no markup: text in square
    brackets is printed as it is.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(highlight=False, markup=False, **how)

    def on_broken_pipe(self) -> None:
        raise  # rich would exit with 1 on this error, which from a gate means "slower"

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))
