"""The findings of one cell, as values: samples of its runs, and other findings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny

from storagelab.findings.time_breakdown import Bound, Spent
from storagelab.model.engines import Provenance
from storagelab.model.values import Estimate, Frozen, JsonValue
from storagelab.model.waits import WaitStat
from storagelab.words.names import cell_name, cell_text

if TYPE_CHECKING:
    from storagelab.findings.model import Findings


class Point(Frozen):
    """One run's value, by repetition."""

    repetition: int
    value: float


class Sample(Frozen):
    """One quantity over the runs of a cell. `mean` has a 95 % interval that stays above 0, from three runs on; `sd` is
    None for a single run. For times and rates, `mean` is the geometric mean of the runs that count, so it lies among
    them. Comparisons use `adjusted`: the same mean, adjusted for rounds that the cell missed. Both have the same
    interval, as a share. For everything else, `mean` is the arithmetic mean of the points."""

    mean: Estimate
    median: float
    sd: float | None
    minimum: float
    maximum: float
    points: tuple[Point, ...]
    adjusted: Estimate | None = Field(None, description="the figure by which cells are compared; None for all others")

    @property
    def judged(self) -> Estimate:
        """The figure by which cells are compared."""
        return self.adjusted or self.mean


class Finding(Frozen, ABC):
    """A finding with its texts; `findings.kinds` has a class for each kind. Its fields are exported."""

    kind: ClassVar[str]
    """Its name, and its field in `found`."""
    meaning: ClassVar[str]
    """What that field contains, for the reference."""
    about: ClassVar[Literal["use", "gains", "why"]]
    """The part of the evidence that it belongs to."""
    weight: ClassVar[int] = 0
    """Within that part, the smallest comes first."""
    of_cells: ClassVar[bool] = False
    """Whether it belongs to a cell: then it is in `found` of each cell that has it."""

    @classmethod
    def of(cls, where: CellSummary | Findings) -> tuple[Self, ...]:
        """All of this kind."""
        return tuple(one for one in where.found.get(cls.kind, ()) if isinstance(one, cls))

    @classmethod
    @abstractmethod
    def sentences(cls, findings: Findings) -> list[str]:
        """The text of all findings of this kind for the evidence, with figures."""

    @classmethod
    def line(cls, findings: Findings) -> str:  # noqa: ARG003
        """The text of all findings of this kind for the answer, in one sentence; "" = none."""
        return ""


def _read_as_kinds(found: Any) -> Any:
    """Findings read from a file get the class of their kind."""
    kinds = {one.kind: one for one in Finding.__subclasses__()}
    if unknown := [kind for kind in found if kind not in kinds]:
        raise ValueError(f"no finding is of the kind {unknown[0]}")
    return {kind: tuple(kinds[kind].model_validate(one) for one in those) for kind, those in found.items()}


Found = Annotated[dict[str, tuple[SerializeAsAny[Finding], ...]], BeforeValidator(_read_as_kinds)]
"""By kind."""


class DriveState(Frozen):
    """A drive's state in the runs of a cell, if it reports that: `quantity` over a run, mean of the runs."""

    drive: str
    quantity: Literal["write_amplification", "utilisation"]
    mean: Estimate


class CellSummary(Frozen):
    """One cell over its repetitions. Samples are None while the cell has no usable run."""

    cell_id: str
    levels: dict[str, JsonValue]
    provenance: Provenance | None
    """Where its figures come from."""
    runs_planned: int
    """Runs that the spec asks for."""
    runs_ok: int
    """Those that are `ok`."""
    runs_unverified: int
    """Those that are `unverified`: they count."""
    runs_failed: int
    """Those that `failed`."""
    connections: int
    """Connections of a run."""
    data_files: int
    """Data files of its layout."""
    elapsed_s: Sample | None = None
    """Completion times."""
    work_per_s: Sample | None = None
    """Work a second: rows, requests or transactions."""
    work: float | None = Field(None, description="the work of the mean run, in its unit")
    checkpoint_s: Sample | None = None
    """The checkpoint after a run."""
    latency: dict[str, Estimate] = Field(
        default_factory=dict,
        description="figures in seconds, mean, p50 to p99.9, max: of all operations of its runs, or, where a latency "
        "is judged, geometric means of the runs' own",
    )
    judged: Sample | None = Field(None, description="the figure of each run's latency by which the spec compares cells")
    raw_io: dict[str, Sample] = Field(default_factory=dict, description="results of raw I/O runs, by counter")
    steady: bool | None = Field(None, description="whether raw I/O ended in steady state; None after too few rounds")
    waits: tuple[WaitStat, ...] = Field((), description="the mean run, uncut, CPU row included")
    waits_asked: bool = Field(True, description="False where measure.waits = false: nothing was sampled")
    wait_shares: dict[str, Estimate] = Field(
        default_factory=dict, description="wait type -> share of connections x elapsed (0..1), mean over the runs"
    )
    available_s: float | None = Field(None, description="connections x elapsed of the mean run")
    each_s: float | None = Field(None, description="its mean transaction, if `spent` adds up to that")
    explained: float | None = Field(None, description="share of it that waits + CPU account for")
    drive_states: tuple[DriveState, ...] = Field((), description="the drives as these runs found and left them")
    spent: tuple[Spent, ...] = Field((), description="where each second went; of several engines by class of wait")
    bounds: tuple[Bound, ...] = Field((), description="the shortest times that known limits of its volumes allow")
    stretch: int = Field(0, description="cells of different stretches of time can't be tested against each other")
    drives: int | None = Field(None, description="drives of data and log, or volumes if drives are not known")
    capacity_bytes: float | None = Field(None, description="capacity of the volumes of the data, if known")
    price_per_month: float | None = Field(None, description="the sum of the spec's prices of its volumes and levels")
    found: Found = Field(default_factory=dict, description="other findings of its runs")
    labels: dict[str, str] = Field(default_factory=dict, description="the spec's own short names of what varies")

    @property
    def text(self) -> str:
        """Its levels in short."""
        return cell_text(self.levels, self.labels)

    @property
    def name(self) -> str:
        """The cell in a sentence."""
        return cell_name(self.cell_id, self.levels, self.labels)
