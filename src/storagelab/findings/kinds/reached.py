"""Compares a database's I/O rate on its volumes with the rate of raw I/O on the same volumes. Raw I/O is measured in
the same run. The functions are pure.

A drive has a limit of bytes per second and a limit of requests per second. So there are two shares: the database's
bytes per second divided by those of sequential raw I/O, and its requests per second divided by those of random raw I/O.
The shares of reads and writes are added, because reads and writes share the drive's time. The larger of the two sums is
reported.
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
"""If the share is at least `THE_LIMIT`, the drive is the limit. If it is below `NOT_THE_LIMIT`, the drive is not the
limit."""


class Reached(Finding):
    """A database's rate on a volume during its load, and the volume's rate for raw I/O. `share` is the share of reads
    and writes together. The other figures are those of the operation and the unit with the largest share.
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
        """A sentence on the most used volume of the fastest cell; "" if there is none."""
        for one in cls._of_the_fastest(findings)[:1]:
            did = "did" if one.unit == "ios" else "wrote" if one.operation == "write" else "read"
            start = f"{_title(one)} {did} {_rate(one, one.did_per_s)}"
            return f"{start} where volume {one.volume} takes {_number(one, one.takes_per_s)}: {_so(one)}."
        return ""

    @classmethod
    def sentences(cls, findings: Findings) -> list[str]:
        """The text on all volumes of the fastest cell; empty if there are none."""
        of = cls._of_the_fastest(findings)
        if not of:
            return []
        shares = "; ".join(
            f"volume {one.volume} {percent(one.share)} ({_rate(one, one.did_per_s)} of {_rate(one, one.takes_per_s)})"
            for one in of
        )
        return [
            "Raw I/O in the same run, by fio with 16 requests in progress, shows the rates that the volumes can reach. "
            f"{_title(of[0])} used these shares of them: {shares}. The shares say nothing about the time of single "
            "writes, because a drive may answer them late without being busy."
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
    """The finding on each volume with raw I/O, as means over the runs. The most used volume comes first."""
    of_runs = [list(_of_run(run, config.target.engine)) for run in runs if run.elapsed_s > 0]
    volumes = dict.fromkeys(one.volume for found in of_runs for one in found)
    means = [_mean([one for found in of_runs for one in found if one.volume == volume]) for volume in volumes]
    return sorted(means, key=lambda one: -one.share)


def _mean(parts: Sequence[Reached]) -> Reached:
    """The mean over all runs. The rates are those of the operation and unit that have the largest share in most
    runs."""
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
