"""The verbs of the command line. `verbs/NAME.py` defines the options and the code of `storagelab NAME` in an `app`.
`cli` finds the verb by the name of this file.

A verb's file imports little at its top. A function that needs a slow library imports it itself, so that `--help` and
errors in the options appear at once. A file whose name begins with "_" is not a verb. It has code that several verbs
share, and is imported when one of them runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

import typer
from typer import Argument, Option
from typer.core import TyperCommand

from storagelab.errors import SpecError
from storagelab.findings import FitKind

if TYPE_CHECKING:
    from storagelab.model.config import Config

Panel = Literal["Measure", "Read", "Predict", "Simulate", "This machine"]
"""The groups of verbs, in the order of `--help`."""
_Function = TypeVar("_Function", bound=Callable[..., Any])

# --- options that several verbs have ----------------------------------------------------------------------------------

DEFAULT_RESULTS = Path("results")
SpecArgument = Annotated[Path, Argument(metavar="SPEC", help="TOML file of the experiment.")]
NameArgument = Annotated[str, Argument(metavar="NAME", help="Name of the experiment, or its spec file.")]
ResultsOption = Annotated[
    Path,
    Option(
        "--results",
        envvar="STORAGELAB_RESULTS",
        help="Folder that holds the results, one subfolder for each experiment.",
    ),
]
OutputOption = Annotated[
    Path | None, Option("--output", "-o", help="File to write, or - for stdout. For all charts, a folder.")
]
FileOption = Annotated[Path | None, Option("--output", "-o", help="File to write, or - for stdout.")]
PaperOption = Annotated[Literal["text", "md", "html", "json"], Option("--format", help="Format of the output.")]
FitOption = Annotated[
    FitKind,
    Option(
        "--fit",
        help="robust: leave out odd runs that the machine caused, and count all others. least-squares: count all runs.",
    ),
]
AllowCommandsOption = Annotated[
    bool, Option("--allow-commands", help="Allow server settings that run programs, load code or use other folders.")
]
AgainstOption = Annotated[
    Path | None, Option("--against", metavar="SPEC", help="A second spec, whose runs alternate with the first's.")
]
JsonOption = Annotated[bool, Option("--json", help="Print JSON for programs. Its form is stable.")]
DespiteSpaceOption = Annotated[
    bool, Option("--despite-space", help="Continue although a volume may lack space. A run that fills it fails.")
]
SqlServerNamesOption = Annotated[
    bool, Option("--sql-server-names", help="Add to each wait the name of SQL Server's closest wait.")
]

# --- options that a verb does not use together with others ------------------------------------------------------------

Given = Mapping[str, Any]
"""The values of a verb's arguments and options, including defaults."""
LEAVE_OUT = "Leave it out."


class Unused(NamedTuple):
    """Options that the verb does not use in a certain case. In this case, the verb refuses them before it reads or
    changes anything. `why` gives the reason, and `way_out` a solution.
    """

    options: str
    path: Callable[[Given], object]
    why: str
    way_out: str = LEAVE_OUT


def when(name: str, *values: object) -> Callable[[Given], bool]:
    """Returns a test: whether an argument or option has one of `values`. Without `values`, whether it is given
    at all.
    """
    return lambda given: given[name] in values if values else bool(given[name])


def lacks(name: str) -> Callable[[Given], bool]:
    return lambda given: not given[name]


def spec_of(given: Given) -> tuple[str, list[Config]]:
    """Returns the order of the spec, and the configurations of its cells."""
    from storagelab.spec import matrix, reading

    experiment = reading.load(given["spec_file"], given["against"])
    return experiment.order, [cell.config for cell in matrix.expand(experiment).cells]


def amount(parse: Callable[[str], float], text: str, key: str, hint: str, least: float = 0) -> float:
    """Converts an option's text with a unit to a number. Raises SpecError if the number is not above 0, or is below
    `least`.
    """
    try:
        found = parse(text)
    except ValueError as error:
        raise SpecError(str(error), key=key, hint=hint) from None
    if not 0 < found < math.inf or found < least:
        raise SpecError(f"must be at least {least:g}" if least else "must be above 0", key=key, hint=hint)
    return found


# --- a verb -----------------------------------------------------------------------------------------------------------


_WRITTEN = ("output", "write", "spec")
"""The options that name files and folders to be written."""


class _Command(TyperCommand):
    """A verb that refuses three kinds of options: those that it would not use, output to a folder that doesn't exist,
    and output that would replace the input or measured data.
    """

    def invoke(self, ctx: Any) -> Any:
        typed = [one for one in self.params if getattr(ctx.get_parameter_source(one.name), "name", "") == "COMMANDLINE"]
        names = {option for one in typed for option in one.opts}
        for rule in unused_of(self):
            for option in rule.options.split():
                if option in names and rule.path(ctx.params):
                    raise SpecError(rule.why, key=option, hint=rule.way_out)
        for name in _WRITTEN:
            folder = file.parent if isinstance(file := ctx.params.get(name), Path) else Path()
            if not folder.is_dir():
                problem = f"{folder} is no folder" if folder.exists() else f"the folder {folder} doesn't exist"
                raise SpecError(problem, key=f"--{name}", hint=f"Correct the name, or make it: mkdir -p {folder}")
        written = ctx.params.get("output")
        # A value such as a format is not a path, even if there is a file of that name.
        files = [ctx.params[one.name] for one in self.params if one.name != "output"]
        if isinstance(written, Path):
            is_read = any(isinstance(file, Path) and file.resolve() == written.resolve() for file in files)
            of_capture = written.suffix not in (".html", ".md") and (written.resolve().parent / "io.csv").exists()
            if is_read or (written.is_file() and (written.suffix == ".sqlite" or of_capture)):
                raise SpecError(f"would replace {written}", key="--output", hint="Name another file.")
        return super().invoke(ctx)


def unused_of(command: Any) -> Sequence[Unused]:
    """Returns the rules of a command. They are an attribute of the command's function."""
    return getattr(command.callback, "unused", ())


class Verb(typer.Typer):
    """A verb, with its group and its position in `--help`."""

    def __init__(self, panel: Panel, place: int, **options: Any) -> None:
        super().__init__(rich_markup_mode=None, add_completion=False, **options)
        self.panel: Panel = panel
        self.place = place

    def command(
        self, name: str | None = None, *, unused: Sequence[Unused] = (), **options: Any
    ) -> Callable[[_Function], _Function]:
        def register(function: _Function) -> _Function:
            function.unused = unused  # type: ignore[attr-defined]
            return super(Verb, self).command(name, **{"cls": _Command, **options})(function)

        return register
