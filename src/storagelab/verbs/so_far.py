"""The page of a campaign that is still running: renewed between two runs, and again if the runs are interrupted.

A page takes seconds of a CPU, so another process makes it while no run is measured here, and the next run waits for it.
It is renewed at most each minute, and so rarely that it takes at most a twentieth of the campaign's time.

python -m storagelab.verbs.so_far FOLDER TEXT RELOAD_S    makes the page once, in a process of its own
"""

from __future__ import annotations

import contextlib
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from storagelab import screen
from storagelab.run.progress import RunProgress
from storagelab.stopping import Interruptible
from storagelab.words import numbers

EVERY_S = 60.0
_LARGEST_SHARE = 0.05
_LONGEST_S = 300.0
"""A page that takes longer is given up."""


@contextlib.contextmanager
def kept(folder: Path, progress: RunProgress, before: int, stopping: Interruptible) -> Iterator[None]:
    """Keeps the page of the runs that are made meanwhile. If a person at a terminal stops them, makes it once more, of
    what is stored; programs wait for nothing.
    """
    page = SoFar(folder, progress, before)
    progress.renew_page = page.renew
    try:
        yield
    except KeyboardInterrupt:
        if stopping.by_user and sys.stdin.isatty():
            page.interrupted()
        raise


class SoFar:
    """Renews the page of a campaign whose store is in `folder`. `before`: runs stored before this start."""

    def __init__(self, folder: Path, progress: RunProgress, before: int) -> None:
        self._folder, self._progress, self._before = folder, progress, before
        self._next_at, self.cost_s = time.monotonic() + EVERY_S, 0.0
        self.is_made = False

    def renew(self) -> None:
        """Called when a run has been stored, and the next one has not begun."""
        if time.monotonic() < self._next_at or not self._progress.waiting:
            return
        self._make(f"Running: {self._stored()}; {self._progress.time_left()} left. {self._next()}", EVERY_S)
        self._next_at = time.monotonic() + max(EVERY_S, self.cost_s / _LARGEST_SHARE)

    def interrupted(self) -> None:
        """After Ctrl-C: makes the page of what is stored, and names it. Another Ctrl-C leaves it out."""
        if not self._before + self._progress.done:
            return
        screen.say("making the report of what is stored; Ctrl-C leaves it out")
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            self._make(f"Interrupted: {self._stored()}. Run the spec again to continue.", 0)
        signal.signal(signal.SIGINT, before)
        if self.is_made:
            screen.say(f"report so far: {self._folder / 'report.html'}")

    def _stored(self) -> str:
        progress = self._progress
        return f"{self._before + progress.done} of {self._before + progress.total} runs are stored"

    def _next(self) -> str:
        progress = self._progress
        if progress.at_once == 1:
            return f"Running now: {progress.waiting}."
        return f"{progress.at_once} at a time."

    def _make(self, text: str, reload_s: float) -> None:
        began, self.is_made = time.monotonic(), False
        asked = [sys.executable, "-P", "-m", __name__, str(self._folder), text, f"{reload_s:g}"]
        try:
            # A session of its own: Ctrl-C on the terminal is meant for the runs.
            done = subprocess.run(
                asked, timeout=_LONGEST_S, stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True,
                check=False,
            )  # fmt: skip
            wrong = "" if done.returncode == 0 else done.stderr.decode(errors="replace").strip()[-300:] or "no reason"
        except (OSError, subprocess.TimeoutExpired) as error:
            wrong = str(error)
        self.cost_s = time.monotonic() - began
        self.is_made = not wrong
        told = f"could not be made: {wrong}" if wrong else f"renewed in {numbers.seconds(self.cost_s)}"
        logging.getLogger("storagelab").info("the page so far: %s", told)


def make(folder: Path, text: str, reload_s: float) -> None:
    from storagelab.findings.analysis import analyse  # here: a campaign's process needs none of it
    from storagelab.report import writing
    from storagelab.run import stored

    of = stored.read(folder.name, folder.parent)
    how = writing.How(so_far=writing.SoFar(text, round(reload_s)))
    writing.write_report(*of, analyse(of.experiment, of.plan, of.runs), how=how)


if __name__ == "__main__":
    make(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
