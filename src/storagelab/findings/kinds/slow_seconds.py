"""Finds differences between a cell's slowest seconds and its other seconds, if layouts are compared by a percentile.
The functions are pure.

Waits add up to the time of a mean transaction, but never to a percentile. So they can't explain a percentile. But a run
stores the percentile of each second, and also what was observed in that second: the server's checkpoint, the volumes,
and the waits of sessions. So high percentiles are explained by the seconds in which they occurred.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from pydantic import Field

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Finding, Findings
from storagelab.model.measurement import Measurement
from storagelab.model.values import Frozen
from storagelab.words.names import group_text, listed
from storagelab.words.numbers import count, percent, seconds, significant

COLUMN = "latency_p99_s"
SHARE = 0.1
"""The slowest tenth of all seconds is compared with the other seconds."""
SECONDS_LEAST = 50
"""The smallest number of seconds for this comparison. A tenth of fewer seconds would be too few."""
TIMES_AS_MUCH = 1.5
"""A difference is named only if one mean is at least this many times the other."""
MOST_NAMED = 3
_BUSY = re.compile(r"volume\.(.+)\.busy_s_per_s")
_SHARES = {"checkpoint_s_per_s": "a checkpoint ran {} of the time"}


class Along(Frozen):
    """A quantity that differed in the slow seconds. `slow` is its mean in the slow seconds, and `others` its mean in
    the other seconds."""

    what: str
    """The name of a column of the time series, or of a sampled wait."""
    slow: float
    others: float

    @property
    def text(self) -> str:
        if busy := _BUSY.fullmatch(self.what):
            return f"volume {busy[1]} was busy {percent(self.slow)} of the time ({percent(self.others)})"
        if self.what in _SHARES:
            return f"{_SHARES[self.what].format(percent(self.slow))} ({percent(self.others)})"
        return f"{significant(self.slow, 2)} sessions waited in {self.what} ({significant(self.others, 2)})"


class SlowSeconds(Finding, use_attribute_docstrings=True):
    """The slowest tenth of a cell's seconds, compared with its other seconds."""

    kind, about, weight = "slow_seconds", "why", 5
    meaning = (
        "Only if layouts are compared by a percentile: for the fastest and the slowest layout, the slowest tenth of "
        "all seconds and the differences in them."
    )
    cell_id: str
    """The id of the cell."""
    seconds: int = Field(ge=1)
    """The number of seconds of all its runs."""
    slow: int = Field(ge=1)
    """The number of slow seconds, in which the 99th percentile was highest."""
    slow_p99_s: float = Field(ge=0)
    """The mean of the slow seconds' 99th percentiles."""
    others_p99_s: float = Field(ge=0)
    """The mean of the other seconds' 99th percentiles."""
    along: tuple[Along, ...]
    """Other quantities that surely differ between the slow and the other seconds. The largest difference comes
    first."""

    def sentence(self, findings: Findings) -> str:
        name = group_text([findings.cell(self.cell_id).levels], findings.factors)
        start = (
            f"With {name}, the 99th percentile was {seconds(self.slow_p99_s)} on average in the slowest "
            f"{count(self.slow)} of {count(self.seconds)} seconds, and {seconds(self.others_p99_s)} in the others."
        )
        if not self.along:
            return f"{start} Nothing else that was observed surely differed between them."
        return f"{start} In the slow seconds {listed([one.text for one in self.along])}; in brackets: in the others."


def find(evidence: Evidence) -> Iterator[SlowSeconds]:
    """The findings on the cells with the shortest and the longest percentile. A cell is left out if its runs have too
    few seconds."""
    judge = evidence.plan.cells[0].config.measure.judge
    if not judge.startswith("p"):
        return
    known = [cell for cell in evidence.cells if judge in cell.latency]
    ranked = sorted(known, key=lambda cell: cell.latency[judge].value)
    measured = evidence.by_cell()
    for cell in dict.fromkeys(one.cell_id for one in (*ranked[:1], *ranked[-1:])):
        if (found := _of(cell, measured[cell])) is not None:
            yield found


def _of(cell_id: str, runs: Sequence[Measurement]) -> SlowSeconds | None:
    seconds_of = [(p99_s, known) for run in runs for p99_s, known in _by_second(run)]
    slow = round(SHARE * len(seconds_of))
    if len(seconds_of) < SECONDS_LEAST:
        return None
    ranked = sorted(seconds_of, key=lambda one: -one[0])
    parts = ranked[:slow], ranked[slow:]
    slow_p99_s, others_p99_s = (fmean(p99_s for p99_s, _ in part) for part in parts)
    return SlowSeconds(
        cell_id=cell_id, seconds=len(seconds_of), slow=slow, slow_p99_s=slow_p99_s, others_p99_s=others_p99_s,
        along=tuple(_along(*([known for _, known in part] for part in parts))),
    )  # fmt: skip


def _by_second(run: Measurement) -> Iterator[tuple[float, Mapping[str, float]]]:
    """The 99th percentile of each second, with the other observations of the same second."""
    waiting = _waiting_by_second(run)
    columns = {
        name: run.series.columns[name] for name in run.series.columns if name in _SHARES or _BUSY.fullmatch(name)
    }
    for place, p99_s in enumerate(run.series.columns.get(COLUMN, ())):
        if p99_s is not None:
            known = {name: value for name, values in columns.items() if (value := values[place]) is not None}
            yield p99_s, known | waiting.get(place, {})


def _waiting_by_second(run: Measurement) -> dict[int, dict[str, float]]:
    """The mean number of sessions in each wait, for each second. The mean is over the samples of the second."""
    moments: dict[float, Counter[str]] = defaultdict(Counter)
    for task in run.waiting_tasks:
        moments[task.at_s][task.wait_type] += task.sessions
    types = {task.wait_type for task in run.waiting_tasks}
    found: dict[int, list[Counter[str]]] = defaultdict(list)
    for at_s, sessions in moments.items():
        place = next((place for place, end_s in enumerate(run.series.at_s) if at_s <= end_s), None)
        if place is not None:
            found[place].append(sessions)
    return {place: {name: fmean(one[name] for one in seen) for name in types} for place, seen in found.items()}


def _along(slow: Sequence[Mapping[str, float]], others: Sequence[Mapping[str, float]]) -> list[Along]:
    """The large and significant differences (Mann-Whitney's test over seconds, corrected for the number of tests), the
    largest first."""
    from scipy import stats  # imported here because the import takes a second, and all commands load this module

    names = sorted({name for one in (*slow, *others) for name in one})
    found = []
    for name in names:
        parts = [[one[name] for one in part if name in one] for part in (slow, others)]
        if min(map(len, parts)) < 5 or len({*parts[0], *parts[1]}) < 2:
            continue
        means = [fmean(part) for part in parts]
        low, high = sorted(means)
        if high < TIMES_AS_MUCH * low or stats.mannwhitneyu(*parts).pvalue * len(names) >= 0.05:
            continue
        found.append(Along(what=name, slow=means[0], others=means[1]))
    found.sort(key=lambda one: -max(one.slow, one.others) / max(min(one.slow, one.others), 1e-9))
    return found[:MOST_NAMED]
