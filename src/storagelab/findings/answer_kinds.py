"""What an experiment's answer consists of, as values: what to use, how sure, what is gained, why, and what is doubtful."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from storagelab.findings.model import Compared, Estimate, LimitedRate, Verdict
from storagelab.model.engines import Provenances
from storagelab.model.plan import Preference
from storagelab.model.values import Frozen, JsonValue


class Good(Frozen):
    """A factor that matters, and its levels that are as good as any."""

    factor: str
    levels: tuple[JsonValue, ...]


class Pattern(Frozen):
    """A set of layouts by its pattern: all combinations of the `needed` levels, whatever the `free` factors are."""

    needed: tuple[Good, ...]
    free: tuple[str, ...]


class Pick(Frozen):
    """The cheapest of the tied layouts. `decided_by` = the preferences that left others out, in their order."""

    cell_id: str
    levels: dict[str, JsonValue]
    decided_by: tuple[Preference, ...]
    at_most_slower: float | None = Field(None, description="than the truly fastest, at 95 %, as a ratio of times")
    capacity_bytes: float | None = None
    keeps: str | None = Field(None, description="the factor on which the capacity of the drives depends")
    capacities: tuple[tuple[JsonValue, float], ...] = Field(
        (), description="that factor's levels and what each keeps, in bytes"
    )


class Choice(Frozen):
    """What to use, under all `loads` alike: `loads` = the levels of each; empty if only layouts are varied.

    `tied` = the best set, by the ids of its cells; `meant` = those of them that the pattern describes, with a cell for each
    load. Of these are the pick, the range of times or rates from `lowest` to `highest` (under one load), and
    `at_most_slower`: the most that any takes against the truly fastest, as a ratio, at 95 %. `same` = whether that is
    within the margin `indifferent`. `next_slower` = the nearest layout that is told apart, `leads` = its ratio of times;
    over several loads the smallest and the largest.
    """

    loads: tuple[dict[str, JsonValue], ...]
    verdict: Verdict
    layouts: int
    tied: tuple[str, ...]
    meant: tuple[str, ...]
    pattern: Pattern
    pick: Pick | None
    lowest: Estimate | None = None
    highest: Estimate | None = None
    at_most_slower: float | None = None
    same: bool = False
    next_slower: str | None = None
    leads: tuple[Estimate, ...] = ()


class Gain(Frozen):
    """What the good levels of a factor save against `reference`, all else the same: ratios of time from `best` to `worst`.

    A factor without good levels (any will do) is compared with its first level. `seen` = whether any of the differences is
    told apart from chance, `sure` = whether all are; `same` = whether all are within the margin. `depends_on` = factors on
    which the size of it depends.
    """

    factor: str
    levels: tuple[JsonValue, ...]
    reference: JsonValue
    best: Estimate
    worst: Estimate
    seen: bool
    sure: bool
    same: bool = False
    untested: bool = False
    depends_on: tuple[str, ...] = ()


class Limit(Frozen):
    """A volume that stood at its limit, where the time is longer: its requests fill `share` of that time."""

    volume: str
    rate: LimitedRate
    limit: float
    share: float


class Cause(Frozen):
    """The wait that changed most from one level of a factor to others: seconds per connection, all other factors averaged.

    Where a volume's limit sets the pace there is no such wait, but a `limit`, and the seconds are the least that the volumes
    allow. `total_from_s` and `total_to_s` are the connection's whole time.
    """

    factor: str
    before: tuple[JsonValue, ...]
    after: tuple[JsonValue, ...]
    wait: str | None
    limit: Limit | None = None
    from_s: float
    to_s: float
    total_from_s: float
    total_to_s: float


Unable = Literal[
    "nothing-measured", "not-finished", "too-few-runs", "untested", "not-compared", "cpu-saturated", "shared-device",
    "short-runs", "busy-machine", "different-loads", "unverified",
]  # fmt: skip
"""Facts that make an experiment unable to answer its question, or a part of it."""


class Answer(Frozen):
    """All that a decision needs. `choices` = one for each group of loads with the same best layouts; none while nothing is
    judged. `doubts` = kinds of cautions that are not in `unable`, the gravest first."""

    provenance: Provenances | None
    runs: int
    runs_planned: int
    layouts: int
    compared: Compared
    unable: tuple[Unable, ...]
    choices: tuple[Choice, ...]
    gains: tuple[Gain, ...]
    causes: tuple[Cause, ...]
    doubts: tuple[str, ...]
    indifferent: float | None = None
