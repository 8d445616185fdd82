"""Runs that stand apart from the others of their cell."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from storagelab.findings.evidence import Evidence
from storagelab.findings.irregular import Outlier
from storagelab.findings.model import Caution, Findings
from storagelab.words.names import group_text
from storagelab.words.numbers import count, plural, seconds, significant
from storagelab.words.phrases import capital


class OddRun(Caution):
    """A cell has odd `runs`; the figures are those of the oddest. Means and verdicts leave out `left_out` of them: 0 or 1."""

    kind, place, weight = "outlier", 60, 100
    repetition: int
    elapsed_s: float
    expected_s: float
    ratio: float
    deviation_sd: float
    runs: int
    left_out: int

    def took(self, findings: Findings) -> str:
        """By what the runs are compared: a run of a set time takes that time, however little it does."""
        repetition = f"repetition {count(self.repetition)}"
        if findings.compared == "elapsed":
            return f"{repetition} took {seconds(self.elapsed_s)} where {seconds(self.expected_s)} was expected"
        kind, _, of = findings.compared.partition("-")
        long = f"{significant(self.ratio, 3)} times as long as expected"
        return (
            f"{repetition} took {long} {of.replace('-', ' ')}"
            if kind == "time"
            else f"the {of} of {repetition} was {long}"
        )

    def sentence(self, findings: Findings) -> str:
        where = self.where(findings)
        more = f" (the farthest of {count(self.runs)} such runs)" if self.runs > 1 else ""
        cell = f"Of{where.replace('(', '').removesuffix(')')}, " if where else ""
        counted = (
            "The other runs of its cell are as steady as any, so it is left out of means and verdicts (robust fit); "
            "`storagelab report NAME --fit least-squares` counts it."
            if self.left_out
            else "It is counted, and widens the intervals."
        )
        took = capital(f"{cell}{self.took(findings)}")
        return (
            f"{took}{more}. {counted} Look at its time series; if something else was at work, "
            "run the experiment under a new name."
        )

    def joined(self, findings: Findings) -> str:
        """How many, the farthest, and what becomes of them."""
        found = self.alike(findings)
        farthest = max(found, key=lambda one: abs(math.log(one.ratio)))
        number, left_out = sum(one.runs for one in found), sum(one.left_out for one in found)
        levels = [findings.cell(cell).levels for cell in farthest.cells]
        cell = f"with {group_text(levels, findings.factors)}, " if levels else ""
        out = (
            f"{count(left_out)} of them {'is' if left_out == 1 else 'are'} left out of means and verdicts (robust fit), as "
            "the other runs of the cell are as steady as any; `storagelab report NAME --fit least-squares` counts them. The "
            "rest are"
            if left_out
            else "They are"
        )
        return (
            f"{plural(number, 'run')} in {len(found)} cells stand apart from the others of their cell. The farthest: "
            f"{cell}{farthest.took(findings)}. {out} counted, and widen the intervals. Look at the time series; if something "
            "else was at work, run the experiment under a new name."
        )

    def brief(self, findings: Findings) -> str:
        number = sum(one.runs for one in self.alike(findings))
        return "one odd run" if number == 1 else f"{number} odd runs{self.in_some(findings)}"


def check_odd_runs(evidence: Evidence) -> Iterator[OddRun]:
    """One for each cell."""
    of_cell: dict[int, list[Outlier]] = defaultdict(list)
    for outlier in evidence.basis.odd:
        of_cell[outlier.cell].append(outlier)
    for cell, found in of_cell.items():
        worst = max(found, key=lambda outlier: abs(outlier.deviation))
        cell_id, repetition = evidence.plan.cells[cell].cell_id, evidence.basis.rounds[worst.round]
        measurement = evidence.basis.used[cell_id][repetition].measurement
        elapsed_s = measurement.elapsed_s if measurement is not None else math.nan
        yield OddRun(
            cells=evidence.named([cell_id]), repetition=repetition,
            elapsed_s=elapsed_s, expected_s=elapsed_s / worst.ratio, ratio=worst.ratio, deviation_sd=worst.deviation,
            runs=len(found), left_out=int((cell_id, repetition) in evidence.basis.left_out),
        )  # fmt: skip
