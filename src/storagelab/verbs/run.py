"""`storagelab run`."""

from __future__ import annotations

import contextlib
from pathlib import Path

from storagelab import screen
from storagelab.errors import PreflightError
from storagelab.machine import host
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.run import dealing, loop, stored
from storagelab.run.progress import LOG_FILE, RunProgress
from storagelab.run.store import FILE_NAME, NothingStored, Store, StoreChanged
from storagelab.spec import matrix, reading
from storagelab.stopping import Interruptible
from storagelab.targets import Preflight, Site, sweep, try_starting
from storagelab.verbs.planning import look_at, site_of


def run(spec_file: Path, results: Path, *, again: bool, jobs: int | None, allow_commands: bool) -> bool:
    """Whether no run has failed."""
    experiment = reading.load(spec_file)
    expanded = matrix.expand(experiment)
    folder = results / experiment.name
    site = site_of(experiment, folder)
    found = look_at(experiment, expanded, site, allow_commands)
    _try_starting(experiment, expanded, site, folder, again)
    try:
        with Store.writing(folder, experiment) as store:
            stored.of_plan(
                folder / FILE_NAME, expanded, store.runs()
            )  # a damaged store is refused before runs are made
            _run_pending(expanded, store, site, found, again, jobs or host.usable_cpus())
            runs = stored.of_plan(folder / FILE_NAME, expanded, store.runs())
            failed = any(status == "failed" for _, status in store.attempts().values())
    except StoreChanged as error:
        changes = reading.differences(error.stored.canonical, experiment.canonical)
        raise StoreChanged(error.file, error.stored, changes) from None
    conclude(experiment, expanded, runs, folder)
    return not failed


def _try_starting(experiment: Experiment, expanded: Plan, site: Site, folder: Path, again: bool) -> None:
    """Refuses a server that does not start before anything is stored, if there are runs to make."""
    attempts: dict[tuple[str, int], tuple[int, str]] = {}
    with contextlib.suppress(NothingStored), Store.reading(folder) as store:
        attempts = store.attempts() if store.experiment().sha256 == experiment.sha256 else {}
    if not dealing.pending(expanded, attempts, again=again):
        return
    with Interruptible() as stopping:
        try:
            try_starting(expanded, site)
        except PreflightError as error:
            stopping.check()  # a server that is stopped as it starts does not come up, either
            raise error.of(experiment.source) from error
        stopping.check()


def _run_pending(expanded: Plan, store: Store, site: Site, found: Preflight, again: bool, jobs: int) -> int:
    """Make the runs that are left, and return how many failed."""
    attempts = store.attempts()
    pending = dealing.pending(expanded, attempts, again=again)
    at_once = loop.processes(expanded, pending, found, jobs)
    console = screen.err()
    if store.set_aside is not None:
        console.print(
            f"the spec has changed and no run of the old one succeeded: those are kept in {store.set_aside}",
            soft_wrap=True,
        )
    for line in sweep(expanded, site):
        console.print(line, soft_wrap=True)
    with (
        Interruptible() as stopping,
        RunProgress(
            expanded, pending, store.durations(), console, store.folder, stopping.check, at_once=at_once
        ) as progress,
    ):
        before = len(expanded.runs) - len(pending)
        progress.say(f"{found.server}")
        progress.say(
            f"{len(pending)} runs to make, {before} stored already; log: {store.folder / LOG_FILE}"
            if before
            else f"{len(pending)} runs to make; log: {store.folder / LOG_FILE}"
        )
        if at_once < loop.processes(expanded, pending, None, jobs):
            progress.say(f"{at_once} at a time, not {jobs}: more would not fit into this machine's memory")
        try:
            loop.run_all(expanded, store, site, progress, again=again, jobs=at_once)
        except BaseException as error:
            # Whatever goes wrong once it was asked to stop comes of stopping amid something.
            if not (stopping.asked or isinstance(error, KeyboardInterrupt)):
                raise
            progress.say(
                f"interrupted: {before + progress.done} of {len(expanded.runs)} runs are stored; run again to go on"
            )
            raise KeyboardInterrupt from error
        return progress.failed


def conclude(experiment: Experiment, expanded: Plan, runs: tuple[Run, ...], folder: Path) -> None:
    """Print the findings, and write the report."""
    # Statistics and charts take as long to load as all else, and are not wanted while runs are made.
    from storagelab.findings.analysis import analyse
    from storagelab.report import writing
    from storagelab.report.text import terminal

    findings = analyse(experiment, expanded, runs)
    terminal.print_findings(screen.out(), findings)
    file = writing.write_report(folder, experiment, expanded, runs, findings)
    screen.say(f"report: {file}")
