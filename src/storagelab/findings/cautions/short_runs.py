"""Runs too short to say much about the drive."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.evidence import Evidence
from storagelab.findings.model import Caution, Findings
from storagelab.words.numbers import duration, seconds

SHORT_RUN_S = 2.0


class ShortRuns(Caution):
    """Runs are short, so starting and stopping are a large part of them. `shortest_s` is the smallest median of a
    cell."""

    kind, place, weight, unable = "short-runs", 50, 240, "short-runs"
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
    medians = {cell.cell_id: cell.elapsed_s.median for cell in evidence.cells if cell.elapsed_s is not None}
    short = {cell_id: median for cell_id, median in medians.items() if median < SHORT_RUN_S}
    if short:
        yield ShortRuns(cells=evidence.named(short), shortest_s=min(short.values()), limit_s=SHORT_RUN_S)
