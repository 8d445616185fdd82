"""The page of a campaign that is still running: renewed at most each minute, by another process.

Where a second process can change no figure and slow no run, it works beside the runs: those are simulated, so what they
give does not depend on this machine, and a CPU is free. It has the lowest priority of all. Beside a measured run it
would take CPU time, caches and the drive from the server, and a free CPU is no proof that it doesn't: so it works
between two runs, and the next one waits, for at most a fiftieth of the campaign's time.

python -m storagelab.verbs._so_far FOLDER TEXT RELOAD_S [beside]    makes the page once, in a process of its own
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from storagelab import screen
from storagelab.machine import host
from storagelab.machine.descriptors import write_whole
from storagelab.run.progress import RunProgress
from storagelab.stopping import Interruptible
from storagelab.words import numbers

PROGRAM = [sys.executable, "-P", "-m", __name__]
EVERY_S = 60.0
LARGEST_SHARE = 0.02
_FIRST_COST_S = 5.0
"""What the first page is taken to cost: it is made once that is a small share of the time passed."""
_LONGEST_S = 300.0
"""A page that takes longer is given up."""
_SAID = re.compile(r'(?<=id="so-far" data-reload-s=")\d+">[^<]*')
"""How long the page waits before it loads itself again, and what it says of the campaign."""


@contextlib.contextmanager
def kept(folder: Path, progress: RunProgress, before: int, stopping: Interruptible) -> Iterator[None]:
    """Keeps the page of the runs that are made meanwhile. If they stop before the last one, the page says so; if a
    person at a terminal stopped them, it is made once more, of what is stored. Programs wait for nothing.
    """
    page = SoFar(folder, progress, before)
    progress.renew_page = page.renew
    try:
        yield
    except BaseException:
        page.end(0)
        page.stopped(again=stopping.by_user and sys.stdin.isatty())
        raise
    finally:
        page.end(0)


class SoFar:
    """Renews the page of a campaign whose store is in `folder`. `before`: runs stored before this start."""

    def __init__(self, folder: Path, progress: RunProgress, before: int) -> None:
        self._folder, self._progress, self._before = folder, progress, before
        self._simulated = all(cell.config.simulated for cell in progress.plan.cells)
        self._began = self._started = time.monotonic()
        self._cost_s, self._waited_s = _FIRST_COST_S, 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self.is_made = False

    def renew(self) -> None:
        """Called when a run has been stored, and the next one has not begun."""
        now = time.monotonic()
        if self._process is not None and (self._process.poll() is not None or now > self._started + _LONGEST_S):
            self.end(1)
        if self._process is not None or now < self._started + EVERY_S or not self._progress.waiting:
            return
        beside = self._simulated and self._progress.at_once < host.usable_cpus()
        if not beside and self._waited_s + self._cost_s > LARGEST_SHARE * (now - self._began):
            return
        progress = self._progress
        at = f"Running now: {progress.waiting}" if progress.at_once == 1 else f"{progress.at_once} at a time"
        of = f"{self._before + progress.done} of {self._before + progress.total} runs are stored"
        self._start(f"Running: {of}; {progress.time_left()}. {at}.", EVERY_S, *(["beside"] if beside else []))
        if not beside:
            self.end(_LONGEST_S)
            self._waited_s += self._cost_s

    def stopped(self, *, again: bool) -> None:
        """Says in the page that the runs stopped; `again`: makes the page of what is stored, and names it. Another
        Ctrl-C leaves that out.
        """
        progress, page = self._progress, self._folder / "report.html"
        stored = self._before + progress.done
        text = f"Stopped at run {stored} of {self._before + progress.total}. Run the spec again to continue."
        if page.is_file():
            with contextlib.suppress(OSError):
                said = _SAID.sub(f'0">{text} ', page.read_text("utf-8"), count=1)
                write_whole(page, [said.encode()], within=self._folder)
        if not again or not stored:
            return
        screen.say("making the report of what is stored; Ctrl-C leaves it out")
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            self._start(text, 0)
            self.end(_LONGEST_S)
        signal.signal(signal.SIGINT, before)
        if self.is_made:
            screen.say(f"report so far: {page}")

    def _start(self, text: str, reload_s: float, *how: str) -> None:
        """Starts to make the page, in a session of its own: Ctrl-C on the terminal is meant for the runs."""
        self._started, self.is_made = time.monotonic(), False
        with contextlib.suppress(OSError):  # no process or no memory is left: the next page may find some
            self._process = subprocess.Popen(
                [*PROGRAM, str(self._folder), text, f"{reload_s:g}", *how], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip

    def end(self, within_s: float) -> None:
        """Waits so long for the page that is being made, if there is one, then gives it up."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            try:
                said = process.communicate(timeout=within_s)[1].decode(errors="replace").strip()[-300:]
            except subprocess.TimeoutExpired:
                said = "it was given up"
            finally:
                process.kill()
        self._cost_s, self.is_made = time.monotonic() - self._started, process.returncode == 0
        told = f"renewed within {numbers.seconds(self._cost_s)}" if self.is_made else f"could not be made: {said}"
        logging.getLogger("storagelab").info("the page so far: %s", told)


def make(folder: Path, text: str, reload_s: float) -> None:
    from storagelab.findings.analysis import analyse  # here: a campaign's process needs none of it
    from storagelab.report import writing
    from storagelab.run import stored

    of = stored.read(folder.name, folder.parent)
    how = writing.How(so_far=writing.SoFar(text, round(reload_s)))
    writing.write_report(*of, analyse(of.experiment, of.plan, of.runs), how=how)


def give_way() -> None:
    """Lets this process have only what no other wants of CPUs and drives."""
    os.nice(19)
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):
        # Where sessions are groups, each has a share of its own, whatever the priority of its processes.
        Path("/proc/self/autogroup").write_text("19")


if __name__ == "__main__":
    if sys.argv[4:] == ["beside"]:
        give_way()
    make(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
