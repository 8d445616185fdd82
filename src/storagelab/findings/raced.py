"""Decides in a race which layouts run next, from the runs made so far. The functions are pure.

The layouts under one load are a group, and they race against each other. Groups whose runs alternate belong to one
period (`stretch`). On a real server, each block is a period, so that costly factors still change as rarely as possible.
All simulated blocks are one period, because no time passes between them. All groups share the error probability. A
layout leaves or pauses only at the end of a round. So the drives have the same history for all layouts that are
compared in a round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from storagelab.findings.times import TimedRun, blocks_judged, compared_of, log_times, wall_time_s
from storagelab.findings.verdicts import loads_of
from storagelab.model.plan import FEW_RACED, Experiment, Plan, PlannedRun, Race
from storagelab.stats import stalls
from storagelab.stats.contrast import Difference
from storagelab.stats.fit import Fit, Matrix
from storagelab.stats.intervals import ALPHA
from storagelab.stats.race import LOOK_FROM, SHARE, Standing, error_of, look

# --- the race ---------------------------------------------------------------------------------------------------------

ROUNDS_OF_A_BUDGET = 20
"""If there is a budget, the number of repetitions may be up to this many times the number in the spec."""


@dataclass(frozen=True)
class Group:
    """A group of layouts that race against each other, and its state. `cells` has their places in the plan's cells."""

    cells: tuple[int, ...]
    standing: Standing


@dataclass(frozen=True)
class RaceState:
    """The state of a race. `plan` has all runs that are decided, in their order. If some of these runs are not made
    yet, `possible` has them and all later runs that the race may still need. If `short` is true, the budget ended the
    race.
    """

    plan: Plan
    groups: tuple[Group, ...]
    possible: tuple[PlannedRun, ...] = ()
    short: bool = False


def race_state(
    experiment: Experiment,
    whole: Plan,
    runs: Iterable[TimedRun],
    *,
    budget_s: float | None = None,
    rounds: int | None = None,
) -> RaceState:
    """The race of `experiment` after these runs.

    `whole` is the plan for the case that no layout leaves, with the largest possible number of rounds. At most `rounds`
    of them are evaluated. The result depends only on the arguments, so an interrupted race continues as if it had not
    been interrupted.
    """
    race = _race(experiment, whole, runs, budget_s)
    ahead = {stretch: _groups(race, stretch) for stretch in race.rounds}
    families = max(1, sum(len(group.cells) > 1 for groups in ahead.values() for group in groups))
    decided: list[PlannedRun] = []
    behind: list[Group] = []
    short = False
    for stretch, of_stretch in race.rounds.items():
        groups = ahead.pop(stretch)
        for number in sorted({*of_stretch} - {0}):
            running = _running(race, groups, number) if rounds is None or number <= rounds else set()
            wanted = _wanted(of_stretch, number, running, decided)
            if not wanted:
                break
            if not _affordable(race, wanted, number, stretch):
                short = True
                break
            begin = len(decided)
            decided += [run.model_copy(update={"sequence": begin + at}) for at, run in enumerate(wanted)]
            if missing := [run for run in decided if (run.cell_id, run.repetition) not in race.made]:
                possible = (*missing, *_later(race, stretch, number, running, ahead))
                others = [group for later in ahead.values() for group in later]
                return RaceState(_so_far(race, decided), (*behind, *groups, *others), possible, short)
            groups = _looked(race, groups, number, families)
        behind += groups
    return RaceState(_so_far(race, decided), tuple(behind), (), short)


@dataclass(frozen=True)
class _Race:
    """Everything that determines a race. `rules` has the race's rules. `rounds` has the runs of each round of each
    period for the case that no layout leaves. Burn-in runs are round 0. `made` has the latest of all `attempts` at each
    run. `blocks` has the period of each cell.
    """

    experiment: Experiment
    rules: Race
    whole: Plan
    attempts: Sequence[TimedRun]
    made: Mapping[tuple[str, int], TimedRun]
    budget_s: float | None
    simulated: bool
    blocks: Sequence[int]
    rounds: Mapping[int, Mapping[int, Sequence[PlannedRun]]]


def _race(experiment: Experiment, whole: Plan, runs: Iterable[TimedRun], budget_s: float | None) -> _Race:
    attempts = sorted(runs, key=lambda run: run.attempt)
    simulated = all(cell.config.simulated for cell in whole.cells)
    rounds: dict[int, dict[int, list[PlannedRun]]] = {}
    # If a block has few measured layouts, its rounds are interleaved in pairs. So the race is evaluated after each
    # pair.
    inside = Counter(run.block for run in whole.runs if run.repetition == 1)
    last = max((run.repetition for run in whole.runs), default=0)
    for planned in whole.runs:
        of_stretch = rounds.setdefault(0 if simulated else planned.block, {})
        number = max(planned.repetition, 0)
        if not simulated and inside[planned.block] <= FEW_RACED:
            number = min(number + number % 2, last)
        of_stretch.setdefault(number, []).append(planned)
    made = {(run.cell_id, run.repetition): run for run in attempts}
    blocks = blocks_judged(whole, in_stretches=False, simulated=simulated)
    return _Race(experiment, experiment.race or Race(), whole, attempts, made, budget_s, simulated, blocks, rounds)


def _so_far(race: _Race, decided: Sequence[PlannedRun]) -> Plan:
    return race.whole.model_copy(update={"runs": tuple(decided)})


def _groups(race: _Race, stretch: int) -> list[Group]:
    """The layouts of a period under each load, before the first round."""
    # All simulated layouts are in one period, including those without planned runs.
    every = [cell.cell_id for cell in race.whole.cells] if race.simulated else []
    there = {*every, *(run.cell_id for runs in race.rounds[stretch].values() for run in runs)}
    found = []
    for _, cells in loads_of(race.experiment.factors, race.whole.cells):
        inside = tuple(cell for cell in cells if race.whole.cells[cell].cell_id in there)
        if inside:
            found.append(Group(inside, Standing(inside)))
    return found


def _running(race: _Race, groups: Sequence[Group], number: int) -> set[str]:
    """The ids of the cells that run in this round. A layout that is alone in its group has no race, so it is repeated
    as often as the spec says.
    """
    last = race.experiment.repetitions
    if race.budget_s is None and number > last:
        return set()
    cells = (group.cells if len(group.cells) == 1 and number <= last else group.standing.running for group in groups)
    return {race.whole.cells[place].cell_id for of_group in cells for place in of_group}


def _wanted(
    of_stretch: Mapping[int, Sequence[PlannedRun]], number: int, running: set[str], decided: Sequence[PlannedRun]
) -> list[PlannedRun]:
    """The runs of a round. A block begins with its burn-in."""
    runs = [run for run in of_stretch[number] if run.cell_id in running]
    fresh = {run.block for run in runs} - {run.block for run in decided}
    return [*(run for run in of_stretch.get(0, ()) if run.block in fresh), *runs]


def _later(
    race: _Race, stretch: int, number: int, running: set[str], ahead: Mapping[int, Sequence[Group]]
) -> Iterator[PlannedRun]:
    """All runs that the race may still need after this round."""
    for later, runs in race.rounds[stretch].items():
        if later > number:
            yield from (run for run in runs if run.cell_id in running)
    for other in ahead:
        for runs in race.rounds[other].values():
            yield from runs


def _affordable(race: _Race, wanted: Sequence[PlannedRun], number: int, stretch: int) -> bool:
    """Whether the budget is enough for the missing runs of this round. Each period has a share of the budget, and also
    the time that earlier periods did not use.
    """
    if race.budget_s is None or number == min({*race.rounds[stretch]} - {0}):
        return True
    left = [run for run in wanted if (run.cell_id, run.repetition) not in race.made]
    if len(left) < len(wanted):
        return True  # the round has begun, and only complete rounds count
    before = [one for one in race.rounds if race.simulated or one <= stretch]
    cells = ({run.cell_id for runs in race.rounds[one].values() for run in runs} for one in before)
    share = sum(map(len, cells)) / len(race.whole.cells)
    return wall_time_s(race.attempts) + _estimated_s(race, left) <= race.budget_s * share


def _estimated_s(race: _Race, left: Sequence[PlannedRun]) -> float:
    """The time (s) that runs will take, estimated from earlier runs of their cells. It is shorter if runs are made in
    parallel."""
    walls: dict[str, list[float]] = {}
    for run in race.made.values():
        walls.setdefault(run.cell_id, []).append(run.wall_s)
    unknown = [fmean(run.wall_s for run in race.made.values())]
    alone_s = sum(fmean(walls.get(run.cell_id, unknown)) for run in left)
    return alone_s * wall_time_s(race.attempts) / max(sum(run.wall_s for run in race.attempts), 1e-9)


def _looked(race: _Race, groups: Sequence[Group], number: int, families: int) -> list[Group]:
    """The groups with their states after the evaluation of all rounds up to this one."""
    there = {race.whole.cells[cell].cell_id for group in groups for cell in group.cells}
    runs = [run for run in race.made.values() if run.cell_id in there and 1 <= run.repetition <= number]
    _, log_s = log_times(race.whole, runs, compared_of(race.whole))
    fit, within, planned = stalls.fit(log_s, race.blocks), race.rules.within, race.experiment.repetitions
    return [
        Group(group.cells, look(group.standing, fit, number, planned, families, within))
        if group.standing.running
        else group
        for group in groups
    ]


# ---------------------------------------------------------------------------------------------------------------------
# The results of a race
# ---------------------------------------------------------------------------------------------------------------------


class ByRace:
    """Compares cells by the results of their groups' race. It implements `verdicts.Judging`."""

    def __init__(self, groups: Sequence[Group], fitted: Fit) -> None:
        self._of = {cell: group.standing for group in groups for cell in group.cells}
        self._times, self._margin = fitted.cells, fitted.margin

    def fastest(self, cells: Sequence[int]) -> int | None:
        """The cell in front. If the cells belong to several groups, the cell in front with the shortest time."""
        first = {self._of[cell].racing[0] for cell in cells if cell in self._of and self._of[cell].racing}
        timed = [cell for cell in sorted(first) if not np.isnan(self._times[cell])]
        return min(timed, key=lambda cell: float(self._times[cell])) if timed else None

    def differences(self, best: int, cells: Sequence[int]) -> Mapping[int, Difference]:  # noqa: ARG002
        """The differences of cells. A cell that left is compared with the cell that was in front at that time. All
        other cells are compared with `best`."""
        standing = self._of[best]
        found = {**standing.differences, **{one.cell: one.difference for one in standing.left}}
        return {cell: replace(one, margin=self._margin) for cell, one in found.items()}

    def may_be_fastest(self, cells: Sequence[int]) -> Sequence[int]:
        """The cells that are still in the race."""
        first = self.fastest(cells)
        return () if first is None else self._of[first].racing

    def at_most_slower(self, picks: Sequence[int], among: Sequence[int]) -> Mapping[int, float]:  # noqa: ARG002
        bounds = {pick: self._of[pick].at_most_slower(pick) for pick in picks}
        return {pick: bound for pick, bound in bounds.items() if bound is not None}


@dataclass(frozen=True)
class Raced:
    """The results of a race for a report. `complete` is the fit of the rounds in which all cells ran. Statements about
    factors use only these rounds. Their error is only `share` times the usual error, because the race decided how many
    such rounds there are.
    """

    judging: ByRace
    complete: Fit
    share: float
    groups: tuple[Group, ...]


def raced(
    experiment: Experiment, plan: Plan, runs: Sequence[TimedRun], rounds: Sequence[int], log_s: Matrix, fitted: Fit
) -> Raced:
    """The results of the race of `experiment`. `plan` is the plan that is stored with the race. `rounds`, `log_s` and
    `fitted` are those of the report.
    """
    so_far = race_state(experiment, plan, runs)
    planned = Counter(run.repetition for run in plan.runs)
    complete = [column for column, turn in enumerate(rounds) if planned[turn] == len(plan.cells)]
    last = max((rounds[column] for column in complete), default=0)
    blocks = blocks_judged(plan, in_stretches=False, simulated=all(cell.config.simulated for cell in plan.cells))
    return Raced(
        judging=ByRace(so_far.groups, fitted),
        complete=replace(stalls.fit(log_s[:, complete], blocks), tick=fitted.tick, margin=fitted.margin),
        share=error_of(max(last, LOOK_FROM), experiment.repetitions, max(last, LOOK_FROM) - 1) / (ALPHA * SHARE),
        groups=so_far.groups,
    )
