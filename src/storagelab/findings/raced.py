"""The race of an experiment: who runs next, given the runs made so far. Pure.

What layouts are compared under one load is a heat. Heats whose runs alternate make a stretch: on a real server a block is a
stretch, so that costly factors change as rarely as ever; simulated blocks make one stretch together, as no time passes
between them. All heats share the error. Whoever leaves does so at the end of a round, and for all later ones, so that the
drives have the same past for all that are compared in a round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from storagelab.findings import racing, stats
from storagelab.findings.racing import Standing
from storagelab.findings.samples import ALPHA
from storagelab.findings.stats import Difference, Fit, Matrix
from storagelab.findings.times import Lap, blocks_judged, compared_of, log_times, places_of, wall_time_s
from storagelab.findings.verdicts import loads_of
from storagelab.model.plan import Experiment, Plan, PlannedRun

ROUNDS_OF_A_BUDGET = 20
"""With a budget, layouts may be repeated up to this many times as often as the spec says."""


@dataclass(frozen=True)
class Heat:
    """Layouts raced against each other, by their places in the plan's cells, and how they stand."""

    cells: tuple[int, ...]
    standing: Standing


@dataclass(frozen=True)
class Course:
    """A race so far: `plan` holds all runs decided on, in their order. If some of them are not made yet, `possible` are
    those, and all further ones that there may be at most. `short` = the budget ended it."""

    plan: Plan
    heats: tuple[Heat, ...]
    possible: tuple[PlannedRun, ...] = ()
    short: bool = False


def course(
    experiment: Experiment,
    whole: Plan,
    laps: Iterable[Lap],
    *,
    budget_s: float | None = None,
    rounds: int | None = None,
) -> Course:
    """The race of `experiment` after the runs of `laps`.

    `whole` is the plan in which nobody leaves, with as many rounds as there may be; no more than `rounds` are looked at.
    The result follows from what is given alone, so an interrupted race goes on as if it had not been.
    """
    return _Racing(experiment, whole, laps, budget_s).through(rounds)


class _Racing:
    def __init__(self, experiment: Experiment, whole: Plan, laps: Iterable[Lap], budget_s: float | None) -> None:
        self._experiment, self._whole, self._budget_s = experiment, whole, budget_s
        self._margin = experiment.race.within if experiment.race else 0.0
        self._laps: dict[tuple[str, int], Lap] = {}
        self._made = sorted(laps, key=lambda lap: lap.attempt)
        for lap in self._made:
            self._laps[lap.cell_id, lap.repetition] = lap
        self._simulated = all(cell.config.simulated for cell in whole.cells)
        self._blocks = blocks_judged(whole, in_stretches=False, simulated=self._simulated)
        self._runs: list[PlannedRun] = []
        self._heats: list[Heat] = []
        self._short = False
        turns: dict[int, dict[int, list[PlannedRun]]] = {}
        for run in whole.runs:
            of_stretch = turns.setdefault(0 if self._simulated else run.block, {})
            of_stretch.setdefault(max(run.repetition, 0), []).append(run)
        self._turns = turns
        """Stretch -> round -> its runs if nobody leaves; the burn-in is round 0."""
        self._begun: set[int] = set()
        """Blocks of which some run is planned."""

    def through(self, rounds: int | None) -> Course:
        heats = {number: list(self._starting(stretch)) for number, stretch in self._turns.items()}
        families = sum(len(heat.cells) > 1 for of_stretch in heats.values() for heat in of_stretch)
        for number, stretch in self._turns.items():
            now = heats.pop(number)
            for turn in sorted({*stretch} - {0}):
                if rounds is not None and turn > rounds:
                    break
                running = self._running(now, turn)
                wanted = self._wanted(stretch, turn, running)
                if not wanted or not self._affordable(wanted, turn, number):
                    break
                self._plan(wanted)
                if left := [run for run in self._runs if (run.cell_id, run.repetition) not in self._laps]:
                    self._heats += [*now, *(heat for of_stretch in heats.values() for heat in of_stretch)]
                    return self._course((*left, *self._later(stretch, turn, running, list(heats))))
                now = self._looked(now, turn, max(families, 1))
            self._heats += now
        return self._course(())

    def _course(self, possible: tuple[PlannedRun, ...]) -> Course:
        plan = self._whole.model_copy(update={"runs": tuple(self._runs)})
        return Course(plan, tuple(self._heats), possible, self._short)

    def _starting(self, stretch: Mapping[int, Sequence[PlannedRun]]) -> Iterator[Heat]:
        # All simulated layouts are in the one stretch, also those that no run is planned of.
        every = [cell.cell_id for cell in self._whole.cells] if self._simulated else []
        there = {*every, *(run.cell_id for turn in stretch.values() for run in turn)}
        for _, cells in loads_of(self._experiment.factors, self._whole.cells):
            inside = tuple(cell for cell in cells if self._whole.cells[cell].cell_id in there)
            if inside:
                yield Heat(inside, Standing(inside))

    def _running(self, heats: Sequence[Heat], turn: int) -> set[str]:
        """The ids of the cells that run in this round. A layout without a rival has nothing to win, but is repeated as often
        as the spec says."""
        last = self._experiment.repetitions
        if self._budget_s is None and turn > last:
            return set()
        cells = (heat.cells if len(heat.cells) == 1 and turn <= last else heat.standing.running for heat in heats)
        return {self._whole.cells[place].cell_id for of_heat in cells for place in of_heat}

    def _wanted(self, stretch: Mapping[int, Sequence[PlannedRun]], turn: int, running: set[str]) -> list[PlannedRun]:
        """The runs of a round. A block begins with its burn-in, whoever makes it."""
        runs = [run for run in stretch[turn] if run.cell_id in running]
        fresh = {run.block for run in runs} - self._begun
        return [*(run for run in stretch.get(0, ()) if run.block in fresh), *runs]

    def _plan(self, wanted: Sequence[PlannedRun]) -> None:
        """The runs at the end of the order so far."""
        self._begun |= {run.block for run in wanted}
        begin = len(self._runs)
        self._runs += [run.model_copy(update={"sequence": begin + at}) for at, run in enumerate(wanted)]

    def _later(
        self, stretch: Mapping[int, Sequence[PlannedRun]], turn: int, running: set[str], others: Sequence[int]
    ) -> Iterator[PlannedRun]:
        """The runs that there may be after this round."""
        yield from (run for later, runs in stretch.items() if later > turn for run in runs if run.cell_id in running)
        yield from (run for number in others for runs in self._turns[number].values() for run in runs)

    def _affordable(self, wanted: Sequence[PlannedRun], turn: int, stretch: int) -> bool:
        """Whether the budget has room for the rest of this round. A stretch gets its share, with what earlier ones left."""
        if self._budget_s is None or turn <= 1:
            return True
        left = [run for run in wanted if (run.cell_id, run.repetition) not in self._laps]
        if len(left) < len(wanted):
            return True  # begun: only complete rounds count
        before = [number for number in self._turns if number <= stretch] if not self._simulated else list(self._turns)
        share = sum(len(self._turns[number][1]) for number in before) / len(self._whole.cells)
        walls: dict[str, list[float]] = {}
        for lap in self._laps.values():
            walls.setdefault(lap.cell_id, []).append(lap.wall_s)
        unknown = [fmean(lap.wall_s for lap in self._laps.values())]
        spent_s, of_runs_s = wall_time_s(self._made), sum(lap.wall_s for lap in self._made)
        round_s = sum(fmean(walls.get(run.cell_id, unknown)) for run in left) * spent_s / max(of_runs_s, 1e-9)
        short = spent_s + round_s > self._budget_s * share
        self._short |= short
        return not short

    def _looked(self, heats: Sequence[Heat], turn: int, families: int) -> list[Heat]:
        there = {self._whole.cells[cell].cell_id for heat in heats for cell in heat.cells}
        laps = [lap for lap in self._laps.values() if lap.cell_id in there and 1 <= lap.repetition <= turn]
        rounds, log_s = log_times(self._whole, laps, compared_of(self._whole))
        trended = self._experiment.order == "as-listed" and not self._simulated
        so_far = self._whole.model_copy(update={"runs": tuple(self._runs)})
        fit = racing.fitted(log_s, self._blocks, places_of(so_far, rounds) if trended else None)
        return [
            Heat(heat.cells, racing.look(heat.standing, fit, families, self._margin)) if heat.standing.running else heat
            for heat in heats
        ]


# ---------------------------------------------------------------------------------------------------------------------
# What a race says
# ---------------------------------------------------------------------------------------------------------------------


class ByRace:
    """Compares cells by what the looks of their heats found; a `verdicts.Judging`."""

    def __init__(self, heats: Sequence[Heat], fitted: Fit) -> None:
        self._of = {cell: heat.standing for heat in heats for cell in heat.cells}
        self._times = fitted.cells

    def fastest(self, cells: Sequence[int]) -> int | None:
        """The one in front; of several heats, the one that takes the least time."""
        first = {self._of[cell].racing[0] for cell in cells if cell in self._of and self._of[cell].racing}
        timed = [cell for cell in sorted(first) if not np.isnan(self._times[cell])]
        return min(timed, key=lambda cell: float(self._times[cell])) if timed else None

    def differences(self, best: int, cells: Sequence[int]) -> Mapping[int, Difference]:  # noqa: ARG002 - a heat has them
        """The difference of each cell that left to the one then in front, and of the others to the `best`."""
        standing = self._of[best]
        return {**standing.differences, **{one.cell: one.difference for one in standing.left}}

    def at_most_slower(self, picks: Sequence[int], among: Sequence[int]) -> Mapping[int, float]:
        bounds = {pick: self._of[pick].at_most_slower for pick in picks if self.fastest(among) == pick}
        return {pick: bound for pick, bound in bounds.items() if bound is not None}


@dataclass(frozen=True)
class Raced:
    """The race behind a report. `complete` = the fit of those rounds in which every cell ran. Statements about factors rest
    on these, and have `share` of their usual error, as it is the race that ended them."""

    judging: ByRace
    complete: Fit
    share: float
    heats: tuple[Heat, ...]


def raced(
    experiment: Experiment, plan: Plan, laps: Sequence[Lap], rounds: Sequence[int], log_s: Matrix, fitted: Fit
) -> Raced:
    """What the race of `experiment`, stored with its `plan`, found; `rounds`, `log_s` and `fitted` as the report has them."""
    so_far = course(experiment, plan, laps)
    planned = Counter(run.repetition for run in plan.runs)
    complete = [column for column, turn in enumerate(rounds) if planned[turn] == len(plan.cells)]
    last = max((rounds[column] for column in complete), default=0)
    simulated = all(cell.config.simulated for cell in plan.cells)
    blocks = blocks_judged(plan, in_stretches=False, simulated=simulated)
    return Raced(
        judging=ByRace(so_far.heats, fitted),
        complete=stats.fit(log_s[:, complete], blocks),
        share=racing.error_of(max(last, racing.FIRST_LOOK)) / (ALPHA * racing.SHARE),
        heats=so_far.heats,
    )
