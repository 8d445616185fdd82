"""Fits parameters of the simulated server and its drives to published figures, in minutes.

    .venv/bin/python tools/fit_model.py                              one candidate: the parameters as they are
    .venv/bin/python tools/fit_model.py --list                       what may be varied, with bounds
    .venv/bin/python tools/fit_model.py --vary row_cpu_ns --vary '*.program_ns=600000:1200000' --minutes 5
    .venv/bin/python tools/fit_model.py --set server.switches.pick_tries=2 --set pfs_hold_ns=4000
    ... --write                                                      put the best values where the parameters stand

Name a parameter by its path or by the end of its path, with wildcards if needed: `drives.ssd.timing.program_ns`,
`program_ns`. Only parameters labelled fitted or assumed can be written. They are labelled fitted from then on. Bounds
given here (=LOW:HIGH) are for exploration.

For every candidate, all runs of a block up to the last one needed are made in order, because drives keep their history.
Every candidate has the same seeds. Each line shows simulated / published for every figure in the fit: 1 is right, 2 is
twice too much. The cost is the mean of rho(z), with z = ln(ratio) / tolerance and rho(z) = 2 (sqrt(1 + z^2) - 1). So
large errors count less than their squares.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import fnmatch
import functools
import json
import math
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from fit_writing import write
from scipy import optimize

from storagelab import _sim
from storagelab.engines.simulated.measurement import measurement
from storagelab.engines.simulated.scenario import scenario
from storagelab.errors import StoragelabError
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell, PlannedBlock, PlannedRun
from storagelab.spec import matrix, reading
from storagelab.spec.keys import dotted
from storagelab.validation import making
from storagelab.validation.articles import (
    Levels,
    Missing,
    PublishedFigure,
    RunsOfCell,
    articles,
    needed,
    read_off,
    spans,
)

ROOT = Path(__file__).resolve().parents[1]
WRONG = 10.0
"""The z of a figure whose run failed."""


@dataclass(frozen=True)
class Block:
    runs: tuple[PlannedRun, ...]
    content: dict[str, Any]


@dataclass(frozen=True)
class Setup:
    """All that a process needs to evaluate candidates."""

    cells: dict[str, Cell]
    blocks: tuple[Block, ...]
    fitted: tuple[tuple[PublishedFigure, Levels], ...]
    watched: tuple[tuple[PublishedFigure, Levels], ...]


@dataclass
class Parameter:
    """A parameter that can be varied. `path` leads to its figure in the scenario. `low` and `high` are the bounds of
    the search."""

    name: str
    path: tuple[str, ...]
    figure: Mapping[str, Any]
    low: float = 0.0
    high: float = 0.0

    @property
    def logarithmic(self) -> bool:
        return self.low > 0 and self.high / self.low >= 20

    def value(self, share: float) -> int:
        """Returns the value at a position between the bounds. At `share` 0 it is the lower bound, at 1 the upper
        one."""
        share = min(1.0, max(0.0, share))
        if self.logarithmic:
            return round(self.low * (self.high / self.low) ** share)
        return round(self.low + share * (self.high - self.low))

    def share(self, value: float) -> float:
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


# --- the runs --------------------------------------------------------------------------------------------------------


def set_up(arguments: argparse.Namespace) -> Setup:
    """Prepares the spec's blocks with the runs that the figures in the fit need."""
    experiment = reading.load(arguments.spec)
    base = {**experiment.base, "target": {**experiment.base["target"], "scale": arguments.scale}}
    update = {"repetitions": arguments.repetitions, "seed": arguments.seed, "base": base}
    plan = matrix.expand(experiment.model_copy(update=update))
    cells = {cell.cell_id: cell for cell in plan.cells}
    fitted, watched = [], []
    for article in articles(arguments.figures or []):
        for figure in article.figures if article.spec == arguments.spec.stem else ():
            (fitted if figure.use == "calibration" else watched).append((figure, article.levels_of(figure)))
    wanted = {cell.cell_id for figure, levels in fitted for cell in _cells_of(figure, levels, plan.cells)}
    blocks = []
    for number in sorted({run.block for run in plan.runs if run.cell_id in wanted}):
        runs = [run for run in plan.runs if run.block == number]
        last = max(at for at, run in enumerate(runs) if run.cell_id in wanted)
        blocks.append(tuple(runs[: last + 1]))
    made = {run.cell_id for runs in blocks for run in runs}
    watched = [
        (figure, levels)
        for figure, levels in watched
        if {cell.cell_id for cell in _cells_of(figure, levels, plan.cells)} <= made
    ]
    folder = arguments.spec.resolve().parent
    content = tuple(Block(runs, dict(scenario(_planned(runs, cells), folder))) for runs in blocks)
    inside = {
        name: cell for name, cell in cells.items() if name in made
    }  # in the plan's order, because levels are compared in it
    return Setup(inside, content, tuple(fitted), tuple(watched))


def _planned(runs: tuple[PlannedRun, ...], cells: Mapping[str, Cell]) -> PlannedBlock:
    """Returns a block with only the cells of these runs. Its drives are formatted as for the first of these cells."""
    return PlannedBlock(runs, {run.cell_id: cells[run.cell_id] for run in runs})


def _cells_of(figure: PublishedFigure, levels: Levels, cells: Sequence[Cell]) -> list[Cell]:
    return [cell for group in needed(figure, levels, cells) for cell in group]


def figures_of(content: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yields the path and the content of each labelled figure in a scenario."""
    if isinstance(content, dict):
        if "label" in content and "value" in content:
            yield path, content
            return
        for name, inside in content.items():
            yield from figures_of(inside, (*path, name))


def parameters_of(setup: Setup) -> dict[str, Parameter]:
    """Returns all figures of the server and the drives, by their path without `profile`."""
    found = {}
    for block in setup.blocks:
        for path, figure in figures_of(block.content):
            name = dotted([part for part in path if part != "profile"])
            found.setdefault(name, Parameter(name, path, figure))
    return found


def picked(pattern: str, known: Mapping[str, Parameter]) -> list[Parameter]:
    wanted = [form.replace('"', "") for form in (pattern, f"*.{pattern}")]
    found = [
        one for name, one in known.items() if any(fnmatch.fnmatchcase(name.replace('"', ""), each) for each in wanted)
    ]
    if not found:
        sys.exit(f"no parameter is called {pattern!r}; --list shows all names")
    return found


def varied(patterns: Sequence[str], known: Mapping[str, Parameter]) -> list[Parameter]:
    chosen = {}
    for pattern in patterns:
        name, _, bounds = pattern.partition("=")
        for parameter in picked(name, known):
            try:
                low, high = map(float, bounds.split(":")) if bounds else parameter.figure["bounds"]
            except (TypeError, ValueError, KeyError):
                sys.exit(f"{parameter.name} has no bounds: set them with --vary '{parameter.name}=LOW:HIGH'")
            chosen[parameter.name] = Parameter(parameter.name, parameter.path, parameter.figure, low, high)
    return list(chosen.values())


def put(content: dict[str, Any], path: Sequence[str], value: object) -> None:
    """Sets the value at `path` if the path exists. It may be missing, because blocks may have different drives."""
    for part in path[:-1]:
        if part not in content:
            return
        content = content[part]
    content[path[-1]] = value


def fixed(words: Sequence[str], known: Mapping[str, Parameter]) -> list[tuple[tuple[str, ...], Any]]:
    """Returns the settings of --set. A switch of the server is found by its path, any other parameter by its name."""
    settings = []
    for word in words:
        name, _, text = word.partition("=")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if name.startswith("server.switches."):
            settings.append((tuple(name.split(".")), value))
        else:
            settings += [((*parameter.path, "value"), value) for parameter in picked(name, known)]
    return settings


# --- one candidate ---------------------------------------------------------------------------------------------------

Settings = Sequence[tuple[tuple[str, ...], Any]]
_setup: Setup | None = None


def begin(setup: Setup) -> None:
    global _setup
    _setup = setup


def begin_worker(setup: Setup) -> None:
    begin(setup)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def side_by_side(setup: Setup, jobs: int) -> Iterator[Callable[[Sequence[Settings]], Iterator[dict[str, Any]]]]:
    """Yields a function that evaluates candidates in this many processes. With one job, it evaluates them in this
    process."""
    if jobs <= 1:
        begin(setup)
        yield lambda candidates: map(evaluate, candidates)
        return
    workers = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), begin_worker, (setup,))
    try:
        yield lambda candidates: workers.map(evaluate, candidates)
    finally:
        workers.shutdown(cancel_futures=True)


def evaluate(settings: Settings) -> dict[str, Any]:
    """Returns the value of each figure by its id: a number, a level or an order. If there is none, it is a text that
    says why."""
    assert _setup is not None
    runs: dict[str, list[Measurement]] = {}
    for block in _setup.blocks:
        content = copy.deepcopy(block.content)
        for path, value in settings:
            put(content, path, value)
        try:
            world = _sim.Block(json.dumps(content))
            for planned in block.runs:
                outcome = json.loads(world.run_next() or "{}")
                cell = _setup.cells[planned.cell_id]
                if outcome["failure"] is None:
                    runs.setdefault(planned.cell_id, []).append(measurement(outcome, cell, {}))
        except (_sim.Refused, RuntimeError) as error:
            return {"": str(error)}
    return {figure.id: _read(figure, levels, runs) for figure, levels in (*_setup.fitted, *_setup.watched)}


def _read(figure: PublishedFigure, levels: Levels, runs: Mapping[str, list[Measurement]]) -> Any:
    assert _setup is not None
    try:
        groups = needed(figure, levels, list(_setup.cells.values()))
        made = read_off(figure, [[RunsOfCell(cell, runs.get(cell.cell_id, [])) for cell in group] for group in groups])
    except Missing as missing:
        return str(missing)
    if made.values:
        return sum(made.values) / len(made.values)
    return list(made.order) if made.order else made.level


def residuals(setup: Setup, values: Mapping[str, Any]) -> np.ndarray:
    """Returns the z of each figure in the fit."""
    found = []
    for figure, _ in setup.fitted:
        value = values.get(figure.id)
        if not isinstance(value, float | int):
            found.append(WRONG)
            continue
        ratio = max(1e-3, 1 + making.relative_error(figure, value))
        found.append(math.log(ratio) / (figure.tolerance or 0.1))
    return np.array(found)


def cost_of(z: np.ndarray) -> float:
    return float(np.mean(2 * (np.sqrt(1 + z**2) - 1)))


# --- the search ------------------------------------------------------------------------------------------------------


class OutOfTime(Exception):
    pass


@dataclass
class Search:
    setup: Setup
    parameters: list[Parameter]
    settings: Settings
    made_of: Callable[[Sequence[Settings]], Iterator[dict[str, Any]]]
    ends: float
    seen: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)
    best: tuple[float, tuple[int, ...]] = (math.inf, ())
    best_values: Mapping[str, Any] = field(default_factory=dict)
    made: int = 0

    def at(self, points: Sequence[Sequence[float]]) -> list[np.ndarray]:
        """Returns the residuals at points of the unit cube. Points are evaluated at the same time. Known points are not
        run again."""
        keys = [tuple(p.value(x) for p, x in zip(self.parameters, point, strict=True)) for point in points]
        new = [key for key in dict.fromkeys(keys) if key not in self.seen]
        if new and time.monotonic() > self.ends:
            raise OutOfTime
        tasks = [(*self.settings, *self._settings(key)) for key in new]
        for key, values in zip(new, self.made_of(tasks), strict=True):
            self.seen[key] = residuals(self.setup, values)
            self._tell(key, values)
        return [self.seen[key] for key in keys]

    def _settings(self, key: tuple[int, ...]) -> Settings:
        return [((*p.path, "value"), value) for p, value in zip(self.parameters, key, strict=True)]

    def _tell(self, key: tuple[int, ...], values: Mapping[str, Any]) -> None:
        self.made += 1
        cost = cost_of(self.seen[key])
        mark = " *" if cost < self.best[0] else ""
        if mark:
            self.best, self.best_values = (cost, key), values
        words = " ".join(f"{p.name.rpartition('.')[2]}={value}" for p, value in zip(self.parameters, key, strict=True))
        left = max(0.0, self.ends - time.monotonic())
        time_left = f"({left:.0f} s left)" if math.isfinite(left) else ""
        print(f"#{self.made} cost {cost:.3f}{mark}  {words}  {time_left}\n    {ratios(self.setup, values)}")
        sys.stdout.flush()

    def least_squares(self) -> None:
        """Searches by least squares with finite differences. It starts from the best point so far, with smaller and
        smaller steps."""
        for stride in (0.08, 0.04, 0.02, 0.01):
            start = np.clip([p.share(v) for p, v in zip(self.parameters, self.best[1], strict=True)], 1e-3, 1 - 1e-3)
            optimize.least_squares(
                lambda point: self.at([point])[0], start, functools.partial(self._slopes, stride=stride),
                bounds=(0, 1), loss="soft_l1", xtol=stride / 4, ftol=1e-3, max_nfev=12,
            )  # fmt: skip

    def _slopes(self, point: np.ndarray, stride: float) -> np.ndarray:
        steps = [stride if x + stride <= 1 else -stride for x in point]
        beside = [[x + step * (i == j) for j, x in enumerate(point)] for i, step in enumerate(steps)]
        here, *there = self.at([point, *beside])
        return np.array([(z - here) / step for z, step in zip(there, steps, strict=True)]).T

    def evolution(self, seed: int) -> None:
        """Searches the whole space within the bounds. This is slow, but does not stop at a local minimum."""
        start = [p.share(v) for p, v in zip(self.parameters, self.best[1], strict=True)]
        optimize.differential_evolution(
            lambda point: cost_of(self.at([point])[0]), [(0.0, 1.0)] * len(start), x0=start, rng=seed,
            popsize=max(2, 12 // len(start)), polish=False, updating="deferred",
            workers=lambda _, points: [cost_of(z) for z in self.at(list(points))],
        )  # fmt: skip


# --- output ----------------------------------------------------------------------------------------------------------


def ratios(setup: Setup, values: Mapping[str, Any]) -> str:
    if "" in values:
        return f"failed: {values['']}"
    return " ".join(f"{figure.id} {_ratio(figure, values.get(figure.id))}" for figure, _ in setup.fitted)


def _ratio(figure: PublishedFigure, value: Any) -> str:
    return f"{1 + making.relative_error(figure, value):.2f}" if isinstance(value, float | int) else "-"


def print_table(setup: Setup, values: Mapping[str, Any]) -> None:
    print(f"\n{'':5} {'published':>16} {'simulated':>16} {'ratio':>6}  figure")
    for use, rows in (("fitted on", setup.fitted), ("watched", setup.watched)):
        print(f"{use}:")
        for figure, _ in rows:
            published = figure.value if figure.value is not None else figure.between or figure.order
            simulated = values.get(figure.id, values.get("", ""))
            has_ratio = figure.order is None and isinstance(simulated, float)
            ratio = _ratio(figure, simulated) if has_ratio else ""
            print(f"{figure.id:5} {_shown(published):>16} {_shown(simulated):>16} {ratio:>6}  {figure.what}")


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return " ".join(_shown(each) for each in value)
    if isinstance(value, float) and value and abs(value) < 0.01:
        return f"{value:.3g}"
    return (
        f"{value:,.4g}"
        if isinstance(value, float) and abs(value) < 1000
        else str(value)
        if isinstance(value, str)
        else f"{value:,.0f}"
    )


# --- the command line ------------------------------------------------------------------------------------------------


def arguments_of(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vary", action="append", default=[], metavar="NAME[=LOW:HIGH]", help="search this parameter")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="set a parameter's value")
    parser.add_argument(
        "--figures", action="append", metavar="ID", help="fit only these figures; default: all figures of the spec"
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to search")
    parser.add_argument("--method", choices=("least-squares", "evolution"), default="least-squares")
    parser.add_argument("--jobs", type=int, default=2, help="how many candidates to evaluate at the same time")
    parser.add_argument("--spec", type=Path, default=ROOT / "experiments/multiple-data-files.toml")
    parser.add_argument("--scale", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="show the parameters and do nothing")
    parser.add_argument("--write", action="store_true", help="write the best values into the profiles")
    return parser.parse_args(words)


def list_parameters(known: Mapping[str, Parameter]) -> None:
    for name, parameter in known.items():
        figure = parameter.figure
        bounds = figure.get("bounds")
        words = f"{bounds[0]:_} to {bounds[1]:_}" if bounds else ""
        print(f"{name:48} {figure['value']!s:>15}  {figure['label']:9} {words}")


def main(words: Sequence[str]) -> None:
    arguments = arguments_of(words)
    try:
        setup = set_up(arguments)
    except (StoragelabError, Missing) as error:
        sys.exit(f"fit_model: {error}")
    known = parameters_of(setup)
    if arguments.list:
        list_parameters(known)
        return
    parameters = varied(arguments.vary, known)
    settings = fixed(arguments.set, known)
    with side_by_side(setup, arguments.jobs if parameters else 1) as made:
        search = Search(setup, parameters, settings, made, math.inf)
        search.at([[p.share(p.figure["value"]) for p in parameters]])
        search.ends = time.monotonic() + 60 * arguments.minutes
        try:
            if parameters:
                search.least_squares() if arguments.method == "least-squares" else search.evolution(arguments.seed)
        except (OutOfTime, KeyboardInterrupt):
            print("stopped: " + ("out of time" if time.monotonic() > search.ends else "interrupted"))
    print_table(setup, search.best_values)
    rows = spans(figure.id for figure, _ in setup.fitted)
    print(f"\ncost {search.best[0]:.3f} after {search.made} candidates, fitted on {' '.join(rows)}")
    for parameter, value in zip(parameters, search.best[1], strict=True):
        print(
            f"{parameter.name} = {value}   # was {parameter.figure['value']}, within "
            f"{parameter.low:g} to {parameter.high:g}"
        )
    if arguments.write and parameters:
        write(setup.blocks[0].content["drives"], parameters, search.best[1], rows)


if __name__ == "__main__":
    main(sys.argv[1:])
