"""Short runs on volumes that a control group throttles: the kernel admits their requests in slices of time."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from storagelab.findings.evidence import Evidence, table_in, volumes_of
from storagelab.findings.model import Caution, Findings, Severity
from storagelab.model.measurement import Measurement
from storagelab.words.numbers import percent, seconds, significant

SLICE_S = 0.1
"""Linux, `throtl_slice`: the kernel admits the requests of a throttled group in slices of this length."""
SHARE_LEAST = 0.02


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
            f"Control groups throttle the volumes{self.where(findings)}, and the kernel admits their requests in slices of "
            f"{significant(self.slice_s, 1)} s. In runs as short as {seconds(self.shortest_s)}, that shifts times by up to "
            f"{percent(self.share)}, in all runs alike, so no interval holds it. Longer runs make it smaller."
        )


def check_throttle_slices(evidence: Evidence) -> Iterator[ThrottleSlices]:
    if evidence.basis.compared not in ("elapsed", "time-per-row"):
        return  # a run of a set time is as long as it is set
    short = dict[str, float]()
    for cell_id, measurements in evidence.by_cell().items():
        times_s = [one.elapsed_s for one in measurements if _is_throttled(one)]
        if times_s and (middle_s := median(times_s)) * SHARE_LEAST < SLICE_S:
            short[cell_id] = middle_s
    if short and (shortest_s := min(short.values())) > 0:
        yield ThrottleSlices(
            cells=evidence.named(short), shortest_s=shortest_s, slice_s=SLICE_S, share=min(1.0, SLICE_S / shortest_s)
        )


def _is_throttled(measurement: Measurement) -> bool:
    return any(table_in(facts, "throttle") for _, facts in volumes_of(measurement))
