"""Cautions about runs that differ from the spec: in a setting, because throughput was not stable, or because the rate
was not reached. Also a caution about transactions that the server refused or that were repeated, which rates and
latencies exclude.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Caution, Findings
from storagelab.model.measurement import (
    BEHIND_RATE,
    GENERATOR,
    NOT_AT_ONCE,
    REFUSED,
    SETTLED,
    THROTTLED,
    WATCHED,
    refused_share,
)
from storagelab.words.names import factor_text, in_brackets, listed, without_stop
from storagelab.words.numbers import percent, plural

UNVERIFIED_MOST = 10


class Unverified(Caution):
    """A setting differs from the setting that the spec asked for. `asked` is empty if only a `reason` is known."""

    kind, group, unable = "unverified", "runs", "unverified"
    what: str
    asked: str
    got: str
    read_from: str
    runs: int
    reason: str

    def sentence(self, findings: Findings) -> str:
        what, asked, got = without_stop(self.what), without_stop(self.asked), without_stop(self.got)
        source = f", read from {without_stop(self.read_from)}" if self.read_from else ""
        if not self.asked:
            thing = f"something could not be verified{in_brackets(what or without_stop(self.reason))}"
        elif not got:
            thing = f"{factor_text(what)} was to be {asked}, but its actual value could not be read back{source}"
        else:
            thing = f"{factor_text(what)} was to be {asked} but was {got}{source}"
        return (
            f"In {plural(self.runs, 'run')}{self.where(findings)}, {thing}. These times are counted, but they may not "
            "be those of the named layout. Fix the setting or the volume, and run the experiment under a new name."
        )

    def brief(self, findings: Findings) -> str:
        return f"{factor_text(self.what) if self.what else 'something'} was not as asked"


class Unsettled(Caution):
    """Throughput was not yet stable when the measurement of `runs` runs began, although the warm-up should have lasted
    until it was. `asked` is the criterion. `got` says by how much throughput still changed in one of these runs.
    """

    kind, group = "unsettled", "runs"
    asked: str
    got: str
    runs: int

    def sentence(self, findings: Findings) -> str:
        which = "it was" if self.runs == 1 else "in one of them it was"
        return (
            f"{plural(self.runs, 'run')}{self.where(findings)} began to count before throughput had {self.asked}: "
            f"{which} {self.got}. The figures count, but may include warm-up. Raise workload.warm_up_at_most."
        )

    def brief(self, findings: Findings) -> str:
        return f"throughput had not settled in {plural(self.runs, 'run')}"


class BehindRate(Caution):
    """In `runs` runs, the server made fewer transactions than the rate `asked` for. `got` has the number of
    transactions and the delay of one run."""

    kind, group = "behind-rate", "runs"
    asked: str
    got: str
    runs: int

    def sentence(self, findings: Findings) -> str:
        which = "it" if self.runs == 1 else "one of them"
        return (
            f"{plural(self.runs, 'run')}{self.where(findings)} fell behind the set rate: {which} was to do "
            f"{self.asked} and did {self.got}. Latencies then include the wait in a growing queue, and say little "
            "about the server. Lower workload.rate, or leave it out to measure the highest possible rate."
        )

    def brief(self, findings: Findings) -> str:
        return f"{plural(self.runs, 'run')} fell behind the set rate"


class Unwatched(Caution):
    """storagelab should have sampled `asked` in each of `runs` runs. `got` says what it missed in one of them."""

    kind, group, unable = "unwatched", "runs", "unwatched"
    asked: str
    got: str
    runs: int

    def sentence(self, findings: Findings) -> str:
        return (
            f"In {plural(self.runs, 'run')}{self.where(findings)}, storagelab was to watch {self.asked}, but in "
            f"{'it' if self.runs == 1 else 'one of them'}: {without_stop(self.got)}. These times are counted, but "
            "their waits are not those of the whole run. If the server stood still, the times include that. Look at "
            "the time series, and run the experiment under a new name."
        )

    def brief(self, findings: Findings) -> str:
        return f"{plural(self.runs, 'run')} not watched as a whole"


def check_settings(evidence: Evidence) -> Iterator[Unverified]:
    """Gives one caution for each setting that differs from what the spec asked for."""
    cells: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    reasons: dict[tuple[str, str, str, str], str] = {}
    for cell_id, run, measurement in evidence.measurements():
        whats = [
            (check.name, check.asked, check.got, check.read_from)
            for check in measurement.unverified if check.name not in (SETTLED, BEHIND_RATE, WATCHED, THROTTLED, REFUSED)
        ]  # fmt: skip
        if run.status == "unverified" and not measurement.unverified:
            whats = [(run.reason, "", "", "")]
        for what in whats:
            cells[what].append(cell_id)
            reasons.setdefault(what, run.reason)
    for what in list(cells)[:UNVERIFIED_MOST]:
        name, asked, got, read_from = what
        yield Unverified(
            cells=evidence.named(cells[what]), what=name, asked=asked, got=got, read_from=read_from,
            runs=len(cells[what]), reason=reasons[what],
        )  # fmt: skip


def check_progress(evidence: Evidence) -> Iterator[Unsettled | BehindRate | Unwatched]:
    """Gives one caution for all runs that failed the same check. The caution quotes the first of them."""
    for name, kind in ((SETTLED, Unsettled), (BEHIND_RATE, BehindRate), (WATCHED, Unwatched)):
        found = [(id_, check) for id_, _, m in evidence.measurements() for check in m.unverified if check.name == name]
        if found:
            check, cells = found[0][1], evidence.named(cell_id for cell_id, _ in found)
            yield kind(cells=cells, asked=check.asked, got=check.got, runs=len(found))


# --- transactions that were refused -----------------------------------------------------------------------------------

SHARE_LEAST = 0.001
"""If the share of refused transactions is at most this, a rate is still meaningful."""
APART = 0.01
"""If the shares of cells differ by more than this, the cells did different work."""


class Refused(Caution):
    """The server refused transactions, or they were repeated, as `how` says. `shares` has their share of all attempts
    for each cell, as the mean over the cell's runs.
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
            f" The share differs between {len(self.shares)} cells; the smallest is "
            f"{percent(min(self.shares.values()))}. So they did different work, and their rates can't be compared."
        )
        return (
            f"Up to {percent(self.most)} of transactions{self.where(findings)} were {self.how}. Rates and latencies "
            f"are those of the others.{differs if self.apart else ''} Let fewer transactions use the same rows at once "
            "(fewer connections or more rows), or lower the isolation level if your own server has a lower one."
        )

    def brief(self, findings: Findings) -> str:
        differs = ", shares differ" if self.apart else ""
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
