"""`storagelab run`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from storagelab import screen
from storagelab.errors import PreflightError
from storagelab.machine import host
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan, Race
from storagelab.report.words.race import course_text
from storagelab.run import dealing, loop, stored
from storagelab.run.progress import LOG_FILE, RunProgress
from storagelab.run.store import FILE_NAME, NothingStored, Store
from storagelab.spec import matrix, reading
from storagelab.stopping import Interruptible
from storagelab.targets import Preflight, Site, sweep, try_starting, volumes_locked
from storagelab.verbs import fleet
from storagelab.verbs.elsewhere import Elsewhere
from storagelab.verbs.planning import look_at, saying_how_far, site_of
from storagelab.verbs.storing import saying_what_is_stored, tell_if_set_aside, writing

if TYPE_CHECKING:
    from storagelab.findings.raced import RaceState
    from storagelab.run.race import Racing


def run(
    spec_file: Path,
    results: Path,
    *,
    again: bool,
    jobs: int | None,
    allow_commands: bool,
    race: Race | None = None,
    budget_s: float | None = None,
    elsewhere: Elsewhere | None = None,
) -> bool:
    """Whether no run has failed. `race` is None for all repetitions of all cells, `elsewhere` for this machine alone."""
    experiment = reading.load(spec_file).model_copy(update={"race": race})
    if race is not None:
        _racing(experiment, (), budget_s)  # refused before anything is touched
    expanded = matrix.expand(experiment)
    folder = results / experiment.name
    if (hosts := fleet.asked(experiment, expanded, elsewhere)) is not None:
        runs, all_well = fleet.make(experiment, expanded, folder, hosts, again=again, allow_commands=allow_commands)
        conclude(experiment, expanded, runs, folder)
        return all_well
    found = look_at(experiment, expanded, site_of(experiment, folder), allow_commands)
    racing = None if race is None else partial(_racing, experiment, budget_s=budget_s)
    runs, all_well = _make(
        experiment, expanded, found, folder, racing, again=again, jobs=jobs or host.usable_cpus(), elsewhere=elsewhere
    )
    conclude(experiment, stored.as_run(experiment, expanded, runs), runs, folder)
    return all_well


def _make(
    experiment: Experiment,
    expanded: Plan,
    found: Preflight,
    folder: Path,
    racing: Callable[[Sequence[Run]], Racing] | None,
    *,
    again: bool,
    jobs: int,
    elsewhere: Elsewhere | None,
) -> tuple[tuple[Run, ...], bool]:
    """All runs of the experiment, and whether none has failed."""
    site = site_of(experiment, folder)
    with _ready(experiment, expanded, site, folder, racing, again), writing(folder, experiment) as store:
        before = stored.of_plan(folder / FILE_NAME, expanded, store.runs(in_detail=0))  # or the store is damaged
        rounds = None if racing is None else racing(before)
        del before
        _run_pending(expanded, rounds, store, site, found, again, jobs, elsewhere)
        runs = stored.of_plan(folder / FILE_NAME, expanded, store.runs(in_detail=expanded.in_detail))
        failed = any(status == "failed" for _, status in store.attempts().values())
    return runs, not failed


def _racing(experiment: Experiment, runs: Sequence[Run], budget_s: float | None) -> Racing:
    from storagelab.run.race import Racing  # statistics take long to load, and most experiments are no race

    return Racing(experiment, runs, budget_s)


@contextlib.contextmanager
def _ready(
    experiment: Experiment,
    expanded: Plan,
    site: Site,
    folder: Path,
    racing: Callable[[Sequence[Run]], Racing] | None,
    again: bool,
) -> Iterator[None]:
    """If there are runs to make: holds the volumes, and refuses a server that does not start before anything is stored."""
    attempts: dict[tuple[str, int], tuple[int, str]] = {}
    plan = expanded
    with contextlib.suppress(NothingStored), Store.reading(folder) as store:
        if store.experiment().sha256 == experiment.sha256:
            attempts = store.attempts()
            if racing is not None:
                plan = racing(stored.of_plan(folder / FILE_NAME, expanded, store.runs())).course.plan
    if not dealing.pending(plan, attempts, again=again):
        yield
        return
    with contextlib.ExitStack() as volumes:
        with Interruptible() as stopping:
            try:
                volumes.enter_context(volumes_locked(expanded, site))
                with saying_how_far() as tell:
                    try_starting(expanded, site, tell)
            except PreflightError as error:
                stopping.check()  # a server that is stopped as it starts does not come up, either
                raise error.of(experiment.source) from error
            stopping.check()
        yield


def _run_pending(
    expanded: Plan,
    rounds: Racing | None,
    store: Store,
    site: Site,
    found: Preflight,
    again: bool,
    jobs: int,
    elsewhere: Elsewhere | None,
) -> int:
    """Make the runs that are left, of a race as many `rounds` as it takes; how many failed."""
    plan = expanded if rounds is None else rounds.course.plan
    pending = dealing.pending(plan, store.attempts(), again=again)
    before = len(plan.runs) - len(pending)
    if rounds is not None:
        failed_before = [planned for planned in pending if planned not in rounds.course.possible]
        pending = [*failed_before, *rounds.course.possible]
    at_once = loop.processes(expanded, pending, found, jobs)
    console = screen.err()
    tell_if_set_aside(store, console)
    for line in sweep(expanded, site):
        console.print(line, soft_wrap=True)
    with (
        Interruptible() as stopping,
        RunProgress(
            expanded, pending, store.durations(), console, store.folder, stopping.check, at_once=at_once,
            at_most=rounds is not None,
        ) as progress,
    ):  # fmt: skip
        progress.say(f"{found.server}")
        most = "" if rounds is None else "at most "
        already = f", {before} stored already" if before else ""
        progress.say(f"{most}{len(pending)} runs to make{already}; log: {store.folder / LOG_FILE}")
        if rounds is not None:
            rounds.tell = partial(_tell_of_round, progress)
        cluster = elsewhere and elsewhere.executor(plan, at_once, store.durations(), progress.say)
        if cluster is not None:
            progress.workers = lambda: cluster.at_once
        if at_once < loop.processes(expanded, pending, None, jobs):
            progress.say(f"{at_once} at a time, not {jobs}: more would not fit into this machine's memory")
        with saying_what_is_stored(stopping, progress, before, most):
            loop.run_all(plan, store, site, progress, again=again, jobs=at_once, rounds=rounds, elsewhere=cluster)
        return progress.failed


def _tell_of_round(progress: RunProgress, course: RaceState) -> None:
    progress.left_to_make(course.possible)
    progress.say(course_text(course))


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
