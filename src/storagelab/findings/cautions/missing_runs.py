"""Cautions about failed, missing and few runs, and about campaigns that only an earlier version could judge. With
missing runs, findings may still change. With few runs, intervals are wide or missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Caution, Findings
from storagelab.model.plan import REPETITIONS_SOUND
from storagelab.stats.stalls import RUNS_LEAST
from storagelab.words.names import without_stop
from storagelab.words.numbers import count, plural

REPETITIONS_LEAST = 3


class SingleRepetition(Caution):
    """At least one cell has only one run, so the scatter of its runs is unknown."""

    kind, group = "single-repetition", "sample"
    repetitions: int
    sound: int

    def sentence(self, findings: Findings) -> str:
        return (
            f"There is only 1 run per cell{self.where(findings)}, so the scatter of times is unknown and no difference "
            f"can be shown. Set repetitions to {count(self.sound)} or more."
        )

    def brief(self, findings: Findings) -> str:
        return _runs_each(findings, "one run of each")


class FewRepetitions(Caution):
    """At least one cell has few runs. `repetitions` is the smallest number of runs of a cell; cells without runs don't
    count. `sound` is the number for a reliable verdict.
    """

    kind, group = "few-repetitions", "sample"
    repetitions: int
    sound: int

    def sentence(self, findings: Findings) -> str:
        where = self.where(findings)
        per = f"in some cells{where}" if where else "per cell"
        odd = f", and odd runs are found (with fewer than {RUNS_LEAST}, none is)" * (self.repetitions < RUNS_LEAST)
        return (
            f"With {count(self.repetitions)} runs {per}, intervals are wide, and only large differences can be shown. "
            f"With {count(self.sound)} or more repetitions, intervals are narrower{odd}."
        )

    def brief(self, findings: Findings) -> str:
        return _runs_each(findings, f"{self.repetitions} runs each")


def _runs_each(findings: Findings, alike: str) -> str:
    """A text with the smallest and the largest number of runs of a cell; `alike` if all cells have the same number.
    Cells without runs don't count."""
    runs = [number for cell in findings.cells if (number := cell.runs_ok + cell.runs_unverified)]
    return f"{min(runs)} to {max(runs)} runs each" if len(set(runs)) > 1 else alike


def check_repetitions(evidence: Evidence) -> Iterator[SingleRepetition | FewRepetitions]:
    counts = {cell_id: len(runs) for cell_id, runs in evidence.basis.used.items() if runs}
    fewest = min(counts.values(), default=REPETITIONS_SOUND)
    if fewest < REPETITIONS_SOUND:
        yield (SingleRepetition if fewest == 1 else FewRepetitions)(
            severity="note" if fewest >= REPETITIONS_LEAST else "caution",
            cells=evidence.named(cell_id for cell_id, count in counts.items() if count == fewest),
            repetitions=fewest, sound=REPETITIONS_SOUND,
        )  # fmt: skip


class JudgedBefore(Caution):
    """The campaign is of a kind that is no longer judged; `what` names the kind. Its runs are judged as a plain
    experiment with missing runs."""

    kind, group = "judged-before", "sample"
    what: str

    def sentence(self, findings: Findings) -> str:
        return f"This was {self.what}. It is judged here as a plain experiment in which some runs are missing."

    def brief(self, findings: Findings) -> str:
        return "of a kind that is no longer judged"


def check_judged_before(evidence: Evidence) -> Iterator[JudgedBefore]:
    if evidence.experiment.judged_before:
        yield JudgedBefore(what=evidence.experiment.judged_before)


class FailedRuns(Caution):
    """Runs failed. `failed` is the number of failed attempts. `unrecovered` is the number of runs without a usable
    attempt. `reason` is the most frequent reason."""

    kind, group = "failed-runs", "runs"
    failed: int
    unrecovered: int
    planned: int
    reason: str

    def sentence(self, findings: Findings) -> str:
        where, planned = self.where(findings), count(self.planned)
        what = f"{plural(self.failed, 'run')} failed{where}, in a plan of {planned}. No figure includes failed runs."
        # The first line names the error. The log after it is in the store and in the report's raw data.
        reason = without_stop(self.reason)
        why = f" The most frequent reason: {reason.splitlines()[0].rstrip('.')}." if reason else ""
        if self.unrecovered == 0:
            return f"{what}{why} All have since been made again, so no run is missing."
        return (
            f"{what}{why} Fix the cause, then repeat them with `storagelab run --again`. If the spec is the cause, "
            "change it and give it a new name (or delete the results folder if you need nothing in it)."
        )

    def brief(self, findings: Findings) -> str:
        return f"{plural(self.failed, 'run')} failed"


class MissingRuns(Caution):
    """Some planned runs are not stored."""

    kind, group, unable = "missing-runs", "runs", "not-finished"
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
        lost = {(r.cell_id, r.repetition) for r in failed if r.repetition not in evidence.basis.used.get(r.cell_id, {})}
        yield FailedRuns(
            cells=evidence.named(run.cell_id for run in failed), failed=len(failed), unrecovered=len(lost),
            planned=planned, reason=Counter(run.reason for run in failed).most_common(1)[0][0],
        )  # fmt: skip
    stored = {(run.cell_id, run.repetition) for run in evidence.runs}
    missing = [run for run in evidence.plan.runs if (run.cell_id, run.repetition) not in stored]
    if missing:
        yield MissingRuns(
            cells=evidence.named(run.cell_id for run in missing), missing=len(missing), stored=planned - len(missing),
            planned=planned,
        )  # fmt: skip
