"""Doubts about raw I/O: a drive that is not steady, that others use, or that answers faster than a drive can. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings import caution_kinds as kinds
from storagelab.findings.evidence import Evidence
from storagelab.findings.steady import ROUNDS
from storagelab.model.measurement import RAW_IO, RAW_IO_AT_DRIVE

OTHERS_MOST = 0.02
FASTEST_READ_S = 8e-6
"""Flash takes 50 µs and the fastest media 8 µs to read a block; anything less came from memory."""
FASTEST_BYTES_PER_S = 16e9
"""What the four lanes of PCI Express 5 of a drive carry."""


def two_provenances(evidence: Evidence) -> Iterator[kinds.TwoProvenances]:
    if evidence.provenance == "measured and simulated":
        simulated = sum(cell.provenance == "simulated" for cell in evidence.cells)
        measured = sum(cell.provenance == "measured" for cell in evidence.cells)
        yield kinds.TwoProvenances(measured=measured, simulated=simulated)


def not_steady(evidence: Evidence) -> Iterator[kinds.NotSteady]:
    """Cells that did not end in steady state. Simulated drives have no series, so few repetitions say nothing about them."""
    raw = [cell for cell in evidence.cells if cell.raw_io]
    moving = [cell.cell_id for cell in raw if cell.steady is False]
    unknown = [cell.cell_id for cell in raw if cell.steady is None and cell.provenance == "measured"]
    if moving:
        yield kinds.NotSteady(cells=evidence.named(moving), rounds=ROUNDS, judged=True)
    if unknown:
        yield kinds.NotSteady(severity="note", cells=evidence.named(unknown), rounds=ROUNDS, judged=False)


def others_on_drive(evidence: Evidence) -> Iterator[kinds.OthersOnDrive]:
    """Bytes that the kernel counted at the drive beyond fio's."""
    shares: list[tuple[float, str]] = []
    checked = 0
    for cell_id, _, measurement in evidence.measurements():
        counted = measurement.counters.get(RAW_IO_AT_DRIVE, {})
        by_fio, by_kernel = (
            sum(counted.get(f"{what}_bytes_by_{whose}", 0.0) for what in ("read", "write"))
            for whose in ("fio", "kernel")
        )
        checked += by_fio > 0
        if by_fio and by_kernel > (1 + OTHERS_MOST) * by_fio:
            shares.append((by_kernel / by_fio - 1, cell_id))
    if shares:
        yield kinds.OthersOnDrive(
            cells=evidence.named(cell for _, cell in shares), share=max(shares)[0], limit=OTHERS_MOST, runs=len(shares),
            checked=checked,
        )  # fmt: skip


def too_fast(evidence: Evidence) -> Iterator[kinds.TooFast]:
    """Answers that no drive gives: the medium was not asked."""
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
        yield kinds.TooFast(
            cells=evidence.named(cell for cell, _, _ in found), latency_s=min(one for _, one, _ in found),
            bytes_per_s=max(one for _, _, one in found),
        )  # fmt: skip


CHECKS = (two_provenances, too_fast, not_steady, others_on_drive)
