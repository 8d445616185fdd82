"""The good layout that a race named (`run --find-good`), and how much slower than the fastest it may be. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from storagelab.findings.evidence import Evidence
from storagelab.findings.halving import Halving
from storagelab.findings.model import Finding, Findings
from storagelab.findings.verdicts import loads_of
from storagelab.model.values import JsonValue
from storagelab.words.numbers import percent, plural


class GoodLayout(Finding):
    """The layout that a race for a good one named."""

    kind, about, weight = "good", "use", 9
    meaning = (
        "With `run --find-good` only: the layout that each race named as good; several loads or blocks have one each."
    )
    cell_id: str = Field(description="The cell.")
    load: dict[str, JsonValue] = Field(description="The levels of the load under which it was raced.")
    at_most_slower: float | None = Field(
        description="With 95 % confidence, its time over that of the truly fastest is at most this; `null` = not known."
    )
    within: float = Field(ge=0, description="The margin that was asked for, as a share of the time.")
    reached: bool = Field(description="Whether it is within the margin.")
    over: bool = Field(description="Whether its race is over.")

    @classmethod
    def sentences(cls, findings: Findings) -> list[str]:
        """What the bound means, and how far it is from the margin."""
        goods = cls.of(findings)
        if not goods:
            return []
        texts = [
            "A good layout need not be the fastest. The bound holds at 95 % over all rounds of the race, if the fastest "
            "layout does not scatter several times as much as the others, and was not slow in its first runs only."
        ]
        missed = sum(one.over and not one.reached for one in goods)
        if missed:
            which = "The race" if len(goods) == 1 else f"{missed} of {plural(len(goods), 'race')}"
            within = percent(goods[0].within)
            texts.append(
                f"{which} ended without a layout that is surely within {within}: the runs scatter too much for so few. "
                f"`storagelab run SPEC --find-good --within {within.replace(' ', '')} --budget 2h` goes on until 2 h in all "
                "are spent on runs; longer runs scatter less."
            )
        return texts


def find(evidence: Evidence) -> Iterator[GoodLayout]:
    raced, plan, experiment = evidence.race, evidence.plan, evidence.experiment
    if raced is None or experiment.race is None:
        return
    loads = {cell: load for load, cells in loads_of(experiment.factors, plan.cells) for cell in cells}
    for group in raced.groups:
        standing = group.standing
        if not isinstance(standing, Halving) or not standing.racing or not standing.differences:
            continue
        first, bound = standing.racing[0], standing.at_most_slower
        yield GoodLayout(
            cell_id=plan.cells[first].cell_id,
            load=loads[first],
            at_most_slower=bound,
            within=experiment.race.within,
            reached=bound is not None and bound <= 1 + experiment.race.within,
            over=not standing.running or standing.rounds >= experiment.repetitions,
        )
