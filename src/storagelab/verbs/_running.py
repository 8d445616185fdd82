"""Makes the runs of an experiment, and prints the answer."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from storagelab import screen
from storagelab.errors import DataRefused, PreflightError, SpecError, refuse
from storagelab.machine import host
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan, Race
from storagelab.model.target import ClaimedDrive, Preflight
from storagelab.model.values import share_of
from storagelab.run import loop, scheduling, stored
from storagelab.run.engine import sweep, try_starting
from storagelab.run.progress import LOG_FILE, RunProgress
from storagelab.run.store import FILE_NAME, NothingStored, Store
from storagelab.spec import given_files, matrix, reading
from storagelab.spec.units import parse_seconds
from storagelab.stopping import Interruptible
from storagelab.verbs import _planning as planning
from storagelab.verbs import _so_far as so_far
from storagelab.verbs import amount
from storagelab.volumes.folders import Site, volumes_locked
from storagelab.volumes.for_runs import PreparationAwaited
from storagelab.volumes.for_runs import confirm as confirm_drives
from storagelab.words.names import listed

if TYPE_CHECKING:
    from storagelab.findings.raced import RaceState

# --- the person who prepares volumes ------------------------------------------------------------------------
# Waits until a person has prepared volumes. At a terminal, storagelab asks the person. Otherwise it ends, and the
# person confirms with the next call.

_YES = ("yes", "y", "done")


class Hands:
    """The person who prepares volumes. `said` has the volumes that the option `--prepared` names. The option counts
    once, for the block for which the previous call of storagelab waited.
    """

    def __init__(self, experiment: Experiment, said: tuple[str, ...]) -> None:
        self._source, self._said = experiment.source, said

    def wait(self, waits: PreparationAwaited, *, made: int, blocks: int) -> None:
        """Returns when the volumes are prepared and checked. Without a terminal, raises PreparationAwaited with
        instructions, and the next call of storagelab continues. `made` is the number of runs that this call has made
        since it last waited.
        """
        said, self._said = self._said, ()
        if said and not made:
            if set(said) != set(waits.names):
                raise PreflightError(
                    f"--prepared names {listed(list(said))}, and the next block needs {listed(waits.names)}",
                    file=self._source,
                    hint="name each of these, once it is prepared",
                )  # fmt: skip
            self._confirm(waits)
            return
        screen.say(f"block {waits.block + 1} of {blocks}: {'; '.join(waits.asked)}")
        if not sys.stdin.isatty():
            raise self._ended(waits)
        while True:
            screen.say("Type yes when it is done. Ctrl-C ends this command, and the next one continues here.")
            answer = sys.stdin.readline()
            if not answer:
                raise self._ended(waits)
            if answer.strip().lower() not in _YES:
                continue
            try:
                self._confirm(waits)
            except PreflightError as error:
                screen.say(str(error))
                continue
            return

    def _confirm(self, waits: PreparationAwaited) -> None:
        try:
            waits.confirm()
        except PreflightError as error:
            raise error.at(self._source) from error

    def _ended(self, waits: PreparationAwaited) -> PreparationAwaited:
        options = " ".join(f"--prepared {name}" for name in waits.names)
        return waits.with_words(f"when it is done, with the same options: storagelab run {self._source} {options}")


def refuse_unconfirmed(drives: Sequence[ClaimedDrive], confirmed: Collection[str]) -> None:
    """Asks for the serial number of each drive whose content will be destroyed. Raises PreflightError unless each
    number was given on the command line or is typed now.
    """
    asked = [drive for drive in drives if drive.serial not in confirmed]
    if asked and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise PreflightError(
            "everything on these drives would be destroyed:" + "".join(f"\n    {drive.text}" for drive in asked),
            hint="confirm it: " + " ".join(f"--yes-wipe {drive.serial}" for drive in asked),
        )
    for drive in asked:
        screen.say(f"everything on this drive will be destroyed:\n  {drive.text}")
        screen.say("to continue, type its serial number:")
        if sys.stdin.readline().strip() != drive.serial:
            hint = "run again, and type it; or name another drive"
            raise PreflightError(f"{drive.serial} was not confirmed, so nothing was done", hint=hint)


# --- runs --------------------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """The options for making runs. `race` is None if all repetitions of all cells are to be made. `elsewhere` is None
    if all runs are to be made on this machine. `against` is a second spec, whose runs alternate with those of the
    first.
    """

    again: bool = False
    jobs: int | None = None
    allow_commands: bool = False
    race: Race | None = None
    budget_s: float | None = None
    elsewhere: loop.Elsewhere | None = None
    against: Path | None = None
    despite_space: bool = False
    as_json: bool = False
    full: bool = False
    may_wipe: tuple[str, ...] = ()
    """The serial numbers of drives whose content may be destroyed."""
    prepared: tuple[str, ...] = ()
    """The volumes that a person has prepared for the next block, as the option `--prepared` says."""


def run(spec_file: Path, results: Path, asked: Asked) -> bool:
    """Makes the runs. Returns whether all have succeeded."""
    wanted = reading.load(spec_file, asked.against).model_copy(update={"race": asked.race})
    if asked.race is not None and wanted.blocks > 1:
        raise SpecError(
            "leaves no rounds for a race: all blocks of a level are needed to compare it", file=wanted.source,
            key="blocks",
            hint="Leave --find-best out.",
        )  # fmt: skip
    experiment = stored.as_begun(wanted, results)
    plan, folder = matrix.expand(experiment), results / experiment.name
    site = planning.site_of(experiment, folder, despite_space=asked.despite_space)
    here = _Here(experiment, plan, folder, site, asked)
    here.racing(())  # refuses an invalid race before anything is changed
    if asked.elsewhere is not None and not loop.portable(plan):
        raise PreflightError(
            "only simulated runs can be made on a cluster", file=experiment.source, key="--executor",
            hint="leave --executor out; to measure on several hosts, run the spec on each, "
            "then use `storagelab gather`",
        )  # fmt: skip
    found = planning.look_at(experiment, plan, site, asked.allow_commands)
    refuse(found.lacks)
    hashed = planning.with_files(experiment, plan, site)
    for note in planning.same_content(hashed):
        screen.say(note)
    runs, all_well = here._replace(experiment=hashed).make(found)
    for changed in given_files.differences(hashed.files, planning.with_files(experiment, plan, site).files):
        screen.say(f"{changed} while runs were made, so this campaign mixes both versions: repeat it under a new name")
        all_well = False
    made = stored.Results(folder, experiment, stored.as_run(experiment, plan, runs), runs)
    conclude(made, as_json=asked.as_json, full=asked.full)
    if asked.against is not None:
        screen.say(f"as a gate: storagelab compare {experiment.name} --by {reading.SPEC_FACTOR} --fail-if-slower 5%")
    return all_well


class _Here(NamedTuple):
    """An experiment whose runs are made on this machine, or sent from it to a cluster."""

    experiment: Experiment
    plan: Plan
    folder: Path
    site: Site
    asked: Asked

    def racing(self, runs: Sequence[Run]) -> stored.Racing | None:
        """Returns the race that continues from these runs, or None if the experiment is not a race. Raises SpecError if
        the experiment can't be a race."""
        if self.experiment.race is None:
            return None
        return stored.Racing(self.experiment, runs, self.asked.budget_s)

    def make(self, found: Preflight) -> tuple[tuple[Run, ...], bool]:
        """Makes all runs of the experiment. Returns the runs, and whether all have succeeded. While storagelab waits
        for a person, neither the volumes nor the results are locked.
        """
        hands = Hands(self.experiment, self.asked.prepared)
        while True:
            before = self._stored_count()
            try:
                with self._ready(found), Store.writing(self.folder, self.experiment) as store:
                    race = self.racing(self._stored(store, 0))  # raises StoreError if the store is damaged
                    self._make_pending(store, found, race)
                    runs = self._stored(store, self.plan.in_detail)
                    failed = any(status == "failed" for _, status in store.attempts().values())
                return runs, not failed
            except PreparationAwaited as waits:
                hands.wait(waits, made=self._stored_count() - before, blocks=len(self.plan.blocks))

    def _stored_count(self) -> int:
        with contextlib.suppress(NothingStored), Store.reading(self.folder) as store:
            return len(store.attempts())
        return 0

    def _stored(self, store: Store, in_detail: float) -> tuple[Run, ...]:
        return stored.of_plan(self.folder / FILE_NAME, self.plan, store.runs(in_detail=in_detail))

    @contextlib.contextmanager
    def _ready(self, found: Preflight) -> Iterator[None]:
        """If there are runs to make, locks the volumes, and refuses a server that does not start. At this time, nothing
        is stored yet."""
        if not self._pending():
            yield
            return
        refuse_unconfirmed(found.drives, self.asked.may_wipe)
        with contextlib.ExitStack() as volumes:
            with Interruptible() as stopping:
                try:
                    volumes.enter_context(volumes_locked(self.plan, self.site))
                    for line in sweep(self.plan, self.site):  # remains of a killed run would disturb later steps
                        screen.err().print(line, soft_wrap=True)
                    if found.drives:
                        confirm_drives(self.plan, self.site)
                    with planning.saying_how_far() as tell:
                        try_starting(self.plan, self.site, tell)
                except PreflightError as error:
                    stopping.check()  # the user's request to stop may have caused the error
                    raise error.at(self.experiment.source) from error
                stopping.check()
            yield

    def _pending(self) -> bool:
        """Whether there are runs to make. Raises StoreError if they must not be added to the stored runs."""
        attempts: dict[tuple[str, int], tuple[int, str]] = {}
        plan = self.plan
        with contextlib.suppress(NothingStored), Store.reading(self.folder) as store:
            if not store.would_be_set_aside(self.experiment):
                store.refuse_another(self.experiment)
                attempts = store.attempts()
                race = self.racing(self._stored(store, 0)) if self.asked.race is not None else None
                plan = plan if race is None else race.state.plan
        return bool(scheduling.pending(plan, attempts, again=self.asked.again))

    def _make_pending(self, store: Store, found: Preflight, race: stored.Racing | None) -> None:
        """Makes the remaining runs. In a race, makes as many rounds as the race needs."""
        again, elsewhere, jobs = self.asked.again, self.asked.elsewhere, self.asked.jobs or host.usable_cpus()
        plan = self.plan if race is None else race.state.plan
        pending = scheduling.pending(plan, store.attempts(), again=again)
        before = len(plan.runs) - len(pending)
        if race is not None:
            pending = [*(failed for failed in pending if failed not in race.state.possible), *race.state.possible]
        at_once = loop.processes(self.plan, pending, found, jobs)
        console = screen.err()
        if store.set_aside is not None:
            why = "the spec has changed, and no run of the old one succeeded"
            console.print(f"{why}: its runs are kept in {store.set_aside}", soft_wrap=True)
        for line in sweep(self.plan, self.site):
            console.print(line, soft_wrap=True)
        with (
            Interruptible() as stopping,
            RunProgress(
                self.plan, pending, store.durations(), console, store.folder, stopping.check, at_once=at_once,
                at_most=race is not None,
            ) as progress,
        ):  # fmt: skip
            progress.say(f"{found.server}")
            most = "" if race is None else "at most "
            already = f", {before} stored already" if before else ""
            progress.say(f"{most}{len(pending)} runs to make{already}; log: {store.folder / LOG_FILE}")
            if race is not None:
                race.tell = partial(_tell_of_round, progress)
            cluster = elsewhere and elsewhere.executor(plan, at_once, store.durations(), progress.say)
            if cluster is not None:
                progress.workers = lambda: cluster.at_once
            if at_once < loop.processes(self.plan, pending, None, jobs):
                progress.say(f"{at_once} at a time, not {jobs}: more would not fit into this machine's memory")
            live = so_far.kept(store.folder, progress, before)
            with live, planning.saying_what_is_stored(stopping, progress, before, most):
                try:
                    loop.run_all(
                        plan, store, self.site, progress, again=again, jobs=at_once, rounds=race, elsewhere=cluster
                    )
                except DataRefused as error:
                    raise DataRefused(f"{self.experiment.source}: {error}") from error


def _tell_of_round(progress: RunProgress, state: RaceState) -> None:
    progress.left_to_make(state.possible)
    progress.say(race_text(state))


def conclude(of: stored.Results, *, as_json: bool = False, full: bool = False) -> None:
    """Prints the answer, and writes the report. If `full` is true, also prints the evidence. If `as_json` is true,
    prints the whole export instead.
    """
    # Imported here, because statistics and charts load slowly and are not needed while runs are made.
    from storagelab.findings.analysis import analyse
    from storagelab.report import writing
    from storagelab.report.sections.contents import document, opened
    from storagelab.report.text import terminal
    from storagelab.report.writing import own_names_only

    campaign = of.experiment, of.plan, of.runs
    findings = analyse(*campaign)
    if as_json:
        writing.deliver(writing.render("json", *campaign, findings), None)
    else:
        told = own_names_only(findings)
        terminal.print_document(screen.out(), document(*campaign, told) if full else opened(told))
    screen.say(f"report: {writing.write_report(*of, findings)}")


# --- the state of a race as text -------------------------------------------------------------------------------------


def race_text(state: RaceState) -> str:
    """Describes the state of the race after a round, in one line."""
    rounds = max((group.standing.rounds for group in state.groups), default=0)
    racing = sum(len(group.standing.racing) for group in state.groups)
    cells = sum(len(group.cells) for group in state.groups)
    running = sum(len(group.standing.running) for group in state.groups)
    if state.possible:
        next_up = f"{running} run again" if running < racing else "all of them run again"
    elif state.short:
        next_up = "the budget has no room for another round"
    elif running:
        next_up = "no more rounds"
    else:
        next_up = "the race is decided"
    return f"after round {rounds}, {racing} of {cells} layouts may still be the fastest; {next_up}"


# --- the options of `storagelab run` for a cluster and for a race -----------------------------------------------------


def asked(executor: str, scheduler: str | None, *, trusted: bool, time_limit: str | None) -> loop.Elsewhere | None:
    """Returns the cluster that the options name, or None for processes on this machine. Raises SpecError."""
    if executor == "dask":
        hint = "Such as 90s or 10min."
        limit_s = None if time_limit is None else amount(parse_seconds, time_limit, "--time-limit", hint)
        return loop.Elsewhere(scheduler, trusted, limit_s)
    return None


def race(*, find_best: bool, within: str | None, budget: str | None) -> tuple[Race | None, float | None]:
    """Returns the race that the options request, and its budget in seconds. Raises SpecError."""
    if not find_best:
        return None, None
    margin = 0.0 if within is None else share_of(within)
    if margin is None or not (0 < margin < 1 or within is None):
        raise SpecError(f"{within!r} is no margin", key="--within", hint="Write a percentage above 0, such as 3%.")
    budget_s = None if budget is None else amount(parse_seconds, budget, "--budget", "Such as 90min or 2h.")
    return Race(within=margin), budget_s
