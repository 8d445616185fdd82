"""`--only recommended`: generates random cases of a server on unequal volumes, and lets `recommend` propose moves of
files.

Then it measures today's layout, the proposals and other layouts. In a third of the cases nothing can be gained, because
all files are on the only volume that is not slow. The goals for cases in which the best measured layout gains 15 % or
more: the first proposal is faster than today's layout in 90 %, and within 5 % of the best layout in 75 %. The goal for
other cases: `recommend` proposes no move in 90 %. The goals for all cases: at most 5 % of the proposals are slower than
today's layout, and the median error of the predicted ratio is at most 15 %.
"""

from __future__ import annotations

import json
import random
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import fmean, median

from bench import predictions
from bench.figures import Figure
from bench.predictions import PRESENT, Case, in_turns, measured, unequal_weights, write_known, write_spec, write_volumes
from storagelab.predicting.prediction import KnownCase, KnownLayout
from storagelab.predicting.reckoning import predict
from storagelab.predicting.recommending import recommend

LAYOUTS, GAINS, NEAR, SLOWER = 6, 1.15, 0.95, 0.95
"""The least number of measured layouts in addition to today's. The smallest gain of the best layout with which a case
can gain. The smallest ratio of a good proposal's rate to the best layout's. The ratio to today's rate below which a
proposal is harmful."""
_SLOW = 40
TODAY, _PROPOSALS = "today", ("first", "second", "third")
"""The names of layouts in the stored files."""


def drawn(engine: str, seed: int) -> Case:
    """Returns the case of this seed, as for predictions, but with two or three volumes and three to six tables."""
    dice = random.Random(f"recommended {engine} {seed}")
    volumes = "abc"[: dice.randint(2, 3)]
    tables = [f"t{number}" for number in range(1, dice.randint(3, 6) + 1)]
    weights = unequal_weights(tables, dice)
    nothing = seed % 3 == 0
    limits = {
        name: {key: _SLOW if nothing and name != "a" else dice.randint(300, 1500) for key in predictions.LIMITED}
        for name in volumes
    }
    place = {name: "a" if nothing else dice.choice(volumes) for name in (*tables, "log")}
    if engine == "postgres":
        place |= {f"{name}_pkey": place[name] for name in tables}
    return Case(engine, seed, limits, weights, dice.choice((4, 8, 16)), {PRESENT: place})


@dataclass(frozen=True)
class Judged:
    """The result of a case. `times`: the measured rate of each layout divided by today's. `predicted`: the predicted
    values of the proposals.
    """

    name: str
    times: dict[str, float]
    predicted: dict[str, float]
    because: str

    @property
    def best(self) -> float:
        return max(self.times.values())

    @property
    def first(self) -> float | None:
        """The measured ratio of the first proposal, or None if `recommend` proposed no move."""
        return self.times.get("first")

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """The predicted and the measured ratio of each proposal."""
        return [(predicted, self.times[name]) for name, predicted in self.predicted.items()]


def judged(case: Case, place: Path) -> Judged:
    """Captures a case, asks for recommendations and measures. If the folder already has the case's rates, it does not
    measure again."""
    kept = place / "measured.json"
    if not kept.exists():
        shutil.rmtree(place, ignore_errors=True)
        names = measured(write_spec(case, place / "now"), case, place / "capture")[1]
        write_volumes(case, names, place / "volumes.toml")
        found = recommend(place / "capture", place / "volumes.toml")
        today = case.layouts[PRESENT]
        layouts = {TODAY: today}
        for name, one in zip(_PROPOSALS if found.proposals else ("unsure",), found.measurable, strict=False):
            layouts[name] = {**today, **{move.what: move.to for move in one.moves}}
        layouts |= islice(_others(case, list(layouts.values())), LAYOUTS + 1 - len(layouts))
        then = replace(case, layouts=layouts)
        rates, _ = measured(write_spec(then, place / "then"), then, place)
        predicted = {name: one.times_present.value for name, one in zip(_PROPOSALS, found.proposals, strict=False)}
        text = json.dumps({"rates": rates, "predicted": predicted, "because": found.because, "layouts": layouts})
        kept.write_text(text, encoding="utf-8")
    told = json.loads(kept.read_text("utf-8"))
    rates = {name: fmean(of) for name, of in told["rates"].items()}
    times = {name: rate / rates[TODAY] for name, rate in rates.items() if name != TODAY}
    return Judged(f"{case.engine}, seed {case.seed}", times, told["predicted"], told["because"])


def _known(case: Case, place: Path) -> KnownCase:
    """Predicts each measured layout again from the capture, and returns the predicted and measured ratios."""
    told = json.loads((place / "measured.json").read_text("utf-8"))
    rates = {name.replace(" ", "-"): fmean(of) for name, of in told["rates"].items()}
    layouts = {PRESENT: case.layouts[PRESENT]}
    layouts |= {name.replace(" ", "-"): one for name, one in told["layouts"].items() if name != TODAY}
    asked = tomllib.loads((place / "volumes.toml").read_text("utf-8"))["volumes"]
    names = {old: new for new, one in asked.items() for old in one["captured"]}
    write_volumes(replace(case, layouts=layouts), names, place / "layouts.toml")
    found = predict(place / "capture", place / "layouts.toml").layouts
    known = (
        KnownLayout(
            name=one.name, predicted=one.times_present.value, measured=rates[one.name] / rates[TODAY], moved=one.moved
        )
        for one in found
        if one.name != PRESENT and one.times_present is not None
    )
    return KnownCase(engine=case.engine, case=f"recommended, seed {case.seed}", layout=tuple(known))


def _others(case: Case, taken: list[dict[str, str]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields further layouts: all objects on one volume, only the log on another volume, and random layouts."""
    dice, today = random.Random(f"others {case.seed}"), case.layouts[PRESENT]
    wanted = [dict.fromkeys(today, volume) for volume in case.limits]
    wanted += [{**today, "log": volume} for volume in case.limits]
    wanted += [{name: dice.choice(list(case.limits)) for name in today} for _ in range(20)]
    for place in wanted:
        if place not in taken:
            taken.append(place)
            yield f"other {len(taken)}", place


def figures(folder: Path, cases: int, first_seed: int, kept: Path | None, *, write: bool = False) -> Iterator[Figure]:
    """Makes this many cases, with alternating engines. If `write`, their errors are stored in the package, as in
    `predictions`."""
    made, known = [], []

    def of(engine: str, seed: int, name: str) -> Judged:
        case, place = drawn(engine, seed), (kept or folder) / name
        one = judged(case, place)
        if write:
            known.append(_known(case, place))
        return one

    for one in in_turns(cases, first_seed, of):
        made.append(one)
        yield Figure(
            f"{one.name}: first proposal, times today's rate", one.first or 1.0, "", f"best {one.best:.2f}", None,
            remark=f"predicted {one.predicted.get('first', 1.0):.2f}{one.because and f'; {one.because}'}",
        )  # fmt: skip
    yield from _totals(made)
    if write:
        write_known(known)


def _totals(made: Sequence[Judged]) -> Iterator[Figure]:
    gaining, still = ([one for one in made if (one.best >= GAINS) is gains] for gains in (True, False))
    pairs = [pair for one in made for pair in one.pairs]
    for what, some, goal in (
        ("cases that can gain, in which the first proposal is faster", [(one.first or 0) > 1 for one in gaining], 0.90),
        ("and within 5 % of the best measured layout", [(one.first or 0) >= NEAR * one.best for one in gaining], 0.75),
        ("cases that can't gain, left as they are", [one.first is None for one in still], 0.90),
        ("proposals that are not harmful", [true >= SLOWER for _, true in pairs], 0.95),
    ):
        met = sum(some) >= goal * len(some) if some else None
        yield Figure(what, sum(some), f"of {len(some)}", f"{goal:.0%}", met)
    if pairs:
        middle = 100 * median(abs(predicted / true - 1) for predicted, true in pairs)
        yield Figure("predicted ratio, median error", middle, "%", "at most 15 %", middle <= 15)
