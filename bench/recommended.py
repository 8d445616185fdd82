"""`--only recommended`: drawn cases of a server on unequal volumes, for which `recommend` proposes moves. Then today's
layout, the proposals and other layouts are measured.

In a third of the cases nothing can be gained: all lies on the one volume that is not slow. Goals: a proposal is faster
in 90 % of the cases where the best layout that was measured gains 15 %, and within 5 % of that best in 75 %; "leave it"
in 90 % of the cases where nothing gains; a proposal that is slower than today in at most 5 %; the predicted ratio
within 15 % (median).
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any

from bench import predictions
from bench.figures import Figure
from bench.known_answers import why_not
from bench.predictions import LOADED, PRESENT, Case, measured, write_spec, write_volumes
from storagelab.errors import StoragelabError
from storagelab.predicting.recommending import recommend

LAYOUTS, GAINS, NEAR, SLOWER = 6, 1.15, 0.95, 0.95
"""Layouts that are measured beside today's at least; the gain of the best from which a case is one that can gain; how
near to it a proposal is to come; a ratio from which a proposal is harmful."""
_SLOW = 40
TODAY = "today"


def drawn(engine: str, seed: int) -> Case:
    """The case of this seed, as those of predictions, with two or three volumes and three to six tables."""
    dice = random.Random(f"recommended {engine} {seed}")
    volumes = "abc"[: dice.randint(2, 3)]
    tables = [f"t{number}" for number in range(1, dice.randint(3, 6) + 1)]
    updated = dice.choice((0.1, 0.3, 0.6))
    weights = {}
    for rank, name in enumerate(tables, 1):
        weight = 100 / rank ** dice.uniform(0.5, 1.5)
        weights[name] = (max(1, round(weight * (1 - updated))), max(1, round(weight * updated)))
    nothing = seed % 3 == 0
    limits = {
        name: {key: _SLOW if nothing and name != "a" else dice.randint(300, 1500) for key in predictions.LIMITED}
        for name in volumes
    }
    place = {name: "a" if nothing else dice.choice(volumes) for name in (*tables, "log")}
    if engine == "postgres":
        place |= {f"{name}_pkey": place[name] for name in tables}
    return Case(engine, seed, limits, weights, dice.choice((4, 8, 16)), {PRESENT: place})


def judged(case: Case, place: Path) -> dict[str, Any]:
    """Captures, recommends, measures. A folder that holds its rates is not measured again."""
    kept = place / "measured.json"
    if not kept.exists():
        shutil.rmtree(place, ignore_errors=True)
        names = measured(write_spec(case, place / "now"), case, place / "capture")[1]
        write_volumes(case, names, place / "volumes.toml")
        found = recommend(place / "capture", place / "volumes.toml")
        today = case.layouts[PRESENT]
        layouts = {TODAY: today}
        for one in found.proposals:
            layouts[one.name] = {**today, **{move.what: move.to for move in one.moves}}
        layouts |= islice(_others(case, list(layouts.values())), max(0, LAYOUTS - len(found.proposals)))
        rates = measured(
            write_spec(replace(case, layouts=layouts), place / "then"), replace(case, layouts=layouts), place
        )
        predicted = {one.name: one.times_present.value for one in found.proposals}
        text = json.dumps({"rates": rates[0], "predicted": predicted, "because": found.because, "layouts": layouts})
        kept.write_text(text, encoding="utf-8")
    return dict(json.loads(kept.read_text("utf-8")))


def _others(case: Case, taken: list[dict[str, str]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Further layouts: all on one volume, the log alone on one, then drawn ones."""
    dice, today = random.Random(f"others {case.seed}"), case.layouts[PRESENT]
    wanted = [dict.fromkeys(today, volume) for volume in case.limits]
    wanted += [{**today, "log": volume} for volume in case.limits]
    wanted += [{name: dice.choice(list(case.limits)) for name in today} for _ in range(20)]
    for place in wanted:
        if place not in taken:
            taken.append(place)
            yield f"other {len(taken)}", place


def figures(folder: Path, cases: int, first_seed: int, kept: Path | None) -> Iterator[Figure]:
    """This many cases, in turns of the engines."""
    if reason := why_not():
        print(f"recommendations are left out: {reason}")
        return
    engines = [name for name in LOADED if name != "mariadb" or shutil.which("mariadbd")]
    gaining, still, errors, harmful, proposed = [], [], [], 0, 0
    for number in range(cases):
        engine, seed = engines[number % len(engines)], first_seed + number // len(engines)
        try:
            found = judged(drawn(engine, seed), (kept or folder) / f"{engine}-{seed}")
        except StoragelabError as error:
            print(f"left out: {engine}, seed {seed}: {error}", flush=True)
            continue
        rates = {name: fmean(of) for name, of in found["rates"].items()}
        times = {name: rate / rates[TODAY] for name, rate in rates.items() if name != TODAY}
        best = max(times.values())
        own = {name: times[name] for name in found["predicted"]}
        first = own.get("first")
        errors += [abs(found["predicted"][name] / true - 1) for name, true in own.items()]
        proposed, harmful = proposed + len(own), harmful + sum(true < SLOWER for true in own.values())
        (gaining if best >= GAINS else still).append((first, best))
        yield Figure(
            f"{engine}, seed {seed}: first proposal, times today's rate", first or 1.0, "", f"best {best:.2f}", None,
            remark=f"predicted {found['predicted'].get('first', 0):.2f}; {found['because']}",
        )  # fmt: skip
    faster = sum(first is not None and first > 1 for first, _ in gaining)
    near = sum(first is not None and first >= NEAR * best for first, best in gaining)
    left = sum(first is None for first, _ in still)
    for what, count, of, goal in (
        ("cases that can gain, in which the first proposal is faster", faster, len(gaining), 0.90),
        ("and within 5 % of the best that was measured", near, len(gaining), 0.75),
        ("cases that can't gain, left as they are", left, len(still), 0.90),
        ("proposals that are not harmful", proposed - harmful, proposed, 0.95),
    ):
        yield Figure(what, count, f"of {of}", f"{goal:.0%}", count >= goal * of)
    if errors:
        middle = 100 * median(errors)
        yield Figure("predicted ratio, median error", middle, "%", "at most 15 %", middle <= 15)
