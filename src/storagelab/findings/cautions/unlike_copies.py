"""Copies of prepared data that are made in several ways."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from storagelab.findings.evidence import Evidence, table_in, text_in
from storagelab.findings.model import Caution, Findings
from storagelab.model.prepared import RESTORED
from storagelab.words.names import noun


class UnlikeCopies(Caution):
    """Some layouts begin with copies that share blocks with their template, others with copies that were written in
    full. `cells` have the first way in `ways`."""

    kind, place, weight = "unlike-copies", 185, 75
    ways: str

    def sentence(self, findings: Findings) -> str:
        first, _, others = self.ways.partition(" / ")
        elsewhere = others.replace(" / ", " or ")
        return (
            f"Data was {first} from its template{self.where(findings)}, and elsewhere {elsewhere}. The first write to "
            "a block that is shared with a template makes the file system allocate another one, and a copy in full "
            f"lies in new extents: part of a difference between such {noun(findings.layout_factors, 2)} may be "
            "that of the copies. Put "
            'the volumes on file systems of one kind, or set between_runs.data = "rebuild".'
        )

    def brief(self, findings: Findings) -> str:
        return f"data {self.ways.replace(' / ', ' here, ')} there"


def check_copies(evidence: Evidence) -> Iterator[UnlikeCopies]:
    """One if cells, or runs of one, differ in how their data was copied."""
    cells: dict[str, set[str]] = defaultdict(set)
    for cell_id, _, measurement in evidence.measurements():
        state = text_in(table_in(measurement.environment, "data"), "state")
        if state.startswith(RESTORED):
            cells[state.removeprefix(RESTORED)].add(cell_id)
    if len(cells) > 1:
        ways = sorted(cells, reverse=True)  # "reflinked" before "copied"
        yield UnlikeCopies(cells=evidence.named(cells[ways[0]]), ways=" / ".join(ways))
