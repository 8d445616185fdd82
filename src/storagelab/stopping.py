"""Stopping when the user asks for it: the first signal interrupts the current work, and no signal interrupts the
clean-up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_AGAIN_S = 0.02
INTERRUPTED = 130
"""The exit code of a program that was stopped."""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
r"""The signals that ask storagelab to stop: Ctrl-C, a shutdown of the system, a closed terminal, Ctrl-\."""


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Records a signal to stop, but does not act on it. At the end, it raises the signal again for its usual handler.

    Handlers are swapped, not signals blocked, because blocking applies to one thread only. Outside the main thread
    there is nothing to do: Python handles signals in the main thread alone.
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
            # None = a handler that Python did not set; it can't be restored, and none of ours is such a handler.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for first in noted[:1]:
            signal.raise_signal(first)


class Interruptible:
    """The first Ctrl-C, SIGTERM, hang-up or SIGQUIT stops cleanly; further ones can't interrupt the clean-up."""

    def __init__(self) -> None:
        self.asked = False
        self._by = signal.SIGINT

    def __enter__(self) -> Self:
        # Under nohup a hang-up is ignored from the start, and stays so.
        wanted = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {int(number): signal.signal(number, self._stop) for number in wanted}
        self._alarm = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(self._by))
        self._hook, sys.unraisablehook = sys.unraisablehook, self._lost
        return self

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._alarm)
        for number, handler in self._before.items():
            # After the first request, storagelab is stopping already. The rest of the work is short, and must not be
            # interrupted.
            signal.signal(number, signal.SIG_IGN if self.asked else handler)

    def check(self) -> None:
        """Stops the program if the user has asked for it, by raising KeyboardInterrupt."""
        if self.asked:
            raise KeyboardInterrupt

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self.asked, self._by = True, signal.Signals(number)
        for other in self._before:
            signal.signal(other, self._ask_patience)
        raise KeyboardInterrupt

    def _lost(self, what: UnraisableHookArgs) -> None:
        """Python drops exceptions in some of its callbacks, such as those after a fork: then the signal is sent
        again.
        """
        if not issubclass(what.exc_type, KeyboardInterrupt):
            self._hook(what)
            return
        for number in self._before:
            signal.signal(number, self._stop)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)

    def _ask_patience(self, *_: object) -> None:
        # Not printed: a signal may come during a print, and printing does not nest.
        with contextlib.suppress(OSError):
            os.write(sys.stderr.fileno(), b"stopping: what was started ends, and its files are removed\n")
