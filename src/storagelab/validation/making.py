"""Makes the runs that published figures need, with the simulator, and reads the figures from them.

All runs of a block until the last needed run are made, in the order of the spec. This is necessary because drives keep
their history, so the figures of a layout depend on the runs before.

Each figure is simulated at two scales, because a figure that depends on the scale is not a property of the model. If an
article does not give an input, its judged figures are also simulated with each possible value of the input.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Literal, NamedTuple

from rich.console import Console

from storagelab import _sim, profiles
from storagelab.errors import PreflightError, SpecError
from storagelab.findings.model import Estimate
from storagelab.machine import temporary
from storagelab.model.engines import LARGEST_SCALE
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell, Experiment, Plan, PlannedRun
from storagelab.model.target import Preflight
from storagelab.model.values import Frozen, JsonValue
from storagelab.run import loop, scheduling
from storagelab.run.engine import preflight
from storagelab.run.progress import RunProgress
from storagelab.run.store import Store
from storagelab.spec import matrix, reading
from storagelab.spec.keys import put
from storagelab.stats import intervals
from storagelab.validation.articles import (
    Article,
    Missing,
    OpenInput,
    PublishedFigure,
    RunsOfCell,
    SimulatedFigure,
    needed,
    read_off,
)
from storagelab.volumes.folders import Site

# --- judging ----------------------------------------------------------------------------------------------------------
# Compares simulated figures with published figures: calculates errors, verdicts and summaries. Pure.

Verdict = Literal["within", "outside", "not simulated yet"]


class Row(Frozen):
    """One line of the table.

    `error` is relative to the published value, or to the nearer end of a range. In a range, it is 0. It is None if the
    figure is not simulated, is a level, or has a value near 0.
    """

    article: str
    figure: PublishedFigure
    simulated: Estimate | None = None
    level: JsonValue | None = None
    tied: tuple[JsonValue, ...] = ()
    order: tuple[JsonValue, ...] = ()
    error: float | None = None
    verdict: Verdict
    reason: str = ""
    """The reason why the figure is not simulated."""
    change: float | None = None
    """The change of the simulated figure at the other scale, relative to the published figure as in `error`."""
    scale_matters: bool = False
    """Whether the other scale changes the figure by more than half of its tolerance, or gives another level or order.
    """
    band: tuple[float, float] | None = None
    """The smallest and the largest simulated figure with all possible values of facts that the article does not give.
    """


class Summary(Frozen):
    """A summary of the errors of an article's figures with one use. If `article` is "all", it covers all articles."""

    article: str
    use: str
    figures: int
    simulated: int
    within: int
    median_error: float | None
    worst_error: float | None
    worst: str
    scale_matters: int


def judge(article: Article, figure: PublishedFigure, simulated: SimulatedFigure) -> Row:
    """The row of a figure that was simulated.

    A level is within tolerance if the runs can't distinguish it from the best level. A figure is within a range if its
    interval reaches into the range. The reason is that the model's runs scatter like those of a server. So if two
    levels are equal, chance decides which of them is faster.
    """
    if figure.order is not None:
        right = simulated.order == figure.order
        return Row(article=article.id, figure=figure, order=simulated.order, verdict=_verdict(right))
    if simulated.level is not None:
        right = figure.value in (simulated.level, *simulated.tied)
        return Row(
            article=article.id, figure=figure, level=simulated.level, tied=simulated.tied, verdict=_verdict(right)
        )
    estimate = intervals.mean_estimate(simulated.values)
    error = relative_error(figure, estimate.value)
    if figure.tolerance_absolute is not None and figure.value is not None:
        right = abs(estimate.value - figure.value) <= figure.tolerance_absolute
        return Row(article=article.id, figure=figure, simulated=estimate, verdict=_verdict(right))
    right = abs(error) <= figure.tolerance or _reaches_into(figure.between, estimate)
    return Row(article=article.id, figure=figure, simulated=estimate, error=error, verdict=_verdict(right))


def _reaches_into(between: tuple[float, float] | None, estimate: Estimate) -> bool:
    if between is None or estimate.low is None or estimate.high is None:
        return False
    return estimate.low <= between[1] and between[0] <= estimate.high


def relative_error(figure: PublishedFigure, simulated: float) -> float:
    """The simulated figure divided by the published figure, minus 1. For a range, it is divided by the nearer end, and
    in the range the error is 0.
    """
    if figure.between is not None:
        low, high = figure.between
        nearer = min(max(simulated, low), high)
        return simulated / nearer - 1 if nearer else simulated
    assert figure.value is not None
    return simulated / figure.value - 1 if figure.value else simulated


def missing(article: Article, figure: PublishedFigure, reason: str) -> Row:
    """The row of a figure that could not be simulated."""
    return Row(article=article.id, figure=figure, verdict="not simulated yet", reason=reason)


def _verdict(right: bool) -> Verdict:
    return "within" if right else "outside"


def summaries(rows: Sequence[Row]) -> tuple[Summary, ...]:
    """A summary for each article and use, then a summary of all articles for each use."""
    uses = ("calibration", "judged", "fact")
    names = list(dict.fromkeys(row.article for row in rows))
    found = [
        _summary(name, use, [row for row in rows if name in ("all", row.article) and row.figure.use == use])
        for name, use in itertools.product([*names, *(["all"] if len(names) > 1 else [])], uses)
    ]
    return tuple(summary for summary in found if summary.figures)


def _summary(article: str, use: str, rows: Sequence[Row]) -> Summary:
    # Figures in their range are left out, because their errors of 0 would make the average look small.
    with_error = [row for row in rows if row.error is not None and not (row.figure.between and row.error == 0)]
    errors = {row.figure.id: abs(row.error or 0.0) for row in with_error}
    worst = max(errors, key=lambda name: errors[name], default="")
    return Summary(
        article=article,
        use=use,
        figures=len(rows),
        simulated=sum(row.verdict != "not simulated yet" for row in rows),
        within=sum(row.verdict == "within" for row in rows),
        median_error=statistics.median(errors.values()) if errors else None,
        worst_error=errors[worst] if worst else None,
        worst=worst,
        scale_matters=sum(row.scale_matters for row in rows),
    )


def at_two_scales(row: Row, other: Row) -> Row:
    """The row, with the difference between its figure and the figure at another scale. The row `other` has the second
    figure.
    """
    figure = row.figure
    if row.simulated is None or other.simulated is None:
        levels = (other.level, *other.tied)
        same = row.order == other.order and (row.level is None or bool({row.level, *row.tied} & {*levels}))
        both = "not simulated yet" not in (row.verdict, other.verdict)
        return row.model_copy(update={"scale_matters": both and not same})
    change = other.simulated.value - row.simulated.value
    low, high = figure.between or (figure.value or 0.0, figure.value or 0.0)
    allowed = figure.tolerance_absolute or (figure.tolerance * low if high == low else (high - low) / 2)
    relative = None if figure.tolerance_absolute is not None or not low else change / (high if figure.between else low)
    return row.model_copy(update={"change": relative, "scale_matters": abs(change) > allowed / 2})


def with_band(row: Row, others: Sequence[Row]) -> Row:
    """The row of a judged figure, with the smallest and the largest figure in `others`. `others` has the rows of the
    same figure with other values of open facts.
    """
    found = [one.simulated.value for one in others if one.simulated is not None]
    if row.figure.use != "judged" or len(found) < len(others):
        return row
    return row.model_copy(update={"band": (min(found), max(found))})


# --- making runs ------------------------------------------------------------------------------------------------------


class Request(NamedTuple):
    """How to make the simulations. If `scale` or `repetitions` is None, the value of each spec is used. If `results` is
    None, the results are not kept.
    """

    experiments: Path
    scale: int | None = None
    repetitions: int | None = None
    jobs: int = 1
    results: Path | None = None
    checks: bool = True
    """Whether each figure is also simulated at another scale, and with other values of open inputs."""


class Simulations(Frozen):
    """The facts about the runs of one spec, for the text above the tables."""

    spec: str
    runs: int
    repetitions: int
    scales: tuple[int, ...]
    other_scales: tuple[int, ...] = ()
    """The other scales. The value is empty if the check at another scale is switched off."""
    open_inputs: int = 0
    """How many other combinations of open inputs were also simulated."""
    open_scales: tuple[int, ...] = ()


class ArticlePlan(NamedTuple):
    """The plan for one article. `groups` has the cells of each figure. `absent` says why figures have no cells."""

    article: Article
    experiment: Experiment
    plan: Plan
    groups: dict[str, list[list[Cell]]]
    absent: dict[str, str]
    site: Site
    found: Preflight | None
    other: ArticlePlan | None = None
    """The same plan at another scale."""
    open: tuple[ArticlePlan, ...] = ()
    """The same runs with other values of open inputs, which the article does not give."""

    @property
    def scales(self) -> tuple[int, ...]:
        """The scales of the simulations. A scale says how many times smaller than life-size a simulation is."""
        made = {run.cell_id for run in self.plan.runs}
        return tuple(sorted({cell.config.target.world_scale for cell in self.plan.cells if cell.cell_id in made}))

    @property
    def profiles(self) -> tuple[str, ...]:
        """The names of the drive profiles that the runs use."""
        cells = {cell.cell_id for parts in self.groups.values() for group in parts for cell in group}
        there = (cell for cell in self.plan.cells if cell.cell_id in cells)
        return tuple(dict.fromkeys(drive.profile for cell in there for drive in cell.config.drives.values()))


class ArticleWithoutRuns(NamedTuple):
    """An article that can't be simulated yet."""

    article: Article
    reason: str


def plan(articles: Sequence[Article], asked: Request) -> list[ArticlePlan | ArticleWithoutRuns]:
    """The runs to make. Raises StoragelabError if a spec can't be used."""
    return [_with_checks(_planned(article, asked), asked) for article in articles]


def simulate(
    planned: Sequence[ArticlePlan | ArticleWithoutRuns],
    asked: Request,
    console: Console,
    check: Callable[[], None] = lambda: None,
) -> tuple[list[Row], list[Simulations]]:
    """Makes the runs. Returns a row for every figure, in order, and facts about the runs.

    Progress is shown on `console`. `check` may raise KeyboardInterrupt to stop. If a spec, cell or counter is missing,
    the rows of its figures say so.
    """
    rows, made = [], []
    for one in planned:
        if isinstance(one, ArticleWithoutRuns):
            rows += [missing(one.article, figure, one.reason) for figure in one.article.figures]
            continue
        found = _rows(one, asked, console, check)
        if one.other is not None:
            found = list(map(at_two_scales, found, _rows(one.other, asked, console, check)))
        if one.open:
            others = [_rows(variant, asked, console, check) for variant in one.open]
            found = [with_band(row, counterparts) for row, *counterparts in zip(found, *others, strict=True)]
        rows += found
        if one.plan.runs:
            made.append(
                Simulations(
                    spec=one.article.spec, runs=len(one.plan.runs), repetitions=one.experiment.repetitions,
                    scales=one.scales, other_scales=one.other.scales if one.other else (), open_inputs=len(one.open),
                    open_scales=one.open[0].scales if one.open else (),
                )
            )  # fmt: skip
    return rows, made


def _rows(one: ArticlePlan, asked: Request, console: Console, check: Callable[[], None]) -> list[Row]:
    runs = _runs(one, asked, console, check) if one.plan.runs else {}
    return [_row(one, figure, runs) for figure in one.article.figures]


# --- planning --------------------------------------------------------------------------------------------------------


def _with_checks(one: ArticlePlan | ArticleWithoutRuns, asked: Request) -> ArticlePlan | ArticleWithoutRuns:
    if isinstance(one, ArticleWithoutRuns) or not asked.checks or not one.plan.runs:
        return one
    other = _at_another_scale(one, asked)
    inputs = one.article.open if any(figure.use == "judged" for figure in one.article.figures) else ()
    own = {each.what: each.values[0] for each in inputs}
    chosen = [own] * bool(own) + [own | {each.what: value} for each in inputs for value in each.values[1:]]
    variants = [
        _planned(one.article, asked, resized=SMALLER_IF_OPEN, inputs=[(each, values[each.what]) for each in inputs])
        for values in chosen
    ]
    there = [each for each in (other, *variants) if isinstance(each, ArticlePlan)]
    return one._replace(other=there[0], open=tuple(there[1:]))


def _at_another_scale(one: ArticlePlan, asked: Request) -> ArticlePlan | ArticleWithoutRuns:
    """Returns the plan with simulations of half the size, because they need less time. If half the size is refused, the
    simulations have twice the size.
    """
    try:
        return _planned(one.article, asked, resized=2)
    except PreflightError:
        return _planned(one.article, asked, resized=0.5)


SMALLER_IF_OPEN = 8
"""Simulations with other values of open inputs are this many times smaller, because there are many of them, and a band
need not be exact.
"""


def _planned(
    article: Article, asked: Request, *, resized: float = 1, inputs: Sequence[tuple[OpenInput, JsonValue]] = ()
) -> ArticlePlan | ArticleWithoutRuns:
    """The runs to make for an article, or why there are none. The scale is the spec's scale times `resized`."""
    file = asked.experiments / f"{article.spec}.toml"
    if not asked.experiments.is_dir():
        hint = "Name the folder of the ready-made specs with --experiments."
        raise SpecError("is not a folder", file=asked.experiments, hint=hint)
    if not file.exists():
        return ArticleWithoutRuns(article, f"there is no spec {article.spec} yet")
    experiment = _as_asked(reading.load(file), asked, resized, inputs)
    expanded = matrix.expand(experiment)
    cells = tuple(_at_scale(cell, (asked.scale or cell.config.target.world_scale) * resized) for cell in expanded.cells)
    expanded = expanded.model_copy(update={"cells": cells})
    if not all(cell.config.simulated for cell in expanded.cells):
        return ArticleWithoutRuns(article, f"the spec {article.spec} is not simulated")
    groups, absent = {}, {}
    for figure in article.figures:
        try:
            groups[figure.id] = needed(figure, article.levels_of(figure), expanded.cells)
        except Missing as reason:
            absent[figure.id] = str(reason)
    wanted = {cell.cell_id for parts in groups.values() for group in parts for cell in group}
    trimmed = Plan(cells=expanded.cells, runs=tuple(_up_to_last(expanded, wanted)))
    site = Site(
        experiment=experiment.name, identity=experiment.sha256[:8], spec_folder=file.resolve().parent,
        texts=_changed_profiles(inputs),
    )  # fmt: skip
    found = None
    if trimmed.runs:
        try:
            found = preflight(trimmed, site)
        except PreflightError as error:
            raise error.at(file) from error
        if found.notes:
            raise PreflightError(found.notes[0], key="target.scale", file=file)
    return ArticlePlan(article, experiment, trimmed, groups, absent, site, found)


def _as_asked(
    experiment: Experiment, asked: Request, resized: float, inputs: Sequence[tuple[OpenInput, JsonValue]]
) -> Experiment:
    """The experiment with the requested repetitions and inputs, and a hash of everything that changes its outcome."""
    keys = {one.key: value for one, value in inputs if one.key}
    order = keys.pop("order", experiment.order)
    repetitions = asked.repetitions or experiment.repetitions
    chosen = [[one.what, value] for one, value in inputs]
    words = json.dumps([experiment.canonical, asked.scale, resized, chosen, repetitions, _simulator()], sort_keys=True)
    return experiment.model_copy(update={
        "base": put(experiment.base, keys), "repetitions": repetitions, "order": order,
        "sha256": hashlib.sha256(words.encode()).hexdigest(),
    })  # fmt: skip


def _at_scale(cell: Cell, scale: float) -> Cell:
    """The cell with a simulation that is `scale` times smaller than life-size."""
    target = cell.config.target.model_copy(update={"scale": min(LARGEST_SCALE, max(1, int(scale)))})
    return cell.model_copy(update={"config": cell.config.model_copy(update={"target": target})})


def _changed_profiles(inputs: Sequence[tuple[OpenInput, JsonValue]]) -> dict[str, str] | None:
    """By name: the texts of the ready-made profiles in which a figure has another value. Returns None if there are
    none.
    """
    texts: dict[str, str] = {}
    for one, value in inputs:
        if one.profile:
            text = texts.get(one.profile) or profiles.text_of(one.profile, Path())
            head, found, rest = text.partition(f"[{one.figure}]\nvalue = ")
            assert found, f"{one.profile} has no figure {one.figure}"
            texts[one.profile] = f"{head}{found}{json.dumps(value)}\n{rest.partition(chr(10))[2]}"
    return texts or None


def _simulator() -> str:
    """A hash of the simulator and of the drives' profiles. With it, old results are never taken for results of a new
    model.
    """
    digest = hashlib.sha256(Path(_sim.__file__).read_bytes())
    for name in profiles.ready_made():
        digest.update(resources.files(profiles).joinpath(f"{name}.toml").read_bytes())
    return digest.hexdigest()


def _up_to_last(whole: Plan, wanted: set[str]) -> Iterator[PlannedRun]:
    """The runs of each block until the last run of a wanted cell."""
    for _, block in itertools.groupby(whole.runs, key=lambda run: run.block):
        runs = list(block)
        last = max((at for at, run in enumerate(runs) if run.cell_id in wanted), default=-1)
        yield from runs[: last + 1]


# --- running ---------------------------------------------------------------------------------------------------------


def _runs(
    one: ArticlePlan, asked: Request, console: Console, check: Callable[[], None]
) -> dict[str, list[Measurement]]:
    """The usable runs of each cell, in the order of their repetitions."""
    with _folder(one.experiment, asked.results) as folder, Store.writing(folder, one.experiment) as store:
        attempts = store.attempts()
        pending = scheduling.pending(one.plan, attempts)
        at_once = loop.processes(one.plan, pending, one.found, asked.jobs)
        with RunProgress(one.plan, pending, store.durations(), console, folder, check, at_once=at_once) as progress:
            progress.say(f"article {one.article.id}: {len(pending)} runs to make, {len(attempts)} stored already")
            loop.run_all(one.plan, store, one.site, progress, jobs=at_once)
        found: dict[str, list[Measurement]] = {}
        for run in sorted(store.runs(), key=lambda run: run.repetition):
            if run.usable and run.measurement is not None:
                found.setdefault(run.cell_id, []).append(run.measurement)
        return found


@contextlib.contextmanager
def _folder(experiment: Experiment, results: Path | None) -> Iterator[Path]:
    """The folder for the results of an experiment. Its name contains the experiment's hash, so that results of another
    scale, number of repetitions or model are never mixed with them.
    """
    if results is not None:
        yield results / f"validate-{experiment.name}-{experiment.sha256[:12]}"
        return
    with temporary.folder("validate") as folder:
        yield folder


def _row(one: ArticlePlan, figure: PublishedFigure, runs: dict[str, list[Measurement]]) -> Row:
    if figure.id in one.absent:
        return missing(one.article, figure, one.absent[figure.id])
    groups = [[RunsOfCell(cell, runs.get(cell.cell_id, [])) for cell in group] for group in one.groups[figure.id]]
    try:
        return judge(one.article, figure, read_off(figure, groups))
    except Missing as reason:
        return missing(one.article, figure, str(reason))
