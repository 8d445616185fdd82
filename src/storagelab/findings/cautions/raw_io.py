"""Cautions about raw I/O on a drive that is not in steady state, that others use, or that answers too fast. Also a
caution about experiments with both measured and simulated runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.basis import Evidence
from storagelab.findings.comparable import ROUNDS
from storagelab.findings.model import Caution, Findings, Severity
from storagelab.model.measurement import RAW_IO, RAW_IO_AT_DRIVE
from storagelab.words.numbers import count, percent, plural, seconds, significant

OTHERS_MOST = 0.02
FASTEST_READ_S = 8e-6
"""If the median read is faster, its data came from memory. Flash takes 50 µs to read a block, and the fastest media
take 8 µs."""
FASTEST_BYTES_PER_S = 16e9
"""The highest rate of a drive with four lanes of PCI Express 5."""


class TwoProvenances(Caution):
    """Some cells are measured and some are simulated. Measured cells are not compared with simulated cells."""

    kind, group = "two-provenances", "drive"
    short = "simulated and measured are not compared"
    severity: Severity = "note"
    measured: int
    simulated: int

    def sentence(self, findings: Findings) -> str:
        return (
            f"{count(self.simulated)} of these cells are simulated and {count(self.measured)} are measured on drives. "
            "They are shown together, but not tested against each other, because an error of the model would look "
            "like a difference."
        )


class TooFast(Caution):
    """A drive answered faster than any drive can. `latency_s` is the smallest median latency of a run, and
    `bytes_per_s` the largest rate."""

    kind, group = "too-fast", "drive"
    short = "a drive answered faster than drives can"
    latency_s: float
    bytes_per_s: float

    def sentence(self, findings: Findings) -> str:
        return (
            f"A drive answered faster than drives can{self.where(findings)}: half of the requests within "
            f"{seconds(self.latency_s)}, up to {significant(self.bytes_per_s / 1e6)} MB/s. The data did not come from "
            "the medium. They came from a cache or from the memory of a host, or parts of the device had never been "
            "written. So these figures don't describe a drive."
        )


class NotSteady(Caution):
    """Drives were not in steady state over the last `rounds`. If `judged` is false, there were too few rounds to judge
    this."""

    kind, group = "not-steady", "drive"
    next_step = "make longer runs: raise workload.warm_up and workload.duration"
    rounds: int
    judged: bool

    def sentence(self, findings: Findings) -> str:
        where, rounds = self.where(findings), count(self.rounds)
        rule = f"{rounds} rounds within 20 % of their mean, with a slope within 10 % of it"
        if not self.judged:
            return (
                f"The runs don't show whether the drive was in steady state{where}. Steady state means: {rule}. Raise "
                f"workload.duration to {rounds} s or more after the warm-up, or raise repetitions to {rounds}."
            )
        return (
            f"The drive was not in steady state at the end{where}. Steady state means: {rule}. A flash drive's "
            "rates change until it has been overwritten at random. Raise workload.warm_up and workload.duration."
        )

    def brief(self, findings: Findings) -> str:
        what = "not in steady state" if self.judged else "too short to show steady state"
        return f"{what}{self.in_some(findings)}"


class OthersOnDrive(Caution):
    """Other programs used the drive of raw I/O. Their bytes were up to the `share` of the run's own bytes. In `runs` of
    `checked` runs, their share was above the `limit`.
    """

    kind, group = "others-on-drive", "drive"
    share: float
    limit: float
    runs: int
    checked: int

    def sentence(self, findings: Findings) -> str:
        return (
            f"Others used the drive in {count(self.runs)} of {plural(self.checked, 'run')}{self.where(findings)}. The "
            f"kernel counted up to {percent(self.share)} more bytes at the drive than the run asked for. So these runs "
            "show only the rate that the others left."
        )

    def brief(self, findings: Findings) -> str:
        return f"others used the drive (up to {percent(self.share)} more bytes than the run)"


def check_provenances(evidence: Evidence) -> Iterator[TwoProvenances]:
    if evidence.provenance == "measured and simulated":
        simulated = sum(cell.provenance == "simulated" for cell in evidence.cells)
        yield TwoProvenances(
            measured=sum(cell.provenance == "measured" for cell in evidence.cells), simulated=simulated
        )


def check_too_fast(evidence: Evidence) -> Iterator[TooFast]:
    """Finds answers that are too fast for any drive. Their data did not come from the medium."""
    found: list[tuple[str, float, float]] = []
    for cell_id, _, measurement in evidence.measurements():
        figures = measurement.counters.get(RAW_IO)
        if not figures:
            continue
        median_s, bytes_per_s = figures.get("latency_p50_s"), figures.get("bytes_per_s", 0.0)
        reads = getattr(evidence.plan.cell(cell_id).config.workload, "operation", "") == "read"
        quick = reads and median_s is not None and median_s < FASTEST_READ_S
        if measurement.provenance == "measured" and (quick or bytes_per_s > FASTEST_BYTES_PER_S):
            found.append((cell_id, median_s or 0.0, bytes_per_s))
    if found:
        yield TooFast(
            cells=evidence.named(cell for cell, _, _ in found), latency_s=min(one for _, one, _ in found),
            bytes_per_s=max(one for _, _, one in found),
        )  # fmt: skip


def check_steady(evidence: Evidence) -> Iterator[NotSteady]:
    """Finds cells that did not end in steady state. Traces are not checked, because they have no steady state. If a
    simulated cell has too few repetitions to judge this, there is no caution, because simulated drives have no time
    series.
    """
    set_time = {cell.cell_id for cell in evidence.plan.cells if cell.config.workload.work.unit == "ms"}
    raw = [cell for cell in evidence.cells if cell.raw_io and cell.cell_id in set_time]
    moving = [cell.cell_id for cell in raw if cell.steady is False]
    unknown = [cell.cell_id for cell in raw if cell.steady is None and cell.provenance == "measured"]
    if moving:
        yield NotSteady(cells=evidence.named(moving), rounds=ROUNDS, judged=True)
    if unknown:
        yield NotSteady(severity="note", cells=evidence.named(unknown), rounds=ROUNDS, judged=False)


def check_others(evidence: Evidence) -> Iterator[OthersOnDrive]:
    """Finds bytes that the kernel counted at the drive in addition to fio's bytes. Runs with syncs are not checked,
    because the file system's own writes can't be separated from other programs' writes.
    """
    shares: list[tuple[float, str]] = []
    checked = 0
    for cell_id, _, measurement in evidence.measurements():
        synced = getattr(evidence.plan.cell(cell_id).config.workload, "sync", "none") != "none"
        counted = {} if synced else measurement.counters.get(RAW_IO_AT_DRIVE, {})
        by_fio, by_kernel = (
            sum(counted.get(f"{what}_bytes_by_{whose}", 0.0) for what in ("read", "write"))
            for whose in ("fio", "kernel")
        )
        checked += by_fio > 0
        if by_fio and by_kernel > (1 + OTHERS_MOST) * by_fio:
            shares.append((by_kernel / by_fio - 1, cell_id))
    if shares:
        yield OthersOnDrive(
            cells=evidence.named(cell for _, cell in shares), share=max(shares)[0], limit=OTHERS_MOST, runs=len(shares),
            checked=checked,
        )  # fmt: skip
