"""`--only replayed`: replays the requests of cases that `recommended` kept, on the same layouts. It compares the replay
with the live database: the order of pairs that the live database tells apart, the ratio to today's layout, and whether
the first proposal is faster.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

from bench import recommended
from bench.figures import Figure
from bench.predictions import PRESENT, Case, in_turns, level, measured, volume_table, write_spec
from bench.recommended import TODAY
from storagelab.capture.folder import REQUESTS
from storagelab.loads.traces import read
from storagelab.run.engine import open_block
from storagelab.run.scheduling import InMemory
from storagelab.spec.matrix import expand
from storagelab.spec.reading import load
from storagelab.volumes.folders import Site

_APART, _RUNS, _ROUND_BYTES = 1.05, (1, 2), 2**20


@dataclass(frozen=True)
class Both:
    """The rates of each layout: the live database's in transactions a second, the replay's in requests a second."""

    name: str
    live: Mapping[str, Sequence[float]]
    again: Mapping[str, Sequence[float]]

    def ratios(self, of: Mapping[str, Sequence[float]]) -> dict[str, float]:
        return {name: fmean(rates) / fmean(of[TODAY]) for name, rates in of.items()}

    @property
    def pairs(self) -> list[bool]:
        """For each pair of layouts that the live database tells apart, whether the replay has the same order."""
        found = []
        for one, other in combinations(self.live, 2):
            slower, faster = sorted((one, other), key=lambda name: fmean(self.live[name]))
            if fmean(self.live[faster]) > _APART * fmean(self.live[slower]):
                found.append(fmean(self.again[faster]) > fmean(self.again[slower]))
        return found


def replayed(case: Case, place: Path) -> Both:
    """Captures the load of a kept case again. This capture also records the requests. Then replays the requests on the
    case's layouts.
    """
    told = json.loads((place / "measured.json").read_text("utf-8"))
    kept = place / "replayed.json"
    if not kept.exists():
        for name in ("traced", "requests", "again"):
            shutil.rmtree(place / name, ignore_errors=True)
        measured(write_spec(case, place / "traced"), case, place / "requests", requests=True)
        kept.write_text(json.dumps(_again(case, told["layouts"], place)), encoding="utf-8")
    return Both(f"{case.engine}, seed {case.seed}", told["rates"], json.loads(kept.read_text("utf-8")))


def _again(case: Case, layouts: Mapping[str, Mapping[str, str]], place: Path) -> dict[str, list[float]]:
    """Returns the requests per second of each layout's replays."""
    trace = place / "requests" / REQUESTS
    found = read(trace)
    seen = {one.name for one in found.objects} | {"log"}
    places = {name: {what: on for what, on in layout.items() if what in seen} for name, layout in layouts.items()}
    levels = ",\n".join(level(name, layout) for name, layout in places.items())
    size = -(-found.reaches // _ROUND_BYTES) * _ROUND_BYTES
    (place / "again").mkdir()
    spec = place / "again" / "replayed.toml"
    spec.write_text(
        f'repetitions = 1\ntarget = {{ engine = "raw-io" }}\nvolumes = {{ {volume_table(case, place)} }}\n'
        f'layout = {{ data = ["{next(iter(case.limits))}"], data_size_bytes = {size} }}\n'
        f'workload = {{ kind = "replay", trace = "{os.path.relpath(trace, spec.parent)}", '
        f'pace = "as-fast-as-possible", outstanding = {case.connections} }}\n[factors]\nplace = [\n{levels}\n]\n',
        encoding="utf-8",
    )
    plan = expand(load(spec))
    block, rates = plan.blocks[0], dict[str, list[float]]()
    for planned in block.runs:
        cell = block.cell_of(planned)
        site = Site(experiment="replayed", identity=f"{os.getpid():08x}", spec_folder=spec.parent)
        with open_block(block, site, InMemory()) as opened, opened.open(planned) as target:
            runs = [target.run(cell, number, number, lambda _: None) for number in _RUNS]
        rates[cell.levels["place"]] = [(run.requests or 0) / run.elapsed_s for run in runs]
    return rates


def figures(folder: Path, cases: int, first_seed: int, kept: Path | None) -> Iterator[Figure]:
    """Replays this many cases that `recommended` kept, with alternating engines."""

    def of(engine: str, seed: int, name: str) -> Both:
        drawn = recommended.drawn(engine, seed)
        return replayed(replace(drawn, layouts={PRESENT: drawn.layouts[PRESENT]}), (kept or folder) / name)

    made, errors, right = [], list[float](), list[bool]()
    for one in in_turns(cases, first_seed, of):
        made.append(one)
        live, again = one.ratios(one.live), one.ratios(one.again)
        errors += [abs(again[name] / live[name] - 1) for name in live if name != TODAY]
        right += one.pairs
        if "first" in live:
            remark = f"the replay says {again['first']:.2f}"
            yield Figure(f"{one.name}: first proposal, times today's rate", live["first"], "", "", None, remark=remark)
        yield Figure(f"{one.name}: pairs in the same order", sum(one.pairs), f"of {len(one.pairs)}", "", None)
    yield Figure("pairs in the same order, live and replayed", sum(right), f"of {len(right)}", "for the record", None)
    if errors:
        yield Figure("ratio to today's, median difference", 100 * median(errors), "%", "for the record", None)
