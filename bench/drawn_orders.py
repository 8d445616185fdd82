"""The orders of runs that campaigns can have.

Each order simulates a campaign in a situation, and returns the statements of its report. Runs follow the experiment's
plan, one after another. The same code judges simulated and real runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from bench import drawn
from bench.drawn import ORDERS, SITUATIONS, Design, Rng, design, happened, shifted
from storagelab.findings import basis, campaigns, hosts
from storagelab.findings.campaigns import Gate, gate, gate_of_cells
from storagelab.findings.model import Estimate
from storagelab.findings.raced import ByRace, Group, Raced
from storagelab.findings.statements import SHARES, stated_at
from storagelab.model.plan import FEW_RACED
from storagelab.stats import contrast, stalls
from storagelab.stats.fit import Fit, Matrix, Vector, mean_time
from storagelab.stats.intervals import ALPHA
from storagelab.stats.race import LOOK_FROM, SHARE, Standing, error_of, look

MARGIN = 0.05
"""The margin of the gates."""
PREPARED, HOSTS, INTERACTION, LUCK = 0.05, 0.20, 0.03, 0.02
"""The standard deviations of the effects of a preparation, a host, a host on each layout, and a campaign on runs."""


class Said(NamedTuple):
    """The statements of a report. `differs`: it states any difference. `slower`: the layouts that it calls slower, with
    the ratio to the best. `leading`: the layouts that may be the fastest. `means`: the mean of each layout. `ratio`:
    the ratio of the second layout to the first. This pair is chosen beforehand. `passes`: the gate at `MARGIN` passes.
    `runs`: the number of runs of a race. The value is None if the report makes no such statement.
    """

    differs: bool
    slower: Mapping[int, Estimate]
    leading: frozenset[int] | None = None
    winner: int | None = None
    means: Sequence[Estimate] = ()
    ratio: Estimate | None = None
    passes: bool | None = None
    runs: int | None = None


@dataclass(frozen=True)
class Campaign:
    """A simulated campaign. `said` returns its report for any levels of its layouts. `truth` has their levels in the
    situation. `slow` is the layout that is slower, or faster, in a part of the experiments."""

    said: Callable[[Vector], Said]
    truth: Vector
    slow: int = 1


def _truth(cells: int, kind: str) -> Vector:
    return np.array([SITUATIONS[kind].first, *[0.0] * (cells - 1)])


def _report(of: Design, fitted: Fit, levels: Vector) -> Said:
    """Returns the statements of `verdicts.judge` and `statements.state` about a design's runs, as if its layouts had
    these levels."""
    moved = shifted(fitted, levels)
    best, cells = moved.fastest(), len(levels)
    assert best is not None
    equal = not np.ptp(levels)
    # If layouts differ, the statement that something differs is not counted, so it is not computed.
    differs = equal and drawn.states_a_difference(of, moved)
    slower, strictly = (_slower(moved, best, alpha) for alpha in (ALPHA, ALPHA * SHARES["verdict"]))
    if slower and not strictly and not (differs or (not equal and drawn.states_a_difference(of, moved))):
        slower = {}
    one = contrast.ratios(moved, [1], 0, contrast.named(1)).get(1)
    return Said(
        differs, slower, frozenset(contrast.may_be_fastest(moved, range(cells))),
        best if len(slower) == cells - 1 else None,
        [mean_time(moved, cell, cells if cell == best else 1) for cell in range(cells)] if equal else (),
        None if one is None else one.ratio,
    )  # fmt: skip


def _slower(fitted: Fit, best: int, alpha: float) -> dict[int, Estimate]:
    found = contrast.compare_with_best(fitted, best, alpha=alpha)
    return {cell: one.ratio for cell, one in found.items() if one.slower}


# --- orders -----------------------------------------------------------------------------------------------------------


def fixed(rng: Rng, number: int, size: tuple[int, int], kind: str) -> Campaign:
    """Makes balanced rounds: pairs of rounds for up to five layouts, single rounds for more layouts."""
    of = design(*size, seed=number % ORDERS)
    fitted = drawn.fit(of, happened(of, SITUATIONS[kind], rng))
    return Campaign(partial(_report, of, fitted), _truth(size[0], kind))


def race(rng: Rng, number: int, size: tuple[int, int], kind: str) -> Campaign:
    """Makes a race, as `--find-best` does: rounds of the layouts that may still win."""
    of, seed = design(*size, seed=number % ORDERS, race=True), int(rng.integers(2**62))
    return Campaign(lambda levels: _report_of_race(of, levels, kind, seed), _truth(size[0], kind))


def raced_to_its_end(of: Design, levels: Vector, kind: str, seed: int) -> tuple[Standing, Matrix]:
    """Makes a race, and returns its end and the times of its runs. The effects on the runs have the same seed for any
    levels."""
    machine = SITUATIONS[kind].start(np.random.default_rng(seed), of.shape[0], len(of.sequence))
    log_s, standing, (cells, planned) = np.full(of.shape, np.nan), Standing(tuple(range(of.shape[0]))), of.shape
    at_once = 2 if cells <= FEW_RACED else 1  # as in `raced`
    while standing.running and standing.rounds < planned:
        rounds = min(standing.rounds + at_once, planned)
        for at in of.sequence:
            if standing.rounds <= at[1] < rounds and at[0] in standing.running:
                log_s[at] = levels[at[0]] + machine(at[0])
        standing = look(standing, stalls.fit(log_s[:, :rounds]), rounds, planned)
    return standing, log_s[:, : standing.rounds]


def _report_of_race(of: Design, levels: Vector, kind: str, seed: int) -> Said:
    standing, log_s = raced_to_its_end(of, levels, kind, seed)
    there = ~np.isnan(log_s)
    said = Said(
        False, {one.cell: one.difference.ratio for one in standing.left}, frozenset(standing.racing),
        standing.racing[0] if len(standing.racing) == 1 else None, runs=int(there.sum()),
    )  # fmt: skip
    if np.ptp(levels):
        return said
    fitted, complete = basis.resolved(stalls.fit(log_s), 0.0), there.all(axis=0)
    groups = (Group(tuple(range(of.shape[0])), standing),)
    last = max(int(complete.sum()), LOOK_FROM)
    share = error_of(last, of.shape[1], last - 1) / (ALPHA * SHARE)
    found = Raced(ByRace(groups, fitted), stalls.fit(log_s[:, complete]), share, groups)
    stated = stated_at(of.experiment.factors, of.plan, fitted, of.blocks, raced=found)
    means = [mean_time(fitted, cell, of.shape[0] if cell == standing.racing[0] else 1) for cell in range(of.shape[0])]
    return said._replace(differs=stated.name_a_difference, means=means)


def blocks(rng: Rng, number: int, size: tuple[int, int], kind: str) -> Campaign:
    """Prepares levels again: each level has three blocks. Within a block, the runs of layouts alternate."""
    of = design(*size, seed=number % ORDERS, blocks=3)
    luck = rng.normal(0, PREPARED, int(of.made_in.max()) + 1)
    fitted = drawn.fit(of, happened(of, SITUATIONS[kind], rng) + luck[of.made_in])
    return Campaign(partial(_report, of, fitted), _truth(size[0], kind), slow=size[0] - 1)


def against(rng: Rng, number: int, size: tuple[int, int], kind: str) -> Campaign:
    """Makes a campaign with `--against`, and the gate of its two cells. The first layout is the change. The second
    layout is the base of the comparison.
    """
    of = design(*size, seed=number % ORDERS)
    log_s = happened(of, SITUATIONS[kind], rng)
    fitted, times = drawn.fit(of, log_s), np.exp(log_s).mean(axis=1)

    def said(levels: Vector) -> Said:
        counted = float(times[0] / times[1] * np.exp(levels[0] - levels[1]))
        found = contrast.compare_with_best(shifted(fitted, levels), 1)[0]
        ratio = found.ratio if found.tested else None
        alarms = gate_of_cells(ratio, 0.0) == Gate.SLOWER
        passes = gate_of_cells(ratio, MARGIN, counted) == Gate.NOT_SLOWER
        return Said(alarms, {0: found.ratio} if alarms else {}, ratio=ratio, passes=passes)

    return Campaign(said, _truth(size[0], kind), slow=0)


def gathered(rng: Rng, number: int, size: tuple[int, int], kind: str, machines: int = 3) -> Campaign:
    """Makes campaigns of several hosts and gathers them. Each host makes the same campaign in its own order, as
    `gather` requires."""
    of = design(*size, seed=number % ORDERS)
    fitted = fleet(of, rng, kind, machines).together
    return Campaign(partial(_report, of, basis.resolved(fitted, 0.0)), _truth(size[0], kind))


def fleet(of: Design, rng: Rng, kind: str, machines: int, interaction: float = INTERACTION) -> hosts.Fitted:
    """Returns the fits of all hosts. The hosts differ in their speed, in the effect of each layout, and in their
    seeds."""
    (cells, rounds), seed = of.shape, of.experiment.seed
    own = [design(cells, rounds, seed=(seed + host) % ORDERS) for host in range(machines)]
    log_s = np.hstack([
        happened(one, SITUATIONS[kind], rng) + rng.normal(0, HOSTS) + rng.normal(0, interaction, (cells, 1))
        for one in own
    ])  # fmt: skip
    of_run = np.tile(np.repeat(np.arange(machines), rounds), (cells, 1))
    names = tuple(f"db{host}" for host in range(machines))
    before = np.hstack([one.before for one in own])
    return hosts.fit(hosts.Hosts(names, of_run, before, tuple(range(machines))), log_s, of.blocks)


def one_after_the_other(
    rng: Rng, number: int, size: tuple[int, int], kind: str, before: int = 1, luck: float = LUCK
) -> Campaign:
    """Makes a campaign, which may be slower, and this many earlier campaigns of the same spec. Each has its own random
    effect."""
    of = design(*size, seed=number % ORDERS)
    *old, new = (drawn.fit(of, happened(of, SITUATIONS[kind], rng) + rng.normal(0, luck)) for _ in range(before + 1))
    first = [campaign(of, fitted) for fitted in old]

    def said(levels: Vector) -> Said:
        last = campaign(of, shifted(new, np.full(size[0], levels[1])))
        found = campaigns.compare(first[-1], last, earlier=first[:-1] if before > 1 else None)
        differs = found.differs or any(one.differs for one in found.matched)
        slower = gate([found], 0.0) == Gate.SLOWER
        passes = gate([found], MARGIN) == Gate.NOT_SLOWER
        return Said(differs, {1: found.overall} if slower else {}, ratio=found.overall, passes=passes)

    return Campaign(said, np.zeros(2))


def campaign(of: Design, fitted: Fit) -> Any:
    """Returns a campaign with only the parts that a comparison needs."""
    used: dict[str, dict[int, Any]] = {cell.cell_id: {} for cell in of.plan.cells}
    for sequence, run in enumerate(of.plan.runs):
        used[run.cell_id][run.repetition - 1] = SimpleNamespace(sequence=sequence)
    cells = [SimpleNamespace(cell_id=cell.cell_id, work=1.0, levels=cell.levels, elapsed_s=1) for cell in of.plan.cells]
    return campaigns.Campaign(
        name="drawn", findings=SimpleNamespace(cells=cells, compared="elapsed"), experiment=of.experiment,
        basis=SimpleNamespace(
            fitted=fitted, blocks=of.blocks, in_stretches=False, used=used, fleet=None,
            rounds=tuple(range(of.shape[1])),
        ),
    )  # fmt: skip


Order = Callable[[Rng, int, tuple[int, int], str], Campaign]


class Ordered(NamedTuple):
    """An order, the sizes that are simulated in every situation, and the sizes that are simulated without effects."""

    order: Order
    everywhere: tuple[tuple[int, int], ...]
    normal: tuple[tuple[int, int], ...] = ()


ALL: Mapping[str, Ordered] = {
    "fixed": Ordered(
        fixed, ((2, 5), (3, 5), (8, 5)), ((2, 3), (5, 5), (8, 3), (16, 3), (16, 5), (16, 10), (24, 3), (24, 5))
    ),
    "race": Ordered(race, ((3, 5), (8, 5)), ((16, 3), (16, 5), (16, 10))),
    "blocks": Ordered(blocks, ((2, 9),), ((4, 9),)),
    "against": Ordered(against, ((2, 5),), ((2, 10),)),
    "3 hosts": Ordered(gathered, ((3, 5),), ((8, 3),)),
    "2 campaigns": Ordered(one_after_the_other, ((2, 5), (8, 5))),
    "2 campaigns without luck": Ordered(partial(one_after_the_other, luck=0.0), ((8, 5),)),
    "after 5 campaigns": Ordered(partial(one_after_the_other, before=5), ((8, 5),), ((2, 5),)),
    "after 10 campaigns": Ordered(partial(one_after_the_other, before=10), (), ((2, 5), (8, 5))),
}  # fmt: skip
