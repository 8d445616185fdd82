"""Runs that are short against the slices of time in which the kernel admits the requests of a throttled group. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

from storagelab.model.limits import SLICE_S
from storagelab.model.measurement import Measurement

SHARE_LEAST = 0.02


def short_cells(runs: Mapping[str, Iterable[Measurement]]) -> dict[str, float]:
    """The median time of each cell of throttled runs of which a slice is more than 2 %."""
    times_s = {cell_id: [one.elapsed_s for one in of_cell if _is_throttled(one)] for cell_id, of_cell in runs.items()}
    middle_s = {cell_id: median(of_cell) for cell_id, of_cell in times_s.items() if of_cell}
    return {cell_id: one_s for cell_id, one_s in middle_s.items() if 0 < one_s * SHARE_LEAST < SLICE_S}


def slice_share(runs: Mapping[str, Iterable[Measurement]]) -> float:
    """By how much the time of such a run may be off, whichever run it is; 0 if there is none."""
    shortest_s = min(short_cells(runs).values(), default=None)
    return 0.0 if shortest_s is None else min(1.0, SLICE_S / shortest_s)


def _is_throttled(measurement: Measurement) -> bool:
    volumes = measurement.environment.get("volumes")
    facts = volumes.values() if isinstance(volumes, Mapping) else ()
    return any(
        isinstance(one, Mapping) and isinstance(one.get("throttle"), Mapping) and one["throttle"] for one in facts
    )
