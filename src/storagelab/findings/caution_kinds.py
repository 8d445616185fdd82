"""The kinds of doubt about a measurement, each a type with its figures. `report` puts them into words.

A "note" says what the result holds for; a "caution" says why to trust it less.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainSerializer

from storagelab.model.durability import Loss
from storagelab.model.engines import Provenances
from storagelab.model.plan import Order
from storagelab.model.values import Frozen

Severity = Literal["note", "caution"]
Names = Annotated[tuple[str, ...], PlainSerializer(", ".join)]


class _Doubt(Frozen):
    severity: Severity = "caution"
    cells: tuple[str, ...] = Field((), description="ids of the cells concerned; empty = the whole experiment")

    @property
    def figures(self) -> dict[str, object]:
        """The fields that only this kind of doubt has, with units last in names."""
        return self.model_dump(exclude={"kind", "severity", "cells"})


class FailedRuns(_Doubt):
    """Runs failed. `failed` counts attempts, `unrecovered` runs without a usable one; `reason` is the most frequent."""

    kind: Literal["failed-runs"] = "failed-runs"
    failed: int
    unrecovered: int
    planned: int
    reason: str


class MissingRuns(_Doubt):
    """Some planned runs are not stored."""

    kind: Literal["missing-runs"] = "missing-runs"
    missing: int
    stored: int
    planned: int


class Unverified(_Doubt):
    """A setting differs from the one asked for. `asked` is empty if only a `reason` is known."""

    kind: Literal["unverified"] = "unverified"
    what: str
    asked: str
    got: str
    read_from: str
    runs: int
    reason: str


class Unsettled(_Doubt):
    """Throughput had not settled when `runs` began to count, though the warm-up was to last that long; `got` says how
    far it was bound to move in one of them, and `asked` what counts as settled."""

    kind: Literal["unsettled"] = "unsettled"
    asked: str
    got: str
    runs: int


class BehindRate(_Doubt):
    """`runs` did fewer transactions than the rate `asked` for; `got` says how many one of them did, and how late."""

    kind: Literal["behind-rate"] = "behind-rate"
    asked: str
    got: str
    runs: int


class _Repetitions(_Doubt):
    """Some cell has few runs: the fewest of any cell that has some, and how many make a sound verdict."""

    repetitions: int
    sound: int


class SingleRepetition(_Repetitions):
    """Some cell has one run, so nothing shows how much runs scatter."""

    kind: Literal["single-repetition"] = "single-repetition"


class FewRepetitions(_Repetitions):
    """Some cell has fewer runs than a sound verdict takes."""

    kind: Literal["few-repetitions"] = "few-repetitions"


class ShortRuns(_Doubt):
    """Runs are short, so starting and stopping are a large part of them. `shortest_s` is the smallest median of a cell."""

    kind: Literal["short-runs"] = "short-runs"
    shortest_s: float
    limit_s: float


class OddRun(_Doubt):
    """A cell has odd `runs`; the figures are those of the oddest. Means and verdicts leave out `left_out` of them: 0 or 1."""

    kind: Literal["outlier"] = "outlier"
    repetition: int
    elapsed_s: float
    expected_s: float
    ratio: float
    deviation_sd: float
    runs: int
    left_out: int


class RunInBlocks(_Doubt):
    """The `factors` changed only from block to block, so their levels ran at different times."""

    kind: Literal["blocks"] = "blocks"
    factors: Names
    blocks: int


class Drift(_Doubt):
    """Times drifted, whatever ran. A `change` of 0.05 means times 5 % longer at the end; None if it is not known how large it
    is."""

    kind: Literal["drift"] = "drift"
    change: float | None
    p_value: float
    order: Order
    blocks: int


class Step(_Doubt):
    """Times jumped at number `run` of `runs`, counted from 1."""

    kind: Literal["step"] = "step"
    change: float
    p_value: float
    run: int
    runs: int
    order: Order
    blocks: int


class NotRandomised(_Doubt):
    """The order of the runs was not random."""

    kind: Literal["order"] = "order"
    order: Order
    provenance: Provenances


class ObserverDear(_Doubt):
    """Observing costs much: the sampler and its session took `core_share` of one core over all runs."""

    kind: Literal["observer-cost"] = "observer-cost"
    core_share: float
    limit: float
    sampler_core_share: float


class Unexplained(_Doubt):
    """Waits and CPU explain too little or too much of connections x elapsed: mean shares, in cells outside the limits."""

    kind: Literal["conservation"] = "conservation"
    lowest: float
    highest: float
    limit_low: float
    limit_high: float


class NoSplit(_Doubt):
    """Waits lack the split into resource and signal. `reason` is the most frequent."""

    kind: Literal["no-split"] = "no-split"
    severity: Severity = "note"
    runs: int
    reason: str


class FewWaitSamples(_Doubt):
    """Waits rest on few samples. `passes` is the smallest median of a cell."""

    kind: Literal["few-wait-samples"] = "few-wait-samples"
    passes: int | float
    limit: int


class BusyMachine(_Doubt):
    """Others used the machine: up to `others_share` of all CPUs' time. Of `checked` runs, `runs` exceed the limit."""

    kind: Literal["busy-machine"] = "busy-machine"
    others_share: float
    limit: float
    runs: int
    checked: int


class Throttled(_Doubt):
    """A control group's CPU quota held back `who`: "server", "load" (the load's own program) or "storagelab". In the worst of
    `runs` that took `throttled_s`, summed over CPUs, a `share` of the run."""

    kind: Literal["throttled"] = "throttled"
    who: str
    throttled_s: float
    share: float
    limit: float
    runs: int


class CpuSaturated(_Doubt):
    """The CPUs were busy, so storage was not the limit. `cpu_share` of all CPUs is the highest median of a cell."""

    kind: Literal["cpu-saturated"] = "cpu-saturated"
    severity: Severity = "note"
    cpu_share: float
    cpu_count: int
    limit: float


class VirtualDisk(_Doubt):
    """Volumes lie on a virtual or caching disk, which is not a drive."""

    kind: Literal["virtual-disk"] = "virtual-disk"
    severity: Severity = "note"
    volumes: Names
    reason: str
    device_model: str


class DurabilityOff(_Doubt):
    """With this setting, a crash loses something."""

    kind: Literal["durability-off"] = "durability-off"
    severity: Severity = "note"
    setting: str
    value: str
    loses: Loss


class SharedDevice(_Doubt):
    """Several volumes share one device, so placement among them can't matter."""

    kind: Literal["shared-device"] = "shared-device"
    severity: Severity = "note"
    volumes: Names
    device: str


class AllocationLatches(_Doubt):
    """Numbers of data files are compared, and the server's version decides what more files can gain."""

    kind: Literal["allocation-latches"] = "allocation-latches"
    severity: Severity = "note"
    major: int
    engine: str


class FilesOnDisks(_Doubt):
    """Simulated: numbers of data files are compared on disks, up to `data_files` of them on fewer `volumes`.

    What that costs rests on one article, and on the `order` in which the disks serve their queues.
    """

    kind: Literal["files-on-disks"] = "files-on-disks"
    volumes: Names
    data_files: int
    order: str


class DifferentLoads(_Doubt):
    """The `factors` set layout and load together, so `loads` different loads are compared."""

    kind: Literal["different-loads"] = "different-loads"
    factors: Names
    loads: int


class TwoProvenances(_Doubt):
    """Some cells are measured and some simulated; they are not compared with each other."""

    kind: Literal["two-provenances"] = "two-provenances"
    severity: Severity = "note"
    measured: int
    simulated: int


class NotSteady(_Doubt):
    """Drives that did not end in steady state over the last `rounds`; not `judged` = there were fewer."""

    kind: Literal["not-steady"] = "not-steady"
    rounds: int
    judged: bool


class OthersOnDrive(_Doubt):
    """Others used the drive of raw I/O: up to `share` of its own bytes on top. Of `checked` runs, `runs` exceed the limit."""

    kind: Literal["others-on-drive"] = "others-on-drive"
    share: float
    limit: float
    runs: int
    checked: int


class TooFast(_Doubt):
    """A drive answered faster than one can: the smallest median latency, and the largest rate."""

    kind: Literal["too-fast"] = "too-fast"
    latency_s: float
    bytes_per_s: float


class Unlike(Frozen):
    """One fact that differs between hosts: each value with the hosts that have it."""

    fact: str = Field(description='part and name, as in a manifest: "host: kernel", "volume a: device_model"')
    values: tuple[tuple[str, tuple[str, ...]], ...]


class UnlikeHosts(_Doubt):
    """The hosts of a campaign are not alike."""

    kind: Literal["unlike-hosts"] = "unlike-hosts"
    differs: tuple[Unlike, ...]


Caution = (
    FailedRuns | MissingRuns | Unverified | Unsettled | BehindRate | SingleRepetition | FewRepetitions
    | ShortRuns | OddRun | RunInBlocks | NotRandomised | Drift | Step
    | ObserverDear | FewWaitSamples | Unexplained | NoSplit
    | BusyMachine | Throttled | CpuSaturated | VirtualDisk | DurabilityOff | SharedDevice | AllocationLatches | FilesOnDisks
    | DifferentLoads | TwoProvenances | NotSteady | OthersOnDrive | TooFast | UnlikeHosts
)  # fmt: skip
