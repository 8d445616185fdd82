"""Transactions that the server refused, or that were made again: rates and latencies are those of the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Caution, Findings
from storagelab.model.measurement import GENERATOR, NOT_AT_ONCE, refused_share
from storagelab.words.names import listed
from storagelab.words.numbers import percent

SHARE_LEAST = 0.001
"""A smaller share doesn't change what a rate means."""
APART = 0.01
"""Cells whose shares are further apart did different work."""


class Refused(Caution):
    """Transactions were refused by the server or made again: `shares` of those tried, by cell, the mean of its runs.
    `how` says what became of them.
    """

    kind, group = "refused-transactions", "runs"
    shares: dict[str, float]
    how: str

    @property
    def most(self) -> float:
        return max(self.shares.values())

    @property
    def apart(self) -> bool:
        return self.most - min(self.shares.values()) > APART

    def sentence(self, findings: Findings) -> str:
        differs = (
            f" The share differs between {len(self.shares)} cells, from {percent(min(self.shares.values()))}: they did "
            "different work, and their rates can't be compared as if it were the same."
        )
        return (
            f"Up to {percent(self.most)} of transactions{self.where(findings)} were {self.how}. Rates and latencies "
            f"are those of the others.{differs if self.apart else ''} Let fewer transactions meet at the same rows "
            "(fewer connections, more rows), or lower the isolation level if your own server does."
        )

    def brief(self, findings: Findings) -> str:
        differs = ", unlike shares" if self.apart else ""
        return f"{percent(self.most)} of transactions refused or made again{self.in_some(findings)}{differs}"


def check_refused(evidence: Evidence) -> Iterator[Refused]:
    shares: dict[str, list[float]] = defaultdict(list)
    ways = set()
    for cell_id, _, one in evidence.measurements():
        if one.transactions is not None:
            counted = one.counters.get(GENERATOR, {})
            shares[cell_id].append(refused_share(counted, one.transactions))
            ways |= {name for name in NOT_AT_ONCE if counted.get(name)}
    means = {cell_id: fmean(found) for cell_id, found in shares.items()}
    concerned = [cell_id for cell_id, share in means.items() if share > SHARE_LEAST]
    if concerned:
        yield Refused(
            cells=evidence.named(concerned), shares=means,
            how=listed([how for name, how in NOT_AT_ONCE.items() if name in ways]),
        )  # fmt: skip
