"""Runs that failed or are not made yet: the findings may still change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from storagelab.findings.evidence import Evidence
from storagelab.findings.model import Caution, Findings
from storagelab.words.names import without_stop
from storagelab.words.numbers import count, plural


class FailedRuns(Caution):
    """Runs failed. `failed` counts attempts, `unrecovered` runs without a usable one; `reason` is the most frequent."""

    kind, place, weight = "failed-runs", 10, 10
    failed: int
    unrecovered: int
    planned: int
    reason: str

    def sentence(self, findings: Findings) -> str:
        where, planned = self.where(findings), count(self.planned)
        what = f"{plural(self.failed, 'run')} failed{where}, in a plan of {planned}; no figure counts failed runs."
        # The first line says what failed; the log after it is in the store and in the report's raw data.
        reason = without_stop(self.reason)
        why = f" The commonest reason: {reason.splitlines()[0].rstrip('.')}." if reason else ""
        if self.unrecovered == 0:
            return f"{what}{why} All have since been made again, so nothing is missing."
        return (
            f"{what}{why} Fix the cause, then repeat them with `storagelab run --again`. If the cause lies in the "
            "spec, change it and give it a new name (or delete the results folder if nothing in it is wanted)."
        )

    def brief(self, findings: Findings) -> str:
        return f"{plural(self.failed, 'run')} failed"


class MissingRuns(Caution):
    """Some planned runs are not stored."""

    kind, place, weight, unable = "missing-runs", 20, 200, "not-finished"
    missing: int
    stored: int
    planned: int

    def sentence(self, findings: Findings) -> str:
        missing = f"{count(self.missing)} of {count(self.planned)} planned runs {'is' if self.missing == 1 else 'are'}"
        return (
            f"{missing} not made yet{self.where(findings)}, so the findings may still change. `storagelab run` "
            "continues where it stopped."
        )

    def brief(self, findings: Findings) -> str:
        return f"{plural(self.missing, 'run')} still to make"


def check_runs(evidence: Evidence) -> Iterator[Caution]:
    planned = len(evidence.plan.runs)
    failed = [run for run in evidence.runs if not run.usable]
    if failed:
        reasons = Counter(run.reason for run in failed)
        lost = {(r.cell_id, r.repetition) for r in failed if r.repetition not in evidence.basis.used.get(r.cell_id, {})}
        yield FailedRuns(
            cells=evidence.named(run.cell_id for run in failed), failed=len(failed), unrecovered=len(lost),
            planned=planned, reason=reasons.most_common(1)[0][0],
        )  # fmt: skip
    stored = {(run.cell_id, run.repetition) for run in evidence.runs}
    missing = [run for run in evidence.plan.runs if (run.cell_id, run.repetition) not in stored]
    if missing:
        yield MissingRuns(
            cells=evidence.named(run.cell_id for run in missing), missing=len(missing), stored=planned - len(missing),
            planned=planned,
        )  # fmt: skip
