"""How a race stands, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storagelab.findings.raced import Course


def course_text(course: Course) -> str:
    """One line after a round."""
    rounds = max((heat.standing.rounds for heat in course.heats), default=0)
    racing = sum(len(heat.standing.racing) for heat in course.heats)
    cells = sum(len(heat.cells) for heat in course.heats)
    running = sum(len(heat.standing.running) for heat in course.heats)
    if course.possible:
        next_up = f"{running} run again" if running < racing else "all of them run again"
    elif course.short:
        next_up = "the budget has no room for another round"
    elif running:
        next_up = "no more rounds"
    else:
        next_up = "the race is decided"
    return f"after round {rounds}, {racing} of {cells} layouts may still be the fastest; {next_up}"
