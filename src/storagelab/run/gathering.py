"""Puts campaigns of one spec, each made on a host, together into one whose rounds are those of all.

Each must have run in a random order of its own: what an order does to its layouts would else be the same on all hosts, and no
scatter over hosts would show it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from storagelab.errors import StoreError
from storagelab.model.measurement import Run, host_of
from storagelab.model.plan import MOST_REPETITIONS, Experiment
from storagelab.run.stored import Stored
from storagelab.spec import reading


class Gathered(NamedTuple):
    """One campaign: as many repetitions as all parts have together."""

    experiment: Experiment
    runs: tuple[Run, ...]


def gathered(parts: Sequence[Stored]) -> Gathered:
    """The rounds of each part after those of the one before. Raises StoreError if they can't be one campaign."""
    first, *others = parts
    for other in others:
        changes = reading.differences(first.experiment.canonical, other.experiment.canonical)
        told = "".join(f"\n    {change}" for change in changes if not change.startswith("seed: "))
        if told:
            raise StoreError(
                f"{other.folder} has another spec than {first.folder}:{told}\n  only their seeds may differ"
            )
    for one, other in itertools.combinations(parts, 2):
        if one.experiment.order == "randomised" and one.experiment.seed == other.experiment.seed:
            raise StoreError(
                f"{one.folder} and {other.folder} ran in the same order, so that a drift looks the same on both\n"
                "  run the spec with a seed of its own on each host, such as seed = 2"
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
        runs += [
            run.model_copy(
                update={
                    "repetition": run.repetition - burnt_in if run.burn_in else run.repetition + before,
                    "sequence": run.sequence + length,
                }
            )
            for run in part.runs
        ]
        before += part.experiment.repetitions
        length += len(part.plan.runs)
        burnt_in += max((1 - run.repetition for run in part.plan.runs), default=0)
    return Gathered(experiment, tuple(runs))


def _check(part: Stored) -> None:
    """Raises StoreError if the part is no campaign of real servers that knows its host."""
    if "/" in part.experiment.name:
        raise StoreError(f"{part.folder} holds the small worlds of a race\n  gather measured campaigns")
    if part.experiment.race is not None:
        raise StoreError(f"{part.folder} is a race, which is decided round by round on one host\n  run all repetitions")
    measured = [run for run in part.runs if run.measurement is not None]
    if any(run.config.simulated for run in part.runs):
        raise StoreError(
            f"{part.folder} is simulated: the same runs come out on every host\n  gather measured campaigns"
        )
    if not measured:
        raise StoreError(f"{part.folder} has no run that was measured")
    if not all(map(host_of, measured)):
        raise StoreError(
            f"{part.folder} doesn't say on which host it was made: a container has no name that lasts\n"
            "  set STORAGELAB_HOST to the host's name before `storagelab run`"
        )
