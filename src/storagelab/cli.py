"""The command line: its verbs with their options. It prints errors once and owns the exit codes.

0 done, 1 some runs failed, 2 the user's mistake, 130 interrupted.

Data goes to stdout, everything else to stderr. What a verb does is loaded when it is typed, so that none waits for another's
libraries.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

import storagelab
from storagelab import screen
from storagelab.errors import StoragelabError
from storagelab.model.engines import LARGEST_SCALE
from storagelab.options import (
    DEFAULT_RESULTS,
    AllowCommandsOption,
    FitOption,
    NameArgument,
    OutputOption,
    ResultsOption,
    SpecArgument,
)
from storagelab.stopping import Interruptible

app = typer.Typer(
    help="Which storage layout is fastest for this database, by how much, and why?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# --- verbs -----------------------------------------------------------------------------------------------------------


@app.command("plan")
def plan_(
    spec_file: SpecArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    all_: Annotated[bool, typer.Option("--all", help="List all cells, and every run in its order.")] = False,
    allow_commands: AllowCommandsOption = False,
    pilot: Annotated[
        str | None,
        typer.Option(
            "--pilot", metavar="NAME", help="Say how small a difference can be told, from this experiment's runs."
        ),
    ] = None,
) -> None:
    """Show what a spec would do: cells, runs, order, disk space, time. Touches nothing."""
    from storagelab.verbs import plan

    plan.show(spec_file, results, every_run=all_, allow_commands=allow_commands, pilot=pilot)


@app.command("run")
def run_(
    spec_file: SpecArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    again: Annotated[bool, typer.Option("--again", help="Make failed runs once more.")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes for simulated runs; default: all cores.")
    ] = None,
    allow_commands: AllowCommandsOption = False,
    find_best: Annotated[
        bool, typer.Option("--find-best", help="A race: layouts that are surely slower are not repeated any more.")
    ] = False,
    within: Annotated[
        str | None,
        typer.Option(
            "--within", metavar="3%", help="End the race when one is at most this much slower than the fastest."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", metavar="2h", help="Repeat the layouts still in the race until so much time is spent on runs."
        ),
    ] = None,
) -> None:
    """Run an experiment, or continue it; then print the findings and write the report."""
    from storagelab.verbs import race, run

    raced, budget_s = race.asked(find_best=find_best, within=within, budget=budget)
    if not run.run(
        spec_file, results, again=again, jobs=jobs, allow_commands=allow_commands, race=raced, budget_s=budget_s
    ):
        raise typer.Exit(1)


@app.command("report")
def report_(
    name: NameArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    format_: Annotated[
        Literal["html", "md", "csv", "json", "png", "svg"], typer.Option("--format", help="What to write.")
    ] = "html",
    output: OutputOption = None,
    fit: FitOption = "robust",
    embed_data: Annotated[
        bool,
        typer.Option(
            "--embed-data", help="html: put all raw data into the page, even if that makes it larger than 3 MB."
        ),
    ] = False,
) -> None:
    """Write the report again from what is stored.

    html is a file, md, csv and json go to stdout, png and svg are the charts, one file each.
    """
    from storagelab.verbs import results as verbs

    verbs.report(name, results, format_, output, fit, embed_data=embed_data)


@app.command("waits")
def waits_(
    name: NameArgument,
    cells: Annotated[list[str] | None, typer.Argument(metavar="CELL", help="Cell ids; default: all.")] = None,
    results: ResultsOption = DEFAULT_RESULTS,
    uncut: Annotated[bool, typer.Option("--uncut", help="All waits, not only the top 95 %.")] = False,
) -> None:
    """Print the wait tables of cells."""
    from storagelab.verbs import results as verbs

    verbs.waits(name, cells or (), results, uncut=uncut)


@app.command("export")
def export_(
    name: NameArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    format_: Annotated[Literal["json", "csv", "waits-csv"], typer.Option("--format", help="What to write.")] = "json",
    output: OutputOption = None,
    fit: FitOption = "robust",
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Export what can still be read from a damaged store.")
    ] = False,
) -> None:
    """Write everything that is stored, for other programs: runs with uncut waits as json (schema 1), or as csv."""
    from storagelab.verbs import results as verbs

    verbs.export(name, results, format_, output, fit, salvage=salvage)


@app.command("doctor")
def doctor_(
    spec_file: Annotated[
        Path | None, typer.Argument(metavar="SPEC", help="Also look at the volumes of this spec.")
    ] = None,
    results: ResultsOption = DEFAULT_RESULTS,
    target: Annotated[
        str | None, typer.Option("--target", metavar="DSN", help="Try all promises on this running server instead.")
    ] = None,
) -> None:
    """Say what this machine can and can't measure, and how to mend it.

    With --target, a DSN or the name of a variable that holds one: try all that storagelab promises on that server.
    """
    from storagelab.verbs import doctor

    if target is None:
        doctor.look(spec_file, results)
    elif not doctor.verify(target, spec_file):
        raise typer.Exit(1)


@app.command("validate")
def validate_(
    format_: Annotated[
        Literal["md", "csv", "json"] | None, typer.Option("--format", help="What to print; default: tables.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Also write the tables, as md, into this document.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID", help="Articles (A) or figures (A1); default: all.")
    ] = None,
    scale: Annotated[
        int, typer.Option("--scale", min=1, max=LARGEST_SCALE, help="How many times smaller the world is.")
    ] = 64,
    repetitions: Annotated[
        int | None, typer.Option("--repetitions", min=1, help="Runs of a cell; default: as each spec says.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; default: all cores.")] = None,
    results: Annotated[
        Path | None, typer.Option("--results", help="Keep the runs in this folder, and continue from there.")
    ] = None,
    experiments: Annotated[
        Path | None, typer.Option("--experiments", metavar="FOLDER", help="The ready-made specs.")
    ] = None,
) -> None:
    """Simulate what was published, and print published | simulated | error for every figure.

    Misses are in the table, and no reason to fail.
    """
    from storagelab.verbs.validate import validate

    validate(
        only or (), format_, write, scale=scale, repetitions=repetitions, jobs=jobs, results=results,
        experiments=experiments,
    )  # fmt: skip


profiles_app = typer.Typer(
    help="Profiles of drives for simulations.", invoke_without_command=True, rich_markup_mode=None
)
app.add_typer(profiles_app, name="profiles")


@profiles_app.callback()
def profiles_(context: typer.Context) -> None:
    """List the profiles of drives that come with storagelab."""
    if context.invoked_subcommand is None:
        from storagelab.verbs import profiles

        profiles.list_all()


@profiles_app.command("show")
def show_profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A profile's name, or its file.")],
    toml: Annotated[bool, typer.Option("--toml", help="Print the file itself, to start your own from.")] = False,
) -> None:
    """Print every figure of a profile with label and source; then its capacity, speed, cost and need of host memory."""
    from storagelab.verbs import profiles

    (profiles.show_file if toml else profiles.show)(name)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    if version:
        screen.say(f"storagelab {storagelab.__version__}", stdout=True)
        raise typer.Exit


def main() -> None:
    """Run the command line; the only place that turns errors into messages and exit codes."""
    # What is read from a store is a large tree without cycles: to look for cycles in it so often takes a fifth of a report.
    gc.set_threshold(200_000, 50, 50)
    try:
        with Interruptible():
            app(standalone_mode=True)
    except StoragelabError as error:
        screen.say(f"storagelab: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader has had enough (`| head`): no error. Keep Python from flushing into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        screen.say(f"storagelab: {error.filename or 'input/output'}: {error.strerror or error}")
        sys.exit(2)


if __name__ == "__main__":
    main()
