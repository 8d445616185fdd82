"""Cautions about runs that measure parts of the server's checkpoint cycles, or that begin before the server's redo log
is full."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean

from storagelab.findings import comparable
from storagelab.findings.basis import Evidence
from storagelab.findings.model import Caution, Findings
from storagelab.model.measurement import LOG_ROOM, Measurement
from storagelab.words.names import noun
from storagelab.words.numbers import bytes_, percent, plural, seconds, significant

SHARE_LEAST = 0.1
"""Smaller shares hardly matter. Used for the share of a run before the log is full, and for the share of whole-page
images in a log."""
PAGE_BYTES = 8192
"""PostgreSQL's default page size. With wal_compression, images are smaller, so the calculated share is an upper
bound."""
GROWS_LEAST = 0.25
"""If the log in use grows by less than this share of the bytes written to the log, the server writes pages about as
fast as they change."""


class LogFills(Caution):
    """The measurement of runs begins before the redo log is full. The mean share of the measured time before the log is
    full is between `fewest` and `most` in these cells. `longest_s` is the longest time from the start of a measurement
    until the log was full; None if no log became full. `all_bytes` is the space in the smallest log."""

    kind, group = "log-fills", "runs"
    short = "runs count before the redo log is full"
    runs: int
    fewest: float
    most: float
    all_bytes: float
    longest_s: float | None

    def sentence(self, findings: Findings) -> str:
        share = f"{percent(self.fewest)} to " * (self.most - self.fewest > SHARE_LEAST) + percent(self.most)
        later = f" by {seconds(self.longest_s)}" if self.longest_s and self.longest_s > 0 else ""
        return (
            f"{plural(self.runs, 'run')}{self.where(findings)} counted before the redo log was full, for {share} of "
            "the time. Until then, the server need not write changed pages, so times are shorter than later. The "
            f"larger the log, the longer this lasts. Raise workload.warm_up{later}, or choose a smaller log "
            f"(innodb_log_file_size; room in it: {bytes_(self.all_bytes)})."
        )


class LogNeverFull(Caution):
    """The redo log became full in no run. `longest_s` is the longest measured time."""

    kind, group = "log-never-full", "drive"
    short = "the redo log was never full"
    longest_s: float
    all_bytes: float

    def sentence(self, findings: Findings) -> str:
        return (
            f"The redo log (room for {bytes_(self.all_bytes)}) was not full in any run. The longest run counted "
            f"{seconds(self.longest_s)}. Until the log is full, the server need not write changed pages, so the "
            "figures don't include that cost. Raise workload.warm_up, or choose a smaller log (innodb_log_file_size)."
        )


def check_log_room(evidence: Evidence) -> Iterator[LogFills | LogNeverFull]:
    of_cell = {
        cell_id: [one for one in runs if LOG_ROOM in one.counters] for cell_id, runs in evidence.by_cell().items()
    }
    shares = {cell_id: fmean(map(_share_before, runs)) for cell_id, runs in of_cell.items() if runs}
    if not shares or max(shares.values()) <= SHARE_LEAST:
        return
    told = [one for runs in of_cell.values() for one in runs]
    if min(shares.values()) == 1.0:
        yield LogNeverFull(severity="note", longest_s=max(one.elapsed_s for one in told), all_bytes=_least_room(told))
        return
    cells = [cell_id for cell_id, share in shares.items() if share > SHARE_LEAST]
    after_s = [at_s for one in told if (at_s := one.counters[LOG_ROOM].get("full_after_s")) is not None]
    yield LogFills(
        cells=evidence.named(cells), runs=sum(_share_before(one) > SHARE_LEAST for one in told),
        fewest=min(shares[one] for one in cells), most=max(shares[one] for one in cells),
        all_bytes=_least_room([run for one in cells for run in of_cell[one]]), longest_s=max(after_s, default=None),
    )  # fmt: skip


def _least_room(runs: Sequence[Measurement]) -> float:
    return min(one.counters[LOG_ROOM]["all_bytes"] for one in runs)


def _share_before(run: Measurement) -> float:
    """The share of a run's measured time before its log was full. It is 0 if the server wrote pages as fast as they
    changed."""
    room = run.counters[LOG_ROOM]
    if "full_after_s" in room:
        return min(1.0, max(0.0, room["full_after_s"] / run.elapsed_s)) if run.elapsed_s > 0 else 0.0
    grown = (room["end_share"] - room["begin_share"]) * room["all_bytes"]
    return 1.0 if grown > GROWS_LEAST * run.counters.get("log", {}).get("innodb_lsn_current", 0.0) else 0.0


class PartsOfCycles(Caution):
    """`runs` runs measure parts of checkpoint cycles. Between `fewest` and `most` checkpoints began per minute in these
    cells. `judged` says whether the cells are compared in spite of this.
    """

    kind, group, unable = "checkpoint-cycles", "runs", "checkpoint-cycles"
    runs: int
    fewest: float
    most: float
    judged: bool

    def sentence(self, findings: Findings) -> str:
        rate = significant(self.fewest, 2) + f" to {significant(self.most, 2)}" * (self.most > self.fewest)
        so = f"So these {noun(findings.factors, 2)} are not compared."
        if self.judged:
            so = f"So the times of checkpoints may cause a difference, and not the {noun(findings.factors, 2)}."
        return (
            f"{plural(self.runs, 'run')}{self.where(findings)} don't contain whole checkpoint cycles. While they "
            f"counted, {rate} checkpoints began per minute, and throughput falls after each. {so} {_way_out(self)}"
        )

    def brief(self, findings: Findings) -> str:
        return f"runs{self.in_some(findings)} count parts of checkpoint cycles"

    def is_unable(self, findings: Findings) -> bool:
        return not self.judged


def _way_out(found: PartsOfCycles) -> str:
    if found.judged:
        auto = 'Set workload.warm_up = "auto" (not with sysbench), so that runs count whole cycles'
        return f"{auto}, or raise workload.duration to five cycles."
    often = "make checkpoints come more often (checkpoint_timeout)"
    return f"Raise workload.warm_up_at_most and workload.duration, or {often}."


class NoCheckpoint(Caution):
    """No checkpoint of the server began during measurements. `longest_s` is the longest measured time.
    `full_page_share` is the share of whole-page images in the log; None if the server doesn't count them. The server
    writes such an image when a page first changes after a checkpoint."""

    kind, group = "no-checkpoint", "drive"
    short = "no checkpoint began while runs counted"
    longest_s: float
    full_page_share: float | None = None

    def sentence(self, findings: Findings) -> str:
        share = self.full_page_share or 0.0
        images = (
            f"Up to {percent(share)} of the log was images of whole pages. The server writes one when a page first "
            "changes after a checkpoint. The longer a run, the smaller is their share, and ratios change with it. "
        ) * (share >= SHARE_LEAST)
        return (
            "No checkpoint of the server began while runs counted. The longest run counted "
            f"{significant(self.longest_s, 3)} s. So the figures are those of a server between two checkpoints, and "
            f"don't include the cost of checkpoints. {images}Raise workload.duration, or make checkpoints come more "
            "often (checkpoint_timeout, max_wal_size)."
        )


def check_cycles(evidence: Evidence) -> Iterator[PartsOfCycles | NoCheckpoint]:
    used = evidence.basis.used
    told = comparable.told_of(used)
    found = comparable.in_parts(told)
    if told and comparable.nothing_seen(told):
        longest_s = max(one.elapsed_s for _, _, one in evidence.measurements())
        logged = [one.counters.get("wal", {}) for _, _, one in evidence.measurements()]
        logs = [log for log in logged if log.get("wal_bytes") and "wal_fpi" in log]
        share = fmean(min(1.0, PAGE_BYTES * log["wal_fpi"] / log["wal_bytes"]) for log in logs) if logs else None
        yield NoCheckpoint(severity="note", longest_s=longest_s, full_page_share=share)
    elif found:
        counted_s: dict[str, float] = defaultdict(float)
        for cell_id, _, one in evidence.measurements():
            counted_s[cell_id] += one.elapsed_s
        rates = [60 * sum(run["while_counted"] for run in told[one]) / max(counted_s[one], 1e-9) for one in found]
        yield PartsOfCycles(
            cells=evidence.named(found), runs=sum(len(told[one]) for one in found), fewest=min(rates), most=max(rates),
            judged=not comparable.withheld(used),
        )  # fmt: skip
