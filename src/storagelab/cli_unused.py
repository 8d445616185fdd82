"""Options that a path of a verb does not use: each is refused before anything is read or touched, by one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import typer
from typer.core import TyperCommand

from storagelab.errors import SpecError

if TYPE_CHECKING:
    from storagelab.model.config import Config

_Function = TypeVar("_Function", bound=Callable[..., Any])
Given = Mapping[str, Any]
"""The values of a verb's arguments and options, given or not."""


class Unused(NamedTuple):
    """On this path, the verb does not use the options: `why`, and the way out."""

    verb: str
    options: str
    path: Callable[[Given], object]
    why: str
    way_out: str


def _is(name: str, *values: object) -> Callable[[Given], bool]:
    return lambda given: given[name] in values


def _has(name: str) -> Callable[[Given], bool]:
    return lambda given: bool(given[name])


def _lacks(name: str) -> Callable[[Given], bool]:
    return lambda given: not given[name]


def _of_capture(given: Given) -> bool:
    from storagelab.capture.folder import is_capture

    return is_capture(Path(given["name"]))


def _of_prediction(given: Given) -> bool:
    from storagelab.predicting.prediction import is_prediction

    return len(given["names"]) == 2 and is_prediction(Path(given["names"][1]))


def _spec(given: Given) -> tuple[str, list[Config]]:
    """The order and the cells of the spec."""
    from storagelab.spec import against, matrix

    experiment = against.load(given["spec_file"], given["against"])
    return experiment.order, [cell.config for cell in matrix.expand(experiment).cells]


def _measures(given: Given, *orders: str) -> bool:
    """Whether the spec has cells that are not simulated, and one of these orders, if there are any."""
    order, configs = _spec(given)
    return not all(config.simulated for config in configs) and (not orders or order in orders)


def _without_volumes(key: str) -> Callable[[Given], bool]:
    """Whether no volume of the spec has the key."""
    return lambda given: not any(getattr(one, key) for config in _spec(given)[1] for one in config.volumes.values())


_CAPTURE = "is not for a capture"
_OF_CAPTURE = "Leave it out: a capture has a page and Markdown (--format md)."
_LEAVE_OUT = "Leave it out."
UNUSED = (
    *(Unused(verb, "--all", _has("as_json"), "is for people", "Leave it out: --json has all.")
      for verb in ("plan", "doctor")),
    Unused("plan", "--pilot", lambda given: _measures(given, "cell-by-cell", "as-listed"),
           "says what can be found, and runs in this order are not judged",
           'Leave it out, or set order = "randomised" in the spec.'),
    Unused("run", "--jobs", lambda given: given["executor"] == "processes" and given["jobs"] > 1 and _measures(given),
           "is for simulated runs, and this spec measures", "Leave it out: measured runs are made one at a time."),
    Unused("run", "--jobs", _has("scheduler"), "is for processes of this machine, and --scheduler names a cluster",
           "Leave one of them out."),
    Unused("run", "--scheduler --trust-network --time-limit", _is("executor", "processes"),
           "is an option of a cluster", "Add --executor dask."),
    Unused("run", "--within --budget", _lacks("find_best"), "is an option of a race", "Add --find-best."),
    Unused("run", "--prepared", _without_volumes("by_hand"), "is for volumes prepared by hand, and this spec has none",
           _LEAVE_OUT),
    Unused("run", "--yes-wipe", _without_volumes("devices"), "is for whole drives, and this spec has none", _LEAVE_OUT),
    Unused("simulate", "--trace", _has("every_io"), "is a part of --every-io", _LEAVE_OUT),
    Unused("report", "--results --fit --chart --embed-data --brief --sql-server-names", _of_capture, _CAPTURE,
           _OF_CAPTURE),
    Unused("report", "--format", lambda given: _of_capture(given) and given["format_"] in ("png", "svg"), _CAPTURE,
           _OF_CAPTURE),
    Unused("report", "--chart", _is("format_", "html", "md"), "is for a picture", "Add --format png or --format svg."),
    Unused("report", "--brief", _is("format_", "md", "png", "svg"), "is for a page",
           "Leave out --format, or write --format html."),
    Unused("report", "--embed-data", _is("format_", "md", "png", "svg"), "is for a page",
           "Leave it out; storagelab export writes all raw data."),
    Unused("report", "--embed-data --sql-server-names", _has("brief"), "is not for the brief page",
           "Leave it or --brief out."),
    Unused("report", "--sql-server-names", _is("format_", "png", "svg"), "is for a page and for Markdown", _LEAVE_OUT),
    Unused("compare", "--fail-if-slower", _of_prediction,
           "judges campaigns and cells, not a prediction: its interval holds the model's errors, not only chance",
           "Leave it out, or compare two campaigns."),
    Unused("compare", "--format", lambda given: given["as_json"] and given["format_"] != "json",
           "is not what --json writes", "Leave one of them out."),
    Unused("export", "--fit", _is("format_", "csv", "waits-csv"), "is for what is found, and this format has runs only",
           "Leave it out, or write --format json or sqlite."),
    Unused("doctor", "--results --all", _has("target"), "is for a look at this machine, and --target tests a server",
           "Leave one of them out."),
    Unused("capture", "--requests", _has("no_trace"), "needs the trace", "Leave --no-trace out."),
    Unused("drives show", "--sources", _has("toml"), "is for the tables", "Leave it out: the file names each source."),
    Unused("k8s", "--class --node --output --image --size --results-class --cpu --memory --namespace --without-rights "
           "--fetch", _has("look"), "is for a Job to be written, and --look reads one", "Leave one of them out."),
    Unused("k8s", "--class --size --results-class --cpu --memory --namespace --without-rights", _has("fetch"),
           "is for the Job, and --fetch writes the pod for its results", "Leave it out."),
    Unused("init", "--output", lambda given: not (given["name"] or given["from_server"] or given["ask"]),
           "is for a spec, and this lists them", "Name one: storagelab init NAME --output FILE."),
)  # fmt: skip


class Verb(TyperCommand):
    """A verb that refuses what it would not use."""

    def invoke(self, ctx: Any) -> Any:
        typed = [one for one in self.params if getattr(ctx.get_parameter_source(one.name), "name", "") == "COMMANDLINE"]
        names = {option for one in typed for option in one.opts}
        verb = ctx.command_path.removeprefix(f"{ctx.find_root().info_name} ")
        for rule in UNUSED:
            for option in rule.options.split():
                if rule.verb == verb and option in names and rule.path(ctx.params):
                    raise SpecError(rule.why, key=option, hint=rule.way_out)
        return super().invoke(ctx)


class Verbs(typer.Typer):
    """A Typer whose commands are such verbs."""

    def command(self, *words: Any, **options: Any) -> Callable[[_Function], _Function]:
        return super().command(*words, **{"cls": Verb, **options})
