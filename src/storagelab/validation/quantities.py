"""How each published quantity is read from simulated runs. Pure: measurements of cells in, figures out."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from storagelab.model.measurement import PFS_PAGE, Measurement
from storagelab.model.plan import Cell
from storagelab.model.values import JsonValue
from storagelab.model.waits import NS, CountedWaits, conservation, mean_of_runs, normalise, wait_table
from storagelab.stats import contrast
from storagelab.stats import fit as least_squares
from storagelab.validation.articles import Levels, Published

_QUANTUM_S = 0.004


class Missing(Exception):
    """The runs lack the quantity; `str()` says why."""


class Made(NamedTuple):
    """A cell and its runs, in the order of their repetitions."""

    cell: Cell
    runs: Sequence[Measurement]


class Simulated(NamedTuple):
    """A quantity: `values` of the repetitions or, for a quantity over all repetitions, `level` or `order`."""

    values: tuple[float, ...] = ()
    level: JsonValue | None = None
    tied: tuple[JsonValue, ...] = ()
    """Levels that can't be distinguished from `level`."""
    order: tuple[JsonValue, ...] = ()


def matching(cells: Sequence[Cell], levels: Levels) -> list[Cell]:
    """Cells that have all of `levels`."""
    return [
        cell for cell in cells if all(_same(cell.levels.get(name), level) for name, level in levels.items())
    ]  # fmt: skip


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def needed(figure: Published, levels: Levels, cells: Sequence[Cell]) -> list[list[Cell]]:
    """The cells that a figure needs: lists to compare with each other, or a single list. Raises Missing."""
    if figure.quantity == "mean_elapsed_s":
        return [_some(cells, levels)]
    if figure.along is not None:
        found = [cell for cell in _some(cells, levels) if _among(cell.levels.get(figure.along), figure)]
        if len({str(cell.levels.get(figure.along)) for cell in found}) != len(found) or len(found) < 2:
            raise Missing(f"{len(found)} cells of the spec differ in {figure.along} there, but each level takes one")
        return [found]
    parts = [levels, {**levels, **figure.against}] if figure.against else [levels]
    if figure.quantity == "mean_elapsed_ratio":
        return [_some(cells, part) for part in parts]
    return [[_one(cells, part)] for part in parts]


def _among(level: JsonValue | None, figure: Published) -> bool:
    wanted = figure.levels or figure.order
    return wanted is None or level in wanted


def _some(cells: Sequence[Cell], levels: Levels) -> list[Cell]:
    found = matching(cells, levels)
    if not found:
        raise Missing(f"the spec has no cell with {_said(levels)}")
    return found


def _one(cells: Sequence[Cell], levels: Levels) -> Cell:
    found = _some(cells, levels)
    if len(found) > 1:
        raise Missing(f"the spec has {len(found)} cells with {_said(levels)}")
    return found[0]


def _said(levels: Levels) -> str:
    return ", ".join(f"{name} = {level}" for name, level in levels.items())


def read_off(figure: Published, groups: Sequence[Sequence[Made]]) -> Simulated:
    """Reads a figure from its runs: `groups` are the cells of `needed` with their runs. Raises Missing if they lack
    the quantity.
    """
    if any(not made.runs for group in groups for made in group):
        raise Missing("its runs failed")
    if figure.quantity in _OF_LEVELS:
        return _OF_LEVELS[figure.quantity](figure, groups[0])
    if figure.quantity == "mean_elapsed_s":
        return Simulated(values=_means([made.runs for made in groups[0]]))
    if figure.quantity == "mean_elapsed_ratio":
        means, others = (_means([made.runs for made in group]) for group in groups)
        return Simulated(values=tuple(mean / other for mean, other in zip(means, others, strict=False)))
    if figure.quantity in _OF_TWO:
        return Simulated(values=_compared(figure, groups[0][0].runs, groups[1][0].runs))
    return Simulated(values=tuple(_OF_RUN[figure.quantity](figure, run) for run in groups[0][0].runs))


# --- one run ---------------------------------------------------------------------------------------------------------


def _waits(run: Measurement) -> CountedWaits:
    if not isinstance(run.waits, CountedWaits):
        raise Missing("its runs have no counted waits")
    return run.waits


def _wait(figure: Published, run: Measurement) -> float:
    """The time of a wait; without such a wait, 0."""
    row = next((row for row in _waits(run).rows if row.wait_type == figure.wait_type), None)
    if row is None:
        return 0.0
    wait_ns, signal_ns = row.wait_ns, row.signal_ns or 0
    match figure.quantity:
        case "resource_s":
            return (wait_ns - signal_ns) * NS
        case "signal_s":
            return signal_ns * NS
        case "wait_count":
            if row.wait_count is None:
                raise Missing(f"its runs do not count how often {figure.wait_type} was waited for")
            return float(row.wait_count)
        case "wait_share":
            return wait_ns / sum(other.wait_ns for other in _waits(run).rows)
        case _:
            return wait_ns * NS


def _counter(figure: Published, run: Measurement) -> float:
    assert figure.counter is not None
    group, _, name = figure.counter.rpartition(".")
    try:
        value = run.counters[group][name]
    except KeyError:
        raise Missing(f"its runs have no counter {figure.counter}") from None
    return value * figure.times / (run.work.amount if figure.per == "rows" else 1)


def _memory_phase(run: Measurement) -> tuple[float, float]:
    """Rows inserted before the first page was read, and the CPU seconds that sessions spent until then."""
    engine = run.counters.get("engine", {})
    if not engine.get("memory_phase_rows"):
        raise Missing("its runs do not tell what was done while all of the table was in memory")
    return engine["memory_phase_rows"], engine["memory_phase_cpu_s"]


def _memory_phase_cpu_per_row_s(_: Published, run: Measurement) -> float:
    rows, cpu_s = _memory_phase(run)
    return cpu_s / rows


def _yields_over_memory_phase(_: Published, run: Measurement) -> float:
    """How often sessions used up their quantum, over the CPU time spent while all of the table was in memory."""
    yields = sum(row.wait_count or 0 for row in _waits(run).rows if row.wait_type == "SOS_SCHEDULER_YIELD")
    return yields * _QUANTUM_S / _memory_phase(run)[1]


def _sessions_on_pfs_page(_: Published, run: Measurement) -> float:
    """The most sessions on one page at once: the median of the samples that found any, since nobody publishes a
    screen without one.
    """
    most: dict[float, int] = {}
    for task in run.waiting_tasks:
        if task.resource.kind == PFS_PAGE:
            most[task.at_s] = max(task.sessions, most.get(task.at_s, 0))
    return float(statistics.median(most.values())) if most else 0.0


_OF_RUN: dict[str, Callable[[Published, Measurement], float]] = {
    "elapsed_s": lambda _, run: run.elapsed_s,
    "wait_s": _wait,
    "resource_s": _wait,
    "signal_s": _wait,
    "wait_count": _wait,
    "wait_share": _wait,
    "memory_phase_cpu_per_row_s": _memory_phase_cpu_per_row_s,
    "counter": _counter,
    "explained": lambda _, run: conservation(_waits(run)).explained or 0.0,
    "yields_over_memory_phase": _yields_over_memory_phase,
    "sessions_on_pfs_page": _sessions_on_pfs_page,
}


# --- several cells ---------------------------------------------------------------------------------------------------

_OF_TWO = ("elapsed_ratio", "gain", "counter_ratio")


def _compared(figure: Published, runs: Sequence[Measurement], others: Sequence[Measurement]) -> tuple[float, ...]:
    """The comparison, repetition by repetition."""
    pairs = list(zip(runs, others, strict=False))
    if figure.quantity == "counter_ratio":
        return tuple(_counter(figure, run) / _counter(figure, other) for run, other in pairs)
    ratios = [run.elapsed_s / other.elapsed_s for run, other in pairs]
    return tuple(1 - ratio for ratio in ratios) if figure.quantity == "gain" else tuple(ratios)


def _means(cells: Sequence[Sequence[Measurement]]) -> tuple[float, ...]:
    """The mean elapsed time over cells, repetition by repetition."""
    return tuple(sum(run.elapsed_s for run in runs) / len(runs) for runs in zip(*cells, strict=False))


def _mean_elapsed_s(made: Made) -> float:
    return sum(run.elapsed_s for run in made.runs) / len(made.runs)


def _level(figure: Published, made: Made) -> JsonValue:
    assert figure.along is not None
    return made.cell.levels[figure.along]


def _ordered(figure: Published, group: Sequence[Made]) -> Simulated:
    return Simulated(order=tuple(_level(figure, made) for made in sorted(group, key=_mean_elapsed_s)))


def _best(figure: Published, group: Sequence[Made]) -> Simulated:
    """The level with the least mean time, and those that its runs can't be distinguished from, as in any report."""
    best = min(group, key=_mean_elapsed_s)
    rounds = min(len(made.runs) for made in group)
    log_s = np.log([[run.elapsed_s for run in made.runs[:rounds]] for made in group])
    differences = contrast.compare_with_best(least_squares.fit(log_s), group.index(best))
    tied = [group[place] for place, one in differences.items() if one.tested and not one.distinguishable]
    return Simulated(level=_level(figure, best), tied=tuple(_level(figure, made) for made in tied))


def _gone(figure: Published, group: Sequence[Made]) -> Simulated:
    """The first level from which on no table has the wait among its top 95 %, by the mean tables; and the levels
    that the tables of single repetitions give instead.
    """
    rounds = min(len(made.runs) for made in group)
    gone = _gone_from(figure, group, [made.runs for made in group])
    alone = [_gone_from(figure, group, [[made.runs[number]] for made in group]) for number in range(rounds)]
    others = [level for number, level in enumerate(alone) if level not in (gone, *alone[:number])]
    return Simulated(level=gone, tied=tuple(others))


def _gone_from(figure: Published, group: Sequence[Made], runs: Sequence[Sequence[Measurement]]) -> JsonValue:
    """`runs`: for each cell of the group, the runs of the mean table."""
    gone: JsonValue | None = None
    for made, of_cell in zip(group, runs, strict=True):
        table = wait_table(mean_of_runs([normalise(_waits(run)) for run in of_cell]))
        shown = any(row.wait_type == figure.wait_type for row in table)
        gone = None if shown else _level(figure, made) if gone is None else gone
    return "never" if gone is None else gone


def _falling(figure: Published, group: Sequence[Made]) -> Simulated:
    """The share of steps from level to level in which the wait shrinks, repetition by repetition."""
    wait = figure.model_copy(update={"quantity": "wait_s"})
    rounds = zip(*([_wait(wait, run) for run in made.runs] for made in group), strict=False)
    return Simulated(values=tuple(sum(b < a for a, b in _steps(waits)) / (len(waits) - 1) for waits in rounds))


def _spread(_: Published, group: Sequence[Made]) -> Simulated:
    """The mean time of the slowest level minus that of the fastest."""
    means = [_mean_elapsed_s(made) for made in group]
    return Simulated(values=(max(means) - min(means),))


def _steps(values: Sequence[float]) -> list[tuple[float, float]]:
    return list(itertools.pairwise(values))


_OF_LEVELS: Mapping[str, Callable[[Published, Sequence[Made]], Simulated]] = {
    "best_level": _best,
    "order": _ordered,
    "gone_from_top_95": _gone,
    "falling_steps": _falling,
    "elapsed_spread_s": _spread,
}
