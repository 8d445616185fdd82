"""Draws races, and checks their promises: whom they lose, how many runs they take, and how often they name the best.

make bench ARGS="--only races"            prints the tables, and whether the promises hold
make bench ARGS="--only races --write"    puts them into docs/records/monte-carlo.md as well
make bench ARGS="--only races --quick"    a tenth of the races
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from bench import disturbed_races, drawn
from bench.drawn_races import ARTICLES, KINDS, Race, Rules, Truth, apart, article, at_most, equal, race
from bench.figures import Figure
from bench.statistics import Share, markdown, processes, put_into_the_page

RACES = 200
"""In each row."""
LOST_MOST, LOST_MOST_NOISY = 5.0, 6.0
RUNS_MOST, RUNS_MOST_WITHIN, NAMED_LEAST = 75.0, 50.0, 5.0
WITHIN = 0.03


class _Row(NamedTuple):
    """The outcome of many races: how many lost a fastest layout, ended with only the best or with another, and ended
    more than the margin from the fastest; and the share of the full design's runs that they took.
    """

    lost: Share
    named: Share
    wrong: Share
    beyond: Share
    runs: float


class _Asked(NamedTuple):
    truth: Truth
    kind: str = "normal"
    races: int = RACES
    rules: Rules = Rules()
    runs: int | None = None


def figures(quick: bool, write: bool) -> Iterator[Figure]:
    """Every figure with a goal; makes the tables on the way."""
    part = 10 if quick else 1
    races = RACES // part
    worlds = {"16 equal": equal(16), "5 equal": equal(5), "16, each 1 % slower": apart(0.01)}
    lost = {(kind, name): _Asked(truth, kind, races) for kind in KINDS for name, truth in worlds.items()}
    cost = {
        (name, own, within): _Asked(article(name, own_noise=own), races=races // 5, rules=Rules(within=within))
        for name in ARTICLES
        for own in (True, False)
        for within in (0.0, WITHIN)
    }
    named = {step: _Asked(apart(step), races=races, runs=80) for step in (0.02, 0.03, 0.04, 0.05)}
    asked = {**lost, **cost, **named}
    with processes() as pool:
        rows = dict(zip(asked, pool.map(_draw, asked.values()), strict=True))
        full = dict(zip(named, pool.map(_full, named.values()), strict=True))
        disturbed = disturbed_races.drawn(races, pool)
    tables = {
        "races-lost": markdown(
            ["noise", *worlds], [[kind, *(str(rows[kind, name].lost) for name in worlds)] for kind in KINDS]
        ),
        "races-cost": markdown(
            ["layouts of", "noise", "runs", "runs with --within 3%", "more than 3 % from the fastest"],
            [
                [name, "its own" if own else "3 %", f"{rows[name, own, 0.0].runs:.0f} %",
                 f"{rows[name, own, WITHIN].runs:.0f} %", str(rows[name, own, WITHIN].beyond)]
                for name in ARTICLES for own in (True, False)
            ],
        ),
        "races-named": markdown(
            ["16 layouts, each slower by", "all repetitions", "race", "race names another"],
            [[f"{100 * step:g} %", str(full[step]), str(rows[step].named), str(rows[step].wrong)] for step in named],
        ),
    }  # fmt: skip
    tables |= disturbed.tables
    for name, text in tables.items():
        print(f"\n{name}\n{text}", flush=True)
    if write:
        put_into_the_page(tables)
    for kind, name in lost:
        most = LOST_MOST_NOISY if "noisy" in kind else LOST_MOST
        yield at_most(f"one of the fastest is lost: {kind}, {name}", rows[kind, name].lost, most)
    for name, own, within in cost:
        most = RUNS_MOST_WITHIN if within else RUNS_MOST
        share = rows[name, own, within].runs
        text = f"{name}, {'its own noise' if own else '3 % noise'}{', within 3 %' if within else ''}"
        yield Figure(f"runs: {text}", share, "%", f"at most {most:g} %", share <= most)
    yield from disturbed.figures
    for step, share in full.items():
        times = rows[step].named.percent / max(share.percent, 0.1)
        yield Figure(f"the best of 16 is named, {100 * step:g} % apart: race over all repetitions", times, "times",
                     f"at least {NAMED_LEAST:g}", times >= NAMED_LEAST)  # fmt: skip


def _draw(asked: _Asked) -> _Row:
    """Each race has its own random numbers, the same every time."""
    truth, made = asked.truth, list(_races(asked))

    def share(hit: Callable[[Race], bool]) -> Share:
        return Share(sum(map(hit, made)), len(made), len(made))

    def loses(one: Race) -> bool:
        return any(truth.levels[left.cell] <= truth.levels[truth.best] for left in one.standing.left)

    def names(one: Race, right: bool) -> bool:
        return len(one.standing.racing) == 1 and (one.standing.racing[0] == truth.best) == right

    def ends_beyond(one: Race) -> bool:
        short = truth.levels[one.standing.racing[0]] - truth.levels[truth.best]
        return not one.standing.running and short > np.log1p(asked.rules.within)

    return _Row(
        share(loses), share(lambda one: names(one, True)), share(lambda one: names(one, False)), share(ends_beyond),
        100 * sum(one.runs for one in made) / len(made) / truth.full_runs,
    )  # fmt: skip


def _races(asked: _Asked) -> Iterator[Race]:
    for number in range(asked.races):
        yield race(asked.truth, asked.kind, np.random.default_rng(number), asked.rules, asked.runs)


def _full(asked: _Asked) -> Share:
    """How often all repetitions of all layouts name the single best one."""
    truth, hits = asked.truth, 0
    of = drawn.design(len(truth.levels), truth.repetitions)
    for number in range(asked.races):
        noise = np.random.default_rng(number).normal(0, 1, of.shape) * truth.sds[:, None]
        judged = drawn.say(of, truth.levels[:, None] + noise).statements.judged
        hits += judged.verdict == "winner" and judged.best[0] == of.plan.cells[truth.best].cell_id
    return Share(hits, asked.races, asked.races)
