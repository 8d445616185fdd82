"""Runs that count parts of the server's checkpoint cycles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from storagelab.findings import cycles
from storagelab.findings.evidence import Evidence
from storagelab.findings.model import Caution, Findings
from storagelab.words.names import noun
from storagelab.words.numbers import plural, significant


class PartsOfCycles(Caution):
    """Runs count parts of checkpoint cycles: `runs` runs, in which between `fewest` and `most` checkpoints began in a
    minute, by cell. `judged`: whether the cells are compared all the same.
    """

    kind, place, weight, unable = "checkpoint-cycles", 33, 45, "checkpoint-cycles"
    runs: int
    fewest: float
    most: float
    judged: bool

    def sentence(self, findings: Findings) -> str:
        rate = significant(self.fewest, 2)
        if self.most > self.fewest:
            rate += f" to {significant(self.most, 2)}"
        so = (
            f"So a difference may come from when checkpoints began, and not from the {noun(findings.factors, 2)}."
            if self.judged
            else f"So these {noun(findings.factors, 2)} are not compared."
        )
        return (
            f"{plural(self.runs, 'run')}{self.where(findings)} don't hold whole checkpoint cycles: while they counted, "
            f"{rate} checkpoints began in a minute, and throughput falls after each. {so} {_way_out(self)}"
        )

    def brief(self, findings: Findings) -> str:
        return f"runs{self.in_some(findings)} count parts of checkpoint cycles"

    def is_unable(self, findings: Findings) -> bool:
        return not self.judged


def _way_out(found: PartsOfCycles) -> str:
    if found.judged:
        auto = 'Let workload.warm_up be "auto" (not with sysbench), which counts whole cycles'
        return f"{auto}, or raise workload.duration to five of them."
    often = "make checkpoints come more often (checkpoint_timeout)"
    return f"Raise workload.warm_up_at_most and workload.duration, or {often}."


class NoCheckpoint(Caution):
    """No checkpoint of the server began while runs counted."""

    kind, place, weight = "no-checkpoint", 34, 300
    longest_s: float

    def sentence(self, findings: Findings) -> str:
        return (
            "No checkpoint of the server began in any run, the longest of which counted "
            f"{significant(self.longest_s, 3)} s: the figures are those of a server between two checkpoints, and say "
            "nothing of what checkpoints cost. For that, raise workload.duration, or make checkpoints come more "
            "often (checkpoint_timeout, max_wal_size)."
        )

    def brief(self, findings: Findings) -> str:
        return "no checkpoint began while runs counted"


def check_cycles(evidence: Evidence) -> Iterator[PartsOfCycles | NoCheckpoint]:
    used = evidence.basis.used
    told = cycles.told_of(used)
    found = cycles.in_parts(told)
    if told and cycles.nothing_seen(told):
        longest_s = max(one.elapsed_s for _, _, one in evidence.measurements())
        yield NoCheckpoint(severity="note", longest_s=longest_s)
    elif found:
        counted_s: dict[str, float] = defaultdict(float)
        for cell_id, _, one in evidence.measurements():
            counted_s[cell_id] += one.elapsed_s
        rates = [60 * sum(run["while_counted"] for run in told[one]) / max(counted_s[one], 1e-9) for one in found]
        yield PartsOfCycles(
            cells=evidence.named(found), runs=sum(len(told[one]) for one in found), fewest=min(rates), most=max(rates),
            judged=not cycles.withheld(used),
        )  # fmt: skip
