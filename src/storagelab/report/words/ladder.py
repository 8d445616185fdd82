"""Makes ladders. A ladder lists the layouts under one load, the fastest first, each with its ratio to the fastest, its
figure and its verdict.

The terminal, the page, the Markdown report and the chart files show the ladders that are made here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from storagelab.findings.answer import recommended
from storagelab.findings.answer_kinds import Answer
from storagelab.findings.model import CellSummary, Comparison, Estimate, Findings, Judged
from storagelab.model.values import JsonValue
from storagelab.report.document import IN_FRONT, MOST, Ladder, Mark, Rung
from storagelab.report.words import compared
from storagelab.words import numbers
from storagelab.words.names import is_counted, labels_of, level_in_short, level_text

_SHORT_UNITS = {"transactions/s": "tps"}
_CLOSE = 1.02
_ANY = 1.001
"""If the lower bound of a ratio is not larger, it is not shown, because a reader would take it for no difference."""
_TOO_WIDE = 100.0
"""If the upper end of an interval is more than this many times the lower end, the interval is not shown."""
_WIDEST = 100.0
"""Several ladders share a scale only if the largest ratio is at most this many times the smallest."""
_BEYOND = 1.5
"""The axis ends at most at the largest mean times this factor, and at least at the smallest mean divided by it. Wider
intervals are cut.
"""

# --- verdicts ---------------------------------------------------------------------------------------------------------


def comparison_of(findings: Findings, cell_id: str) -> Comparison | None:
    return next((one for one in findings.comparisons if one.cell_id == cell_id), None)


def in_blocks(findings: Findings) -> bool:
    """Whether layouts ran in different blocks, which are not compared with each other."""
    across = any(comparison.across_blocks for comparison in findings.comparisons)
    return across and not compared.in_parts_of_cycles(findings)


def apart_by_blocks(findings: Findings) -> bool:
    """Whether each block has its own ladder."""
    return in_blocks(findings) and findings.order == "randomised"


def verdict_of(findings: Findings, cell_id: str) -> Mark:
    """Returns the verdict on a cell. An untested cell is never called fast or slow."""
    judged: Judged = findings.load_of(cell_id) or findings
    if judged.verdict == "single-cell":
        return Mark("not-judged", "")
    apart = (*judged.not_compared, *compared.in_parts_of_cycles(findings))
    if judged.verdict in ("too-few-runs", "untested") or cell_id in apart:
        cell = findings.cell(cell_id)
        return Mark("not-judged", "not judged" if cell.elapsed_s else "no time" if cell.runs_failed else "not run yet")
    found = comparison_of(findings, cell_id)
    if (found is not None and found.across_blocks) or (cell_id in judged.best[:1] and in_blocks(findings)):
        return Mark("may-be-fastest", "best of block")
    if cell_id in judged.best[:1] and judged.verdict == "winner":
        return Mark("fastest", "fastest")
    if cell_id in judged.best[:1]:
        tied = [one.bound for one in findings.comparisons if one.cell_id in judged.tied]
        return _front(findings, max(filter(None, tied), default=None) if tied else judged.at_most_slower)
    if found is None:
        return Mark("not-judged", "")
    if not found.distinguishable:
        return _front(findings, found.bound) if found.may_be_fastest else Mark("not-fastest", "not fastest")
    least = found.ratio.low
    known = f", {numbers.at_least_slower(least)}" if least and least > _ANY else ""
    return Mark("slower", f"slower{known}")


def _front(findings: Findings, at_most_slower: float | None) -> Mark:
    """Returns the mark of a layout that may be the fastest. If no upper bound on its slowness is known, the layout is
    only "not told apart".
    """
    may = at_most_slower is not None or in_blocks(findings)
    return Mark("may-be-fastest", "may be fastest") if may else Mark("not-told-apart", "not told apart")


def ratio_of(findings: Findings, cell_id: str) -> Estimate | None:
    """Returns a cell's time divided by that of the fastest cell under its load or in its block. The fastest cell has 1.
    None if the cell is not judged although others are.
    """
    judged: Judged = findings.load_of(cell_id) or findings
    if cell_id in judged.not_compared:
        return None
    found = comparison_of(findings, cell_id)
    if found is not None and found.across_blocks and apart_by_blocks(findings):
        return Estimate(value=1.0)
    if found is not None:
        low, high = found.ratio.low, found.ratio.high
        return found.ratio if not (low and high and high / low > _TOO_WIDE) else Estimate(value=found.ratio.value)
    return Estimate(value=1.0) if cell_id in (*judged.best[:1], judged.fastest) else None


def ratio_decimals(findings: Findings) -> int:
    """Returns 3 if a layout is slower by less than 2 %, else 2."""
    return 3 if any(one.distinguishable and one.ratio.value < _CLOSE for one in findings.comparisons) else 2


def in_order(findings: Findings, cells: Iterable[CellSummary]) -> list[CellSummary]:
    """Sorts cells by load and by block. Within a block, cells that may be the fastest come first. Then cells are sorted
    by their ratio or, without a ratio, by their figure. Cells without a figure come last.
    """
    loads = {cell_id: place for place, load in enumerate(findings.by_load) for cell_id in load.cells}
    speed, blocks = -1 if compared.by_rate(findings) else 1, apart_by_blocks(findings)

    def place(cell: CellSummary) -> tuple[int, int, bool, float, float]:
        sample, ratio = compared.judged(findings, cell), ratio_of(findings, cell.cell_id)
        figure, block = math.inf if sample is None else speed * sample.mean.value, cell.stretch if blocks else 0
        behind = verdict_of(findings, cell.cell_id).kind not in IN_FRONT
        return loads.get(cell.cell_id, 0), block, behind, math.inf if ratio is None else ratio.value, figure

    return sorted(cells, key=place)


# --- ladders ----------------------------------------------------------------------------------------------------------


def ladders(findings: Findings, found: Answer, *, limit: float | None = None, most: int = MOST) -> tuple[Ladder, ...]:
    """Returns a ladder for each load and block; none if there is only one cell. `limit` is the reader's limit for the
    compared figure, in seconds or as a rate. All ladders together have about `most` rows.
    """
    if len(findings.cells) < 2 or not any(compared.judged(findings, cell) for cell in findings.cells):
        return ()
    picked, alone = recommended(findings, found), found.layouts == 1
    groups = {"": list(findings.cells)} if alone else dict(_groups(findings))
    each = max(3, most // len(groups))
    made = [_ladder(findings, title, cells, picked, limit, each, alone=alone) for title, cells in groups.items()]
    return tuple(on_one_scale(made))


def on_one_scale(ladders: Sequence[Ladder]) -> Iterator[Ladder]:
    """Puts all ladders of an answer on one scale, so that the same length is the same ratio everywhere. If a common
    scale would compress most of them, each ladder has its own scale.
    """
    ends = [_ends(ladder) for ladder in ladders]
    whole = min(low for low, _ in ends), max(high for _, high in ends)
    together = whole[1] / whole[0] <= _WIDEST
    for ladder, own in zip(ladders, ends, strict=True):
        yield replace(ladder, ends=whole if together else own)


def _ends(ladder: Ladder) -> tuple[float, float]:
    """Returns the ends of the axis for the visible rows. Intervals that are much wider extend beyond these ends."""
    shown = [rung.ratio for rung in ladder.shown() if rung.ratio]
    means = [1.0, ladder.limit or 1.0, *(one.value for one in shown)]
    low, high = (pick([*means, *(end for one in shown for end in (one.low, one.high) if end)]) for pick in (min, max))
    return max(low, min(means) / _BEYOND), min(max(high, 1.02), max(means) * _BEYOND)


def _groups(findings: Findings) -> Iterator[tuple[str, list[CellSummary]]]:
    """Yields each group of cells that are compared with each other, with the levels that they share as text."""
    blocks = apart_by_blocks(findings)
    for load in findings.by_load:
        inside = [cell for cell in findings.cells if cell.cell_id in load.cells]
        for stretch in dict.fromkeys(cell.stretch for cell in inside) if blocks else (None,):
            cells = [cell for cell in inside if stretch is None or cell.stretch == stretch]
            yield level_text(shared(cells) if stretch is not None else load.load), cells


def shared(cells: Sequence[CellSummary]) -> dict[str, JsonValue]:
    """Returns the levels that all of these cells have in common."""
    first = cells[0].levels.items()
    return {name: one for name, one in first if all(repr(cell.levels.get(name)) == repr(one) for cell in cells)}


def _ladder(
    findings: Findings, title: str, cells: Sequence[CellSummary], picked: Collection[str],
    limit: float | None, most: int, *, alone: bool,
) -> Ladder:  # fmt: skip
    """Returns one ladder. If `alone`, it shows one layout under several loads, so nothing is judged."""
    known = {cell.cell_id: sample.mean for cell in cells if (sample := compared.judged(findings, cell)) is not None}
    varied = [
        factor.name for factor in findings.factors
        if len({repr(cell.levels.get(factor.name)) for cell in cells}) > 1 or len(findings.factors) == 1
    ]  # fmt: skip
    varied.sort(key=lambda name: not is_counted(name))
    priced = len({cell.price_per_month for cell in cells}) > 1
    labels, figure = labels_of(findings.factors), _figures(findings, [one.value for one in known.values()])
    rungs = [
        Rung(
            name=(*_name(cell, varied, labels), *[_price(cell)] * priced),
            ratio=None if alone else ratio_of(findings, cell.cell_id),
            figure=figure(known[cell.cell_id].value) if cell.cell_id in known else "",
            verdict=Mark("not-judged", "") if alone else verdict_of(findings, cell.cell_id),
            cell_id=cell.cell_id,
            recommended=cell.cell_id in picked,
        )
        for cell in in_order(findings, cells)
    ]  # fmt: skip
    best = next((known[rung.cell_id].value for rung in rungs if rung.cell_id in known), None)
    own, words = _limit(findings, limit, best)
    what = compared.rate_unit(findings) if compared.by_rate(findings) else compared.quantity(findings)
    return Ladder(title, what, ratio_decimals(findings), tuple(rungs), most, own, words)


def _name(cell: CellSummary, varied: Sequence[str], labels: Mapping[str, str]) -> tuple[str, ...]:
    """Returns a text for each factor. If no factor has a text, the layout is called "the layout"."""
    levels = [level_in_short(one, cell.levels[one], labels) if one in cell.levels else "" for one in varied]
    return tuple(levels) if any(levels) else ("the layout", *levels[1:])


def _price(cell: CellSummary) -> str:
    """Returns the layout's price a month. The answer's first line names the month, because rows have little room."""
    return "" if cell.price_per_month is None else f"price {numbers.price(cell.price_per_month)}"


_Write = Callable[[float], str]


def _figures(findings: Findings, values: Sequence[float]) -> _Write:
    """Returns a function that writes a ladder's figures in one unit. Times have the digits that the smallest needs."""
    if compared.by_rate(findings):
        unit = compared.rate_unit(findings)
        return lambda value: f"{numbers.significant(value)} {_SHORT_UNITS.get(unit, unit)}"
    if compared.by_latency(findings):
        return lambda value: f"{numbers.significant(1e3 * value)} ms"
    return lambda value: numbers.seconds_like(value, values)


def _limit(findings: Findings, limit: float | None, best: float | None) -> tuple[float | None, str]:
    if limit is not None and best:
        figure = _figures(findings, [limit])
        return (best / limit if compared.by_rate(findings) else limit / best), f"your limit, {figure(limit)}"
    if findings.indifferent is None:
        return None, ""
    return 1 + findings.indifferent, f"your margin, {numbers.percent(findings.indifferent)} above the fastest"
