"""The first steps of every verb that takes a spec: they find the spec's folder on this machine, and check whether the
spec can run here. Also the messages of verbs that make runs."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from storagelab import screen
from storagelab.errors import PreflightError
from storagelab.model.plan import Experiment, Plan
from storagelab.model.target import Preflight, Tell
from storagelab.run.engine import survey
from storagelab.spec import given_files
from storagelab.volumes.folders import Site
from storagelab.words.names import listed
from storagelab.words.numbers import duration

if TYPE_CHECKING:
    from rich.live import Live

    from storagelab.run.progress import RunProgress
    from storagelab.stopping import Interruptible

_SILENT_S = 1.0
"""If checks take no longer than this many seconds, no progress is printed."""
_EVERY_S = 5.0
"""The time in seconds between two progress lines if stderr is not a terminal."""


def site_of(experiment: Experiment, folder: Path, *, despite_space: bool = False) -> Site:
    identity = hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:8]
    spec_folder = Path(os.path.realpath(experiment.source)).parent
    return Site(
        experiment=experiment.name, identity=identity, spec_folder=spec_folder, despite_space=despite_space,
        results=Path(os.path.realpath(folder)),
    )  # fmt: skip


def look_at(experiment: Experiment, expanded: Plan, site: Site, allow_commands: bool) -> Preflight:
    """Returns the results of all checks. Each of its `lacks` names the spec's file."""
    with saying_how_far() as tell:
        found = survey(expanded, site, allow_commands=allow_commands, tell=tell)
    return found.model_copy(update={"lacks": tuple(error.at(experiment.source) for error in found.lacks)})


def with_files(experiment: Experiment, expanded: Plan, site: Site) -> Experiment:
    """Returns the experiment with the hashes of the files that its spec names. Raises PreflightError if one of them
    can't be read.
    """
    files = given_files.named((cell.config for cell in expanded.cells), site.spec_folder)
    try:
        return experiment.model_copy(update={"files": given_files.hashes(files)})
    except OSError as error:
        problem = f"{error.filename} can't be read: {error.strerror}"
        raise PreflightError(problem, file=experiment.source, hint="check its rights") from error


def same_content(experiment: Experiment) -> Iterator[str]:
    """Yields a note if several files of one key have the same content. The hashes of the experiment show this."""
    alike = defaultdict[tuple[str, str], list[str]](list)
    for name, digest in experiment.files.items():
        key, _, file = name.partition(": ")
        alike[key, digest].append(file)
    if same := [listed(files) for files in alike.values() if len(files) > 1]:
        yield f"the same content under two names is no change: {'; '.join(same)}"


def guessed(expanded: Plan) -> str:
    found = any(cell.config.workload.warm_up_is_found for cell in expanded.cells)
    return "a guess before the first run" + ("; at most, as warm-ups end when throughput has settled" if found else "")


@contextlib.contextmanager
def saying_how_far() -> Iterator[Tell]:
    """Prints the progress of checks to stderr if they take more than a second. On a terminal, it changes one line.
    Elsewhere, it prints a new line from time to time.
    """
    shown = _Shown()
    try:
        yield shown.tell
    finally:
        shown.end()


class _Shown:
    """Shows the progress of the checks on stderr."""

    def __init__(self) -> None:
        self._what, self._began_s, self._next_s = "", 0.0, time.monotonic() + _SILENT_S
        self._console = screen.err()
        self._live: Live | None = None

    def tell(self, what: str, done: int, of: int) -> None:
        now_s = time.monotonic()
        if what != self._what or done == 0:
            self._what, self._began_s = what, now_s
        if now_s < self._next_s:
            return
        text = f"{what}: {done} of {of}"
        if done:
            left_s = (now_s - self._began_s) / done * (of - done)
            text += f", about {duration(left_s)} left" if left_s >= 1 else ", less than a second left"
        if not self._console.is_terminal:
            self._next_s = now_s + _EVERY_S
            screen.say(text)
        else:
            self._show(text)

    def _show(self, text: str) -> None:
        if self._live is None:
            from rich.live import Live

            # No thread redraws the line, because the checks start programs by fork.
            self._live = Live(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(text, refresh=True)

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()


# --- while runs are made ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def saying_what_is_stored(
    stopping: Interruptible, progress: RunProgress, before: int, most: str = ""
) -> Iterator[None]:
    """If the runs are interrupted, prints how many runs are stored. `before` is the number of runs that were stored
    earlier.
    """
    try:
        yield
    except BaseException as error:
        # After the user has asked to stop, any error is a consequence of this.
        if not (stopping.asked or isinstance(error, KeyboardInterrupt)):
            raise
        if not isinstance(error, KeyboardInterrupt):
            at = traceback.extract_tb(error.__traceback__)[-1]  # the error's text may hold a server's address
            logging.getLogger("storagelab").info("while it stopped: %s in %s", type(error).__name__, at.name)
        of = f" of {most}{before + progress.total} runs"
        progress.say(f"interrupted: {before + progress.done}{of} are stored; run again to continue")
        raise KeyboardInterrupt from error
