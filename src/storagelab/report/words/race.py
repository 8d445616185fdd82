"""How a race stands, in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from storagelab.findings.model import Findings
from storagelab.words.names import noun
from storagelab.words.numbers import duration, percent, plural

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


def race_sentences(findings: Findings) -> list[str]:
    """What a race spent and saved, who left, and what it leaves open; [] if there was none."""
    race = findings.race
    if race is None:
        return []
    spent = f"{findings.runs_stored} of the {race.runs_of_all} runs that all repetitions take"
    share = percent(findings.runs_stored / race.runs_of_all, 0)
    took = f"{duration(race.spent_s)} instead of about {duration(race.of_all_s)}"
    return [
        f"This was a race: it made {spent} ({share}; {took}).",
        *_on_those_that_left(findings),
        _on_the_end(findings),
    ]


def _on_those_that_left(findings: Findings) -> list[str]:
    race = findings.race
    if race is None or not race.left:
        return []
    after = Counter(turn for _, turn in race.left)
    counts = ", ".join(f"{number} after round {turn}" for turn, number in sorted(after.items()))
    left = f"{len(race.left)} {noun(findings.factors, len(race.left))}"
    return [f"{left} left it as surely slower: {counts}. In at most 5 % of races, one of the fastest leaves."]


def _on_the_end(findings: Findings) -> str:
    race = findings.race
    assert race is not None
    if not race.open:
        if findings.verdict == "winner":
            return "It ended when one was left."
        margin = f"none of the others can be more than {percent(race.within)} faster than it" if race.within else ""
        return f"It ended when {margin}." if margin else "It ended with a winner under every load."
    still = plural(len(race.open), f"{noun(findings.factors)} may", f"{noun(findings.factors, 2)} may")
    return (
        f"It is open: {still} still be the fastest. `storagelab run SPEC --find-best --budget 2h` repeats them, until 2 h "
        "in all are spent on runs."
    )
