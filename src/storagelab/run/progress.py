"""Shows the progress of a long campaign: a live bar on a terminal, or plain lines if the output goes elsewhere. The log
file gets every line."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from storagelab.errors import escaped
from storagelab.machine.descriptors import open_to_append
from storagelab.model.measurement import Run
from storagelab.model.plan import Cell, Plan, PlannedRun
from storagelab.model.values import JsonValue
from storagelab.run.estimate import learned
from storagelab.words.names import level_text, repetition_text
from storagelab.words.numbers import duration, rate, seconds, significant

LOG_FILE = "run.log"
_RATE_OF = 500
"""The rate of runs is computed from the last runs that were stored. At most this many count."""
_QUICKLY_S, _RARELY = 0.005, 20


class RunProgress:
    """A context manager that shows the progress of runs."""

    def __init__(
        self,
        plan: Plan,
        pending: Sequence[PlannedRun],
        finished: Sequence[tuple[str, float]],
        console: Console,
        folder: Path,
        check: Callable[[], None] = lambda: None,
        *,
        at_once: int = 1,
        at_most: bool = False,
    ) -> None:
        """Begins to show the runs. `finished` holds (cell_id, wall seconds) of stored runs. The first estimate of the
        remaining time comes from them. `at_once` is the number of runs that are made at the same time. `at_most` says
        that some of the `pending` runs may turn out to be unnecessary.

        `check` is called at every event. It may raise KeyboardInterrupt to stop the runs.
        """
        self._check = check
        self.plan, self._finished = plan, list(finished)
        self._left = {(planned.cell_id, planned.repetition): planned for planned in pending}
        self.workers: Callable[[], int] | None = None
        """Returns the number of workers that a cluster has at present. The value is None without a cluster."""
        self.renew_page: Callable[[], None] | None = None
        """A function that is called when a run is stored, before the next one begins."""
        self._stored_at: deque[float] = deque(maxlen=_RATE_OF)
        self._eta, self._eta_until_s = "", 0.0
        self.total, self.at_once = len(pending), at_once
        self._most = "at most " if at_most else ""
        self._cells = plan.cells_by_id
        self.console = console
        self.failed = 0
        self._log = logging.getLogger("storagelab")
        self._log.setLevel(logging.INFO)
        self._log.propagate = False
        handler = _Log(folder / LOG_FILE, partial(console.print, soft_wrap=True))
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        self._log.addHandler(handler)
        self._shares: dict[tuple[str, int], float] = {}
        self._now = ""
        self._bar = Progress(
            TextColumn("{task.fields[eta]}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=10),
            TextColumn("{task.description}", markup=False,  # a level may contain brackets
                       table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
            console=console, transient=True, disable=not console.is_terminal, expand=True,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=float(self.total), eta="")

    # --- context -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._bar.stop()
        if kind is not None:
            self.say(f"stopped ({kind.__name__}) with {self.done} of {self.total} runs made", shown=False)
        for handler in list(self._log.handlers):
            with contextlib.suppress(OSError):
                handler.close()
            self._log.removeHandler(handler)

    @property
    def done(self) -> int:
        return self.total - len(self._left)

    @property
    def waiting(self) -> str:
        """The next run to make, as text. "" if there is none."""
        planned = min(self._left.values(), key=lambda planned: planned.sequence, default=None)
        return "" if planned is None else _run_text(self._cells[planned.cell_id].levels, planned)

    # --- events ----------------------------------------------------------------------------------------------------

    def started(self, planned: PlannedRun, cell: Cell) -> None:
        self._now = _run_text(cell.levels, planned)
        self._shares[planned.cell_id, planned.repetition] = 0.0
        self._log.info("start %s (%s)", escaped(self._now), planned.cell_id)
        self._show()
        self._check()

    def work_done(self, planned: PlannedRun, amount: int) -> None:
        """Notes how much work the current run has done, in the unit of its load."""
        which = planned.cell_id, planned.repetition
        if which in self._shares:  # other runs are stored already: they are repeated only to restore the drives' state
            self._shares[which] = min(1.0, amount / self._cells[planned.cell_id].config.workload.work.amount)
        self._show()
        self._check()

    def stored(self, run: Run) -> None:
        made = run.cell_id, run.repetition
        self._left.pop(made, None)
        self._stored_at.append(time.monotonic())
        self._shares.pop(made, None)
        if run.status == "failed":
            self.failed += 1
        else:
            self._finished.append((run.cell_id, run.wall_s))
        left = f"{self.time_left()}; " if self._left else ""
        width = len(str(self.total))
        self.say(f"[{self.done:{width}d}/{self.total}] {left}{_run_text(run.levels, run)}: {result_text(run)}")
        self._show()
        if self.renew_page is not None:
            self.renew_page()

    def left_to_make(self, runs: Sequence[PlannedRun]) -> None:
        """Notes that some of the remaining runs are not needed. At most `runs` are still to be made."""
        done = self.done
        self._left, self._eta_until_s = {(run.cell_id, run.repetition): run for run in runs}, 0.0
        self.total = done + len(runs)
        self._bar.update(self._task, total=float(self.total))

    # --- showing -----------------------------------------------------------------------------------------------------

    def say(self, line: str, *, shown: bool = True) -> None:
        """Writes one line to the log and, if `shown`, also to the console."""
        self._log.info("%s", escaped(line))
        if shown:
            self.console.print(line, soft_wrap=True)

    def _show(self) -> None:
        if not self.console.is_terminal:
            return
        self._bar.update(
            self._task,
            completed=self.done + sum(self._shares.values()),
            description=self._now,
            eta=f"{self.done}/{self.total} runs, {self.time_left()}",
        )

    def time_left(self) -> str:
        """Returns the remaining time in words. If no run has finished yet, the text says that it is a guess. For a
        cluster, the text also has the number of workers and the rate of runs. If the estimate takes long to compute, it
        is reused for a while.
        """
        began = time.monotonic()
        if began >= self._eta_until_s:
            self._eta = self._estimated()
            took_s = time.monotonic() - began
            self._eta_until_s = began + (_RARELY * took_s if took_s > _QUICKLY_S else 0.0)
        if self.workers is None:
            return f"{self._most}{self._eta}"
        passed_s = began - self._stored_at[0] if self._stored_at else 0.0
        speed = f", {significant(len(self._stored_at) / passed_s, 2)} runs/s" if passed_s > 0 else ""
        return f"{self._most}{self.workers()} workers{speed}, {self._eta}"

    def left_s(self) -> float:
        """Returns the estimated time of the remaining runs in seconds. Runs of one block are made one after the other,
        even if there are many processes.
        """
        at_once = self.at_once if self.workers is None else max(1, self.workers())
        seconds_of = learned(self.plan, self._finished)
        left_s = defaultdict[int, float](float)
        for which, planned in self._left.items():
            left_s[planned.block] += (1.0 - self._shares.get(which, 0.0)) * seconds_of(planned)
        return max(sum(left_s.values()) / at_once, *left_s.values(), 0.0)

    def _estimated(self) -> str:
        left = f"{duration(self.left_s())} left"
        return left if self._finished else f"{left}, a guess"


def _run_text(levels: Mapping[str, JsonValue], run: PlannedRun | Run) -> str:
    return f"{level_text(levels) or run.cell_id}, {repetition_text(run.repetition)}"


def result_text(run: Run) -> str:
    """Returns the outcome of one run in one line."""
    reason = next(iter(run.reason.splitlines()), "no reason given")
    if run.measurement is None:
        return f"FAILED: {reason}"
    measured = run.measurement
    speed = rate(measured.work_per_s, measured.work.unit) or "no time"
    text = f"{seconds(measured.elapsed_s)}, {speed}"
    return text if run.status == "ok" else f"{text}, UNVERIFIED: {reason}"


class _Log(logging.FileHandler):
    """The log file. If it can't be written, one line says so, and the runs continue without a log."""

    def __init__(self, file: Path, tell: Callable[[str], None]) -> None:
        super().__init__(file, encoding="utf-8", errors="backslashreplace", delay=True)
        self._tell, self._has_failed, self._folder = tell, False, file.parent

    def _open(self) -> TextIOWrapper:
        file = open_to_append(Path(self.baseFilename), within=self._folder)
        return TextIOWrapper(file, encoding=self.encoding, errors=self.errors)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # opening the file failed
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        if not self._has_failed:
            self._has_failed = True
            self._tell(f"{self.baseFilename} can't be written ({sys.exc_info()[1]}): the runs go on without it")
