"""Finds layouts whose typical run and mean give different answers, because some runs took much longer. The functions
are pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import Field

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Finding, Findings
from storagelab.findings.verdicts import loads_of
from storagelab.stats.stalls import Outlier
from storagelab.words.numbers import percent, plural, signed_percent, significant

APART_LEAST = 0.005
"""If the typical run and the mean differ by less than this share of the time, they give the same answer."""


class TypicalRun(Finding, use_attribute_docstrings=True):
    """A cell whose typical run and mean give different answers, because some of its runs took much longer."""

    kind, about, weight = "typical_runs", "use", 5
    meaning = "Layouts whose typical run (the median) and mean give different answers: some runs took longer."
    cell_id: str
    """The id of the cell."""
    runs: int = Field(ge=1)
    """The number of the cell's runs."""
    slow: int = Field(ge=1)
    """The number of its runs that took much longer and are not left out."""
    times_as_long: float = Field(gt=1)
    """The time of the longest run divided by the expected time."""
    fastest: str
    """The id of the cell with the shortest mean under the same load. It may be the same cell."""
    typical_ratio: float = Field(gt=0)
    """The time of the cell's typical run divided by the mean of the fastest cell."""
    mean_ratio: float = Field(gt=0)
    """The cell's mean divided by the mean of the fastest cell."""

    @classmethod
    def line(cls, findings: Findings) -> str:
        found = sorted(cls.of(findings), key=lambda one: one.typical_ratio)
        if not found:
            return ""
        first = found[0]
        more = f"; {len(found) - 1} more such below" if len(found) > 1 else ""
        runs = f"{first.slow} of {plural(first.runs, 'run')} with {findings.cell(first.cell_id).name}"
        return f"{runs} took {first.long()} as long: {first.compared()}{more}."

    def sentence(self, findings: Findings) -> str:
        name = findings.cell(self.cell_id).name
        runs = f"{self.slow} of {plural(self.runs, 'run')} with {name} took {self.long()} as long"
        return (
            f"{runs}: {self.compared()}. The verdict compares means. Choose by the median only if such runs do no harm."
        )

    def compared(self) -> str:
        """A text that compares the typical run with the mean."""
        if self.fastest == self.cell_id:
            return f"its median is {percent(1 - self.typical_ratio)} shorter than its mean"
        typical, mean = signed_percent(self.typical_ratio), signed_percent(self.mean_ratio)
        return f"median {typical}, mean {mean} against the fastest"

    def long(self) -> str:
        return f"{'up to ' if self.slow > 1 else ''}{significant(self.times_as_long, 2)} times"


def find(evidence: Evidence) -> Iterator[TypicalRun]:
    """The findings on cells that have slow runs which are not left out. Each is the fastest by its mean, or would be
    the fastest by its typical run."""
    basis = evidence.basis
    if basis.fleet is not None:  # the columns of its fit are hosts, not runs
        return
    slow: dict[int, list[Outlier]] = {}
    for one in basis.odd:
        if one.ratio > 1 and (evidence.plan.cells[one.cell].cell_id, basis.rounds[one.round]) not in basis.left_out:
            slow.setdefault(one.cell, []).append(one)
    for _, cells in loads_of(evidence.experiment.factors, evidence.plan.cells):
        yield from _of_a_load(evidence, cells, slow)


def _of_a_load(evidence: Evidence, cells: Sequence[int], slow: dict[int, list[Outlier]]) -> Iterator[TypicalRun]:
    fitted, plan = evidence.basis.fitted, evidence.plan
    means = {cell: float(fitted.cells[cell]) for cell in cells if not math.isnan(fitted.cells[cell])}
    if len(means) < 2:
        return
    fastest = min(means, key=lambda cell: means[cell])
    for cell, odd in slow.items():
        if cell not in means or evidence.basis.blocks[cell] != evidence.basis.blocks[fastest]:
            continue
        typical = means[cell] + float(np.nanmedian(fitted.every.residuals[cell]))
        if means[cell] - typical > math.log1p(APART_LEAST) and (cell == fastest or typical < means[fastest]):
            yield TypicalRun(
                cell_id=plan.cells[cell].cell_id, runs=int(fitted.runs[cell]), slow=len(odd),
                times_as_long=max(one.ratio for one in odd), fastest=plan.cells[fastest].cell_id,
                typical_ratio=math.exp(typical - means[fastest]), mean_ratio=math.exp(means[cell] - means[fastest]),
            )  # fmt: skip
