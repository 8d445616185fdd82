"""Decides which layouts may be the fastest, and returns this as values. If the load varies, too, there is a verdict for
each load. The functions are pure.

In this module, each condition under which layouts run counts as a load, including what happens between runs. A load is
a condition and not a choice: "a run with fewer reads ends sooner" is no advice. So cells are compared only with the
fastest under the same load. The cells of a load are one family of comparisons. The loads share the error, so that all
intervals of comparisons hold together.

The best cells are those that may be the fastest. With 95 % certainty, a fastest cell is among them (Hsu's set). A cell
is called slower only if Tukey's test shows it. So a cell may be neither slower nor among the best.

Untested does not mean equally fast. A cell that has too few runs for a test against the fastest is `not_compared`. It
is neither among the best nor slower. While there is such a cell, no cell is the winner.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from storagelab.findings.model import Comparison, Estimate, Judged, JudgedByLoad, LoadVerdict, Verdict
from storagelab.model.plan import Cell, Factor, Plan
from storagelab.model.values import JsonValue
from storagelab.spec.factors import is_condition
from storagelab.stats import contrast
from storagelab.stats.fit import Fit
from storagelab.stats.intervals import ALPHA


class Judging(Protocol):
    """The interface of the ways to compare cells under one load. Cells are given by their places in the plan."""

    def fastest(self, cells: Sequence[int]) -> int | None: ...

    def differences(self, best: int, cells: Sequence[int]) -> Mapping[int, contrast.Difference]:
        """The difference of each cell from `best`, which is the best cell of the same load and block. `best` itself and
        cells that can't be compared are left out.
        """
        ...

    def may_be_fastest(self, cells: Sequence[int]) -> Sequence[int]:
        """Those of `cells`, which are all in one block, that may be the fastest. The fastest mean comes first."""
        ...

    def at_most_slower(self, picks: Sequence[int], among: Sequence[int]) -> Mapping[int, float]:
        """Upper bounds for the time of each of `picks` divided by the time of the fastest of `among`. Cells without a
        known bound are left out."""
        ...


@dataclass(frozen=True)
class _OfAllRuns:
    """Judges once, when all runs are made. The error `alpha` is divided among the `families` of comparisons, one for
    each load with several layouts.
    """

    fitted: Fit
    families: int
    alpha: float

    def fastest(self, cells: Sequence[int]) -> int | None:
        return self.fitted.fastest(cells)

    def differences(self, best: int, cells: Sequence[int]) -> Mapping[int, contrast.Difference]:
        return contrast.compare_with_best(self.fitted, best, cells, self.families, self.alpha)

    def may_be_fastest(self, cells: Sequence[int]) -> Sequence[int]:
        return contrast.may_be_fastest(self.fitted, cells, self.families)

    def at_most_slower(self, picks: Sequence[int], among: Sequence[int]) -> Mapping[int, float]:
        return contrast.at_most_slower(self.fitted, picks, among, self.families)


@dataclass(frozen=True)
class _Samples:
    """The input of a verdict: the fit of the runs (with a row for each cell of the plan), the block of each cell, and
    the way to compare cells.
    """

    plan: Plan
    fitted: Fit
    blocks: Sequence[int]
    judging: Judging

    def cell_id(self, cell: int | None) -> str | None:
        return None if cell is None else self.plan.cells[cell].cell_id


def judge(
    factors: Sequence[Factor],
    plan: Plan,
    fitted: Fit,
    blocks: Sequence[int],
    alpha: float = ALPHA,
    judging: Judging | None = None,
) -> JudgedByLoad:
    """The verdict over all cells. If there are several loads, it contains a verdict for each load. If `judging` is
    None, all runs are judged at once.
    """
    groups = list(loads_of(factors, plan.cells))
    families = max(1, sum(len(cells) > 1 for _, cells in groups))
    samples = _Samples(plan, fitted, blocks, judging or _OfAllRuns(fitted, families, alpha))
    judged = [_judge(samples, load, cells) for load, cells in groups]
    rows = _in_order(row for _, of_load in judged for row in of_load)
    loads = tuple(load for load, _ in judged)
    if len(loads) == 1:
        return JudgedByLoad(**loads[0].model_dump(include={*Judged.model_fields}), comparisons=rows)
    verdict = _of_all([load.verdict for load in loads], testable=_testable(fitted, blocks))
    fastest, worst = _ends(samples, loads)
    return JudgedByLoad(
        verdict=verdict,
        best=tuple(cell_id for load in loads for cell_id in load.best) if verdict == "by-load" else (),
        tied=tuple(cell_id for load in loads for cell_id in load.tied),
        fastest=fastest,
        worst=worst,
        comparisons=rows,
        not_compared=tuple(cell_id for load in loads for cell_id in load.not_compared),
        loads=loads,
    )


def _of_all(verdicts: Sequence[Verdict], *, testable: bool) -> Verdict:
    if all(verdict == "single-cell" for verdict in verdicts):
        return "one-layout" if testable else "too-few-runs"
    for silent in ("untested", "too-few-runs"):
        if all(verdict in ("single-cell", "too-few-runs", silent) for verdict in verdicts) and silent in verdicts:
            return silent
    return "by-load"


def _testable(fitted: Fit, blocks: Sequence[int]) -> bool:
    """Whether effects of loads can be reported. If each load ran in its own block, they are reported without a test."""
    return fitted.df >= 1 or (len(set(blocks)) > 1 and bool((fitted.runs > 1).any()))


def loads_of(factors: Sequence[Factor], cells: Sequence[Cell]) -> Iterator[tuple[dict[str, JsonValue], list[int]]]:
    """Each combination of levels of the factors that are loads, with the places of its cells. The order is that of the
    cells."""
    names = [factor.name for factor in factors if len(factor.levels) > 1 and is_condition(factor)]
    found: dict[str, tuple[dict[str, JsonValue], list[int]]] = {}
    for index, cell in enumerate(cells):
        load = {name: cell.levels[name] for name in names}
        found.setdefault(json.dumps(load), (load, []))[1].append(index)
    yield from found.values()


def _ends(samples: _Samples, loads: Sequence[LoadVerdict]) -> tuple[str | None, str | None]:
    """The fastest and the slowest cell of the load under which layouts differ most. If there is only one layout, the
    fastest and the slowest cell of all loads."""
    times = {cell.cell_id: float(time) for cell, time in zip(samples.plan.cells, samples.fitted.cells, strict=True)}
    ends = [(load.fastest, load.worst) for load in loads]
    if all(len(load.cells) == 1 for load in loads):
        timed = sorted((one for one, _ in ends if one is not None), key=lambda one: times[one])
        ends = [(timed[0] if timed else None, timed[-1] if len(timed) > 1 else None)]

    def apart(pair: tuple[str | None, str | None]) -> float:
        fastest, worst = pair
        known = (fastest is not None) + (worst is not None)
        return known - 2.0 if fastest is None or worst is None else times[worst] - times[fastest]

    return max(ends, key=apart)


# ---------------------------------------------------------------------------------------------------------------------
# Cells that may be compared
# ---------------------------------------------------------------------------------------------------------------------


def _judge(
    samples: _Samples, load: dict[str, JsonValue], cells: Sequence[int]
) -> tuple[LoadVerdict, tuple[Comparison, ...]]:
    """The verdict over `cells`, which are all under one load, and the comparisons from which it is derived."""
    fastest = samples.judging.fastest(cells)
    rows = _comparisons(samples, fastest, cells)
    last = max(rows, key=lambda row: (not row.may_be_fastest, row.ratio.value), default=None)
    ids = tuple(samples.plan.cells[cell].cell_id for cell in cells)
    best = () if fastest is None else (samples.plan.cells[fastest].cell_id,)
    judged = {row.cell_id for row in rows if row.tested or row.across_blocks}
    left = tuple(cell_id for cell_id in ids if cell_id not in judged and cell_id not in best)
    verdict = _verdict(samples.fitted, cells, rows, complete=not left)
    found = LoadVerdict(
        load=load, cells=ids, verdict=verdict, best=(), tied=(), fastest=samples.cell_id(fastest),
        worst=None if last is None else last.cell_id,
    )  # fmt: skip
    if verdict in ("too-few-runs", "untested", "single-cell"):
        return found.model_copy(update={"best": best if verdict == "single-cell" else ()}), rows
    tied = tuple(row.cell_id for row in rows if row.may_be_fastest)
    among = [cell for cell, cell_id in zip(cells, ids, strict=True) if cell_id not in left]
    if verdict == "indistinguishable" and len(tied) < len(among) - 1:
        verdict = "best-set"
    most = _at_most_slower(samples, () if verdict == "winner" else (*best, *tied), among)
    concluded = {
        "verdict": verdict, "best": (*best, *tied), "tied": tied, "not_compared": left,
        "at_most_slower": most.get(found.fastest or ""),
    }  # fmt: skip
    return found.model_copy(update=concluded), tuple(
        row.model_copy(update={"at_most_slower": most.get(row.cell_id)}) for row in rows
    )


def _at_most_slower(samples: _Samples, picks: Sequence[str], among: Sequence[int]) -> dict[str, float]:
    """The upper bounds of `picks`, by cell id. Empty if the cells `among` belong to several blocks."""
    if not picks or len({samples.blocks[cell] for cell in among}) > 1:
        return {}
    place = {samples.plan.cells[cell].cell_id: cell for cell in among}
    bounds = samples.judging.at_most_slower([place[one] for one in picks if one in place], among)
    return {samples.plan.cells[cell].cell_id: bound for cell, bound in bounds.items()}


def _comparisons(samples: _Samples, best: int | None, cells: Sequence[int]) -> tuple[Comparison, ...]:
    """The comparisons of the other cells with the best cell, or with the best cell of their own block. The fastest cell
    comes first. Empty if nothing is measured.
    """
    if best is None:
        return ()
    plan, fitted, judging = samples.plan, samples.fitted, samples.judging
    rows: list[Comparison] = []
    for block in dict.fromkeys(samples.blocks[cell] for cell in cells):
        inside = [cell for cell in cells if samples.blocks[cell] == block]
        first = best if best in inside else judging.fastest(inside)
        if first is None:
            continue
        differences, leading = judging.differences(first, inside), judging.may_be_fastest(inside)
        rows += [
            Comparison(
                cell_id=plan.cells[cell].cell_id, best_cell_id=plan.cells[first].cell_id, ratio=one.ratio,
                tested=one.tested, distinguishable=one.slower,
                may_be_fastest=cell in leading and one.tested and not one.slower,
            )
            for cell, one in differences.items()
        ]  # fmt: skip
        if first != best:
            ratio = Estimate(value=math.exp(fitted.cells[first] - fitted.cells[best]))
            rows.append(
                Comparison(
                    cell_id=plan.cells[first].cell_id, best_cell_id=plan.cells[best].cell_id, ratio=ratio,
                    distinguishable=False, across_blocks=True, may_be_fastest=True,
                )
            )  # fmt: skip
    return _in_order(rows)


def _in_order(rows: Iterable[Comparison]) -> tuple[Comparison, ...]:
    return tuple(sorted(rows, key=lambda row: (row.ratio.value, row.cell_id)))


def _verdict(fitted: Fit, cells: Sequence[int], rows: Sequence[Comparison], *, complete: bool) -> Verdict:
    """The verdict on `cells`. `complete` says whether every cell is compared with the fastest."""
    if len(cells) == 1:
        return "single-cell"
    if not any(row.tested for row in rows):
        # If cells have repeated runs but each ran in its own period, differences can't be tested.
        repeated = bool((fitted.runs[list(cells)] > 1).any())
        return "untested" if repeated and any(row.across_blocks for row in rows) else "too-few-runs"
    slower = sum(row.distinguishable for row in rows)
    if slower == 0:
        return "indistinguishable"
    return "winner" if slower == len(rows) and complete else "best-set"
