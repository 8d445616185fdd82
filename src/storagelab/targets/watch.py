"""The thread that looks at a run at the moments of its pace. An error in it ends only the watching."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from storagelab.targets.watching import Pace


class Looks(NamedTuple):
    """The thread's work: `first` and `last` once, `tick` at every moment of the pace."""

    first: Callable[[], None]
    tick: Callable[[], None]
    last: Callable[[], None]


class Watch:
    """In order: `start`, `end`. `error` is empty unless watching stopped in between; `words` describes an exception,
    `session_cpu_s` reads the CPU time of the session on the server, None if that is unknown."""

    def __init__(
        self,
        pace: Pace,
        looks: Looks,
        words: Callable[[BaseException], str],
        session_cpu_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._pace, self._looks, self._words, self._session_cpu_s = pace, looks, words, session_cpu_s
        self.error = ""
        self._thread: threading.Thread | None = None
        self._runs, self._stop = threading.Event(), threading.Event()
        self._started_s = 0.0

    @property
    def at_s(self) -> float:
        """Seconds since `start`."""
        return time.monotonic() - self._started_s

    @property
    def ending(self) -> bool:
        return self._stop.is_set()

    @property
    def stuck(self) -> bool:
        """Whether the thread still runs although it should have ended, so that nothing else may use its resources."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="storagelab-sampler", daemon=True)
        self._started_s = time.monotonic()
        self._thread.start()

    def _run(self) -> None:
        self._runs.set()
        try:
            self._pace.begin(self._session_cpu_s)
            self._looks.first()
            while not self._stop.wait(self._pace.delay_s()):
                self._looks.tick()
                self._pace.ticked()
            self._pace.halt()
            self._looks.last()
        except Exception as error:  # noqa: BLE001 - the run must go on, and its report say that watching stopped
            self.error = f"sampling stopped early: {self._words(error)}"
        finally:
            self._pace.end()

    def end(self, patience_s: float) -> None:
        """Never raises."""
        self._stop.set()
        # An interruption during the thread's start leaves a thread that is about to run: wait for it, too.
        if self._thread is not None and self._runs.wait(patience_s):
            self._thread.join(patience_s)
            if self._thread.is_alive():
                self.error = self.error or "sampling stopped early: the server did not answer"
