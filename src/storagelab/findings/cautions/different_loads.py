"""A caution about cells that are compared although they do different work, because one factor sets both layout and
load."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from storagelab.findings.basis import Evidence, Names
from storagelab.findings.model import Caution, Findings
from storagelab.spec.factors import is_condition, sets_load
from storagelab.words.names import capital, factor_text, listed
from storagelab.words.numbers import count


class DifferentLoads(Caution):
    """Each of the `factors` sets both layout and load, so `loads` different loads are compared."""

    kind, group, unable = "different-loads", "drive", "different-loads"
    factors: Names
    loads: int

    def sentence(self, findings: Findings) -> str:
        names = [factor_text(name) for name in self.factors]
        both = f"{listed(names)} set{'s' * (len(names) == 1)}" if names else "A factor sets"
        return (
            f"{capital(both)} layout and load at once, so the compared cells had {count(self.loads)} different loads. "
            "The fastest may be the one that had to do the least. Let one factor set the load and another the layout. "
            "Then each load has its own verdict."
        )

    def brief(self, findings: Findings) -> str:
        return f"{self.loads} different loads are compared"


def check_loads(evidence: Evidence) -> Iterator[DifferentLoads]:
    """Finds different loads that are compared. A factor that sets only conditions is no problem, because each condition
    has its own verdict."""
    factors = evidence.experiment.factors
    own = [factor.name for factor in factors if is_condition(factor)]
    groups: dict[str, set[tuple[str, float]]] = defaultdict(set)
    for cell in evidence.plan.cells:
        if (inserts := cell.config.workload.inserts) is not None:
            groups[repr([cell.levels[name] for name in own])].add(inserts)
    loads = max(map(len, groups.values()), default=0)
    if loads > 1:
        both = [factor.name for factor in factors if factor.name not in own and sets_load(factor)]
        yield DifferentLoads(factors=tuple(both), loads=loads)
