"""The page of a campaign that is still running. A separate process makes the page before the first run, and renews it
at most once a minute. Between two renewals, only the text about the campaign's progress is renewed.

That process works beside the runs only if they are simulated, because then their results do not depend on this machine.
It then has a low priority. During a measured run, it would take CPU time, caches and the drive from the server, even if
a CPU is free. So in a measured campaign, and in a simulated one that uses all CPUs, it works between two runs, and the
next run waits for it. All these waits together take at most a fiftieth of the campaign's planned time. So the first
page comes soon, and each later page when the earlier ones are at most a fiftieth of the time so far. Before that, a
simulated campaign that uses all CPUs has the page made beside its runs.

python -m storagelab.verbs._so_far FOLDER TEXT [beside] makes the page once, in a separate process"""

from __future__ import annotations

import contextlib
import html
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from storagelab.machine import host
from storagelab.machine.descriptors import write_whole
from storagelab.run.progress import RunProgress
from storagelab.words import numbers

PROGRAM = [sys.executable, "-P", "-m", __name__]
EVERY_S, TOLD_EVERY_S = 60.0, 15.0
"""The least seconds between two pages, and between two renewals of a page's text. The page reloads itself as often."""
LARGEST_SHARE = 0.02
_EMPTY_COST_S, _FIRST_COST_S = 1.5, 3.0
"""The assumed times, in seconds, to make a page without runs, and the first page with runs."""
_WITH_RUNS = 2.0
"""The first page with runs is assumed to take this many times as long as the page without runs took."""
_FIRST_AFTER_S = 15.0
"""The seconds from a page without runs to the first page with runs."""
_LONGEST_S = 300.0
"""If runs have waited for a page for longer than this (in seconds) or than `LARGEST_SHARE` allows, its making
is stopped."""
_AT_STOP_S = 20.0
"""The longest time, in seconds, for which an interrupted campaign waits for a page before it ends."""
GIVES_WAY = 5
"""The niceness of the process that makes a page beside simulated runs. If all CPUs are busy, it gets a quarter of one.
So a page takes 10 to 20 s. With niceness 19, a page would take minutes."""
_SHOWN = re.compile(r'id="so-far"[^<]*This page shows (\d+) of ')
_SAID = re.compile(r'(?<=id="so-far" data-reload-s=")\d+">[^<]*(?=This page shows )')
"""Matches two things in the page: the seconds until it reloads itself, and the text about the campaign's progress. The
text about the stored runs follows it."""


@contextlib.contextmanager
def kept(folder: Path, progress: RunProgress, before: int) -> Iterator[None]:
    """Keeps the page up to date while runs are made. If there is a page of earlier runs, it says at once that the runs
    continue. Otherwise a page without runs is made at once. If the runs stop before the last one, the page says so.
    """
    page = SoFar(folder, progress, before)
    page.says(page.progress_text(), TOLD_EVERY_S)
    page.first()
    progress.renew_page = page.renew
    try:
        yield
    except BaseException:
        page.end(0)
        page.stopped()
        raise
    finally:
        page.end(0)


class SoFar:
    """Renews the page of a campaign whose store is in `folder`. `before` is the number of runs that were stored before
    this call of storagelab.
    """

    def __init__(self, folder: Path, progress: RunProgress, before: int) -> None:
        self._folder, self._progress, self._before = folder, progress, before
        self._page = folder / "report.html"
        self._simulated = all(cell.config.simulated for cell in progress.plan.cells)
        self._began = self._started = self._told = time.monotonic()
        self._cost_s, self._waited_s = _FIRST_COST_S, 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self.is_made = self._told_late = self._has_runs = False

    def first(self) -> None:
        """Makes the page before the first run, if there is no page and the runs will take long."""
        if not self._page.exists() and LARGEST_SHARE * self._progress.left_s() >= _EMPTY_COST_S:
            self._make(_AT_STOP_S)
            self._has_runs, self._cost_s = False, _WITH_RUNS * self._cost_s
            self._started -= EVERY_S - _FIRST_AFTER_S
            self._progress.say(f"the page of the runs so far, which is renewed: {self._page}")

    def renew(self) -> None:
        """Renews the page if it is time. Called when a run has been stored and the next one has not begun."""
        now = time.monotonic()
        if self._process is not None and self._process.poll() is not None:
            self.end(1)
            self._told = -TOLD_EVERY_S  # the page has the text of the time when its making began
        if not self._progress.waiting:
            return
        if now >= self._told + TOLD_EVERY_S:
            self._told = now
            self.says(self.progress_text(), TOLD_EVERY_S)
        if now < self._started + EVERY_S:
            return
        early_s = self._early_s(now)
        if self._process is not None:
            self._late("is still being made")
        elif early_s <= 0 or self._simulated:
            self._make(min(_LONGEST_S, self._allowed_s(now)), wait=early_s <= 0)
        elif early_s < self._progress.left_s():
            share = numbers.percent(LARGEST_SHARE)
            self._late(f"comes in {numbers.duration(early_s)}, because pages take at most {share} of the time")

    def _allowed_s(self, now: float) -> float:
        """Returns for how many more seconds all runs together may wait for pages."""
        return LARGEST_SHARE * (now - self._began + self._progress.left_s()) - self._waited_s

    def _early_s(self, now: float) -> float:
        """Returns the seconds until runs may wait for the next page; infinite if there is no time for it."""
        if self._cost_s > self._allowed_s(now):
            return math.inf
        return self._waited_s / LARGEST_SHARE - (now - self._began) if self._has_runs else 0.0

    def progress_text(self) -> str:
        """Returns how far the runs are, with the time of day, and the next run if runs are made one after the other."""
        progress = self._progress
        made = f"{self._before + progress.done} of {self._before + progress.total} runs made"
        at = f"{progress.at_once} at a time" if progress.at_once > 1 else f"Next: {progress.waiting}"
        return f"Running, as of {time.strftime('%H:%M:%S')}: {made}, {progress.time_left()}. {at}."

    def _make(self, within_s: float, *, wait: bool = True) -> None:
        """Makes the page. If `wait`, the runs wait for it, for at most `within_s` seconds, unless a CPU is free beside
        simulated runs.
        """
        beside = not wait or (self._simulated and self._progress.at_once < host.usable_cpus())
        self._start(self.progress_text(), *(["beside"] if beside else []))
        self._has_runs = True
        if not beside:
            self.end(within_s)
            self._waited_s += self._cost_s

    def _late(self, when: str) -> None:
        """Reports that a page is late. Reports this only once for each page."""
        if not self._told_late:
            which = "the page so far: the next one" if self._page.exists() else "no page yet: the first one"
            self._progress.say(f"{which} {when}")
        self._told_late = True

    def stopped(self) -> None:
        """Reports in the page, in the log and on the terminal that the runs stopped. If there is no page with runs,
        makes one, unless this would take too long.
        """
        progress, stored = self._progress, self._before + self._progress.done
        if is_new := bool(stored) and self._is_behind(stored):
            self._start("Stopped.")
            self.end(_AT_STOP_S)
        verb = f"storagelab report {self._folder} makes the report of what is stored"
        left = numbers.plural(progress.total - progress.done, "run is", "runs are")
        of = f"Stopped at run {stored} of {self._before + progress.total}: {left} still to make"
        self.says(f"{of}. Run the spec again to continue; {verb}.", 0)
        if stored:
            progress.say(f"report: {self._page}" if is_new and self.is_made else verb)

    def _is_behind(self, stored: int) -> bool:
        """Whether there is no page, or one of an unfinished campaign with fewer than the `stored` runs."""
        with contextlib.suppress(OSError):
            shown = _SHOWN.search(self._page.read_text("utf-8"))
            return shown is not None and int(shown[1]) < stored
        return True

    def says(self, text: str, reload_s: float) -> None:
        """Replaces the text about the campaign's progress in the page. Does nothing if there is no page, or if the page
        is that of a finished campaign.
        """
        with contextlib.suppress(OSError):
            page = self._page.read_text("utf-8")
            said = _SAID.sub(lambda _: f'{reload_s:g}">{html.escape(text)} ', page, count=1)
            write_whole(self._page, [said.encode()], within=self._folder)

    def _start(self, text: str, *how: str) -> None:
        """Starts a process that makes the page. It has its own session, because Ctrl-C on the terminal is meant for the
        runs.
        """
        self._started, self.is_made, self._told_late = time.monotonic(), False, False
        with contextlib.suppress(OSError):  # no process or no memory is available; the next attempt may succeed
            self._process = subprocess.Popen(
                [*PROGRAM, str(self._folder), text, *how], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip

    def end(self, within_s: float) -> None:
        """Waits at most `within_s` seconds for a page that is being made. After that, stops making it, and reports
        this, unless `within_s` is 0, because then the page is no longer wanted.
        """
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            try:
                said = process.communicate(timeout=within_s)[1].decode(errors="replace").strip()[-300:]
            except subprocess.TimeoutExpired:
                said = f"it took more than {numbers.seconds(within_s)}" if within_s else "the runs ended before it"
            finally:
                process.kill()
        self._cost_s, self.is_made = time.monotonic() - self._started, process.returncode == 0
        told = f"renewed within {numbers.seconds(self._cost_s)}" if self.is_made else f"could not be made: {said}"
        self._progress.say(
            f"the page so far: {told}", shown=bool(within_s and self._progress.waiting and not self.is_made)
        )


def make(folder: Path, text: str) -> None:
    from storagelab.findings.analysis import analyse  # here, because the campaign's own process does not need it
    from storagelab.report import writing
    from storagelab.run import stored

    of = stored.read(folder.name, folder.parent)
    findings = analyse(of.experiment, of.plan, of.runs)
    writing.write_report(*of, findings, how=writing.How(so_far=writing.SoFar(text, round(TOLD_EVERY_S))))


def give_way() -> None:
    """Gives this process a low weight, so that other processes get most of the CPUs and drives."""
    os.nice(GIVES_WAY)
    with contextlib.suppress(OSError):
        # If the kernel groups processes by session, each group gets its share of the CPU, whatever the priority of its
        # processes.
        Path("/proc/self/autogroup").write_text(str(GIVES_WAY))


if __name__ == "__main__":
    if sys.argv[3:] == ["beside"]:
        give_way()
    make(Path(sys.argv[1]), sys.argv[2])
