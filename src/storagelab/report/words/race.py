"""How a race stands, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from storagelab.findings.model import Findings, RaceSummary
from storagelab.report.words.names import noun
from storagelab.report.words.numbers import duration, percent, plural, signed_percent

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
        *_on_small_worlds(race, findings),
        *_on_those_that_left(findings),
        _on_the_end(findings),
    ]


def _on_small_worlds(race: RaceSummary, findings: Findings) -> list[str]:
    small = race.small
    if small is None:
        return []
    told = [
        f"Before that, it made {plural(small.runs, 'run')} in worlds {small.scale} times smaller than life-size "
        f"({duration(small.spent_s)} of the time). They are another condition and stand in no figure here; "
        f"`storagelab report {findings.experiment}/small` shows them."
    ]
    if not small.biases:
        return [
            *told,
            "Too few layouts ran at both scales to measure the bias between them, so small worlds ruled out none.",
        ]
    left = plural(len(small.left), "layout")
    pairs = plural(sum(one.pairs for one in small.biases), "layout")
    means, sds, limits = (
        _span([getattr(one, name) for one in small.biases], shown)
        for name, shown in (("mean", signed_percent), ("sd", percent), ("limit", lambda x: percent(x - 1)))
    )
    return [
        *told,
        f"{left} left there. The bias of small worlds was measured on {pairs} drawn at random, which ran at both scales: "
        f"times there differ by {means} on average, and by {sds} (sd) from layout to layout. So only those further behind "
        f"than {limits} left.",
    ]


def _span(values: Sequence[float], shown: Callable[[float], str]) -> str:
    """One value, or the ends of several, one for each load."""
    ends = dict.fromkeys((shown(min(values)), shown(max(values))))
    return " to ".join(ends)


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
