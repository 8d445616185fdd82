"""Cautions about odd runs and about standstills. In a standstill, no request or transaction ends for seconds, although
some are waiting."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from storagelab.findings.basis import Evidence
from storagelab.findings.comparable import MachineCause
from storagelab.findings.model import Caution, Findings
from storagelab.model.measurement import RAW_IO, Measurement
from storagelab.stats.stalls import Outlier
from storagelab.words.names import capital, group_text
from storagelab.words.numbers import count, plural, seconds, significant

_CAUSES: Mapping[MachineCause | None, str] = {
    "clock": "the clock was set during the run", "asleep": "the machine was suspended during the run",
    "others": "other processes or the hypervisor took much of the machine's CPU time",
    "quota": "a CPU quota held back the server or its load",
}  # fmt: skip
_LEAST_SQUARES = "`storagelab report NAME --fit least-squares`"
_LOOK_ALL = "Look at their time series. If you can explain them, run the spec again under a new name."
_LOOK = "Look at its time series. If you can explain the run, run the spec again under a new name."


class OddRun(Caution):
    """A cell has odd runs. `runs` is their number, and `slow` the number of those that took too long. The other figures
    are those of the oddest run. `cause` is a cause outside the layout that the record of this run shows. Means and
    verdicts leave out runs with such a cause; `left_out` is their number."""

    kind, group = "outlier", "sample"
    repetition: int
    elapsed_s: float
    expected_s: float
    ratio: float
    deviation_sd: float
    runs: int
    left_out: int
    slow: int = 0
    cell_runs: int = 0
    cause: MachineCause | None = None
    repetitions: tuple[int, ...] = ()
    """The repetitions of all odd runs of the cell; empty in exports of earlier versions."""

    def runs_meant(self, findings: Findings) -> list[tuple[str, int]]:
        """(cell_id, repetition) of each odd run of the cell, the oddest first."""
        cell_id = self.cells[0] if self.cells else findings.cells[0].cell_id
        others = (one for one in self.repetitions if one != self.repetition)
        return [(cell_id, repetition) for repetition in (self.repetition, *others)]

    def took(self, findings: Findings) -> str:
        """A text on how far the oddest run is from what was expected, in the quantity by which runs are compared. The
        elapsed time is not used if the spec sets it."""
        repetition = f"repetition {count(self.repetition)}"
        if findings.compared == "elapsed":
            return f"{repetition} took {seconds(self.elapsed_s)}; {seconds(self.expected_s)} was expected"
        kind, _, of = findings.compared.partition("-")
        long = f"{significant(self.ratio, 3)} times as long as expected"
        if kind == "time":
            return f"{repetition} took {long} {of.replace('-', ' ')}"
        return f"the {of} of {repetition} was {long}"

    def sentence(self, findings: Findings) -> str:
        cell = self.where(findings).replace("(", "with ", 1).removesuffix(")")
        counted = self.slow - self.left_out if self.left_out < self.runs else 0
        if counted > 0 and self.cell_runs and self.ratio > 1:
            up_to = "up to " if counted > 1 else ""
            runs = f"{count(counted)} of {plural(self.cell_runs, 'run')}{cell}"
            long = f"took {up_to}{significant(self.ratio, 2)} times as long{self._others(findings)}"
            start = f"{runs} {long}: {self.took(findings)}"
        else:
            more = f" (the oddest of {count(self.runs)} such runs)" if self.runs > 1 else ""
            took = self.took(findings)
            start = f"{capital(f'{cell.lstrip()}, {took}' if cell else took)}{more}"
        return f"{start}. {self._fate()} {_LOOK}"

    def _others(self, findings: Findings) -> str:
        """A text that says that only this cell has odd runs; empty if other cells have some, too."""
        return "; none in other cells did" if self.cells and len(self.alike(findings)) == 1 else ""

    def _fate(self) -> str:
        """A text on whether these runs count, and why."""
        if not self.left_out:
            which = "it counts" if self.runs == 1 else "they count"
            return (
                f"The record shows no cause outside the {'layout' if self.cells else 'cell'}, so {which} in means and "
                "verdicts."
            )
        why = _CAUSES.get(self.cause, "their records show a cause outside the layout")
        if self.left_out == self.runs == 1:
            return f"It is left out of means and verdicts, because {why}. {_LEAST_SQUARES} counts it."
        return f"Means and verdicts omit {count(self.left_out)} of them, because {why}. {_LEAST_SQUARES} counts all."

    def joined(self, findings: Findings) -> str:
        """One text for the odd runs of all cells: their number, the oddest run, and whether they count."""
        found = self.alike(findings)
        farthest = max(found, key=lambda one: abs(math.log(one.ratio)))
        number, left_out = sum(one.runs for one in found), sum(one.left_out for one in found)
        start = f"{plural(number, 'run')} in {len(found)} cells are far from the other runs of their cells"
        at, there = Counter(repetition for one in found for _, repetition in one.runs_meant(findings)).most_common(1)[0]
        moved = any(one.kind in ("drift", "step") for one in findings.cautions)
        if moved and not left_out and 2 * there > number and at in (1, max(one.runs_planned for one in findings.cells)):
            which = "all" if there == number else count(there)
            avoid = " Burn-in runs (between_runs.burn_in) avoid that." * (at == 1)
            return (
                f"{start}, {which} of them in repetition {at}. The likely cause is the change of times over the "
                f"campaign. They count in means and verdicts.{avoid}"
            )
        levels = [findings.cell(cell).levels for cell in farthest.cells]
        cell = f"with {group_text(levels, findings.factors)}, " if levels else ""
        out = (
            f"{count(left_out)} of them {'is' if left_out == 1 else 'are'} left out of means and verdicts, because "
            f"the record shows a cause outside the layout. {_LEAST_SQUARES} counts them. The others"
            if left_out
            else "Their records show no cause outside the layouts, so they"
        )
        return f"{start}. The oddest: {cell}{farthest.took(findings)}. {out} count in means and verdicts. {_LOOK_ALL}"

    def brief(self, findings: Findings) -> str:
        found = self.alike(findings)
        number, slow = sum(one.runs for one in found), sum(one.slow - one.left_out for one in found)
        if len(found) == 1 and self.cells and slow == number and self.cell_runs:
            took = f"took {'up to ' if slow > 1 else ''}{significant(self.ratio, 2)} times as long"
            return f"{slow} of {plural(self.cell_runs, 'run')} of one {findings.cell_noun()} {took}"
        return "one odd run" if number == 1 else f"{number} odd runs{self.in_some(findings)}"


def check_odd_runs(evidence: Evidence) -> Iterator[OddRun]:
    """Gives one caution for each cell with odd runs."""
    basis = evidence.basis
    of_cell: dict[int, list[Outlier]] = defaultdict(list)
    for outlier in basis.odd:
        of_cell[outlier.cell].append(outlier)
    for cell, found in of_cell.items():
        cell_id = evidence.plan.cells[cell].cell_id
        left_out = [one for one in found if (cell_id, basis.rounds[one.round]) in basis.left_out]
        # If some odd runs count, the oddest of these is reported.
        worst = max(found, key=lambda outlier: (outlier not in left_out, abs(outlier.deviation)))
        repetition = basis.rounds[worst.round]
        measurement = basis.used[cell_id][repetition].measurement
        elapsed_s = measurement.elapsed_s if measurement is not None else math.nan
        causes = [basis.left_out[cell_id, basis.rounds[one.round]] for one in left_out]
        yield OddRun(
            cells=evidence.named([cell_id]), repetition=repetition,
            elapsed_s=elapsed_s, expected_s=elapsed_s / worst.ratio, ratio=worst.ratio, deviation_sd=worst.deviation,
            runs=len(found), left_out=len(left_out), slow=sum(one.ratio > 1 for one in found),
            cell_runs=len(basis.used[cell_id]), cause=causes[0] if causes else None,
            repetitions=tuple(sorted(basis.rounds[one.round] for one in found)),
        )  # fmt: skip


# --- standstills ------------------------------------------------------------------------------------------------------

LEAST_S, TIMES_A_MEAN = 2.0, 10
"""A standstill lasts at least `LEAST_S`, and at least `TIMES_A_MEAN` times as long as the run's mean request or
transaction."""


class StoodStill(Caution):
    """In `runs` of `of` runs, no request or transaction ended for up to `longest_s`, although some were waiting."""

    kind, group = "standstill", "runs"
    runs: int
    of: int
    longest_s: float

    def sentence(self, findings: Findings) -> str:
        return (
            f"In {self.runs} of {plural(self.of, 'run')}{self.where(findings)}, no request or transaction ended for "
            f"up to {seconds(self.longest_s)}, although some were waiting. A drive, its limit, a server or the load "
            "stood still. Look at the time series. If it was not the storage, remove the cause and use a new name."
        )

    def brief(self, findings: Findings) -> str:
        return f"{plural(self.runs, 'run')} stood still for up to {seconds(self.longest_s)}"


def check_standstill(evidence: Evidence) -> Iterator[StoodStill]:
    found = [(cell_id, _standstill_s(one)) for cell_id, run, one in evidence.measurements() if not run.config.simulated]
    still = Counter(cell_id for cell_id, still_s in found if still_s)
    if still:
        cells = evidence.named(still)
        yield StoodStill(cells=cells, runs=still.total(), of=len(found), longest_s=max(still_s for _, still_s in found))


def _standstill_s(one: Measurement) -> float:
    """The length (s) of the longest standstill of a run; 0 if there is none."""
    longest_s = one.counters.get(RAW_IO, {}).get("standstill_s", 0.0)
    now_s = before_s = 0.0
    for at_s, per_s in zip(one.series.at_s, one.series.columns.get("transactions_per_s", ()), strict=False):
        now_s = now_s + at_s - before_s if per_s == 0 else 0.0
        longest_s, before_s = max(longest_s, now_s), at_s
    mean_s = one.latency.mean_s if one.latency is not None else 0.0
    return longest_s if longest_s >= max(LEAST_S, TIMES_A_MEAN * mean_s) else 0.0
