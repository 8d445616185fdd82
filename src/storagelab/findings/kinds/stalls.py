"""Calculates an upper bound on the share of runs that stall. A few runs can't show rare stalls. The functions are
pure."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from storagelab.findings.basis import Basis, Evidence
from storagelab.findings.model import Finding, Findings
from storagelab.findings.verdicts import loads_of
from storagelab.model.plan import Plan
from storagelab.stats.stalls import share_most
from storagelab.words.numbers import percent, plural

RUNS_MOST = 29
"""The bound is reported only up to this number of runs. If 30 runs show no stall, fewer than a tenth of runs may
stall."""


class StallsUnseen(Finding, use_attribute_docstrings=True):
    """An upper bound on the share of the fastest layout's runs that stall."""

    kind, about = "stalls_unseen", "use"
    meaning = "An upper bound on the share of the fastest layout's runs that stall, from its runs."
    cell_id: str
    """The id of the cell with the shortest mean."""
    runs: int = Field(ge=1)
    """The number of the cell's runs."""
    stalled: int = Field(ge=0)
    """The number of the cell's runs that took much longer than its other runs."""
    share_most: float = Field(ge=0, le=1)
    """The upper bound (95 %) of the share of runs that stall."""

    def sentence(self, findings: Findings) -> str:
        runs = f"{self.stalled or 'none'} of {plural(self.runs, 'run')} with {findings.cell(self.cell_id).name} stalled"
        return f"Stalls: {runs}; of many runs, up to {percent(self.share_most)} may stall (95 %)."


def stalled_of(basis: Basis, plan: Plan, cell: int) -> int:
    """The number of runs of a cell that took much longer than its others. Runs whose records show a cause outside the
    layout don't count."""
    cell_id = plan.cells[cell].cell_id
    odd = (one for one in basis.odd if one.cell == cell and one.ratio > 1)
    return sum((cell_id, basis.rounds[one.round]) not in basis.left_out for one in odd)


def find(evidence: Evidence) -> Iterator[StallsUnseen]:
    fitted = evidence.basis.fitted
    loads = [cells for _, cells in loads_of(evidence.experiment.factors, evidence.plan.cells)]
    first = fitted.fastest() if len(loads) == 1 else None  # of several loads, the lightest has the fastest cell
    if first is None or evidence.basis.fleet is not None or evidence.basis.provenance != "measured":
        return
    runs, stalled = int(fitted.runs[first]), stalled_of(evidence.basis, evidence.plan, first)
    if 3 <= runs <= RUNS_MOST:
        yield StallsUnseen(
            cell_id=evidence.plan.cells[first].cell_id, runs=runs, stalled=stalled, share_most=share_most(runs, stalled)
        )
