"""How much the runs of a layout scatter: from this follows how many repetitions tell a difference apart. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from pydantic import Field

from storagelab.findings.evidence import Evidence
from storagelab.findings.model import Finding, Findings
from storagelab.findings.stats import Fit
from storagelab.findings.studentized import MANY


class Scatter(Finding):
    """How times scatter from run to run."""

    kind, about, alone = "scatter", "use", True
    meaning = "How times scatter from run to run; `null` if no cell was run twice, or if hosts were compared."
    sd: float = Field(ge=0, description="The standard deviation of log times in a typical cell.")
    prior_df: float = Field(description="Degrees of freedom that all cells lend to each.")
    runs: int = Field(description="The runs that it was learned from.")
    alike: bool = Field(description="Whether no cell surely scatters more than others, so that all share one figure.")

    @classmethod
    def sentences(cls, findings: Findings) -> list[str]:  # noqa: ARG003
        """None: intervals show it, and the answer's last line says what follows from it."""
        return []


def scatter_in(fitted: Fit) -> Scatter | None:
    if fitted.df < 1 or np.isnan(fitted.own).all():
        return None
    sd = math.sqrt(float(np.nanmedian(fitted.variance)))
    return Scatter(sd=sd, prior_df=min(fitted.prior_df, MANY), runs=int(fitted.runs.sum()), alike=fitted.alike)


def find(evidence: Evidence) -> Iterator[Scatter]:
    basis = evidence.basis
    # Of several hosts or preparations, the scatter of runs doesn't say how many repetitions it takes.
    found = scatter_in(basis.fitted) if basis.fleet is None and basis.fitted.between is None else None
    if found is not None:
        yield found
