"""Reads an experiment's stored runs and its plan. If a store is damaged, reads the part that can still be read."""

from __future__ import annotations

import contextlib
import itertools
import math
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from storagelab.errors import SpecError, StoreError
from storagelab.findings.raced import ROUNDS_OF_A_BUDGET, RaceState, race_state
from storagelab.findings.times import TimedRun, timed
from storagelab.model.measurement import Run, host_of
from storagelab.model.plan import MOST_REPETITIONS, PREFERENCES, Experiment, Plan
from storagelab.run.store import FILE_NAME, Store, differences
from storagelab.run.store_file import damaged, reason_of
from storagelab.spec import matrix, reading


class Results(NamedTuple):
    folder: Path
    experiment: Experiment
    plan: Plan
    runs: tuple[Run, ...]


def read(name: str, results: Path, *, whole: bool = False) -> Results:
    """Reads the stored parts of an experiment. `name` is its name or its spec file. If there are very many runs, only
    some are read `in_detail`, unless `whole` is true. Raises StoreError, for example if the store is damaged.
    """
    folder, spec = _found(name, results)
    file = folder / FILE_NAME
    with Store.reading(folder) as store:
        experiment = _preferring(store.experiment()) if spec is None else judged_as_in(store.experiment(), spec)
        try:
            plan = _plan(experiment)
        except StoreError as error:
            raise damaged(file, [str(error)], len(store.runs())) from None
        fitting = of_plan(file, plan, store.runs(in_detail=math.inf if whole else plan.in_detail))
    return Results(folder, experiment, as_run(experiment, plan, fitting), fitting)


def salvage(name: str, results: Path) -> tuple[Results, list[str]]:
    """Reads the part of a damaged store that can still be read, and describes the rest. In other respects, it works
    like `read`.

    If the experiment can't be read, uses the stored text of the spec. If the stored text can't be read either, uses the
    file `name`. Raises StoreError if none of the three can be read.
    """
    folder, spec = _found(name, results)
    with Store.salvaging(folder) as store:
        experiment, plan, lost = _experiment(store, spec)
        runs, lost_runs = store.salvage()
    fitting, strange = _of_plan(plan, runs)
    return Results(folder, experiment, as_run(experiment, plan, fitting), fitting), [*lost, *lost_runs, *strange]


def as_begun(experiment: Experiment, results: Path) -> Experiment:
    """Returns the experiment of a spec with the order of its stored campaign. A campaign that an earlier version began
    keeps its order. This function ignores an unreadable store. The callers of this function report the store."""
    with contextlib.suppress(StoreError), Store.salvaging(results / experiment.name) as store:
        begun = store.experiment()
        if begun.sha256 == experiment.sha256:
            return experiment.model_copy(update={"balanced": begun.balanced})
    return experiment


def judged_as_in(experiment: Experiment, spec: Experiment) -> Experiment:
    """Returns the stored experiment with the keys for judging that the spec file has now. If the file describes other
    runs, returns the stored experiment unchanged.
    """
    if spec.sha256 != experiment.sha256:
        return experiment
    update = {"prefer": spec.prefer, "indifferent": spec.indifferent, "factors": spec.factors, "base": spec.base}
    return experiment.model_copy(update=update)


def _preferring(experiment: Experiment) -> Experiment:
    """Returns the stored experiment. If its spec sets no preferences, today's defaults replace those of the version
    that stored it."""
    with contextlib.suppress(tomllib.TOMLDecodeError):
        if experiment.text and "prefer" not in tomllib.loads(experiment.text):
            return experiment.model_copy(update={"prefer": PREFERENCES})
    return experiment


def _found(name: str, results: Path) -> tuple[Path, Experiment | None]:
    """Returns the folder of an experiment. Also returns the spec if `name` is the path of a spec. `name` can also be
    the folder itself.
    """
    spec = reading.load(Path(name)) if name.endswith(".toml") and Path(name).exists() else None
    folder = results / (name if spec is None else spec.name)
    folder = Path(name) if not folder.is_dir() and (Path(name) / FILE_NAME).is_file() else folder
    if not folder.is_dir():
        known = sorted(place.name for place in results.glob("*") if place.is_dir())
        raise StoreError(
            f"{folder} does not exist: no experiment {folder.name!r} has been run here\n"
            f"  {'experiments with results: ' + ', '.join(known) if known else 'run one: storagelab run SPEC'}"
        )
    return folder, spec


def _plan(experiment: Experiment) -> Plan:
    """Expands the experiment to its plan. Raises StoreError if no spec could have declared this experiment."""
    try:
        return matrix.expand(experiment)
    except SpecError as error:
        raise StoreError(f"its experiment: {error.key}: {error.problem}") from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"its experiment: {reason_of(error)}") from None


def _experiment(store: Store, spec: Experiment | None) -> tuple[Experiment, Plan, list[str]]:
    try:
        experiment = store.experiment()
        return experiment, _plan(experiment), []
    except StoreError as error:
        lost = [" ".join(str(error).split("\n")[:2])]
    try:
        experiment = reading.parse(store.spec_text(), f"{store.folder.name}.toml")
        return experiment, matrix.expand(experiment), lost
    except (StoreError, SpecError):
        if spec is None:
            hint = "name its spec file instead: storagelab export --salvage FILE.toml"
            raise StoreError(f"{store.folder / FILE_NAME}: its experiment can't be read\n  {hint}") from None
    return spec, matrix.expand(spec), lost


def as_run(experiment: Experiment, plan: Plan, runs: Sequence[Run]) -> Plan:
    """Returns the plan that these runs of an experiment followed. For a race, this plan has the rounds so far."""
    return plan if experiment.race is None else plan_of(experiment, runs)


def of_plan(file: Path, plan: Plan, runs: Sequence[Run]) -> tuple[Run, ...]:
    """Checks that `runs`, which were read from `file`, belong to cells of the plan. Returns them. Raises StoreError."""
    fitting, strange = _of_plan(plan, runs)
    if strange:
        raise damaged(file, strange, len(fitting))
    return fitting


def _of_plan(plan: Plan, runs: Sequence[Run]) -> tuple[tuple[Run, ...], list[str]]:
    """Returns the runs of the plan's cells, and a description of the runs that belong to no cell."""
    levels = {cell.cell_id: cell.levels for cell in plan.cells}
    return tuple(run for run in runs if levels.get(run.cell_id) == run.levels), [
        f"run {run.cell_id[:40]}, repetition {run.repetition}: no cell of that name has its levels"
        for run in runs
        if levels.get(run.cell_id) != run.levels
    ]


# --- campaigns of several hosts ---------------------------------------------------------------------------------------


class JointCampaign(NamedTuple):
    """One campaign that was joined from several. Its number of repetitions is the sum of those of its parts."""

    experiment: Experiment
    runs: tuple[Run, ...]


def gathered(parts: Sequence[Results]) -> JointCampaign:
    """Joins several campaigns into one. The rounds of each part follow the rounds of the previous part. Raises
    StoreError if the parts can't be one campaign.
    """
    first, *others = parts
    for other in others:
        changes = differences(first.experiment, other.experiment)
        if listed := "".join(f"\n    {change}" for change in changes if not change.startswith("seed: ")):
            raise StoreError(
                f"{other.folder} has another spec than {first.folder}:{listed}\n  only their seeds may differ"
            )
    for one, other in itertools.combinations(parts, 2):
        if one.experiment.order == "randomised" and one.experiment.seed == other.experiment.seed:
            raise StoreError(
                f"{one.folder} and {other.folder} ran in the same order, so a drift looks the same on both\n"
                "  give each host a seed of its own, such as seed = 2"
            )
    for part in parts:
        _check(part)
    repetitions = sum(part.experiment.repetitions for part in parts)
    if repetitions > MOST_REPETITIONS:
        raise StoreError(
            f"the campaigns have {repetitions:,} repetitions together, and one may have at most {MOST_REPETITIONS:,}\n"
            "  gather fewer of them"
        )
    experiment = reading.with_repetitions(first.experiment, repetitions, f"gathered from {len(parts)} campaigns")
    runs: list[Run] = []
    before = length = burnt_in = 0
    for part in parts:
        for run in part.runs:
            repetition = run.repetition - burnt_in if run.burn_in else run.repetition + before
            runs.append(run.model_copy(update={"repetition": repetition, "sequence": run.sequence + length}))
        before += part.experiment.repetitions
        length += len(part.plan.runs)
        burnt_in += max((1 - run.repetition for run in part.plan.runs), default=0)
    return JointCampaign(experiment, tuple(runs))


def _check(part: Results) -> None:
    """Raises StoreError unless the part is a measured campaign whose runs name their host."""
    measured = [run for run in part.runs if run.measurement is not None]
    if "/" in part.experiment.name:
        problem = "holds a race's runs at a small scale\n  gather measured campaigns"
    elif part.experiment.blocks > 1:
        problem = (
            "prepares levels several times, and hosts are not compared across preparations\n"
            "  run each host's campaign by itself, with blocks left out"
        )
    elif part.experiment.race is not None:
        problem = "is a race, which is decided round by round on one host\n  run all repetitions"
    elif any(run.config.simulated for run in part.runs):
        problem = "is simulated, and simulated runs are the same on every host\n  gather measured campaigns"
    elif not measured:
        problem = "has no run that was measured"
    elif not all(map(host_of, measured)):
        problem = (
            "doesn't say on which host it was made: a container has no permanent name\n"
            "  set STORAGELAB_HOST to the host's name before `storagelab run`"
        )
    else:
        return
    raise StoreError(f"{part.folder} {problem}")


# --- A race while it runs ---------------------------------------------------------------------------------------------


class Racing:
    """The race of an experiment, while it runs. `tell` receives the state of the race after each round."""

    def __init__(
        self,
        experiment: Experiment,
        runs: Iterable[Run],
        budget_s: float | None = None,
        tell: Callable[[RaceState], None] = lambda _: None,
    ) -> None:
        """Begins or continues the race. Raises SpecError if the experiment can't be a race."""
        problem = ""
        if experiment.order == "cell-by-cell":
            problem = "in the order cell-by-cell, layouts don't run in rounds, so none is ever behind"
        elif experiment.order == "as-listed" and any(not cell.config.simulated for cell in whole(experiment, 1).cells):
            problem = "measured layouts that run in the same order in every round are not judged"
        if problem:
            hint = 'Set order = "randomised", or run it without a race.'
            raise SpecError(f"can't be raced: {problem}", file=experiment.source, key="order", hint=hint)
        self._experiment, self._budget_s, self.tell = experiment, budget_s, tell
        rounds = experiment.repetitions * (1 if budget_s is None else ROUNDS_OF_A_BUDGET)
        self._whole = whole(experiment, rounds)
        self._runs: list[TimedRun] = [timed(run) for run in runs]
        self.state = self._state()

    def note_finished(self, run: Run) -> None:
        self._runs.append(timed(run))

    def further(self) -> Plan:
        """Returns the plan with the next round, if there is one."""
        self.state = self._state()
        self.tell(self.state)
        return self.state.plan

    def _state(self) -> RaceState:
        return race_state(self._experiment, self._whole, self._runs, budget_s=self._budget_s)


def whole(experiment: Experiment, rounds: int) -> Plan:
    """Returns the plan for the case that no layout leaves the race. It has at most `rounds` rounds, and at most as many
    as can be planned.
    """
    cells = len(matrix.expand(experiment.model_copy(update={"repetitions": 1})).cells)
    return matrix.expand(experiment.model_copy(update={"repetitions": max(1, min(rounds, matrix.MAX_RUNS // cells))}))


def plan_of(experiment: Experiment, runs: Iterable[Run]) -> Plan:
    """Returns the plan of a stored race: all rounds of which at least one run was made."""
    made = [timed(run) for run in runs]
    rounds = max((run.repetition for run in made), default=1)
    return race_state(experiment, whole(experiment, max(rounds, 1)), made, rounds=rounds).plan
