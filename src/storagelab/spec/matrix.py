"""Expands an experiment to cells and to an ordered list of runs. The same experiment always gives the same plan.

Runs come in blocks. A block has one combination of the levels of the costly factors, such as formats of a drive. All
repetitions of a block come before the next block, so that costly factors change as rarely as possible. Within a block,
each repetition is one complete round of the block's cells. So, on average, a drift of the machine affects all cells
equally, and the n-th repetitions of two cells make a pair. If few layouts are measured, two rounds are interleaved (see
below). In the order "cell-by-cell", all repetitions of a cell come before the next cell. The published harness used
this order, in which a drive's history can look like an effect of the layout.

With the key `blocks`, each combination has several blocks, which share the repetitions. The order of these blocks is
balanced, too: it consists of complete rounds of all combinations. A block may begin with a burn-in: runs that are not
judged because their drives are newly prepared. The repetition numbers of burn-in runs are 0, -1, -2 and so on."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from typing import TypeVar

from storagelab.errors import SpecError, shown
from storagelab.model.plan import FEW_RACED, Cell, Experiment, Factor, Level, Plan, PlannedRun
from storagelab.model.values import JsonValue
from storagelab.spec.factors import same
from storagelab.spec.keys import put
from storagelab.spec.rules import config_of

# --- the order of runs ------------------------------------------------------------------------------------------------
# Random orders that depend only on a seed.
#
# Remains of a run, such as dirty pages or a drive's pending garbage collection, slow down the next runs. If a layout
# follows such a run more often than other layouts do, the layout looks slow. So in a balanced order, each layout
# follows every layout, itself included, about equally often: in the next place, and also two and three places later.
# Each layout also has even and odd places, and each place of a round, about equally often. Finney and Outhwaite (1956,
# Proceedings of the Royal Society B 145) gave such orders for some numbers of treatments and runs. This module finds
# orders for any numbers: of the round's remaining layouts, the next is one that has followed the last three layouts
# least often.

LAGS = {1: 6, 2: 3, 3: 2}
"""Maps each number of places later to the weight of an imbalance there. The weights fall, because carry-over becomes
smaller from run to run."""
FEW = 5
"""With at most this many layouts, two rounds are interleaved. In complete rounds of few layouts, a layout rarely
follows itself. So its carry-over would almost always affect the other layouts."""
_CLOCK = 3
"""The weight of an imbalance between even and odd places, and between the places of a round. A disturbance of every
second run, or of one run in each round, must affect all layouts equally."""
_MANY = 200
"""With more layouts than this, a plain shuffle is equally good, because the same layout rarely follows another one
twice."""
_CANDIDATES = 8
"""The number of layouts that are compared for the next place."""
_TRIES = 64
"""The number of layouts that all tries for one round may place together. The best try gives the order of the round."""
_LONG = 100
"""From this repetition on, only one order is tried, because imbalances even out over many rounds."""

T = TypeVar("T")
_Names = tuple[int, ...]


def balanced(
    cells: Sequence[Cell], repetitions: int, seed: int, stream: str, *, few: int = FEW
) -> Iterator[tuple[int, Cell]]:
    """Yields (repetition, cell) for each run of a block. If a block has at most `few` layouts, two rounds are
    interleaved. Otherwise each repetition is a complete round. A larger number of repetitions leaves the earlier rounds
    unchanged, except a last round that had no partner.
    """
    if len(cells) > _MANY:
        for repetition in range(1, repetitions + 1):
            yield from ((repetition, cell) for cell in shuffled(cells, seed, f"round/{stream}/{repetition}"))
        return
    names = _names(cells)
    followed = _Followed(len(cells))
    width = 2 if len(cells) <= few else 1
    for first in range(1, repetitions + 1, width):
        rounds = range(first, min(first + width, repetitions + 1))
        tries = max(1, _TRIES // len(cells)) if first < _LONG else 1
        found = [
            _filled(names, len(rounds), followed, seed, f"balanced/{stream}/{first}/{one}") for one in range(tries)
        ]
        _, chosen = min(found, key=lambda one: one[0])
        turns: Counter[int] = Counter()
        for number in chosen:
            followed.add(names[number])
            yield rounds[turns[number]], cells[number]
            turns[number] += 1


def _names(cells: Sequence[Cell]) -> list[_Names]:
    """Returns the numbers by which each cell is counted. The first is the cell's own number. If several factors vary,
    the numbers of the cell's levels follow.
    """
    varied = [name for name in cells[0].levels if len({repr(cell.levels[name]) for cell in cells}) > 1]
    names: list[_Names] = []
    numbers: list[dict[str, int]] = [{} for _ in varied]
    for number, cell in enumerate(cells):
        levels = [of.setdefault(repr(cell.levels[name]), len(of)) for name, of in zip(varied, numbers, strict=True)]
        names.append((number, *levels) if len(varied) > 1 else (number,))
    return names


class _Followed:
    """Counts how often one name followed another. The keys of `counts` are: distance in places, kind of name, earlier
    name, later name. The keys of `clocks` are: period, phase, cell.
    """

    def __init__(self, cells: int) -> None:
        self.counts: Counter[tuple[int, int, int, int]] = Counter()
        self.clocks: Counter[tuple[int, int, int]] = Counter()
        self.periods = sorted({2, cells})
        self.last: list[_Names] = []
        """The latest cells. The last placed cell comes first."""
        self.placed = 0

    def copy(self) -> _Followed:
        made = copy(self)
        made.counts, made.clocks = self.counts.copy(), self.clocks.copy()
        return made

    def cost(self, names: _Names) -> int:
        """The weighted number of times that this cell followed the latest cells, plus the weighted number of times that
        it already had such a place.
        """
        counts = self.counts
        clocks = sum(self.clocks[period, self.placed % period, names[0]] for period in self.periods)
        return _CLOCK * clocks + sum(
            LAGS[lag] * counts[lag, kind, earlier[kind], name]
            for lag, earlier in enumerate(self.last, start=1)
            for kind, name in enumerate(names)
        )

    def add(self, names: _Names) -> None:
        for lag, earlier in enumerate(self.last, start=1):
            for kind, name in enumerate(names):
                self.counts[lag, kind, earlier[kind], name] += 1
        for period in self.periods:
            self.clocks[period, self.placed % period, names[0]] += 1
        self.placed += 1
        self.last = [names, *self.last][: len(LAGS)]


def _filled(
    names: Sequence[_Names], rounds: int, followed: _Followed, seed: int, stream: str
) -> tuple[int, tuple[int, ...]]:
    """Returns the imbalance of an order of `rounds` rounds, and the order as positions in `names`. The remaining cells
    are in random order. Of the first _CANDIDATES of them, the cell with the lowest cost comes next.
    """
    followed = followed.copy()
    left = shuffled([number for number in range(len(names)) for _ in range(rounds)], seed, stream)
    chosen: list[int] = []
    total = 0
    while left:
        costs = [followed.cost(names[number]) for number in left[:_CANDIDATES]]
        least = min(costs)
        number = left.pop(costs.index(least))
        followed.add(names[number])
        chosen.append(number)
        total += least
    return total, tuple(chosen)


def shuffled(items: Sequence[T], seed: int, stream: str) -> list[T]:
    """Returns `items` in a random order that depends only on `seed`, `stream` and the number of items.

    This is Fisher and Yates's shuffle, as Knuth gives it (The Art of Computer Programming, volume 2, algorithm 3.4.2P).
    Its random numbers come from SHA-256 rather than from Python's generator, so that no later version of Python can
    change the order of an experiment.
    """
    result = list(items)
    for last in range(len(result) - 1, 0, -1):
        other = draw(f"{seed}/{stream}/{last}") % (last + 1)
        result[last], result[other] = result[other], result[last]
    return result


def draw(text: str) -> int:
    """Returns 256 random bits. They are enough for a practically uniform remainder modulo any number of cells."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


# --- cells and runs ---------------------------------------------------------------------------------------------------

MAX_CELLS = 100_000
MAX_RUNS = 1_000_000

_OF_A_BLOCK = ("target", "server", "drives", "volumes")
"""Keys that are fixed for a block if drives keep their state, because all runs of the block use the same server and the
same drives."""
_BEGINS_A_BLOCK = "between_runs.burn_in"
"""A key that is fixed for a block in any experiment. It sets how the block begins, so all cells of the block must have
the same value."""


def expand(experiment: Experiment, costly: Collection[str] = ()) -> Plan:
    """Returns the plan of an experiment. The plan has each combination of levels that is not excluded, once per
    repetition.

    `costly` adds to the experiment's own costly factors. It has names of factors, and paths: "drives.ssd" stands for
    every factor that sets a key below that path. Cells are numbered in the order of the spec. Repetitions count from 1,
    runs and blocks from 0. Raises SpecError if the matrix has no cells or too many, and for an invalid combination.
    This error names the combination's levels.
    """
    combinations = list(_combinations(experiment))
    width = max(2, len(str(len(combinations))))
    cells = [_cell(experiment, f"c{number:0{width}}", levels) for number, levels in enumerate(combinations, start=1)]
    if len(cells) * experiment.repetitions > MAX_RUNS:
        raise _too_many(experiment, f"{len(cells)} cells x {experiment.repetitions} repetitions", MAX_RUNS, "runs")
    if any(cell.config.kind.drives_remember for cell in cells):
        costly = (*costly, *_OF_A_BLOCK)
    kept = {name for cell in cells for name, volume in cell.config.volumes.items() if volume.kept_for_block}
    costly = (*costly, *(f"volumes.{name}" for name in sorted(kept)))
    blocks = _blocks(cells, _costly_names(experiment, costly))
    _refuse_blocks_of_nothing(experiment, cells, changes=len(blocks) > 1 or bool(kept))
    levels = {cell.cell_id: json.dumps(cell.levels, sort_keys=True, ensure_ascii=False) for cell in cells}
    # The run's identity gives the 63 bits of its seed. The run's place does not matter, so a run has the same seed in
    # any order.
    runs = (
        PlannedRun(
            sequence=sequence,
            block=block,
            cell_id=cell.cell_id,
            repetition=repetition,
            seed=draw(f"{experiment.seed}/run/{levels[cell.cell_id]}/{repetition}") >> (256 - 63),
        )
        for sequence, (block, repetition, cell) in enumerate(_ordered(blocks, experiment))
    )
    return Plan(cells=tuple(cells), runs=tuple(runs))


# ---------------------------------------------------------------------------------------------------------------------
# Cells
# ---------------------------------------------------------------------------------------------------------------------


def _combinations(experiment: Experiment) -> Iterator[tuple[Level, ...]]:
    """Yields the levels of each combination that is not excluded. The last factor changes fastest."""
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
        raise error.at(experiment.source, f" (in the cell {where})" if where else "") from None
    return Cell(cell_id=cell_id, levels=levels, config=config)


def _too_many(experiment: Experiment, product: str, most: int, what: str) -> SpecError:
    hint = "Remove levels or factors, or split the experiment into several specs."
    return SpecError(f"{product} make more than {most} {what}", file=experiment.source, key="factors", hint=hint)


# ---------------------------------------------------------------------------------------------------------------------
# Order
# ---------------------------------------------------------------------------------------------------------------------


def _costly_names(experiment: Experiment, costly: Collection[str]) -> tuple[str, ...]:
    """Returns the names of the costly factors, in the order of the spec."""
    wanted = {*experiment.costly, *costly, _BEGINS_A_BLOCK}
    return tuple(
        factor.name for factor in experiment.factors
        if factor.name in wanted or any(
            path == place or path.startswith(f"{place}.")
            for level in factor.levels for path in level.sets for place in wanted
        )
    )  # fmt: skip


def _blocks(cells: Sequence[Cell], costly: Sequence[str]) -> list[list[Cell]]:
    """Groups cells by their levels of the costly factors. Blocks are in the order of their first cells. A block has
    only measured cells or only simulated cells."""
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
    """Yields (block, repetition, cell) in the order of the runs. Blocks are numbered in this order, from 0."""
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
            few = FEW if experiment.race is None else FEW_RACED
            order = balanced(cells, experiment.repetitions, experiment.seed, cells[0].cell_id, few=few)
            yield from ((number, repetition, cell) for repetition, cell in order)
            continue
        for repetition in range(1, experiment.repetitions + 1):
            stream = f"round/{cells[0].cell_id}/{repetition}"
            for cell in shuffled(cells, experiment.seed, stream) if randomised else cells:
                yield number, repetition, cell


def _prepared_again(blocks: Sequence[list[Cell]], experiment: Experiment) -> Iterator[tuple[int, int, Cell]]:
    """Like `_ordered`, if each combination has several blocks. These blocks share the combination's repetitions."""
    each = experiment.repetitions // experiment.blocks
    first_of = {cells[0].cell_id: cells for cells in blocks}
    turns = balanced([cells[0] for cells in blocks], experiment.blocks, experiment.seed, "blocks", few=0)
    for number, (turn, first) in enumerate(turns):
        cells, before = first_of[first.cell_id], (turn - 1) * each
        yield from ((number, repetition, cell) for repetition, cell in _burn_in(cells, experiment, turn))
        order = balanced(cells, each, experiment.seed, f"{first.cell_id}/block/{turn}")
        yield from ((number, before + repetition, cell) for repetition, cell in order)


def _burn_in(cells: Sequence[Cell], experiment: Experiment, turn: int = 1) -> Iterator[tuple[int, Cell]]:
    """Yields (repetition, cell) for the burn-in runs of a block. The cells take turns. `turn` is the number of the
    block among the blocks of its combination, from 1.
    """
    if experiment.order == "randomised":
        cells = shuffled(cells, experiment.seed, f"burn-in/{cells[0].cell_id}")
    runs = cells[0].config.between_runs.burn_in
    before = (turn - 1) * math.ceil(runs / len(cells))
    for number in range(runs):
        yield -(number // len(cells)) - before, cells[number % len(cells)]
