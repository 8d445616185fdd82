"""Cautions about runs that are too short to characterise the drive, and about short runs on throttled volumes, where
the kernel admits requests in slices of time.
"""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.basis import Evidence
from storagelab.findings.comparable import short_cells
from storagelab.findings.model import Caution, Findings, Severity
from storagelab.model.volume import SLICE_S
from storagelab.words.numbers import duration, percent, seconds, significant


class ThrottleSlices(Caution):
    """Runs are short compared with the time slices of a throttle. `shortest_s` is the smallest of the cells' median
    times. `share` is the length of a slice divided by `shortest_s`.
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
            f"slices of {significant(self.slice_s, 1)} s. If a run takes {seconds(self.shortest_s)}, this shifts "
            f"times by up to {percent(self.share)}. The shift is the same in all runs, so their scatter doesn't show "
            "it. So the intervals of ratios extend at least that far to both sides. Longer runs reduce the share."
        )


def check_throttle_slices(evidence: Evidence) -> Iterator[ThrottleSlices]:
    if evidence.basis.compared not in ("elapsed", "time-per-row"):
        return  # the spec sets the length of runs, so slices can't change it
    short = short_cells(evidence.by_cell())
    if short:
        yield ThrottleSlices(
            cells=evidence.named(short), shortest_s=min(short.values()), slice_s=SLICE_S,
            share=min(1.0, SLICE_S / min(short.values())),
        )  # fmt: skip


SHORT_RUN_S = 2.0


class ShortRuns(Caution):
    """Runs are short, so starting and stopping are a large part of their time. `shortest_s` is the time of the shortest
    run."""

    kind, group, unable = "short-runs", "sample", "short-runs"
    next_step = "longer runs: more rows per connection, or a longer duration"
    shortest_s: float
    limit_s: float

    def sentence(self, findings: Findings) -> str:
        return (
            f"Runs{self.where(findings)} are as short as {seconds(self.shortest_s)}. Starting and stopping are a large "
            f"part of such a run, and the drive may behave differently in longer runs. Raise {length_key(findings)} "
            f"until a run takes {duration(self.limit_s)} or more."
        )

    def brief(self, findings: Findings) -> str:
        return f"runs as short as {seconds(self.shortest_s)}{self.in_some(findings)}"


def length_key(findings: Findings) -> str:
    """The key of the spec that makes runs longer."""
    if findings.compared in ("elapsed", "time-per-row") and findings.unit == "rows":
        return "workload.rows_per_connection"
    return "workload.duration"


def check_lengths(evidence: Evidence) -> Iterator[ShortRuns]:
    samples = {cell.cell_id: cell.elapsed_s for cell in evidence.cells if cell.elapsed_s is not None}
    if short := {cell_id: of.minimum for cell_id, of in samples.items() if of.median < SHORT_RUN_S}:
        yield ShortRuns(cells=evidence.named(short), shortest_s=min(short.values()), limit_s=SHORT_RUN_S)
