"""Draws campaigns of several hosts with a known truth, to check what a report says about them.

The speed of hosts differs by 20 % (one sd), whatever the layout. With an `interaction`, each layout is also faster or
slower on each host by that share. Noise is 3 % from run to run, and each round is 2 % faster or slower for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from storagelab.findings.means import mean_time

from bench import drawn, drawn_rows
from bench.drawn import FILES, LOG, NOISE, Design, Matrix, Rng, design, states_a_difference
from storagelab.findings import hosts, stats
from storagelab.findings.model import Estimate, Fleet

HOSTS = 0.20
ROUNDS = 0.02
INTERACTIONS = (0.0, 0.03)
SIZES = ((2, 2, 5), (3, 2, 5), (3, 8, 2), (4, 8, 3), (6, 5, 1), (8, 8, 2))
"""Hosts, cells, and rounds of each host."""


@dataclass(frozen=True)
class Said:
    """What a report says of hosts, and the fit on which all else that it says is based."""

    of: Design
    fitted: stats.Fit
    fleet: Fleet

    @property
    def names_a_difference(self) -> bool:
        return states_a_difference(self.of, self.fitted)


def draw(rng: Rng, size: tuple[int, int, int], interaction: float, lost: int = 0) -> list[Matrix]:
    """The log times of each host, as cells x rounds; the last host lost this many rounds."""
    machines, cells, rounds = size
    return [
        rng.normal(0, HOSTS)
        + rng.normal(0, interaction, (cells, 1))
        + rng.normal(0, ROUNDS, (1, made))
        + rng.normal(0, NOISE, (cells, made))
        for made in (*[rounds] * (machines - 1), rounds - lost)
    ]


def say(of_hosts: Sequence[Matrix], number: int = 0) -> Said:
    """Does what a report does, with the rounds of all hosts in one matrix."""
    log_s = np.hstack(list(of_hosts))
    cells, rounds = log_s.shape
    of = design(cells, rounds, seed=number % 20)
    of_run = np.repeat(np.arange(len(of_hosts)), [one.shape[1] for one in of_hosts])
    several = hosts.Hosts(
        tuple(f"db{host}" for host in range(len(of_hosts))), np.tile(of_run, (cells, 1)), tuple(range(len(of_hosts)))
    )
    blocks = [0] * cells
    fitted = hosts.fit(several, log_s, blocks, levels=[cell.levels for cell in of.plan.cells])
    together = fitted.together
    fleet = hosts.summarise(fitted, of.plan, [range(cells)], blocks)
    return Said(of, together, fleet)


def pooled(of_hosts: Sequence[Matrix], number: int = 0) -> bool:
    """Whether a difference would be named in the same runs if all rounds were made by one host."""
    log_s = np.hstack(list(of_hosts))
    return states_a_difference(design(*log_s.shape, seed=number % 20), stats.fit(log_s))


class Case(NamedTuple):
    """Something to count in drawn campaigns, and what its share should be, in percent."""

    hit: Callable[[Rng, int], bool]
    least: float = 0.0
    most: float = 100.0


class Counts(NamedTuple):
    """Counts over drawn campaigns without a difference: those in which one is stated, and intervals that contain the
    truth.

    `means`: of a layout's mean time on hosts like these. `ratios`: of the ratio of two layouts, in campaigns of two.
    `scatters`: of how much ratios vary from host to host. None if there is no such interval.
    """

    false: int
    means: int | None
    ratios: int
    scatters: int | None


def count(size: tuple[int, int, int], interaction: float, campaigns: int) -> Counts:
    machines, _, rounds = size

    def one(rng: Rng, number: int) -> tuple[bool, ...]:
        said = say(draw(rng, size, interaction), number)
        ratio = _ratio(draw(rng, (machines, 2, rounds), interaction))
        scatter = _holds(said.fleet.scatter, math.sqrt(2) * interaction)
        return said.names_a_difference, _holds(mean_time(said.fitted, 0), 1.0), _holds(ratio, 1.0), scatter

    row = f"hosts: {'x'.join(map(str, size))}, {100 * interaction:g} %"
    counts = drawn_rows.counted(row, (*size, round(1000 * interaction)), campaigns, one)
    false, means, ratios, scatters = map(round, counts)
    return Counts(false, means if machines > 2 else None, ratios, scatters if rounds > 1 else None)


def _ratio(of_hosts: Sequence[Matrix]) -> Estimate | None:
    (effect,) = stats.effects(_fit(of_hosts), [[(1, 0)]], 1)
    return None if effect is None else effect.ratio


def _holds(estimate: Estimate | None, truth: float) -> bool:
    """Whether the interval contains the truth."""
    known = estimate is not None and estimate.low is not None and estimate.high is not None
    return known and estimate.low <= truth <= estimate.high


def _fit(of_hosts: Sequence[Matrix]) -> stats.Fit:
    return stats.fit(np.array([stats.fit(one).cells for one in of_hosts]).T)


def _false(size: tuple[int, int, int], interaction: float, lost: int = 0) -> Callable[[Rng, int], bool]:
    return lambda rng, number: say(draw(rng, size, interaction, lost), number).names_a_difference


def _false_if_pooled(size: tuple[int, int, int], interaction: float) -> Callable[[Rng, int], bool]:
    return lambda rng, number: pooled(draw(rng, size, interaction), number)


def _one_host_slower(rng: Rng, slower: float, apart: float = 0.0) -> list[Matrix]:
    """Three equal hosts with three rounds of eight cells each; the third takes longer. All cells except the first
    take longer by `apart`.
    """
    of_hosts = [rng.normal(0, ROUNDS, (1, 3)) + rng.normal(0, NOISE, (8, 3)) for _ in range(3)]
    of_hosts[2] += math.log1p(slower)
    for one in of_hosts:
        one[1:] += math.log1p(apart)
    return of_hosts


def _finds_the_slow_host(rng: Rng, number: int) -> bool:
    fleet = say(_one_host_slower(rng, HOSTS), number).fleet
    return [host.name for host in fleet.hosts if host.odd_level] == ["db2"]


def _finds_a_host_of_other_ratios(rng: Rng, number: int) -> bool:
    of_hosts = [rng.normal(0, ROUNDS, (1, 3)) + rng.normal(0, NOISE, (8, 3)) for _ in range(4)]
    of_hosts[1][4:] += math.log1p(HOSTS)
    return [host.name for host in say(of_hosts, number).fleet.hosts if host.odd_ratios] == ["db1"]


def _names_the_winner(slower: float) -> Callable[[Rng, int], bool]:
    """The first cell takes a tenth less than all others: is it the winner?"""

    def hit(rng: Rng, number: int) -> bool:
        said = say(_one_host_slower(rng, slower, 0.1), number)
        judged = drawn.judged(said.of, said.fitted)
        return judged.verdict == "winner" and judged.fastest == design(8, 9).plan.cells[0].cell_id

    return hit


def _finds_differing_ratios(size: tuple[int, int, int], interaction: float) -> Callable[[Rng, int], bool]:
    def hit(rng: Rng, number: int) -> bool:
        p_value = say(draw(rng, size, interaction), number).fleet.p_value
        return p_value is not None and p_value < 0.05

    return hit


def _names_an_odd_host(rng: Rng, number: int) -> bool:
    return any(host.odd_level or host.odd_ratios for host in say(_one_host_slower(rng, 0.0), number).fleet.hosts)


def _by_level(rng: Rng, size: tuple[int, int, int], number: int, factor: str, apart: float) -> Said:
    """Equal layouts; on each host each level of the factor is by `apart` (one sd) faster or slower."""
    levels = [cell.levels[factor] for cell in design(size[1], 3).plan.cells]
    of_hosts = draw(rng, size, 0.0)
    moved = []
    for one in of_hosts:
        of_level = {level: rng.normal(0, apart) for level in dict.fromkeys(levels)}
        moved.append(one + np.array([of_level[level] for level in levels])[:, None])
    return say(moved, number)


def _false_by_level(size: tuple[int, int, int], factor: str, apart: float) -> Callable[[Rng, int], bool]:
    return lambda rng, number: _by_level(rng, size, number, factor, apart).names_a_difference


def _odd_by_level(size: tuple[int, int, int], factor: str, apart: float) -> Callable[[Rng, int], bool]:
    return lambda rng, number: any(host.odd_ratios for host in _by_level(rng, size, number, factor, apart).fleet.hosts)


_BY_LEVEL = [(size, name, apart) for size in ((4, 8, 3), (6, 8, 2)) for name in (LOG, FILES) for apart in (0.05, 0.10)]
CASES: Mapping[str, Case] = {
    "equal, 2 hosts of 10 % by layout, 8 layouts x 3, analysed as one host: any difference is stated":
        Case(_false_if_pooled((2, 8, 3), 0.10)),
    "equal, the same: any difference is stated": Case(_false((2, 8, 3), 0.10), most=5.0),
    "equal, 3 hosts, 8 layouts x 5, the last host lost 3 of 5 rounds: any difference is stated":
        Case(_false((3, 8, 5), 0.03, lost=3), most=5.0),
    "one of 3 hosts takes 20 % longer, 8 layouts x 3: only this host is called odd": Case(_finds_the_slow_host,
    least=95.0),
    "3 like hosts, 8 layouts x 3: any is called odd": Case(_names_an_odd_host, most=5.0),
    "4 hosts, on one of which half of the layouts take 20 % longer: only this host is called odd":
        Case(_finds_a_host_of_other_ratios, least=95.0),
    "one layout takes 10 % less, 3 like hosts, 8 layouts x 3: it is the winner": Case(_names_the_winner(0.0)),
    "the same, one host takes 20 % longer for all: it is the winner": Case(_names_the_winner(HOSTS)),
    "4 hosts, 8 layouts x 3, ratios don't differ: the report says they do":
        Case(_finds_differing_ratios((4, 8, 3), 0.0), most=5.0),
    "4 hosts, 8 layouts x 3, ratios differ by 3 % (one sd of a layout): the report says they do":
        Case(_finds_differing_ratios((4, 8, 3), 0.03)),
    **{f"equal, {'x'.join(map(str, size))}, {100 * apart:g} % by host and level of {name}: any difference is stated":
       Case(_false_by_level(size, name, apart), most=5.0) for size, name, apart in _BY_LEVEL},
    **{f"equal, {'x'.join(map(str, size))}, {100 * apart:g} % by host and level of {name}: any host is called odd":
       Case(_odd_by_level(size, name, apart), most=5.0) for size, name, apart in _BY_LEVEL},
}  # fmt: skip
