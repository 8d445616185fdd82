"""Runs that are too short to characterise the drive, and short runs on throttled volumes, where the kernel admits
requests in slices of time.
"""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.basis import Evidence
from storagelab.findings.comparable import short_cells
from storagelab.findings.model import Caution, Findings, Severity
from storagelab.model.volume import SLICE_S
from storagelab.words.numbers import duration, percent, seconds, significant


class ThrottleSlices(Caution):
    """Runs are short compared with the slices of a throttle. `shortest_s` is the smallest median of a cell, `share` is
    a slice divided by it.
    """

    kind, group = "throttle-slices", "sample"
    short = "short runs on throttled volumes"
    severity: Severity = "note"
    shortest_s: float
    slice_s: float
    share: float

    def sentence(self, findings: Findings) -> str:
        return (
            f"Control groups throttle the volumes{self.where(findings)}, and the kernel admits their requests in "
            f"slices of {significant(self.slice_s, 1)} s. If a run takes {seconds(self.shortest_s)}, that shifts "
            f"times by up to {percent(self.share)}, in all runs alike: scatter doesn't show it, so the intervals of "
            "ratios reach at least that far to either side. Longer runs make it smaller."
        )


def check_throttle_slices(evidence: Evidence) -> Iterator[ThrottleSlices]:
    if evidence.basis.compared not in ("elapsed", "time-per-row"):
        return  # a run of a set time always takes that time
    short = short_cells(evidence.by_cell())
    if short:
        yield ThrottleSlices(
            cells=evidence.named(short), shortest_s=min(short.values()), slice_s=SLICE_S,
            share=min(1.0, SLICE_S / min(short.values())),
        )  # fmt: skip


SHORT_RUN_S = 2.0


class ShortRuns(Caution):
    """Runs are short, so starting and stopping are a large part of them. `shortest_s` is the shortest of these
    runs."""

    kind, group, unable = "short-runs", "sample", "short-runs"
    next_step = "longer runs: more rows per connection, or a longer duration"
    shortest_s: float
    limit_s: float

    def sentence(self, findings: Findings) -> str:
        return (
            f"Runs{self.where(findings)} are as short as {seconds(self.shortest_s)}: starting and stopping are a large "
            f"part of them, and the drive may behave differently in the long run. Raise {length_key(findings)} until a "
            f"run takes {duration(self.limit_s)} or more."
        )

    def brief(self, findings: Findings) -> str:
        return f"runs as short as {seconds(self.shortest_s)}{self.in_some(findings)}"


def length_key(findings: Findings) -> str:
    """The spec's key that makes runs longer."""
    if findings.compared in ("elapsed", "time-per-row") and findings.unit == "rows":
        return "workload.rows_per_connection"
    return "workload.duration"


def check_lengths(evidence: Evidence) -> Iterator[ShortRuns]:
    samples = {cell.cell_id: cell.elapsed_s for cell in evidence.cells if cell.elapsed_s is not None}
    if short := {cell_id: of.minimum for cell_id, of in samples.items() if of.median < SHORT_RUN_S}:
        yield ShortRuns(cells=evidence.named(short), shortest_s=min(short.values()), limit_s=SHORT_RUN_S)
