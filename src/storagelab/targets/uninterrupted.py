"""Cleaning up to the end: Ctrl-C, SIGTERM and SIGHUP are not lost while something is being removed, they only wait."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks storagelab to stop: Ctrl-C, a system that shuts down, a terminal that goes away."""


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Inside, a signal to stop is only noted; it is raised again at the end, for whoever handles it otherwise.

    Handlers are swapped rather than signals blocked, because a block would hold for one thread only. Outside the main
    thread there is nothing to do: Python handles signals in the main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        noted.append(number)

    before = {number: signal.signal(number, note) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None = a handler that was not set by Python; it can't be put back, and nothing of ours sets one.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for first in noted[:1]:
            signal.raise_signal(first)
