"""Runs in which nothing ended for seconds, though requests or transactions were waiting: something stood still."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Caution, Findings
from storagelab.model.measurement import RAW_IO, Measurement
from storagelab.words.numbers import plural, seconds

LEAST_S, TIMES_A_MEAN = 2.0, 10
"""A standstill lasts at least so long, and so many times as long as what the run did takes on average."""


class StoodStill(Caution):
    """In `runs` of `of` runs nothing ended for up to `longest_s`, though something was waiting."""

    kind, group = "standstill", "runs"
    runs: int
    of: int
    longest_s: float

    def sentence(self, findings: Findings) -> str:
        return (
            f"In {self.runs} of {plural(self.of, 'run')}{self.where(findings)}, nothing ended for up to "
            f"{seconds(self.longest_s)}, though something was waiting: a drive, its limit, a server or the load stood "
            "still. Look at the time series. If it was not the storage itself, remove the cause, "
            "and run under a new name."
        )

    def brief(self, findings: Findings) -> str:
        return f"{plural(self.runs, 'run')} stood still for up to {seconds(self.longest_s)}"


def check_standstill(evidence: Evidence) -> Iterator[StoodStill]:
    found = [(cell_id, _standstill_s(one)) for cell_id, run, one in evidence.measurements() if not run.config.simulated]
    still = Counter(cell_id for cell_id, still_s in found if still_s)
    if still:
        cells = evidence.named(still)
        yield StoodStill(cells=cells, runs=still.total(), of=len(found), longest_s=max(still_s for _, still_s in found))


def _standstill_s(one: Measurement) -> float:
    """The longest standstill of a run; 0 without one."""
    longest_s = one.counters.get(RAW_IO, {}).get("standstill_s", 0.0)
    now_s = before_s = 0.0
    for at_s, per_s in zip(one.series.at_s, one.series.columns.get("transactions_per_s", ()), strict=False):
        now_s = now_s + at_s - before_s if per_s == 0 else 0.0
        longest_s, before_s = max(longest_s, now_s), at_s
    mean_s = one.latency.mean_s if one.latency is not None else 0.0
    return longest_s if longest_s >= max(LEAST_S, TIMES_A_MEAN * mean_s) else 0.0
