"""Makes the tables of docs/records/monte-carlo.md: the statements of reports on simulated campaigns, for each order.

make bench ARGS="--only statistics"            prints the tables and whether the goals are met; --quick: a tenth of it
make bench ARGS="--only statistics --write"    also writes the tables into docs/records/monte-carlo.md
make bench ARGS="--only statistics --kept FOLDER"    stores each row in this folder, and continues from stored rows
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench import drawn_orders, drawn_rows, drawn_warm_ups
from bench.drawn import SITUATIONS, Rng
from bench.drawn_orders import Campaign, Said
from bench.figures import Figure
from storagelab.model.values import Estimate

EXPERIMENTS = 1000
LARGE = 16
"""The number of experiments of each row. Campaigns with 16 or more layouts take long to judge, so their rows have a
fifth of this number."""
FALSE_MOST = 5.0
LIMIT_SE = 2.0  # a figure misses its limit if it exceeds it by more standard errors; by chance this happens once in 40
DOCUMENT = Path(__file__).parent.parent / "docs" / "records" / "monte-carlo.md"
FIVE, TEN = math.log(1.05), math.log(1.10)


class Row(NamedTuple):
    """An order of runs, the number of layouts and of repetitions, and the kind of effects on the runs."""

    order: str
    size: tuple[int, int]
    kind: str = "normal"

    @property
    def name(self) -> str:
        return f"{self.order}, {'x'.join(map(str, self.size))}, {self.kind}"


class Counts(NamedTuple):
    """The counts of one experiment, which later become shares. They are NaN if an order lacks them.

    `false`: the report states a difference that does not exist. If a layout stalls, these statements are false, too:
    another layout is slower, or the layout that stalls wins or passes. `held`: the set of layouts that may be the
    fastest contains the first and the second of equal layouts. `means`, `ratio`: the intervals contain the true values.
    For a layout that is 5 or 10 % slower: whether it is called slower, whether it is outside the set, and whether it
    passes a gate at 5 %; the stated difference divided by the true one, and the same for the lower end. For a layout
    that is 10 % faster: whether this layout is named, whether another layout is named, and the share of the runs that a
    race makes.
    """

    false: float
    held_first: float
    held_second: float
    means: float
    ratio: float
    slower_5: float
    out_5: float
    slower_10: float
    out_10: float
    stated_5: float
    low_5: float
    passes_0: float
    passes_5: float
    passes_10: float
    named: float
    another: float
    runs: float


def count(drawn: Campaign, kind: str, runs: int) -> Counts:
    """Counts the statements about a simulated campaign if its layouts are equal, if one is slower, and if one is
    faster."""
    slow, truth = drawn.slow, drawn.truth
    only = np.arange(len(truth)) == slow
    equal, five, ten = (drawn.said(truth + more * only) for more in (0.0, FIVE, TEN))
    ahead = equal if equal.leading is None else drawn.said(truth + TEN * ~only)
    best, mean, stated = truth.min(), SITUATIONS[kind].mean, five.slower.get(slow)
    apart = math.expm1(float(truth[slow] - best) + FIVE)

    def leads(said: Said, cell: int) -> float:
        return math.nan if said.leading is None else cell in said.leading

    return Counts(
        _false(equal, truth, best), leads(equal, 0) if truth[0] == best else math.nan, leads(equal, 1),
        math.nan if mean is None or not equal.means else float(
            np.mean([_holds(one, level + mean) for one, level in zip(equal.means, truth, strict=True)])
        ),
        math.nan if equal.ratio is None else _holds(equal.ratio, float(truth[1] - truth[0]) * (1 if slow else -1)),
        slow in five.slower, 1 - leads(five, slow), slow in ten.slower, 1 - leads(ten, slow),
        *((0.0, 0.0) if stated is None else ((end - 1) / apart for end in (stated.value, stated.low or 1.0))),
        *(math.nan if said.passes is None else said.passes for said in (equal, five, ten)),
        *((math.nan, math.nan) if ahead is equal else (ahead.winner == slow, ahead.winner not in (None, slow))),
        math.nan if ahead.runs is None else ahead.runs / runs,
    )  # fmt: skip


def _false(equal: Said, truth: np.ndarray, best: float) -> float:
    if truth.max() == best:
        return equal.differs
    if equal.passes is not None:
        return equal.passes
    # If one of two layouts stalls, the other one is truly faster.
    right = np.flatnonzero(truth == best)
    return equal.winner not in (None, *(right if len(right) == 1 else ())) or any(
        cell in right for cell in equal.slower
    )


def _holds(estimate: Estimate, log_truth: float) -> bool:
    known = estimate.low is not None and estimate.high is not None
    return known and estimate.low <= math.exp(log_truth) <= estimate.high


# --- rows -------------------------------------------------------------------------------------------------------------


def rows() -> list[Row]:
    """Returns a row for every order in every situation."""
    return [
        Row(order, size, kind)
        for order, of in drawn_orders.ALL.items()
        for size in (*of.everywhere, *of.normal)
        for kind in (SITUATIONS if size in of.everywhere else ["normal"])
    ]


def many(row: Row, experiments: int) -> int:
    return max(1, experiments // 5) if row.size[0] >= LARGE else experiments


def shares(row: Row, experiments: int) -> Counts:
    """Returns the shares of the experiments of one row."""
    of = drawn_orders.ALL[row.order].order

    def one(rng: Rng, number: int) -> Counts:
        return count(of(rng, number, row.size, row.kind), row.kind, math.prod(row.size))

    number = many(row, experiments)
    seed = [*row.size, list(SITUATIONS).index(row.kind), list(drawn_orders.ALL).index(row.order)]
    return Counts(*(hits / number for hits in drawn_rows.counted(row.name, seed, number, one)))


def processes(jobs: int = 0) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs or max(1, os.cpu_count() or 1), get_context("spawn"))


def drawn(experiments: int, jobs: int = 0) -> dict[Row, Counts]:
    """Returns the shares of all rows. The largest campaigns are simulated first."""
    asked = sorted(rows(), key=lambda row: -math.prod(row.size))
    with processes(jobs) as pool:
        return dict(zip(asked, pool.map(partial(shares, experiments=experiments), asked), strict=True))


def figures(quick: bool, write: bool, folder: Path | None = None, jobs: int = 0) -> Iterator[Figure]:
    """Yields every figure with a goal, and makes the tables, with the rows that the folder has."""
    drawn_rows.into(folder)
    experiments = EXPERIMENTS // (10 if quick else 1)
    found = drawn(experiments, jobs)
    with processes(jobs) as pool:
        warm_ups = drawn_warm_ups.rows(pool, 10 if quick else 1)
    show({**tables(found, experiments), "warm-ups": markdown(drawn_warm_ups.HEADS, [one.texts for one in warm_ups])},
         write=write)  # fmt: skip
    for row, counts in found.items():
        errors = {"false": counts.false, "the set misses the first of equal layouts": 1 - counts.held_first,
                  "the set misses the second of equal layouts": 1 - counts.held_second}  # fmt: skip
        for what, share in errors.items():
            if not math.isnan(share):
                yield _figure(f"{what}: {row.name}", share, many(row, experiments))
    for one in warm_ups:
        if one.kind != drawn_warm_ups.UNSEEN:
            yield _figure(f"counted too early: {one.kind}, {one.counted_s} s", one.too_early, one.runs)


def _figure(name: str, share: float, number: int) -> Figure:
    low, high = (100 * share + sign * standard_error(share, number) for sign in (-1, 1))
    met = 100 * share <= limit(number)
    return Figure(name, 100 * share, "%", f"at most {FALSE_MOST:g} %", met, low, high, "± one SE")


def standard_error(share: float, number: int) -> float:  # in percent
    return 100 * math.sqrt(max(share * (1 - share), 0.5 / number) / number)


def limit(number: int) -> float:
    """Returns the percentage of errors above which a row of `number` experiments misses the goal."""
    return FALSE_MOST + LIMIT_SE * standard_error(FALSE_MOST / 100, number)


# --- tables -----------------------------------------------------------------------------------------------------------


def tables(found: Mapping[Row, Counts], experiments: int) -> dict[str, str]:
    """Returns the tables by name. Errors above the limit are bold."""

    def error(row: Row, share: float, shown: float | None = None) -> str:
        text = _text(share if shown is None else shown)
        return f"**{text}**" if 100 * share > limit(many(row, experiments)) else text

    def false(order: str, size: tuple[int, int], kind: str) -> str:
        row = Row(order, size, kind)
        return error(row, found[row].false)

    def held(row: Row) -> str:
        low = float(np.nanmin([found[row].held_first, found[row].held_second, 2.0]))
        return "-" if low > 1 else error(row, 1 - low, low)

    def power(row: Row) -> list[str]:
        of = found[row]
        told = (_text(one / of.slower_5 / 100, 1) if of.slower_5 else "-" for one in (of.stated_5, of.low_5))
        return [held(row), *map(_text, (
            of.means, of.ratio, of.slower_5, of.out_5, of.slower_10, of.out_10, of.named
        )), *told]  # fmt: skip

    everywhere = [(order, size) for order, of in drawn_orders.ALL.items() for size in of.everywhere]
    quiet = [(order, size) for order, of in drawn_orders.ALL.items() for size in sorted([*of.everywhere, *of.normal])]
    largest = drawn_orders.ALL["fixed"].everywhere[-1]
    gated = [Row(*one, kind) for one in everywhere if one[0] == "against" for kind in SITUATIONS]
    gated += [row for row in map(Row, *zip(*quiet, strict=True)) if not math.isnan(found[row].passes_0)][1:]
    return {
        "orders": markdown(
            ["what happens", *(f"{order} {_size(size)}" for order, size in everywhere)],
            [[kind, *(false(*one, kind) for one in everywhere)] for kind in SITUATIONS],
        ),
        "sizes": markdown(
            ["order", "size", "false", *POWER],
            [[order, _size(size), false(order, size, "normal"), *power(Row(order, size))] for order, size in quiet],
        ),
        "situations": markdown(
            [f"what happens, fixed {_size(largest)}", *POWER],
            [[kind, *power(Row("fixed", largest, kind))] for kind in SITUATIONS],
        ),
        "races": markdown(
            ["size", "fixed: named", "race: named", "another", "runs"],
            [
                [_size(size), _text(found[Row("fixed", size)].named), *map(_text, found[Row("race", size)][-3:])]
                for order, size in quiet if order == "race"
            ],
        ),
        "gates": markdown(
            ["order", "what happens", "alarm", "5 %: alarm", "10 %: alarm", "passes", "5 %: passes", "10 %: passes"],
            [
                [f"{row.order} {_size(row.size)}", row.kind, false(*row) if row.kind in EQUAL else "-", *map(_text, (
                    of.slower_5, of.slower_10, of.passes_0, of.passes_5, of.passes_10
                ))]
                for row in gated for of in [found[row]]
            ],
        ),
    }  # fmt: skip


POWER = ["set holds", "means", "ratio", "5 %: slower", "out", "10 %: slower", "out", "named", "stated / true", "low"]
EQUAL = [kind for kind, of in SITUATIONS.items() if not of.first]
"""The situations in which layouts are equal."""


def _size(size: tuple[int, int]) -> str:
    return "x".join(map(str, size))


def _text(share: float, digits: int = 1) -> str:
    if math.isnan(share):
        return "-"
    percent = 100 * share
    return f"{percent:.0f}" if percent >= 10 and digits else f"{percent:.{digits}f}"


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def show(tables: Mapping[str, str], *, write: bool) -> None:
    for name, text in tables.items():
        print(f"\n{name}\n{text}", flush=True)
    if write:
        put_into_the_page(tables)


def put_into_the_page(tables: Mapping[str, str]) -> None:
    """Puts each table between its marks in the page."""
    text = DOCUMENT.read_text(encoding="utf-8")
    for name, table in tables.items():
        start, end = f"<!-- drawn: {name} -->\n", f"<!-- end: {name} -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        if not found:
            raise SystemExit(f"bench: {DOCUMENT.name} has no place for the table {name!r}")
        text = f"{before}{start}{table}\n{end}{after}"
    DOCUMENT.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.drawn")
    parser.add_argument("experiments", type=int, nargs="?", default=EXPERIMENTS)
    parser.add_argument("folder", type=Path, nargs="?", help="stores each row here, and continues from stored rows")
    parser.add_argument("--jobs", type=int, default=0, help="how many processes to use; default: the number of CPUs")
    options = parser.parse_args()
    drawn_rows.into(options.folder)
    show(tables(drawn(options.experiments, options.jobs), options.experiments), write=True)
