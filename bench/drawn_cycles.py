"""Simulates A/A experiments on a server that makes checkpoints. In the long run, all layouts do the same work. Every
second layout has a checkpoint every 60 s. The other layouts have one every 120 s. Throughput falls when a checkpoint
begins.

    python -m bench.drawn_cycles [EXPERIMENTS]      prints the table, and puts it into docs/records/monte-carlo.md

*Before*: the measured part begins when throughput is stable, and lasts as long as the spec says. *After*: the measured
part contains whole cycles (`loads.cycles`), or the layout is not compared (`findings.comparable`). Each run has noise
of 3 %, and each second has additional noise of 3 %.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench import drawn
from bench.drawn import NOISE, Matrix, Rng, design
from bench.drawn_warm_ups import Numbers, first_settled
from storagelab.findings import comparable
from storagelab.findings.statements import SHARES
from storagelab.loads.settling import WarmUp, end_of_whole, told
from storagelab.model.loads.pgbench import Pgbench
from storagelab.stats import contrast, stalls
from storagelab.stats.intervals import ALPHA

SIZES = ((2, 5), (3, 5), (8, 5))
COUNTED_S = (30, 60)
DRAWN = 4000
"""The number of runs drawn of each kind. Experiments take their runs from these at random."""
PERIODS_S = (60, 120)
HEIGHT = 0.4
"""Throughput is 20 % below the mean when a checkpoint begins, and climbs to 20 % above it."""
SLOWER = 0.10


class Runs(NamedTuple):
    """Simulated runs of one layout: the throughput of each second, the second in which each run became stable (-1 =
    never), and the times at which checkpoints begin.
    """

    rates: Numbers
    settled_s: NDArray[np.int_]
    starts_s: list[list[float]]


class Judged(NamedTuple):
    """One experiment: whether it calls a layout slower, whether it compares all layouts, the errors of the rates of the
    first and the second layout, and the measured seconds."""

    slower: bool
    compared: bool
    off: tuple[float, float]
    counted_s: float


def limit_s(counted_s: int) -> int:
    return round(Pgbench(duration_s=counted_s, warm_up_s="auto").longest_warm_up_s)


def runs(rng: Rng, period_s: int, number: int, counted_s: int, *, at_random: bool) -> Runs:
    """Simulates runs. Checkpoints begin with the load, because storagelab requests a checkpoint before each run, or
    `at_random`."""
    seconds = limit_s(counted_s) + counted_s
    offset = rng.integers(0, period_s, (number, 1)) if at_random else np.zeros((number, 1), dtype=int)
    at = np.arange(seconds)
    rates = 1 + HEIGHT * (((at + 0.5 + offset) / period_s) % 1 - 0.5)
    rates *= 1 + NOISE * rng.standard_normal(rates.shape)
    starts = [[float(one) for one in range(period_s - int(first), seconds, period_s)] for (first,) in offset]
    return Runs(rates, first_settled(rates[:, : limit_s(counted_s)], counted_s), starts)


def _before(of: Runs, number: int, counted_s: int) -> tuple[int, int]:
    began_s = int(of.settled_s[number])
    began_s = limit_s(counted_s) if began_s < 0 else began_s
    return began_s, began_s + counted_s


def _after(of: Runs, number: int, counted_s: int) -> tuple[int, int]:
    """Returns the seconds in which the measured part begins and ends, by the rules of `counting.SetTime`."""
    starts, last_s, settled_s = of.starts_s[number], limit_s(counted_s), int(of.settled_s[number])
    rates = of.rates[number].tolist()
    warm_up = WarmUp(counted_s, 0, last_s + counted_s)
    began_s = next(
        (
            now_s for now_s in range(1, last_s)
            if warm_up.is_over(
                [at_s for at_s in starts if at_s <= now_s], rates[:now_s], settled=0 <= settled_s <= now_s
            )
        ),
        last_s,
    )  # fmt: skip
    for now_s in range(began_s + 1, last_s + counted_s):
        end_s = end_of_whole([at_s for at_s in starts if at_s <= now_s], began_s, counted_s)
        if end_s is not None and now_s >= end_s:
            return began_s, now_s
    return began_s, last_s + counted_s


class Pool(NamedTuple):
    """The results of simulated runs of one layout: rates, measured seconds, and the stored facts about checkpoints."""

    rates: Numbers
    counted_s: Numbers
    told: list[dict[str, float]]


def pool(rng: Rng, period_s: int, counted_s: int, *, at_random: bool, whole: bool, number: int = DRAWN) -> Pool:
    of = runs(rng, period_s, number, counted_s, at_random=at_random)
    spans = [(_after if whole else _before)(of, at, counted_s) for at in range(number)]
    rates = [of.rates[at, began_s:end_s].mean() for at, (began_s, end_s) in enumerate(spans)]
    tells = [
        told([at_s for at_s in starts_s if at_s <= end_s], began_s, end_s)
        for starts_s, (began_s, end_s) in zip(of.starts_s, spans, strict=True)
    ]
    return Pool(np.array(rates), np.array([end_s - began_s for began_s, end_s in spans], dtype=float), tells)


def experiments(
    size: tuple[int, int], pools: Sequence[Pool], number: int, *, whole: bool, seed: int, slower: float = 0.0
) -> Iterator[Judged]:
    """Yields the judgement of each experiment. `pools` has the runs of the first and the second layout. The third
    layout takes its runs from the first pool, and so on. With `slower`, the second layout does less work in the long
    run, by this fraction.
    """
    rng = np.random.default_rng(seed)
    cells, rounds = size
    of = design(cells, rounds)
    for _ in range(number):
        log_s = drawn.normal(of, rng)
        log_s[1] += math.log1p(slower)
        tells, counted_s = dict[str, list[dict[str, float]]](), list[float]()
        for cell in range(cells):
            one = pools[cell % len(pools)]
            taken = rng.integers(0, len(one.rates), rounds)
            log_s[cell] -= np.log(one.rates[taken])
            tells[str(cell)] = [one.told[at] for at in taken]
            counted_s += one.counted_s[taken].tolist()
        alone = comparable.in_parts(tells) if whole else ()
        kept = log_s.copy()
        kept[[int(cell) for cell in alone]] = np.nan
        off = np.exp(-log_s[:2].mean(1)) - 1
        yield Judged(_slower(kept), not alone, (float(off[0]), float(off[1])), float(np.mean(counted_s)))


def _slower(log_s: Matrix) -> bool:
    """Returns whether the verdict calls a layout slower."""
    fitted = stalls.fit(log_s)
    best = fitted.fastest()
    if best is None:
        return False
    found = contrast.compare_with_best(fitted, best, alpha=ALPHA * SHARES["verdict"])
    return any(one.slower for one in found.values())


def _share(hits: list[bool]) -> str:
    share = float(np.mean(hits))
    error = math.sqrt(max(share * (1 - share), 0.5 / len(hits)) / len(hits))
    return f"{100 * share:.1f} ± {100 * error:.1f}"


def rows(number: int) -> Iterator[list[str]]:
    rng = np.random.default_rng(1)
    for at_random in (False, True):
        for counted_s in COUNTED_S:
            before, after = (
                [pool(rng, one, counted_s, at_random=at_random, whole=whole) for one in PERIODS_S]
                for whole in (False, True)
            )
            for size in SIZES:
                row = ["at any moment" if at_random else "as the load begins", f"{size[0]}x{size[1]}", f"{counted_s} s"]
                found = [
                    list(experiments(size, pools, number, whole=whole, seed=1))
                    for pools, whole in ((before, False), (after, True))
                ]
                row += [_share([one.slower for one in of]) for of in found]
                row.append(_share([not one.compared for one in found[1]]))
                row += [" and ".join(f"{100 * x:+.0f}" for x in np.mean([one.off for one in of], 0)) for of in found]
                power = experiments(size, after, number, whole=True, seed=2, slower=SLOWER)
                row.append(_share([one.slower for one in power]))
                row.append(f"{np.mean([one.counted_s for one in found[1]]):.0f} s")
                print(" | ".join(row), flush=True)
                yield row


HEADS = (
    "the last checkpoint before a run began", "layouts x rounds", "duration", "a layout is called slower: before",
    "after",
    "not compared", "rates off by, %: before", "after", "10 % slower: found", "counted",
)  # fmt: skip


def main() -> None:
    from bench.statistics import DOCUMENT, put_into_the_page

    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    lines = [f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows(number)]
    if number >= 1000:
        put_into_the_page({"cycles": "\n".join(lines)})
        print(f"written to {DOCUMENT}")


if __name__ == "__main__":
    main()
