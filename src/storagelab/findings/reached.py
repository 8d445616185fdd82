"""What share of its volumes a database reached, from raw I/O beside its load. Pure.

A drive is limited by bytes and by requests. The share of each is what the database did in a second over what the drive takes:
bytes against those of requests in order, requests against those at random. Reads and writes are added, as they share the
drive's time. The larger share counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Literal

from storagelab.model.measurement import RAW_IO_BESIDE, Measurement
from storagelab.model.values import Frozen

_KINDS = {"bytes": "sequential", "ios": "random"}


class Reached(Frozen):
    """What a database did on a volume in a second of its load, and what the volume takes by raw I/O. `share` = of the volume,
    reads and writes together; the other figures are those of the operation, and the unit, that used most of it."""

    volume: str
    engine: str
    operation: Literal["read", "write"]
    unit: Literal["bytes", "ios"]
    did_per_s: float
    takes_per_s: float
    share: float


def reached(runs: Sequence[Measurement], engine: str) -> tuple[Reached, ...]:
    """Each volume of a cell that carries raw I/O, the most used one first; means over its runs."""
    of_runs = [list(_of_run(run, engine)) for run in runs if run.elapsed_s > 0]
    volumes = dict.fromkeys(one.volume for found in of_runs for one in found)
    means = [_mean([one for found in of_runs for one in found if one.volume == volume]) for volume in volumes]
    return tuple(sorted(means, key=lambda one: -one.share))


def _mean(parts: Sequence[Reached]) -> Reached:
    """That of all runs, in the terms in which most of them are limited."""
    terms = [(one.operation, one.unit) for one in parts]
    term = max(terms, key=terms.count)
    alike = [one for one in parts if (one.operation, one.unit) == term]
    return alike[0].model_copy(
        update={
            "did_per_s": fmean(one.did_per_s for one in alike),
            "takes_per_s": fmean(one.takes_per_s for one in alike),
            "share": fmean(one.share for one in parts),
        }
    )


def _of_run(run: Measurement, engine: str) -> Iterator[Reached]:
    takes, did = run.counters.get(RAW_IO_BESIDE, {}), run.counters.get("volumes", {})
    for volume in dict.fromkeys(key.split(".")[1] for key in takes if key.count(".") == 2):
        found = [one for unit in _KINDS if (one := _in_terms_of(unit, volume, takes, did, run.elapsed_s, engine))]
        if found:
            yield max(found, key=lambda one: one.share)


def _in_terms_of(
    unit: str, volume: str, takes: Mapping[str, float], did: Mapping[str, float], elapsed_s: float, engine: str
) -> Reached | None:
    parts = []
    for operation in ("read", "write"):
        most = takes.get(f"volume.{volume}.{_KINDS[unit]}_{operation}_{unit}_per_s")
        counter = f"{operation}_bytes" if unit == "bytes" else f"{operation}s"
        own = did.get(f"volume.{volume}.file_system_{counter}", did.get(f"volume.{volume}.{counter}"))
        if not most or own is None:
            return None
        parts.append((own / elapsed_s / most, operation, own / elapsed_s, most))
    _, operation, did_per_s, takes_per_s = max(parts)
    return Reached.model_validate(
        {
            "volume": volume, "engine": engine, "operation": operation, "unit": unit, "did_per_s": did_per_s,
            "takes_per_s": takes_per_s, "share": sum(share for share, *_ in parts),
        }
    )  # fmt: skip
