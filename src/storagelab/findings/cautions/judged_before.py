"""Campaigns of a kind that only an earlier version could judge."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.evidence import Evidence
from storagelab.findings.model import Caution, Findings


class JudgedBefore(Caution):
    """`what` the campaign was; its runs are judged as a plain experiment, of which some are missing."""

    kind, place, weight = "judged-before", 46, 155
    what: str

    def sentence(self, findings: Findings) -> str:
        return f"This was {self.what}. Its runs are judged here as an experiment of which the others were not made."

    def brief(self, findings: Findings) -> str:
        return "of a kind that is no longer judged"


def check_judged_before(evidence: Evidence) -> Iterator[JudgedBefore]:
    if evidence.experiment.judged_before:
        yield JudgedBefore(what=evidence.experiment.judged_before)
