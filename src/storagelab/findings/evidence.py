"""The evidence that cautions examine: everything stored of an experiment, and its analysis. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import PlainSerializer

from storagelab.findings.basis import Basis
from storagelab.findings.model import CellSummary
from storagelab.findings.raced import Raced
from storagelab.model.engines import Provenances
from storagelab.model.measurement import Measurement, Run
from storagelab.model.plan import Experiment, Plan

Names = Annotated[tuple[str, ...], PlainSerializer(", ".join)]
"""The most names in a caution's figures."""


@dataclass(frozen=True)
class Evidence:
    """Everything stored of an experiment, and its analysis: the summaries of its `cells`, the `basis` of verdicts,
    and the race, if it was one.
    """

    experiment: Experiment
    plan: Plan
    runs: tuple[Run, ...]
    cells: tuple[CellSummary, ...]
    basis: Basis
    race: Raced | None = None

    def measurements(self) -> Iterator[tuple[str, Run, Measurement]]:
        for cell_id, runs in self.basis.used.items():
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
        """Where the figures come from. In a simulation each run has a seed, and blocks don't drift, because the
        world is made anew.
        """
        found = sorted({cell.provenance for cell in self.cells if cell.provenance is not None})
        return "measured and simulated" if len(found) > 1 else next(iter(found), "measured")

    def named(self, cells: Iterable[str]) -> tuple[str, ...]:
        """The cells that a caution concerns, in the plan's order; empty if it concerns all of them."""
        meant = set(cells)
        named = tuple(cell.cell_id for cell in self.plan.cells if cell.cell_id in meant)
        return () if len(named) == len(self.plan.cells) else named


def volumes_of(measurement: Measurement) -> Iterator[tuple[str, Mapping[str, object]]]:
    volumes = table_in(measurement.environment, "volumes")
    for name in volumes:
        yield name, table_in(volumes, name)


def table_in(mapping: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The table under `key`, or an empty one: an environment contains only what could be read."""
    value = mapping.get(key)
    return value if isinstance(value, Mapping) else {}


def text_in(mapping: Mapping[str, object], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""
