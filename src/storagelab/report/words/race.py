"""The state of a race, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storagelab.findings.raced import RaceState


def race_text(state: RaceState) -> str:
    """One line after a round."""
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
