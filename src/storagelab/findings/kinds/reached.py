"""A database's I/O rate on its volumes as a share of the volumes' rate, measured by raw I/O in the same run. Pure.

A drive is limited in bytes and in requests. Each share is the database's rate over the drive's: bytes a second over
sequential raw I/O, requests a second over random raw I/O. Reads and writes are added, because they share the drive's
time. The larger share counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Literal

from storagelab.findings.model import Finding, Findings
from storagelab.model.config import Config
from storagelab.model.engines import ENGINES
from storagelab.model.measurement import RAW_IO_BESIDE, Measurement
from storagelab.words.names import capital
from storagelab.words.numbers import percent, significant

_KINDS = {"bytes": "sequential", "ios": "random"}
NOT_THE_LIMIT = 0.5
THE_LIMIT = 0.8
"""From the larger share of a drive's rate on, the drive is the limit; below the smaller share, it is not."""


class Reached(Finding):
    """A database's rate on a volume during its load, and the volume's rate by raw I/O. `share` is for reads and writes
    together. The other figures are those of the operation and the unit with the largest share.
    """

    kind, about, weight, of_cells = "reached", "why", -10, True
    meaning = "Only with `measure.raw`: for each volume, the most used first, the rates of the database and of raw I/O."
    volume: str
    engine: str
    operation: Literal["read", "write"]
    unit: Literal["bytes", "ios"]
    did_per_s: float
    takes_per_s: float
    share: float

    @classmethod
    def line(cls, findings: Findings) -> str:
        """A short text on the most used volume of the fastest cell."""
        for one in cls._of_the_fastest(findings)[:1]:
            did = "did" if one.unit == "ios" else "wrote" if one.operation == "write" else "read"
            start = f"{_title(one)} {did} {_rate(one, one.did_per_s)}"
            return f"{start} where volume {one.volume} takes {_number(one, one.takes_per_s)}: {_so(one)}."
        return ""

    @classmethod
    def sentences(cls, findings: Findings) -> list[str]:
        """A sentence on every volume of the fastest cell."""
        of = cls._of_the_fastest(findings)
        if not of:
            return []
        shares = "; ".join(
            f"volume {one.volume} {percent(one.share)} ({_rate(one, one.did_per_s)} of {_rate(one, one.takes_per_s)})"
            for one in of
        )
        return [
            "Raw I/O beside the load, by fio with 16 requests in progress, shows what the volumes take. "
            f"{_title(of[0])} used of that: {shares}. This says nothing about waiting for single writes, which a drive "
            "may answer late without being busy."
        ]

    @classmethod
    def _of_the_fastest(cls, findings: Findings) -> Sequence[Reached]:
        return cls.of(findings.cell(findings.fastest)) if findings.fastest is not None else ()


def _title(one: Reached) -> str:
    return capital(ENGINES[one.engine].title)


def _rate(one: Reached, value: float) -> str:
    return f"{_number(one, value)} {'MB/s' if one.unit == 'bytes' else f'{one.operation}s/s'}"


def _number(one: Reached, value: float) -> str:
    return significant(value / 1e6 if one.unit == "bytes" else value)


def _so(one: Reached) -> str:
    if one.share < NOT_THE_LIMIT:
        return "the drive's rate was not the limit"
    if one.share < THE_LIMIT:
        return f"{percent(one.share)} of the drive was in use"
    return "the drive was the limit"


def find_in_cell(runs: Sequence[Measurement], config: Config) -> list[Reached]:
    """Each volume with raw I/O, the most used one first; means over the runs."""
    of_runs = [list(_of_run(run, config.target.engine)) for run in runs if run.elapsed_s > 0]
    volumes = dict.fromkeys(one.volume for found in of_runs for one in found)
    means = [_mean([one for found in of_runs for one in found if one.volume == volume]) for volume in volumes]
    return sorted(means, key=lambda one: -one.share)


def _mean(parts: Sequence[Reached]) -> Reached:
    """The mean over all runs, in the unit in which most of them are limited."""
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
