"""Progress of a long run: a live bar on a terminal, plain lines where output is piped, every line in the log file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from storagelab.estimate import estimate
from storagelab.model import Cell, Plan, PlannedRun, Run
from storagelab.report import wording

LOG_FILE = "run.log"


class RunProgress:
    """A context manager that shows runs as they happen. Implements `runner.Listener`."""

    def __init__(
        self,
        plan: Plan,
        pending: Sequence[PlannedRun],
        finished: Sequence[tuple[str, float]],
        console: Console,
        folder: Path,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`finished` holds (cell_id, wall seconds) of stored runs, which the first ETA is learned from.

        `check` is called at everything that happens; it may raise KeyboardInterrupt to stop the runs.
        """
        self._check = check
        self.plan, self._left, self._finished = plan, list(pending), list(finished)
        self.total = len(pending)
        self.console = console
        self.failed = 0
        self._log = _logger(folder / LOG_FILE)
        self._rows_total = 1
        self._now = ""
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),  # a level may hold brackets
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}  {task.fields[eta]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None

    # --- context -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._bar.start()
        self._task = self._bar.add_task("", total=float(self.total), count="", eta="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()
        if kind is not None:
            self.say(f"stopped ({kind.__name__}) with {self.done} of {self.total} runs made", shown=False)
        for handler in list(self._log.handlers):
            handler.close()
            self._log.removeHandler(handler)

    @property
    def done(self) -> int:
        return self.total - len(self._left)

    # --- Listener ----------------------------------------------------------------------------------------------------

    def started(self, planned: PlannedRun, cell: Cell) -> None:
        self._rows_total = cell.config.workload.rows
        self._now = f"{wording.level_text(cell.levels) or cell.cell_id}, repetition {planned.repetition}"
        self._log.info("start %s (%s)", self._now, planned.cell_id)
        self._show(0)
        self._check()

    def rows_done(self, rows: int) -> None:
        self._show(rows)
        self._check()

    def stored(self, run: Run) -> None:
        self._left = self._left[1:]
        if run.status == "failed":
            self.failed += 1
        else:
            self._finished.append((run.cell_id, run.wall_s))
        left = "" if not self._left else f"; {self._eta_text()} left"
        width = len(str(self.total))
        self.say(f"[{self.done:{width}d}/{self.total}] {self._now}: {result_text(run)}{left}")
        self._show(0)

    # --- showing -----------------------------------------------------------------------------------------------------

    def say(self, line: str, *, shown: bool = True) -> None:
        """One line, on the console and in the log."""
        self._log.info("%s", line)
        if shown:
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _show(self, rows: int) -> None:
        if self._task is None or not self.console.is_terminal:
            return
        share = min(1.0, rows / self._rows_total)
        self._bar.update(
            self._task,
            completed=self.done + share,
            description=self._now,
            count=f"{self.done}/{self.total} runs",
            eta=f"{self._eta_text(share)} left",
        )

    def _eta_text(self, share_of_current: float = 0.0) -> str:
        left_s = estimate(self.plan, self._left, self._finished).seconds
        if self._left:
            left_s -= share_of_current * estimate(self.plan, self._left[:1], self._finished).seconds
        return wording.duration(max(0.0, left_s))


def result_text(run: Run) -> str:
    """One run's outcome in a line."""
    reason = next(iter(run.reason.splitlines()), "no reason given")
    if run.measurement is None:
        return f"FAILED: {reason}"
    measured = run.measurement
    text = f"{wording.seconds(measured.elapsed_s)}, {wording.rows_per_s(measured.rows / measured.elapsed_s)}"
    return text if run.status == "ok" else f"{text}, UNVERIFIED: {reason}"


def _logger(file: Path) -> logging.Logger:
    logger = logging.getLogger("storagelab")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    handler = logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(handler)
    return logger
