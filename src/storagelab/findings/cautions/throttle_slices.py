"""Short runs on volumes that a control group throttles: the kernel admits their requests in slices of time."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.disturbed import short_cells
from storagelab.findings.evidence import Evidence
from storagelab.findings.model import Caution, Findings, Severity
from storagelab.model.limits import SLICE_S
from storagelab.words.numbers import percent, seconds, significant


class ThrottleSlices(Caution):
    """Runs are short against the slices of a throttle. `shortest_s` is the smallest median of a cell, `share` a slice's
    share of it.
    """

    kind, place, weight = "throttle-slices", 55, 165
    short = "short runs on throttled volumes"
    severity: Severity = "note"
    shortest_s: float
    slice_s: float
    share: float

    def sentence(self, findings: Findings) -> str:
        return (
            f"Control groups throttle the volumes{self.where(findings)}, and the kernel admits their requests in "
            f"slices of {significant(self.slice_s, 1)} s. In runs as short as {seconds(self.shortest_s)}, that shifts "
            f"times by up to {percent(self.share)}, in all runs alike: scatter doesn't show it, so the intervals of "
            "ratios reach at least that far to either side. Longer runs make it smaller."
        )


def check_throttle_slices(evidence: Evidence) -> Iterator[ThrottleSlices]:
    if evidence.basis.compared not in ("elapsed", "time-per-row"):
        return  # a run of a set time is as long as it is set
    short = short_cells(evidence.by_cell())
    if short:
        yield ThrottleSlices(
            cells=evidence.named(short), shortest_s=min(short.values()), slice_s=SLICE_S,
            share=min(1.0, SLICE_S / min(short.values())),
        )  # fmt: skip
