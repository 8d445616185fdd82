"""Experiment -> cells -> runs, in their order. Pure: the same experiment always gives the same plan.

Runs come in blocks. A block is one combination of the levels of the costly factors, such as formats of a drive. All
repetitions of a block come before the next block, so that costly factors change least often. Within a block each
repetition is a complete round of its cells, so that a drift of the machine hits all cells alike on average, and the
n-th repetitions of two cells make a pair; of a few measured layouts, two rounds are made in turns (see `orders`). Only
in the order "cell-by-cell" does a cell have all its repetitions before the next cell. The published harness worked that
way, and a drive's history can then look like an effect of the layout. With `blocks`, each combination comes in several
blocks, which share the repetitions. The order of the blocks is a balanced one, too: complete rounds of all
combinations. A block may begin with a burn-in: runs that are not judged because they find the drives newly prepared.
Their repetitions count from 0 down.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from storagelab.errors import SpecError
from storagelab.model.hints import shown
from storagelab.model.plan import Cell, Experiment, Factor, Level, Plan, PlannedRun
from storagelab.model.values import JsonValue
from storagelab.spec.factors import same
from storagelab.spec.keys import put
from storagelab.spec.orders import balanced, draw, shuffled
from storagelab.spec.rules import config_of

MAX_CELLS = 100_000
MAX_RUNS = 1_000_000

_OF_A_BLOCK = ("target", "server", "drives", "volumes")
"""Keys that are fixed for a whole block where drives remember: its runs share a server and the drives' history."""
_BEGINS_A_BLOCK = "between_runs.burn_in"
"""Fixed for a block in any experiment: it says how a block begins, so all its cells share it."""


def expand(experiment: Experiment, costly: Collection[str] = ()) -> Plan:
    """The plan of an experiment: every combination of levels not excluded, once per repetition.

    `costly` adds to the experiment's own costly factors: names of factors, or paths such as "drives.ssd" that stand for
    every factor that sets something there. Cells are numbered as listed, repetitions from 1, runs and blocks from 0.
    Raises SpecError for a matrix with no cells or too many, and for an invalid combination, naming its levels.
    """
    cells = _cells(experiment)
    if len(cells) * experiment.repetitions > MAX_RUNS:
        raise _too_many(experiment, f"{len(cells)} cells x {experiment.repetitions} repetitions", MAX_RUNS, "runs")
    if any(cell.config.kind.drives_remember for cell in cells):
        costly = (*costly, *_OF_A_BLOCK)
    kept = {name for cell in cells for name, volume in cell.config.volumes.items() if volume.kept_for_block}
    costly = (*costly, *(f"volumes.{name}" for name in sorted(kept)))
    blocks = _blocks(cells, _costly_names(experiment, costly))
    _refuse_blocks_of_nothing(experiment, cells, changes=len(blocks) > 1 or bool(kept))
    ordered = _ordered(blocks, experiment)
    levels = {cell.cell_id: json.dumps(cell.levels, sort_keys=True, ensure_ascii=False) for cell in cells}
    runs = (
        PlannedRun(
            sequence=sequence,
            block=block,
            cell_id=cell.cell_id,
            repetition=repetition,
            seed=_run_seed(experiment.seed, levels[cell.cell_id], repetition),
        )
        for sequence, (block, repetition, cell) in enumerate(ordered)
    )
    return Plan(cells=tuple(cells), runs=tuple(runs))


# ---------------------------------------------------------------------------------------------------------------------
# Cells
# ---------------------------------------------------------------------------------------------------------------------


def _cells(experiment: Experiment) -> list[Cell]:
    combinations = list(_combinations(experiment))
    width = max(2, len(str(len(combinations))))
    return [
        _cell(experiment, f"c{number:0{width}}", combination)
        for number, combination in enumerate(combinations, start=1)
    ]


def _combinations(experiment: Experiment) -> Iterator[tuple[Level, ...]]:
    """Levels in the order of the factors, the last factor changing fastest, without the excluded combinations."""
    factors = experiment.factors
    count = math.prod(len(factor.levels) for factor in factors)
    if count > MAX_CELLS:
        sizes = " x ".join(str(len(factor.levels)) for factor in factors)
        raise _too_many(experiment, f"{sizes} levels", MAX_CELLS, "cells")
    left = 0
    for combination in itertools.product(*(factor.levels for factor in factors)):
        if not any(_excluded(factors, combination, exclude) for exclude in experiment.excludes):
            left += 1
            yield combination
    if not left:
        raise SpecError(
            f"leaves none of the {count} cells",
            file=experiment.source,
            key="exclude" if experiment.excludes else "factors",
            hint="Remove an [[exclude]], or name more factors in it: it leaves out the cells that match all its lines.",
        )


def _excluded(factors: Sequence[Factor], levels: Sequence[Level], exclude: Mapping[str, JsonValue]) -> bool:
    return all(
        same(level.value, exclude[factor.name])
        for factor, level in zip(factors, levels, strict=True)
        if factor.name in exclude
    )


def _cell(experiment: Experiment, cell_id: str, combination: Sequence[Level]) -> Cell:
    levels = {factor.name: level.value for factor, level in zip(experiment.factors, combination, strict=True)}
    sets = {path: value for level in combination for path, value in level.sets.items()}
    try:
        config = config_of(put(experiment.base, sets))
    except SpecError as error:
        where = ", ".join(f"{name} = {shown(value)}" for name, value in levels.items())
        problem = error.problem + (f" (in the cell {where})" if where else "")
        raise SpecError(problem, file=experiment.source, key=error.key, hint=error.hint) from None
    return Cell(cell_id=cell_id, levels=levels, config=config)


def _too_many(experiment: Experiment, product: str, most: int, what: str) -> SpecError:
    return SpecError(
        f"{product} make more than {most} {what}",
        file=experiment.source,
        key="factors",
        hint="Remove levels or factors, or split the experiment into several specs.",
    )


# ---------------------------------------------------------------------------------------------------------------------
# Order
# ---------------------------------------------------------------------------------------------------------------------


def _costly_names(experiment: Experiment, costly: Collection[str]) -> tuple[str, ...]:
    """The costly factors, as listed."""
    wanted = {*experiment.costly, *costly, _BEGINS_A_BLOCK}
    return tuple(factor.name for factor in experiment.factors if factor.name in wanted or _touches(factor, wanted))


def _touches(factor: Factor, places: Collection[str]) -> bool:
    paths = {path for level in factor.levels for path in level.sets}
    return any(path == place or path.startswith(f"{place}.") for path in paths for place in places)


def _blocks(cells: Sequence[Cell], costly: Sequence[str]) -> list[list[Cell]]:
    """Cells by their levels of the costly factors, with blocks in the order of their first cells. No block is both
    measured and simulated."""
    blocks: dict[str, list[Cell]] = {}
    for cell in cells:
        of = [cell.config.kind.provenance, *(cell.levels[name] for name in costly)]
        blocks.setdefault(json.dumps(of), []).append(cell)
    return list(blocks.values())


def _refuse_blocks_of_nothing(experiment: Experiment, cells: Sequence[Cell], *, changes: bool) -> None:
    if experiment.blocks == 1:
        return
    if any(cell.config.simulated for cell in cells):
        raise SpecError(
            "is for measured runs", file=experiment.source, key="blocks",
            hint="Leave it out: simulated drives are the same after each preparation.",
        )  # fmt: skip
    if not changes:
        raise SpecError(
            "has nothing to prepare again: no factor is costly, and no volume is made for a block",
            file=experiment.source, key="blocks",
            hint='Name the costly factors: costly = ["..."]; or set made_for = "block" for a '
            'volume; or leave blocks out.',
        )  # fmt: skip


def _ordered(blocks: Sequence[list[Cell]], experiment: Experiment) -> Iterator[tuple[int, int, Cell]]:
    """(block, repetition, cell) in the order of the runs; blocks are numbered as they come."""
    if experiment.blocks > 1:
        yield from _prepared_again(blocks, experiment)
        return
    randomised = experiment.order == "randomised"
    if randomised:
        blocks = shuffled(blocks, experiment.seed, "blocks")
    for number, cells in enumerate(blocks):
        yield from ((number, repetition, cell) for repetition, cell in _burn_in(cells, experiment))
        if experiment.order == "cell-by-cell":
            yield from ((number, turn, cell) for cell in cells for turn in range(1, experiment.repetitions + 1))
            continue
        if randomised and experiment.balanced and not cells[0].config.simulated:
            whole = experiment.race is not None
            order = balanced(cells, experiment.repetitions, experiment.seed, cells[0].cell_id, whole=whole)
            yield from ((number, repetition, cell) for repetition, cell in order)
            continue
        for repetition in range(1, experiment.repetitions + 1):
            stream = f"round/{cells[0].cell_id}/{repetition}"
            for cell in shuffled(cells, experiment.seed, stream) if randomised else cells:
                yield number, repetition, cell


def _prepared_again(blocks: Sequence[list[Cell]], experiment: Experiment) -> Iterator[tuple[int, int, Cell]]:
    """As `_ordered`, for several blocks of each combination, which share its repetitions."""
    each = experiment.repetitions // experiment.blocks
    first_of = {cells[0].cell_id: cells for cells in blocks}
    turns = balanced([cells[0] for cells in blocks], experiment.blocks, experiment.seed, "blocks", whole=True)
    for number, (turn, first) in enumerate(turns):
        cells, before = first_of[first.cell_id], (turn - 1) * each
        yield from ((number, repetition, cell) for repetition, cell in _burn_in(cells, experiment, turn))
        order = balanced(cells, each, experiment.seed, f"{first.cell_id}/block/{turn}")
        yield from ((number, before + repetition, cell) for repetition, cell in order)


def _burn_in(cells: Sequence[Cell], experiment: Experiment, turn: int = 1) -> Iterator[tuple[int, Cell]]:
    """(repetition, cell) of a block's burn-in runs: the cells in turn. The block is the `turn`-th of its kind."""
    if experiment.order == "randomised":
        cells = shuffled(cells, experiment.seed, f"burn-in/{cells[0].cell_id}")
    runs = cells[0].config.between_runs.burn_in
    before = (turn - 1) * math.ceil(runs / len(cells))
    for number in range(runs):
        yield -(number // len(cells)) - before, cells[number % len(cells)]


def _run_seed(seed: int, levels: str, repetition: int) -> int:
    """63 bits derived from the run's identity, not its place: a run has the same seed in any order."""
    return draw(f"{seed}/run/{levels}/{repetition}") >> (256 - 63)
