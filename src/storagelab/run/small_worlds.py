"""The part of a race that runs in small worlds: an ordinary experiment of its own, beside the race, at another scale.

Its results lie in `results/<experiment>/small/` and never mix with those at the spec's scale. The race takes from them the
time of each layout, once, as it begins.
"""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.errors import SpecError
from storagelab.findings import racing
from storagelab.findings.times import blocks_judged, compared_of, lap_of, log_times
from storagelab.model.engines import LARGEST_SCALE
from storagelab.model.measurement import Run
from storagelab.model.plan import SMALL_WORLDS, Experiment, Plan, SmallWorlds
from storagelab.spec import reading

FOLDER = SMALL_WORLDS
ROUNDS = 3
OPTION = "--small-worlds"


def experiment_in_small_worlds(experiment: Experiment, plan: Plan, scale: int) -> Experiment:
    """All layouts of `experiment`, a few times each, in worlds of `scale`. Raises SpecError if it has no such worlds."""
    if not all(cell.config.simulated for cell in plan.cells):
        raise SpecError("only simulated worlds have a scale", key=OPTION, hint="Race a real server without it.")
    for factor in experiment.factors:
        if any("target.scale" in level.sets for level in factor.levels):
            raise SpecError(
                "can't set the scale: it is a factor of the experiment", file=experiment.source, key=OPTION,
                hint=f"Take {factor.name} out of [factors], or race without {OPTION}.",
            )  # fmt: skip
    largest = max(cell.config.target.world_scale for cell in plan.cells)
    if not largest < scale <= LARGEST_SCALE:
        raise SpecError(
            f"{scale} is not between {largest + 1} and {LARGEST_SCALE}: the spec's worlds are {largest} times smaller than "
            "life-size",
            key=OPTION,
            hint=f"Such as {OPTION} {min(8 * largest, LARGEST_SCALE)}."
            if largest < LARGEST_SCALE
            else "Race without it.",
        )
    small = reading.at_scale(experiment, scale)
    return small.model_copy(update={"name": f"{experiment.name}/{FOLDER}", "repetitions": ROUNDS, "race": None})


def outcome(plan: Plan, runs: Sequence[Run], scale: int) -> SmallWorlds:
    """What a race takes from the runs that small worlds made."""
    laps = [lap_of(run) for run in runs]
    rounds, log_s = log_times(plan, [lap for lap in laps if lap.repetition >= 1], compared_of(plan))
    fitted = racing.fitted(log_s, blocks_judged(plan, in_stretches=False, simulated=True))
    return SmallWorlds(
        scale=scale,
        rounds=len(rounds),
        runs=len(runs),
        spent_s=sum(lap.wall_s for lap in laps),
        log_s={
            cell.cell_id: float(fitted.cells[place]) for place, cell in enumerate(plan.cells) if fitted.runs[place] > 0
        },
    )
