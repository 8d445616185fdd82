"""Makes the tables of docs/records/monte-carlo.md: reports on drawn experiments against what they promise.

make bench ARGS="--only statistics"            prints the tables, and whether the promises hold
make bench ARGS="--only statistics --write"    puts them into docs/records/monte-carlo.md as well
make bench ARGS="--only statistics --quick"    a tenth of the experiments
make bench ARGS="--only statistics --kept FOLDER"    goes on with the rows in this folder, where it keeps each row
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from storagelab.findings.means import mean_time

from bench import campaigns, drawn, drawn_hosts, drawn_rows, drawn_stalls, drawn_warm_ups
from bench.drawn import DESIGNS, FILES, KINDS, SIZES, Design, Matrix, design, say
from bench.figures import Figure
from storagelab.findings import stats
from storagelab.findings.model import JudgedByLoad

EXPERIMENTS = 1000
"""In each row, but for warm-ups."""
WARM_UPS = {10: 2000, 60: 1000, 300: 200}
"""Seconds that count -> runs of each kind."""
TOO_EARLY_MOST = 5.0
FALSE_MOST, FALSE_MOST_NOISY = 5.0, 6.0
MEANS_LEAST, MEANS_LEAST_SKEWED, MEANS_MOST = 94.0, 93.0, 96.0
POWER_LEAST = {0.05: 51.0, 0.10: 96.0}
_LIMIT_SE = 2.0
"""A figure misses its limit if it exceeds it by more than this many standard errors; chance causes that once in 40."""
DOCUMENT = Path(__file__).parent.parent / "docs" / "records" / "monte-carlo.md"


class Share(NamedTuple):
    """`hits` out of `of` experiments or cells; `weight` is how many of these are independent."""

    hits: float
    of: int
    independent: int

    @property
    def percent(self) -> float:
        return 100 * self.hits / self.of if self.of else math.nan

    @property
    def error(self) -> float:
        share = self.hits / self.of if self.of else math.nan
        return 100 * math.sqrt(max(share * (1 - share), 0.5 / self.independent) / self.independent)

    def __str__(self) -> str:
        return f"{self.percent:.1f} ± {self.error:.1f}" if self.of else "-"


class Drawn(NamedTuple):
    """One kind of noise, one design: reports with a false statement, means in their intervals, and the fastest's
    mean.
    """

    false: Share
    means: Share
    fastest: Share


def figures(quick: bool, write: bool, folder: Path | None = None) -> Iterator[Figure]:
    """Every figure with a goal; makes the tables on the way, with the rows that are kept in the folder."""
    drawn_rows.into(folder)
    part = 10 if quick else 1
    many = EXPERIMENTS // part
    keys = [(kind, *size) for kind in KINDS for size in SIZES]
    with processes() as pool:
        found = dict(zip(keys, pool.map(_draw, [(*key, many) for key in keys]), strict=True))
        powers = list(pool.map(_power, [(name, many) for name in _POWERS]))
        others = list(pool.map(_other, [(name, many) for name in _OTHERS]))
        compared = list(pool.map(_other, [(name, many) for name in campaigns.CASES]))
        alike = list(pool.map(_other, [(name, many) for name in campaigns.ALIKE]))
        warm_ups = list(pool.map(_warm_up, _warm_up_cases(part)))
        fleets = list(pool.map(_fleet, [(size, apart, many) for size, apart in FLEETS]))
        stalls = list(pool.map(_other, [(name, many) for name in drawn_stalls.CASES]))
        of_hosts = list(pool.map(_other, [(name, many) for name in drawn_hosts.CASES]))
    tables = {
        "false-statements": _table(found, lambda one: one.false),
        "means": _table(found, lambda one: one.means),
        "fastest": _table(found, lambda one: one.fastest),
        "power": _rows(("8 layouts, 5 repetitions, 3 % noise", "% ± SE"), zip(_POWERS, powers, strict=True)),
        "others": _rows(("simulated experiments", "% ± SE"), zip(_OTHERS, others, strict=True)),
        **host_tables(fleets, of_hosts),
        "stalls": _rows(("simulated experiments", "% ± SE"), zip(drawn_stalls.CASES, stalls, strict=True)),
        "campaigns-alike": _rows(("simulated experiments", "% ± SE"), zip(campaigns.ALIKE, alike, strict=True)),
        "campaigns": _rows(("simulated experiments", "% ± SE"), zip(campaigns.CASES, compared, strict=True)),
        "warm-ups": _warm_ups_table(warm_ups),
    }
    for name, text in tables.items():
        print(f"\n{name}\n{text}", flush=True)
    if write:
        put_into_the_page(tables)
    for (kind, cells, repetitions), one in found.items():
        yield from _goals(f"{kind}, {cells} x {repetitions}", kind, one)
    for one in warm_ups:
        if one.kind != drawn_warm_ups.UNSEEN:
            early = one.too_early
            yield _figure(f"counted too early: {one.kind}, {one.counted_s} s", early, f"at most {TOO_EARLY_MOST:g} %",
                          early.percent <= TOO_EARLY_MOST + _LIMIT_SE * early.error)  # fmt: skip
    for name, share in zip(_POWERS, powers, strict=True):
        if name in _POWER_GOALS:
            least = _POWER_GOALS[name]
            yield _figure(
                f"found: {name}", share, f"at least {least:g} %", share.percent >= least - _LIMIT_SE * share.error
            )

    yield from _host_goals(fleets, of_hosts)


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(max(1, os.cpu_count() or 1), get_context("spawn"))


def _goals(name: str, kind: str, one: Drawn) -> Iterator[Figure]:
    most = FALSE_MOST_NOISY if kind.startswith("one cell") else FALSE_MOST
    yield _figure(f"false statements: {name}", one.false, f"at most {most:g} %",
                  one.false.percent <= most + _LIMIT_SE * one.false.error)  # fmt: skip
    least = MEANS_LEAST_SKEWED if kind.startswith(("skewed", "5 %", "heavy")) else MEANS_LEAST
    slack = _LIMIT_SE * one.means.error
    met = least - slack <= one.means.percent <= (MEANS_MOST if least == MEANS_LEAST else 100.0) + slack
    yield _figure(f"means in their intervals: {name}", one.means, f"{least:g} to {MEANS_MOST:g} %", met)


def _figure(name: str, share: Share, goal: str, met: bool) -> Figure:
    return Figure(
        name, share.percent, "%", goal, met, share.percent - share.error, share.percent + share.error, "± one SE"
    )


# ---------------------------------------------------------------------------------------------------------------------
# A/A experiments
# ---------------------------------------------------------------------------------------------------------------------


def _draw(asked: tuple[str, int, int, int]) -> Drawn:
    kind, cells, repetitions, experiments = asked

    def one(rng: np.random.Generator, number: int) -> tuple[float, ...]:
        of = design(cells, repetitions, seed=number % 20)
        fitted = drawn.fit(of, KINDS[kind](of, rng))
        picked = stats.fastest(fitted)
        inside = [_holds(fitted, cell, cells if cell == picked else 1) for cell in range(cells)]
        return drawn.states_a_difference(of, fitted), sum(inside), picked is not None and inside[picked]

    seed = (cells, repetitions, list(KINDS).index(kind))
    false, means, fastest = drawn_rows.counted(
        f"nothing differs, {kind}, {cells}x{repetitions}", seed, experiments, one
    )
    return Drawn(
        Share(false, experiments, experiments),
        Share(means, cells * experiments, experiments),
        Share(fastest, experiments, experiments),
    )


def _holds(fitted: stats.Fit, cell: int, picked_from: int) -> bool:
    """Whether the interval of a cell's mean contains the truth, a log time of 0."""
    mean = mean_time(fitted, cell, picked_from)
    return mean.low is not None and mean.high is not None and mean.low <= 1 <= mean.high


# ---------------------------------------------------------------------------------------------------------------------
# Experiments with a difference
# ---------------------------------------------------------------------------------------------------------------------


class _Power(NamedTuple):
    """One of eight layouts is slower: is it excluded?"""

    kind: str
    slower: float
    robust: bool = True


_POWERS = {
    "5 % slower": _Power("normal", 0.05),
    "10 % slower": _Power("normal", 0.10),
    "20 % slower": _Power("normal", 0.20),
    "5 % slower, 5 % of runs 30 % too long, robust fit": _Power("5 % of runs 30 % too long", 0.05),
    "5 % slower, 5 % of runs 30 % too long, least squares": _Power("5 % of runs 30 % too long", 0.05, False),
    "10 % slower, 5 % of runs 30 % too long, robust fit": _Power("5 % of runs 30 % too long", 0.10),
    "10 % slower, 5 % of runs 30 % too long, least squares": _Power("5 % of runs 30 % too long", 0.10, False),
}
_POWER_GOALS = {"5 % slower": POWER_LEAST[0.05], "10 % slower": POWER_LEAST[0.10]}


def _power(asked: tuple[str, int]) -> Share:
    name, experiments = asked
    case = _POWERS[name]

    def one(rng: np.random.Generator, number: int) -> tuple[bool]:
        of = design(8, 5, seed=number % 20)
        log_s = KINDS[case.kind](of, rng)
        log_s[5] += math.log1p(case.slower)
        judged = drawn.judged(of, drawn.fit(of, log_s, robust=case.robust))
        slow = of.plan.cells[5].cell_id
        return (any(row.cell_id == slow and row.distinguishable for row in judged.comparisons),)

    (found,) = drawn_rows.counted(f"power: {name}", (8, 5, list(KINDS).index(case.kind)), experiments, one)
    return Share(found, experiments, experiments)


def _other(asked: tuple[str, int]) -> Share:
    name, experiments = asked
    of_hosts = {name: case.hit for name, case in drawn_hosts.CASES.items()}
    cases = {**_OTHERS, **campaigns.CASES, **of_hosts, **drawn_stalls.CASES, **campaigns.ALIKE}
    (hits,) = drawn_rows.counted(
        name, list(cases).index(name), experiments, lambda rng, number: (cases[name](rng, number),)
    )
    return Share(hits, experiments, experiments)


def _one_factor_differs(rng: np.random.Generator, number: int) -> bool:
    """A quarter of one factor's levels takes a tenth longer, everywhere: does the report say anything false about
    the other factor?
    """
    of = design(8, 5, seed=number % 20)
    slow = [cell.levels[FILES] == DESIGNS[8][FILES][1] for cell in of.plan.cells]
    log_s = drawn.normal(of, rng) + math.log(1.1) * np.array(slow)[:, None]
    said = say(of, log_s).statements
    truly = {cell.cell_id for cell, is_slow in zip(of.plan.cells, slow, strict=True) if is_slow}
    wrong = any(row.distinguishable and row.cell_id not in truly for row in said.judged.comparisons)
    wrong |= any(effect.distinguishable and effect.factor != FILES for effect in (*said.effects, *said.speed_ups))
    wrong |= any(
        effect.distinguishable and effect.factor == FILES and effect.level != DESIGNS[8][FILES][1]
        for effect in said.effects
    )
    return wrong or any(one.differs or one.change is not None or one.cost is not None for one in said.dependences)


def _no_round_in_common(rng: np.random.Generator, number: int) -> bool:
    """Two equal layouts, one run in rounds 1 to 3 and one in 4 and 5, beside three slower ones: is there a winner?"""
    of = design(5, 5, seed=number % 20)
    log_s = drawn.normal(of, rng) + math.log(1.3) * np.array([0, 0, 1, 1, 1])[:, None]
    log_s[0, 3:] = log_s[1, :3] = np.nan
    return _judged(of, log_s).verdict == "winner"


def _drift_in_random_order(rng: np.random.Generator, number: int) -> bool:
    """Noise of 1 %, a drift of 5 %: is any layout called slower?"""
    of = design(8, 5, seed=number % 20)
    log_s = drawn.normal(of, rng) / 3 + math.log(1.05) * of.place
    return any(row.distinguishable for row in _judged(of, log_s).comparisons)


def _loses_more_than_said(rng: np.random.Generator, number: int) -> bool:
    """Eight layouts, each a little slower than the one before: does the nominally fastest lose more than its bound?"""
    of = design(8, 5, seed=number % 20)
    true = np.log(np.linspace(1, 1.04, 8))
    said = say(of, drawn.normal(of, rng) + true[:, None])
    most = said.statements.judged.at_most_slower
    return most is not None and math.log(most) < true[said.fastest]


def _one_loses_more_than_said(rng: np.random.Generator, number: int) -> bool:
    """One layout is the fastest and seven take 2 % longer: does any tied layout lose more than its bound?"""
    true = np.array([0.0, *[math.log(1.02)] * 7])
    of = design(8, 5, seed=number % 20)
    bounds = _bounds(of, drawn.normal(of, rng) + true[:, None])
    return any(math.log(bound) < true[cell] for cell, bound in bounds.items())


def _called_the_same(rng: np.random.Generator, number: int) -> bool:
    """Eight layouts at 1 % of noise, one of them 3.01 % slower: is it among those called the same within 3 %?"""
    of = design(8, 5, seed=number % 20)
    log_s = drawn.normal(of, rng) / 3
    log_s[3] += math.log(1.0301)
    bounds = _bounds(of, log_s)
    return 3 in bounds and max(bounds.values()) <= 1.03


def _equal_ones_called_the_same(rng: np.random.Generator, number: int) -> bool:
    """Eight equal layouts at 0.5 % of noise: are all called the same within 3 %?"""
    of = design(8, 5, seed=number % 20)
    bounds = _bounds(of, drawn.normal(of, rng) / 6)
    return len(bounds) == 8 and max(bounds.values()) <= 1.03


def _bounds(of: Design, log_s: Matrix) -> dict[int, float]:
    """By the place of each cell of the best set: the most that it loses, according to the report."""
    judged = _judged(of, log_s)
    said = {row.cell_id: row.at_most_slower for row in judged.comparisons if row.cell_id in judged.tied}
    said |= {judged.fastest: judged.at_most_slower}
    place = {cell.cell_id: number for number, cell in enumerate(of.plan.cells)}
    return {place[cell_id]: bound for cell_id, bound in said.items() if cell_id is not None and bound is not None}


def _judged(of: Design, log_s: Matrix) -> JudgedByLoad:
    return drawn.judged(of, drawn.fit(of, log_s))


_OTHERS: dict[str, Callable[[np.random.Generator, int], bool]] = {
    "one level of one factor takes 10 % longer: the report says something false about the others": _one_factor_differs,
    "no round in common (3 and 2 of 5), beside three slower ones: a winner is named": _no_round_in_common,
    "noise of 1 %, drift of 5 %, random order: any layout is called slower": _drift_in_random_order,
    "8 layouts, 0 to 4 % apart: the nominally fastest loses more than its bound says": _loses_more_than_said,
    "1 layout is fastest, 7 take 2 % longer: a tied one loses more than its bound says": _one_loses_more_than_said,
    "8 layouts, noise of 1 %, one 3.01 % slower: it is called the same within 3 %": _called_the_same,
    "8 equal layouts, noise of 0.5 %: all are called the same within 3 % (rightly)": _equal_ones_called_the_same,
}


# ---------------------------------------------------------------------------------------------------------------------
# Warm-ups that are found
# ---------------------------------------------------------------------------------------------------------------------


class _WarmUp(NamedTuple):
    """Drawn runs of one kind: counted too early, counted away from where their level ends, and never counted as
    settled.
    """

    kind: str
    counted_s: int
    too_early: Share
    away: Share
    never: Share
    waited_s: float


def _warm_up_cases(part: int) -> list[tuple[str, int, int]]:
    return [(kind, counted_s, runs // part) for counted_s, runs in WARM_UPS.items() for kind in drawn_warm_ups.LEVELS]


def _warm_up(asked: tuple[str, int, int]) -> _WarmUp:
    kind, counted_s, runs = asked

    def make() -> list[float]:
        found = drawn_warm_ups.judged(kind, runs, counted_s, seed=1)
        return [found.too_early, found.away_from_end, found.never, found.waited_s]

    *found, waited_s = drawn_rows.whole(f"warm-up: {kind}, {counted_s} s, {runs}", make)
    shares = (Share(share * runs, runs, runs) for share in found)
    return _WarmUp(kind, counted_s, *shares, waited_s)


def _warm_ups_table(found: Sequence[_WarmUp]) -> str:
    heads = ("true level", "counted", "still moves, %", "away from its end, %", "never settles, %", "waits for")
    return markdown(heads, [
        [one.kind, f"{one.counted_s} s", str(one.too_early), str(one.away), str(one.never), f"{one.waited_s:.0f} s"]
        for one in found
    ])  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Several hosts
# ---------------------------------------------------------------------------------------------------------------------

FLEETS = [(size, apart) for apart in drawn_hosts.INTERACTIONS for size in drawn_hosts.SIZES]
_FLEET_HEADS = (
    "hosts x layouts x rounds of each", "layouts differ by host", "any difference is stated", "means "
    "in their intervals",
    "ratios of two in theirs", "differences between hosts in theirs",
)  # fmt: skip


def _fleet(asked: tuple[tuple[int, int, int], float, int]) -> list[Share | None]:
    """Figures of stated differences, means, ratios and differences between hosts."""
    size, apart, experiments = asked
    counts = drawn_hosts.count(size, apart, experiments)
    return [None if hits is None else Share(hits, experiments, experiments) for hits in counts]


def host_tables(fleets: Sequence[Sequence[Share | None]], others: Sequence[Share]) -> dict[str, str]:
    rows = [
        ["x".join(map(str, size)), f"{100 * apart:g} %", *("-" if one is None else str(one) for one in found)]
        for (size, apart), found in zip(FLEETS, fleets, strict=True)
    ]
    cases = zip(drawn_hosts.CASES, others, strict=True)
    return {"hosts": markdown(_FLEET_HEADS, rows), "host-cases": _rows(("simulated experiments", "% ± SE"), cases)}


def _host_goals(fleets: Sequence[Sequence[Share | None]], others: Sequence[Share]) -> Iterator[Figure]:
    for (size, apart), (false, *held) in zip(FLEETS, fleets, strict=True):
        name = f"{'x'.join(map(str, size))} hosts, layouts and rounds, {100 * apart:g} % by host"
        assert false is not None
        met = false.percent <= FALSE_MOST + _LIMIT_SE * false.error
        yield _figure(f"false statements: {name}", false, f"at most {FALSE_MOST:g} %", met)
        for what, share in zip(_FLEET_HEADS[3:5], held[:2], strict=True):
            if share is not None:
                slack = _LIMIT_SE * share.error
                met = MEANS_LEAST - slack <= share.percent <= MEANS_MOST + slack
                yield _figure(f"{what}: {name}", share, f"{MEANS_LEAST:g} to {MEANS_MOST:g} %", met)
    for (name, case), share in zip(drawn_hosts.CASES.items(), others, strict=True):
        if (case.least, case.most) != (0.0, 100.0):
            slack = _LIMIT_SE * share.error
            met = case.least - slack <= share.percent <= case.most + slack
            yield _figure(name, share, f"{case.least:g} to {case.most:g} %", met)


# ---------------------------------------------------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------------------------------------------------


def _table(found: dict[tuple[str, int, int], Drawn], of: Callable[[Drawn], Share]) -> str:
    heads = [f"{cells}x{repetitions}" for cells, repetitions in SIZES]
    rows = [[kind, *(str(of(found[kind, *size])) for size in SIZES)] for kind in KINDS]
    return markdown(["cells x repetitions", *heads], rows)


def _rows(heads: Sequence[str], rows: Iterator[tuple[str, Share]]) -> str:
    return markdown(heads, [[name, str(share)] for name, share in rows])


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def put_into_the_page(tables: dict[str, str]) -> None:
    """Puts each table between its marks in the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    for name, table in tables.items():
        start, end = f"<!-- drawn: {name} -->\n", f"<!-- end: {name} -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        if not found:
            raise SystemExit(f"bench: {DOCUMENT.name} has no place for the table {name!r}")
        text = f"{before}{start}{table}\n{end}{after}"
    DOCUMENT.write_text(text, encoding="utf-8")
