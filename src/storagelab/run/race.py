"""A race while it runs: which plan follows from the runs made so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from storagelab.errors import SpecError
from storagelab.findings.raced import ROUNDS_OF_A_BUDGET, RaceState, race_state
from storagelab.findings.times import TimedRun, timed
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.spec import matrix


class Racing:
    """The race of an experiment. `tell` receives the state of the race after each round."""

    def __init__(
        self,
        experiment: Experiment,
        runs: Iterable[Run],
        budget_s: float | None = None,
        tell: Callable[[RaceState], None] = lambda _: None,
    ) -> None:
        """Raises SpecError if the experiment can't be raced."""
        if experiment.order == "cell-by-cell":
            raise SpecError(
                "can't be raced: in the order cell-by-cell, layouts don't run in rounds, so none is ever behind",
                file=experiment.source,
                key="order",
                hint='Set order = "randomised", or run it without a race.',
            )
        if experiment.order == "as-listed" and any(not cell.config.simulated for cell in whole(experiment, 1).cells):
            raise SpecError(
                "can't be raced: measured layouts that run in the same order in every round are not judged",
                file=experiment.source,
                key="order",
                hint='Set order = "randomised", or run it without a race.',
            )
        self._experiment, self._budget_s, self.tell = experiment, budget_s, tell
        rounds = experiment.repetitions * (1 if budget_s is None else ROUNDS_OF_A_BUDGET)
        self._whole = whole(experiment, rounds)
        self._runs: list[TimedRun] = [timed(run) for run in runs]
        self.state = self._state()

    def note_finished(self, run: Run) -> None:
        self._runs.append(timed(run))

    def further(self) -> Plan:
        """The plan with the next round, if there is one."""
        self.state = self._state()
        self.tell(self.state)
        return self.state.plan

    def _state(self) -> RaceState:
        return race_state(self._experiment, self._whole, self._runs, budget_s=self._budget_s)


def whole(experiment: Experiment, rounds: int) -> Plan:
    """The plan if no layout leaves, with as many rounds as there may be, or can be planned."""
    cells = len(matrix.expand(experiment.model_copy(update={"repetitions": 1})).cells)
    return matrix.expand(experiment.model_copy(update={"repetitions": max(1, min(rounds, matrix.MAX_RUNS // cells))}))


def plan_of(experiment: Experiment, runs: Iterable[Run]) -> Plan:
    """The plan of a stored race: the rounds of which at least one run was made."""
    made = [timed(run) for run in runs]
    rounds = max((run.repetition for run in made), default=1)
    return race_state(experiment, whole(experiment, max(rounds, 1)), made, rounds=rounds).plan
