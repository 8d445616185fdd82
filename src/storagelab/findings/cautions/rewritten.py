"""A caution about tables and indexes that were rewritten or dropped during a run."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Caution, Findings, Severity
from storagelab.model.measurement import REWRITTEN
from storagelab.words.numbers import plural


class Rewritten(Caution):
    """In `runs` runs, tables or indexes got new files or were dropped. `example` names those of the first of these
    runs."""

    kind, group = "rewritten", "drive"
    severity: Severity = "note"
    runs: int
    example: str

    def sentence(self, findings: Findings) -> str:
        return (
            f"In {plural(self.runs, 'run')}{self.where(findings)}, tables or indexes got new files during the run, or "
            f"were dropped ({self.example}). TRUNCATE, CLUSTER, VACUUM FULL and ALTER TABLE do that. Places were read "
            "back after each run, so they are those of the new files. A new table is in the first data file until it "
            "is placed."
        )

    def brief(self, findings: Findings) -> str:
        return f"objects were rewritten in {plural(self.runs, 'run')}"


def check_rewritten(evidence: Evidence) -> Iterator[Rewritten]:
    """Gives one caution for all runs in which objects were rewritten or dropped."""
    found = [
        (cell_id, check.got)
        for cell_id, _, measurement in evidence.measurements()
        for check in measurement.checks
        if check.name == REWRITTEN
    ]
    if found:
        yield Rewritten(cells=evidence.named({cell_id for cell_id, _ in found}), runs=len(found), example=found[0][1])
