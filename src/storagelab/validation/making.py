"""Makes the runs that published figures need, with the simulator, and reads the figures from them.

All runs of a block up to the last one needed are made, in the spec's own order: drives keep their history, so a
layout's figures depend on the runs before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from storagelab import _sim, profiles
from storagelab.errors import PreflightError, SpecError
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell, Experiment, Plan, PlannedRun
from storagelab.model.values import Frozen
from storagelab.run import loop, scheduling
from storagelab.run.progress import RunProgress
from storagelab.run.store import Store
from storagelab.spec import matrix, reading
from storagelab.targets import Preflight, Site, preflight, temporary
from storagelab.validation.articles import Article, Published
from storagelab.validation.judging import Row, judge, missing
from storagelab.validation.quantities import Made, Missing, needed, read_off


class Asked(NamedTuple):
    """How to make the simulations. `repetitions` None = as many as each spec says; `results` None = discarded."""

    experiments: Path
    scale: int = 64
    repetitions: int | None = None
    jobs: int = 1
    results: Path | None = None


class Simulations(Frozen):
    """The runs of one spec, for the heading of the table."""

    spec: str
    runs: int
    repetitions: int
    scale: int


class Planned(NamedTuple):
    """What one article needs: its figures with their cells, the figures without cells, and the runs to make."""

    article: Article
    experiment: Experiment
    plan: Plan
    groups: dict[str, list[list[Cell]]]
    absent: dict[str, str]
    site: Site
    found: Preflight | None

    @property
    def profiles(self) -> tuple[str, ...]:
        """Names of the drive profiles that the runs use."""
        cells = {cell.cell_id for parts in self.groups.values() for group in parts for cell in group}
        there = (cell for cell in self.plan.cells if cell.cell_id in cells)
        return tuple(dict.fromkeys(drive.profile for cell in there for drive in cell.config.drives.values()))


class Absent(NamedTuple):
    """An article that can't be simulated yet."""

    article: Article
    reason: str


def plan(articles: Sequence[Article], asked: Asked) -> list[Planned | Absent]:
    """The runs to make. Raises StoragelabError for an unusable spec."""
    return [_planned(article, asked) for article in articles]


def simulate(
    planned: Sequence[Planned | Absent], asked: Asked, console: Console, check: Callable[[], None] = lambda: None
) -> tuple[list[Row], list[Simulations]]:
    """A row for every figure, in order, and the runs made for them.

    Progress goes to `console`; `check` may raise KeyboardInterrupt to stop. A missing spec, cell or counter gives rows
    that say so.
    """
    rows, made = [], []
    for one in planned:
        if isinstance(one, Absent):
            rows += [missing(one.article, figure, one.reason) for figure in one.article.figures]
            continue
        runs = _runs(one, asked, console, check) if one.plan.runs else {}
        rows += [_row(one, figure, runs) for figure in one.article.figures]
        if one.plan.runs:
            made.append(_said(one, asked))
    return rows, made


# --- planning --------------------------------------------------------------------------------------------------------


def _planned(article: Article, asked: Asked) -> Planned | Absent:
    """The runs to make for an article, or why there are none."""
    file = asked.experiments / f"{article.spec}.toml"
    if not asked.experiments.is_dir():
        hint = "Name the folder of the ready-made specs with --experiments."
        raise SpecError("is not a folder", file=asked.experiments, hint=hint)
    if not file.exists():
        return Absent(article, f"there is no spec {article.spec} yet")
    experiment = _as_asked(reading.load(file), asked)
    expanded = matrix.expand(experiment)
    if not all(cell.config.simulated for cell in expanded.cells):
        return Absent(article, f"the spec {article.spec} is not simulated")
    groups, absent = {}, {}
    for figure in article.figures:
        try:
            groups[figure.id] = needed(figure, article.levels_of(figure), expanded.cells)
        except Missing as reason:
            absent[figure.id] = str(reason)
    wanted = {cell.cell_id for parts in groups.values() for group in parts for cell in group}
    trimmed = Plan(cells=expanded.cells, runs=tuple(_up_to_last(expanded, wanted)))
    site = Site(experiment=experiment.name, identity=experiment.sha256[:8], spec_folder=file.resolve().parent)
    found = None
    if trimmed.runs:
        try:
            found = preflight(experiment, trimmed, site)
        except PreflightError as error:
            raise error.of(file) from error
    return Planned(article, experiment, trimmed, groups, absent, site, found)


def _as_asked(experiment: Experiment, asked: Asked) -> Experiment:
    """The experiment at the scale and with the repetitions asked for, with a hash of everything on which its outcome
    depends.
    """
    tables = dict(experiment.base)
    target = tables.get("target")
    tables["target"] = {**(target if isinstance(target, dict) else {}), "scale": asked.scale}
    repetitions = asked.repetitions or experiment.repetitions
    words = json.dumps([experiment.canonical, asked.scale, repetitions, _simulator()], sort_keys=True)
    update = {"base": tables, "repetitions": repetitions, "sha256": hashlib.sha256(words.encode()).hexdigest()}
    return experiment.model_copy(update=update)


def _simulator() -> str:
    """A hash of the simulator and of the drives' profiles, so that old results never pass for those of a new model."""
    digest = hashlib.sha256(Path(_sim.__file__).read_bytes())
    for name in profiles.ready_made():
        digest.update(resources.files(profiles).joinpath(f"{name}.toml").read_bytes())
    return digest.hexdigest()


def _up_to_last(whole: Plan, wanted: set[str]) -> Iterator[PlannedRun]:
    """The runs of each block up to the last of a wanted cell."""
    for _, block in itertools.groupby(whole.runs, key=lambda run: run.block):
        runs = list(block)
        last = max((at for at, run in enumerate(runs) if run.cell_id in wanted), default=-1)
        yield from runs[: last + 1]


# --- running ---------------------------------------------------------------------------------------------------------


def _runs(one: Planned, asked: Asked, console: Console, check: Callable[[], None]) -> dict[str, list[Measurement]]:
    """The usable runs of each cell, in the order of their repetitions."""
    with _folder(one.experiment, asked.results) as folder, Store.writing(folder, one.experiment) as store:
        attempts = store.attempts()
        pending = scheduling.pending(one.plan, attempts)
        at_once = loop.processes(one.plan, pending, one.found, asked.jobs)
        with RunProgress(
            one.plan, pending, store.durations(), console, folder, check, at_once=at_once
        ) as progress:  # fmt: skip
            progress.say(f"article {one.article.id}: {len(pending)} runs to make, {len(attempts)} stored already")
            loop.run_all(one.plan, store, one.site, progress, jobs=at_once)
        found: dict[str, list[Measurement]] = {}
        for run in sorted(store.runs(), key=lambda run: run.repetition):
            if run.usable and run.measurement is not None:
                found.setdefault(run.cell_id, []).append(run.measurement)
        return found


@contextlib.contextmanager
def _folder(experiment: Experiment, results: Path | None) -> Iterator[Path]:
    """Named after the hash of the experiment, so that results of another scale, count or model are never mixed in."""
    if results is not None:
        yield results / f"validate-{experiment.name}-{experiment.sha256[:12]}"
        return
    with temporary.folder("validate") as folder:
        yield folder


def _row(one: Planned, figure: Published, runs: dict[str, list[Measurement]]) -> Row:
    if figure.id in one.absent:
        return missing(one.article, figure, one.absent[figure.id])
    groups = [[Made(cell, runs.get(cell.cell_id, [])) for cell in group] for group in one.groups[figure.id]]
    try:
        return judge(one.article, figure, read_off(figure, groups))
    except Missing as reason:
        return missing(one.article, figure, str(reason))


def _said(one: Planned, asked: Asked) -> Simulations:
    return Simulations(
        spec=one.article.spec, runs=len(one.plan.runs), repetitions=one.experiment.repetitions, scale=asked.scale
    )
