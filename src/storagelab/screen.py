"""Prints all output to the terminal. This module escapes all text from servers, stores and specs. A defect of the
terminal (a closed stream, an encoding without a dash, a width of 0) never stops a measurement."""

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
    from storagelab.screen import Screen  # imported here, because not every verb prints

    return Screen()


def err() -> Console:
    from storagelab.screen import Screen

    return Screen(stderr=True)


def say(text: str, *, stdout: bool = False) -> None:
    """Prints one or more lines."""
    print(escaped(text), file=sys.stdout if stdout else sys.stderr, flush=True)


def write(content: str | bytes) -> None:
    """Writes a whole document to stdout. A program may read it, so text is always UTF-8, whatever the terminal's
    encoding."""
    if isinstance(content, str):
        content = escaped(content if content.endswith("\n") else content + "\n").encode()
    sys.stdout.flush()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(content.decode(errors="replace"))


def prepare() -> None:
    """Prepares the streams once, when the process starts. If a stream is closed, it is opened on /dev/null, so that no
    store gets its number. If the encoding lacks a character, the character is escaped. A broken stderr stops nothing.
    """
    for number, (name, mode) in enumerate(_STANDARD):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest free number, which is this stream's
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
    """A stream whose errors stop nothing. For example, the reading program may have ended, or the disk may be full."""

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
    """rich's console, which escapes all text. It may colour and arrange text, but it interprets no markup. So text in
    square brackets is printed unchanged.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(highlight=False, markup=False, **how)

    def on_broken_pipe(self) -> None:
        raise  # rich would exit with 1, which means "slower" from a gate

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))
