"""Summarises a race: its cost, the layouts that left, and the layouts that may still be the fastest. The functions are
pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import fmean
from typing import Annotated

from pydantic import Field

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Finding, Findings
from storagelab.model.values import Described
from storagelab.words.numbers import duration, percent, plural


class LeftRace(Described):
    """A cell that left the race."""

    cell_id: str
    """The id of the cell."""
    after_round: Annotated[int, Field(ge=2)]
    """The last round in which the cell ran."""


class RaceSummary(Finding, use_attribute_docstrings=True):
    """The cost and the result of a race between layouts."""

    kind, about, weight = "race", "use", 10
    meaning = "How the experiment was raced (`run --find-best`); none if all cells had all repetitions."
    within: float = Field(ge=0)
    """The margin of the race, as a share of the time; 0 = no margin."""
    rounds: int = Field(ge=0)
    """The number of rounds that were made."""
    runs_of_all: int = Field(ge=1)
    """The number of runs that all repetitions of all cells would have needed."""
    spent_s: float = Field(ge=0)
    """The time spent on runs, in seconds."""
    of_all_s: float = Field(ge=0)
    """The time that all repetitions of all cells would have taken, in seconds (estimated)."""
    left: tuple[LeftRace, ...]
    """The cells that left because they are surely slower."""
    open: tuple[str, ...]
    """The ids of cells that may still be the fastest, if the race is not decided."""

    @classmethod
    def line(cls, findings: Findings) -> str:
        """A sentence that says that the race reached its margin; "" if it did not, or if there is a winner."""
        for race in cls.of(findings):
            if race.within and not race.open and findings.verdict != "winner" and findings.best:
                goal = f"a {findings.cell_noun()} that is at most {percent(race.within)} slower than the fastest (95 %)"
                return f"The race's goal, {goal}, is met: {_leader(findings)}."
        return ""

    @classmethod
    def sentences(cls, findings: Findings) -> list[str]:
        """Sentences on the cost of the race, the runs that it saved, the layouts that left, and the layouts that are
        still in it."""
        return [text for race in cls.of(findings) for text in _sentences(race, findings)]


def _sentences(race: RaceSummary, findings: Findings) -> Iterator[str]:
    made = f"{findings.runs_stored} runs instead of {race.runs_of_all}"
    yield f"This was a race: {made}, in {duration(race.spent_s)} instead of about {duration(race.of_all_s)}."
    after = Counter(one.after_round for one in race.left)
    counts = ", ".join(f"{number} after round {turn}" for turn, number in sorted(after.items()))
    if counts:
        left = f"{len(race.left)} {findings.cell_noun(len(race.left))}"
        yield f"{left} left because they are surely slower: {counts}. In at most 5 % of races, a fastest layout leaves."
    yield _end(race, findings)
    if len(findings.factors) > 1:
        yield "Effects of factors use only the rounds in which all ran, so the ladder may show more differences."


def _end(race: RaceSummary, findings: Findings) -> str:
    if race.open:
        still = plural(len(race.open), f"{findings.cell_noun()} may", f"{findings.cell_noun(2)} may")
        return f"The race is open: {still} still be the fastest. With --budget, they are repeated until its time is up."
    if findings.verdict == "winner":
        return "The race ended when only one was left."
    if race.within:
        most = f"more than {percent(race.within)} faster"
        return f"The race ended when no other layout could be {most} than {_leader(findings)}."
    return "The race ended with a winner under every load."


def _leader(findings: Findings) -> str:
    """A text for the layout with the fastest mean. If there are several loads, a text for the fastest mean under
    each."""
    if findings.loads:
        return "the fastest mean under each load"
    return f"the fastest mean ({findings.cell(findings.best[0]).text})" if findings.best else "the fastest mean"


def find(evidence: Evidence) -> Iterator[RaceSummary]:
    raced, plan, experiment = evidence.basis.race, evidence.plan, evidence.experiment
    if raced is None or experiment.race is None:
        return
    walls: dict[str, list[float]] = {}
    for run in evidence.runs:
        walls.setdefault(run.cell_id, []).append(run.wall_s)
    of_round_s = sum(map(fmean, walls.values())) * len(plan.cells) / max(len(walls), 1)
    standings = [group.standing for group in raced.groups]
    yield RaceSummary(
        within=experiment.race.within,
        rounds=max((one.rounds for one in standings), default=0),
        runs_of_all=experiment.repetitions * len(plan.cells),
        spent_s=sum(map(sum, walls.values())),
        of_all_s=experiment.repetitions * of_round_s,
        left=tuple(
            LeftRace(cell_id=plan.cells[left.cell].cell_id, after_round=left.after)
            for one in standings
            for left in one.left
        ),
        open=tuple(plan.cells[cell].cell_id for one in standings if one.running for cell in one.racing),
    )
