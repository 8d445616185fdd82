"""Finds the scatter of runs, which determines how many repetitions are needed to show a difference. The functions are
pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pydantic import Field

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Finding, Findings
from storagelab.stats.fit import Fit


class Scatter(Finding, use_attribute_docstrings=True):
    """The scatter of times from run to run."""

    kind, about = "scatter", "use"
    meaning = "How times scatter from run to run; none if no cell was run twice, or if hosts were compared."
    sd: float = Field(ge=0)
    """The standard deviation of log times, over the cells that do not surely scatter more than others."""
    runs: int
    """The number of runs from which `sd` was estimated."""
    alike: bool
    """Whether no cell surely scatters more than others, so that `sd` holds for all cells."""

    @classmethod
    def sentences(cls, findings: Findings) -> list[str]:  # noqa: ARG003
        """No sentences, because intervals show the scatter, and the answer's last line uses it."""
        return []


def scatter_in(fitted: Fit) -> Scatter | None:
    if fitted.df < 1:
        return None
    return Scatter(sd=math.sqrt(fitted.pooled), runs=int(fitted.runs.sum()), alike=fitted.alike)


def find(evidence: Evidence) -> Iterator[Scatter]:
    basis = evidence.basis
    # With several hosts or preparations, the needed repetitions don't depend on the scatter of runs alone.
    found = scatter_in(basis.fitted) if basis.fleet is None and basis.fitted.preparations is None else None
    if found is not None:
        yield found
