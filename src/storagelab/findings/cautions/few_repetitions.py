"""Cells with few runs: intervals are wide, or there are none."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.evidence import Evidence
from storagelab.findings.model import Caution, Findings
from storagelab.words.numbers import count

REPETITIONS_SOUND = 5
REPETITIONS_LEAST = 3


class SingleRepetition(Caution):
    """Some cell has one run, so nothing shows how much runs scatter."""

    kind, place, weight = "single-repetition", 40, 150
    short = "one run of each"
    repetitions: int
    sound: int

    def sentence(self, findings: Findings) -> str:
        return (
            f"There is 1 run per cell{self.where(findings)}: the scatter of times is unknown, so no difference can be "
            f"shown. Set repetitions to {count(self.sound)} or more."
        )


class FewRepetitions(Caution):
    """Some cell has few runs. `repetitions` is the fewest of any cell that has some; `sound` is how many a sound
    verdict needs.
    """

    kind, place, weight = "few-repetitions", 41, 160
    repetitions: int
    sound: int

    def sentence(self, findings: Findings) -> str:
        where = self.where(findings)
        per = f"in some cells{where}" if where else "per cell"
        return (
            f"With {count(self.repetitions)} runs {per} intervals are wide and only large differences can be told "
            f"apart. {count(self.sound)} or more repetitions narrow them."
        )

    def brief(self, findings: Findings) -> str:
        return f"{self.repetitions} runs each"


def check_repetitions(evidence: Evidence) -> Iterator[SingleRepetition | FewRepetitions]:
    counts = {cell_id: len(runs) for cell_id, runs in evidence.basis.used.items() if runs}
    fewest = min(counts.values(), default=REPETITIONS_SOUND)
    if fewest < REPETITIONS_SOUND:
        yield (SingleRepetition if fewest == 1 else FewRepetitions)(
            severity="note" if fewest >= REPETITIONS_LEAST else "caution",
            cells=evidence.named(cell_id for cell_id, count in counts.items() if count == fewest),
            repetitions=fewest, sound=REPETITIONS_SOUND,
        )  # fmt: skip
