"""Volumes whose burst credits run out while runs count: their times mix two rates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import median

from storagelab.findings.evidence import Evidence, table_in, volumes_of
from storagelab.findings.model import Caution, Findings
from storagelab.model.measurement import LOAD, Measurement
from storagelab.words.numbers import plural, seconds

SHARE_LEAST = 0.02
"""A smaller part of a run at the other rate doesn't change what its time means."""


class BurstCredits(Caution):
    """The credits of `volume` ran out in `runs` of `of` runs, `after_s` into the part that counts (the median)."""

    kind, place, weight = "burst-credits", 32, 46
    next_step = (
        'start with an empty bucket (burst = { ..., start = "empty" }), or make runs short enough for its credits'
    )
    volume: str
    runs: int
    of: int
    after_s: float

    def sentence(self, findings: Findings) -> str:
        return (
            f"The burst credits of volume {self.volume} ran out after {seconds(self.after_s)} in {self.runs} of "
            f"{plural(self.of, 'run')}{self.where(findings)}: the result mixes the rates with credits and without, and "
            'a run of another length would have another ratio. For what lasts, set start = "empty" in the volume\'s '
            "burst; for bursts alone, make runs end before the credits do."
        )

    def brief(self, findings: Findings) -> str:
        return f"burst credits of {self.volume} ran out within runs{self.in_some(findings)}"


def check_burst_credits(evidence: Evidence) -> Iterator[BurstCredits]:
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    counted: dict[str, int] = defaultdict(int)
    for cell_id, _, one in evidence.measurements():
        for volume, facts in volumes_of(one):
            if not (burst := table_in(table_in(facts, "made"), "burst")):
                continue
            counted[volume] += 1
            after_s = _emptied_while_counted(one, burst)
            if after_s is not None:
                found[volume][cell_id].append(after_s)
    for volume, of_cells in found.items():
        times_s = [after_s for times in of_cells.values() for after_s in times]
        yield BurstCredits(
            cells=evidence.named(of_cells), volume=volume, runs=len(times_s), of=counted[volume],
            after_s=median(times_s),
        )  # fmt: skip


def _emptied_while_counted(measurement: Measurement, burst: Mapping[str, object]) -> float | None:
    """How many seconds after the run began to count the bucket was empty; None if it wasn't, or hardly within the part
    that counts, or if an earlier version made the run, which did not keep when.

    Both times begin with the load.
    """
    empty_s, counts_s = burst.get("empty_after_s"), measurement.counters.get(LOAD, {}).get("counts_after_s")
    if not isinstance(empty_s, int | float) or counts_s is None:
        return None
    after_s = empty_s - counts_s
    within = SHARE_LEAST * measurement.elapsed_s < after_s < (1 - SHARE_LEAST) * measurement.elapsed_s
    return after_s if within else None
