"""The evidence in which cautions are looked for: everything stored of an experiment, and its analysis. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import PlainSerializer

from storagelab.findings.irregular import Outlier
from storagelab.findings.model import CellSummary
from storagelab.model.engines import Provenances
from storagelab.model.measurement import Measurement, Run
from storagelab.model.plan import Experiment, Plan

Names = Annotated[tuple[str, ...], PlainSerializer(", ".join)]
"""Names in a caution's figures."""


@dataclass(frozen=True)
class Evidence:
    """Everything stored of an experiment, and its analysis.

    `used` = cell_id -> repetition -> run with figures. `cells` are its summaries. `odd` = runs that stand apart, by their
    places in the plan's cells and in `rounds`; `left_out` = those, by cell and repetition, that no verdict uses.
    """

    experiment: Experiment
    plan: Plan
    runs: tuple[Run, ...]
    used: Mapping[str, Mapping[int, Run]]
    cells: tuple[CellSummary, ...]
    rounds: tuple[int, ...]
    odd: tuple[Outlier, ...]
    left_out: tuple[tuple[str, int], ...]

    def measurements(self) -> Iterator[tuple[str, Run, Measurement]]:
        for cell_id, runs in self.used.items():
            for run in runs.values():
                if run.measurement is not None:
                    yield cell_id, run, run.measurement

    def by_cell(self) -> dict[str, list[Measurement]]:
        found: dict[str, list[Measurement]] = defaultdict(list)
        for cell_id, _, measurement in self.measurements():
            found[cell_id].append(measurement)
        return found

    @property
    def provenance(self) -> Provenances:
        """Whether it is simulated: then each run has a seed, and blocks don't drift, because the world is made anew."""
        found = sorted({cell.provenance for cell in self.cells if cell.provenance is not None})
        return "measured and simulated" if len(found) > 1 else next(iter(found), "measured")

    def named(self, cells: Iterable[str]) -> tuple[str, ...]:
        """The cells that a caution concerns, in the plan's order; empty if it concerns all of them."""
        meant = set(cells)
        named = tuple(cell.cell_id for cell in self.plan.cells if cell.cell_id in meant)
        return () if len(named) == len(self.plan.cells) else named


def blocks_of(plan: Plan) -> tuple[int, ...]:
    """The block in which each cell of the plan runs."""
    block = {run.cell_id: run.block for run in plan.runs}
    return tuple(block.get(cell.cell_id, 0) for cell in plan.cells)


def volumes_of(measurement: Measurement) -> Iterator[tuple[str, Mapping[str, object]]]:
    volumes = table_in(measurement.environment, "volumes")
    for name in volumes:
        yield name, table_in(volumes, name)


def table_in(mapping: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The table under `key`, or an empty one: the content of an environment depends on what could be read."""
    value = mapping.get(key)
    return value if isinstance(value, Mapping) else {}


def text_in(mapping: Mapping[str, object], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""
