"""Handles signals to stop. The first signal interrupts the current work, and no signal interrupts the clean-up."""

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
"""The exit code of a program that the user stopped."""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
r"""The signals that request storagelab to stop. They come from Ctrl-C, a shutdown of the system, a closed terminal, and
Ctrl-\."""


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defers signals to stop while the context lasts. If one came, it is raised again at the end, for its usual
    handler.

    The handlers are replaced. Blocking the signals would not be enough, because it applies to only one thread. Outside
    the main thread, there is nothing to do, because Python handles signals only in the main thread.
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
            # None means a handler that Python did not set. It can't be restored, and storagelab sets no such handler.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for first in noted[:1]:
            signal.raise_signal(first)


class Interruptible:
    """Stops the work cleanly at the first Ctrl-C, SIGTERM, hang-up or SIGQUIT. Further signals can't interrupt the
    clean-up.
    """

    def __init__(self) -> None:
        self.asked = False
        self._by = signal.SIGINT

    def __enter__(self) -> Self:
        # Under nohup, a hang-up is ignored from the start. It is still ignored here.
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
            # After the first request, storagelab is already stopping. The rest of the work is short, and must not be
            # interrupted.
            signal.signal(number, signal.SIG_IGN if self.asked else handler)

    def check(self) -> None:
        """Raises KeyboardInterrupt if the user has asked to stop."""
        if self.asked:
            raise KeyboardInterrupt

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self.asked, self._by = True, signal.Signals(number)
        for other in self._before:
            signal.signal(other, self._ask_patience)
        raise KeyboardInterrupt

    def _lost(self, what: UnraisableHookArgs) -> None:
        """Sends the signal again if Python has dropped its KeyboardInterrupt. Python drops exceptions in some of its
        callbacks, such as those after a fork.
        """
        if not issubclass(what.exc_type, KeyboardInterrupt):
            self._hook(what)
            return
        for number in self._before:
            signal.signal(number, self._stop)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)

    def _ask_patience(self, *_: object) -> None:
        # `print` is not used, because a signal may come during a print, and one print can't interrupt another.
        with contextlib.suppress(OSError):
            os.write(sys.stderr.fileno(), b"stopping: started programs are ended, and their files are removed\n")
