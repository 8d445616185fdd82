"""The kinds of doubt about a measurement, each a type with its figures. `report` words them.

A "note" says what the result holds for; a "caution" says why to trust it less.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainSerializer

from storagelab.model.durability import Loss
from storagelab.model.engines import Provenance
from storagelab.model.plan import Order
from storagelab.model.values import Frozen

Severity = Literal["note", "caution"]
Names = Annotated[tuple[str, ...], PlainSerializer(", ".join)]


class _Doubt(Frozen):
    severity: Severity = "caution"
    cells: tuple[str, ...] = Field((), description="cell_ids it concerns; empty = the whole experiment")

    @property
    def figures(self) -> dict[str, object]:
        """The doubt's own fields, with units last in names."""
        return self.model_dump(exclude={"kind", "severity", "cells"})


class FailedRuns(_Doubt):
    """`failed` counts attempts, `unrecovered` the runs without a usable one; `reason` is the most frequent."""

    kind: Literal["failed-runs"] = "failed-runs"
    failed: int
    unrecovered: int
    planned: int
    reason: str


class MissingRuns(_Doubt):
    kind: Literal["missing-runs"] = "missing-runs"
    missing: int
    stored: int
    planned: int


class Unverified(_Doubt):
    """One setting that differs from what was asked. `asked` is empty if only a `reason` is known."""

    kind: Literal["unverified"] = "unverified"
    what: str
    asked: str
    got: str
    read_from: str
    runs: int
    reason: str


class _Repetitions(_Doubt):
    """The fewest runs of any cell that has some, and how many suffice for a sound verdict."""

    repetitions: int
    sound: int


class SingleRepetition(_Repetitions):
    kind: Literal["single-repetition"] = "single-repetition"


class FewRepetitions(_Repetitions):
    kind: Literal["few-repetitions"] = "few-repetitions"


class ShortRuns(_Doubt):
    """`shortest_s` is the smallest median of a cell."""

    kind: Literal["short-runs"] = "short-runs"
    shortest_s: float
    limit_s: float


class OddRun(_Doubt):
    """The farthest of a cell's odd `runs`. `left_out` = how many of them means and verdicts leave out: 0 or 1."""

    kind: Literal["outlier"] = "outlier"
    repetition: int
    elapsed_s: float
    expected_s: float
    ratio: float
    deviation_sd: float
    runs: int
    left_out: int


class RunInBlocks(_Doubt):
    """`factors` changed from block to block only."""

    kind: Literal["blocks"] = "blocks"
    factors: Names
    blocks: int


class Drift(_Doubt):
    """A `change` of 0.05 = times are 5 % longer at the end, whatever ran."""

    kind: Literal["drift"] = "drift"
    change: float
    p_value: float
    order: Order
    blocks: int


class Step(_Doubt):
    """Times jumped at `run`, counted from 1, of `runs`."""

    kind: Literal["step"] = "step"
    change: float
    p_value: float
    run: int
    runs: int
    order: Order
    blocks: int


class NotRandomised(_Doubt):
    kind: Literal["order"] = "order"
    order: Order
    provenance: Provenance


class ObserverDear(_Doubt):
    """`core_share` of one core, sampler and its session, over all runs."""

    kind: Literal["observer-cost"] = "observer-cost"
    core_share: float
    limit: float
    sampler_core_share: float


class Unexplained(_Doubt):
    """The mean shares of connections x elapsed that are explained, in the cells outside the limits."""

    kind: Literal["conservation"] = "conservation"
    lowest: float
    highest: float
    limit_low: float
    limit_high: float


class NoSplit(_Doubt):
    """Waits without Resource and Signal; `reason` is the most frequent."""

    kind: Literal["no-split"] = "no-split"
    severity: Severity = "note"
    runs: int
    reason: str


class FewWaitSamples(_Doubt):
    """`passes` is the smallest median of a cell."""

    kind: Literal["few-wait-samples"] = "few-wait-samples"
    passes: int | float
    limit: int


class BusyMachine(_Doubt):
    """`others_share` of all CPUs' time, the highest of a run; `runs` of those `checked` are above the limit."""

    kind: Literal["busy-machine"] = "busy-machine"
    others_share: float
    limit: float
    runs: int
    checked: int


class CpuSaturated(_Doubt):
    """`cpu_share` of all CPUs, the highest median of a cell."""

    kind: Literal["cpu-saturated"] = "cpu-saturated"
    severity: Severity = "note"
    cpu_share: float
    cpu_count: int
    limit: float


class VirtualDisk(_Doubt):
    kind: Literal["virtual-disk"] = "virtual-disk"
    severity: Severity = "note"
    volumes: Names
    reason: str
    device_model: str


class DurabilityOff(_Doubt):
    """One setting under which a crash loses something."""

    kind: Literal["durability-off"] = "durability-off"
    severity: Severity = "note"
    setting: str
    value: str
    loses: Loss


class SharedDevice(_Doubt):
    """Volumes on one device, so placement among them can't matter."""

    kind: Literal["shared-device"] = "shared-device"
    severity: Severity = "note"
    volumes: Names
    device: str


class AllocationLatches(_Doubt):
    """Numbers of data files are compared, and the server's version decides what more of them can gain."""

    kind: Literal["allocation-latches"] = "allocation-latches"
    severity: Severity = "note"
    major: int
    engine: str


class DifferentLoads(_Doubt):
    """`factors` set layout and load at once, so `loads` different loads are compared."""

    kind: Literal["different-loads"] = "different-loads"
    factors: Names
    loads: int


Caution = (
    FailedRuns | MissingRuns | Unverified | SingleRepetition | FewRepetitions
    | ShortRuns | OddRun | RunInBlocks | NotRandomised | Drift | Step
    | ObserverDear | FewWaitSamples | Unexplained | NoSplit
    | BusyMachine | CpuSaturated | VirtualDisk | DurabilityOff | SharedDevice | AllocationLatches | DifferentLoads
)  # fmt: skip
