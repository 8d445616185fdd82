"""The state of a race, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storagelab.findings.halving import Halving
from storagelab.report.words.good import KNOWN, bound_text

if TYPE_CHECKING:
    from storagelab.findings.raced import RaceState


def race_text(state: RaceState) -> str:
    """One line after a round."""
    if all(isinstance(group.standing, Halving) for group in state.groups):
        return _good_text(state)
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


def _good_text(state: RaceState) -> str:
    """One line after a round of a race for a good layout: the largest bound of all groups, and who runs again."""
    rounds = max((group.standing.rounds for group in state.groups), default=0)
    running = sum(len(group.standing.running) for group in state.groups)
    bounds = [group.standing.at_most_slower for group in state.groups if len(group.cells) > 1]
    bound = None if None in bounds else max((bound for bound in bounds if bound is not None), default=1.0)
    known = bound is not None and bound <= KNOWN
    may = f"is {bound_text(bound)} than the fastest (95 %)" if known else f"{bound_text(bound)} than the fastest"
    next_up = f"{running} run again" if state.possible else "the race is over"
    return f"after round {rounds}, the layout in front {may}; {next_up}"
