"""The verbs. Prints errors once and owns the exit codes.

0 done, 1 some runs failed, 2 the user's mistake, 130 interrupted.

Data goes to stdout, everything else to stderr. What loads as long as all else together, statistics and what needs them, is
imported by the verbs that need it.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

import storagelab
from storagelab import profiles, screen
from storagelab.errors import PreflightError, SpecError, StoragelabError, StoreError
from storagelab.findings.model import Findings, FitKind
from storagelab.machine import doctor, host
from storagelab.model.config import LARGEST_SCALE
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.options import (
    DEFAULT_RESULTS,
    AllowCommandsOption,
    FitOption,
    NameArgument,
    OutputOption,
    ResultsOption,
    SpecArgument,
)
from storagelab.report import writing
from storagelab.report.text import terminal
from storagelab.report.text.abilities import print_abilities
from storagelab.report.text.plan_facts import PlanFacts, VolumeFacts
from storagelab.report.text.profiles import print_profile, print_profiles, print_sizing
from storagelab.report.text.promises import print_promises
from storagelab.run import dealing, loop, stored
from storagelab.run.estimate import estimate
from storagelab.run.progress import LOG_FILE, RunProgress
from storagelab.run.store import FILE_NAME, NothingStored, Store, StoreChanged
from storagelab.spec import matrix, reading
from storagelab.stopping import Interruptible
from storagelab.targets import Preflight, Site, contract, preflight, server_abilities, sweep, try_starting
from storagelab.targets.simulated.sizing import sizing

app = typer.Typer(
    help="Which storage layout is fastest for this database, by how much, and why?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# --- verbs -----------------------------------------------------------------------------------------------------------


@app.command()
def plan(
    spec_file: SpecArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    all_: Annotated[bool, typer.Option("--all", help="List all cells, and every run in its order.")] = False,
    allow_commands: AllowCommandsOption = False,
) -> None:
    """Show what a spec would do: cells, runs, order, disk space, time. Touches nothing."""
    experiment = reading.load(spec_file)
    expanded = matrix.expand(experiment)
    folder = results / experiment.name
    found = _look(experiment, expanded, _site(experiment, folder), allow_commands)
    terminal.print_plan(screen.out(), experiment, expanded, _plan_facts(expanded, found, folder, experiment), all_)


@app.command()
def run(
    spec_file: SpecArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    again: Annotated[bool, typer.Option("--again", help="Make runs that failed once more.")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes for simulated runs; default: all cores.")
    ] = None,
    allow_commands: AllowCommandsOption = False,
) -> None:
    """Run an experiment, or go on with it; then print the findings and write the report."""
    experiment = reading.load(spec_file)
    expanded = matrix.expand(experiment)
    folder = results / experiment.name
    site = _site(experiment, folder)
    found = _look(experiment, expanded, site, allow_commands)
    _try_starting(experiment, expanded, site, folder, again)
    try:
        with Store.writing(folder, experiment) as store:
            stored.of_plan(
                folder / FILE_NAME, expanded, store.runs()
            )  # a damaged store is refused before runs are made
            _run_pending(expanded, store, site, found, again, jobs or host.usable_cpus())
            runs = stored.of_plan(folder / FILE_NAME, expanded, store.runs())
            failed = any(status == "failed" for _, status in store.attempts().values())
    except StoreChanged as error:
        changes = reading.differences(error.stored.canonical, experiment.canonical)
        raise StoreChanged(error.file, error.stored, changes) from None
    _conclude(experiment, expanded, runs, folder)
    if failed:
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
        typer.Option("--embed-data", help="html: with all raw data in the page, even if it is over 3 MB with them."),
    ] = False,
) -> None:
    """Write the report again from what is stored.

    html is a file, md, csv and json go to stdout, png and svg are the charts, one file each.
    """
    folder, experiment, expanded, runs, findings = _stored(name, results, fit)
    if format_ in ("png", "svg"):
        files = writing.write_charts(output or folder / "charts", format_, findings, runs)
        for file in files:
            screen.say(str(file), stdout=True)
    elif format_ == "html" and output is None:
        file = writing.write_report(folder, experiment, expanded, runs, findings, embed_data=embed_data)
        screen.say(str(file), stdout=True)
    else:
        _write(writing.render(format_, experiment, expanded, runs, findings, embed_data=embed_data), output)


@app.command()
def waits(
    name: NameArgument,
    cells: Annotated[list[str] | None, typer.Argument(metavar="CELL", help="Cell ids; default: all.")] = None,
    results: ResultsOption = DEFAULT_RESULTS,
    uncut: Annotated[bool, typer.Option("--uncut", help="All waits, not only the top 95 %.")] = False,
) -> None:
    """Print the wait tables of cells."""
    _, _, _, _, findings = _stored(name, results)
    known = [cell.cell_id for cell in findings.cells]
    for cell_id in cells or []:
        if cell_id not in known:
            raise SpecError(f"there is no cell {cell_id!r}", key="CELL", hint=f"cells: {', '.join(known)}")
    terminal.print_waits(screen.out(), findings, cells or known, uncut)


@app.command()
def export(
    name: NameArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    format_: Annotated[Literal["json", "csv", "waits-csv"], typer.Option("--format", help="What to write.")] = "json",
    output: OutputOption = None,
    fit: FitOption = "robust",
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Of a damaged store: the runs that can still be read.")
    ] = False,
) -> None:
    """Everything that is stored, for other programs: runs with uncut waits as json (schema 1), or as csv."""
    _, experiment, expanded, runs, findings = (_salvaged if salvage else _stored)(name, results, fit)
    _write(writing.render(format_, experiment, expanded, runs, findings), output)


@app.command("doctor")
def doctor_(
    spec_file: Annotated[Path | None, typer.Argument(metavar="SPEC", help="Look at its volumes, too.")] = None,
    results: ResultsOption = DEFAULT_RESULTS,
    target: Annotated[
        str | None, typer.Option("--target", metavar="DSN", help="Try the contract suite on a running server instead.")
    ] = None,
) -> None:
    """Say what this machine can and can't measure, and how to mend it.

    With --target, a DSN or the name of a variable that holds one: try all that storagelab promises on that server.
    """
    if target is not None:
        _verify(target, spec_file)
        return
    volumes: dict[str, Path] = {}
    if spec_file is not None:
        experiment = reading.load(spec_file)
        site = _site(experiment, results / experiment.name)
        for cell in matrix.expand(experiment).cells:
            volumes.update(site.volume_paths(cell.config))
    print_abilities(screen.out(), (*server_abilities(), *doctor.abilities(volumes, results)))


def _verify(target: str, spec_file: Path | None) -> None:
    """On the volumes of the spec's first cell, if there is one. Exit code 1 if a promise is broken."""
    volumes = matrix.expand(reading.load(spec_file)).cells[0].config.volumes if spec_file is not None else None
    folder = spec_file.resolve().parent if spec_file is not None else None
    with Interruptible():
        promises = contract.verify(contract.target_of(target), volumes, screen.say, spec_folder=folder)
    print_promises(screen.out(), promises)
    if any(promise.state == "fail" for promise in promises):
        raise typer.Exit(1)


@app.command()
def validate(
    format_: Annotated[
        Literal["md", "csv", "json"] | None, typer.Option("--format", help="What to print; default: tables.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Put the tables, as md, into this document, too.")
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
        Path | None, typer.Option("--results", help="Keep the runs in this folder, and go on from there.")
    ] = None,
    experiments: Annotated[
        Path | None, typer.Option("--experiments", metavar="FOLDER", help="The ready-made specs.")
    ] = None,
) -> None:
    """Simulate what was published, and print published | simulated | error for every figure.

    Misses are in the table, and no reason to fail.
    """
    from storagelab.validation import making, table
    from storagelab.validation.articles import articles
    from storagelab.validation.parameters import parameters

    chosen = articles(only or ())
    asked = making.Asked(experiments or _ready_made_specs(), scale, repetitions, jobs or host.usable_cpus(), results)
    before = table.existing(write) if write is not None else None
    planned = making.plan(chosen, asked)
    # Looked up before the runs: they may take long, and what is shown must be what was simulated.
    model = parameters([name for one in planned if isinstance(one, making.Planned) for name in one.profiles])
    with Interruptible() as stopping:
        rows, simulations = making.simulate(planned, asked, screen.err(), stopping.check)
    found = table.Validation(articles=chosen, simulations=tuple(simulations), rows=tuple(rows), parameters=model)
    if format_ is None:
        table.print_validation(screen.out(), found)
    else:
        _write(table.render(format_, found), None)
    if write is not None:
        _write(table.document(before, found), write)


profiles_app = typer.Typer(
    help="Profiles of drives for simulations.", invoke_without_command=True, rich_markup_mode=None
)
app.add_typer(profiles_app, name="profiles")


@profiles_app.callback()
def profiles_(context: typer.Context) -> None:
    """List the profiles of drives that come with storagelab."""
    if context.invoked_subcommand is None:
        print_profiles(screen.out(), [profiles.load(name, Path()) for name in profiles.ready_made()])


@profiles_app.command("show")
def show_profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A profile's name, or its file.")],
    toml: Annotated[bool, typer.Option("--toml", help="Its file as it is, to begin one of your own with.")] = False,
) -> None:
    """Print every figure of a profile with its label and its source; and its room, speed, cost and need of host memory."""
    if toml:
        _write(profiles.text_of(name, Path()), None)
        return
    profile = profiles.load(name, Path())
    offered = sizing(profile)  # first, as it may be refused
    print_profile(screen.out(), profile)
    print_sizing(screen.out(), offered)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    if version:
        screen.say(f"storagelab {storagelab.__version__}", stdout=True)
        raise typer.Exit


def _ready_made_specs() -> Path:
    """The folder `experiments` here, else that of the checkout which storagelab runs from."""
    here = Path("experiments")
    return here if here.is_dir() else Path(storagelab.__file__).resolve().parents[2] / here


# --- steps -----------------------------------------------------------------------------------------------------------


def _site(experiment: Experiment, folder: Path) -> Site:
    identity = hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:8]
    spec_folder = Path(os.path.realpath(experiment.source)).parent
    return Site(experiment=experiment.name, identity=identity, spec_folder=spec_folder)


def _look(experiment: Experiment, expanded: Plan, site: Site, allow_commands: bool) -> Preflight:
    try:
        return preflight(experiment, expanded, site, allow_commands=allow_commands)
    except PreflightError as error:
        raise error.of(experiment.source) from error


def _try_starting(experiment: Experiment, expanded: Plan, site: Site, folder: Path, again: bool) -> None:
    """If there are runs to make: a server that does not start is refused before anything is stored."""
    attempts: dict[tuple[str, int], tuple[int, str]] = {}
    with contextlib.suppress(NothingStored), Store.reading(folder) as store:
        attempts = store.attempts() if store.experiment().sha256 == experiment.sha256 else {}
    if not dealing.pending(expanded, attempts, again=again):
        return
    with Interruptible() as stopping:
        try:
            try_starting(expanded, site)
        except PreflightError as error:
            stopping.check()  # a server that is stopped as it starts does not come up, either
            raise error.of(experiment.source) from error
        stopping.check()


def _plan_facts(expanded: Plan, found: Preflight, folder: Path, experiment: Experiment) -> PlanFacts:
    attempts: dict[tuple[str, int], tuple[int, str]] = {}
    durations: list[tuple[str, float]] = []
    warnings = list(found.notes)
    try:
        with Store.reading(folder) as store:
            if store.experiment().sha256 == experiment.sha256:
                attempts, durations = store.attempts(), store.durations()
            elif store.would_be_set_aside(experiment):
                warnings.append(f"{folder} holds only failed runs, of another spec; `run` would move them aside")
            else:
                warnings.append(f"{folder} holds results of another spec under this name; `run` would refuse")
    except NothingStored:
        pass  # the plan is for all runs
    except StoreError as error:
        warnings.append(f"{str(error).splitlines()[0].removesuffix(':')}; `run` would refuse")
    pending = dealing.pending(expanded, attempts)
    time = estimate(expanded, pending, durations)
    basis = f"learned from {time.learned_from} finished runs" if time.learned_from else "a guess before the first run"
    return PlanFacts(
        server=found.server,
        volumes=tuple(VolumeFacts(**need.model_dump()) for need in found.volumes),
        estimate_s=time.seconds,
        estimate_basis=basis,
        runs_stored=len(expanded.runs) - len(pending),
        warnings=tuple(warnings),
        durability=found.durability,
    )


def _run_pending(expanded: Plan, store: Store, site: Site, found: Preflight, again: bool, jobs: int) -> int:
    """Make the runs that are left; how many failed."""
    attempts = store.attempts()
    pending = dealing.pending(expanded, attempts, again=again)
    at_once = loop.processes(expanded, pending, found, jobs)
    console = screen.err()
    if store.set_aside is not None:
        console.print(
            f"the spec has changed and no run of the old one succeeded: those are kept in {store.set_aside}",
            soft_wrap=True,
        )
    for line in sweep(expanded, site):
        console.print(line, soft_wrap=True)
    with (
        Interruptible() as stopping,
        RunProgress(
            expanded, pending, store.durations(), console, store.folder, stopping.check, at_once=at_once
        ) as progress,
    ):
        before = len(expanded.runs) - len(pending)
        progress.say(f"{found.server}")
        progress.say(
            f"{len(pending)} runs to make, {before} stored already; log: {store.folder / LOG_FILE}"
            if before
            else f"{len(pending)} runs to make; log: {store.folder / LOG_FILE}"
        )
        if at_once < loop.processes(expanded, pending, None, jobs):
            progress.say(f"{at_once} at a time, not {jobs}: more would not fit into this machine's memory")
        try:
            loop.run_all(expanded, store, site, progress, again=again, jobs=at_once)
        except BaseException as error:
            # Whatever goes wrong once it was asked to stop comes of stopping amid something.
            if not (stopping.asked or isinstance(error, KeyboardInterrupt)):
                raise
            progress.say(
                f"interrupted: {before + progress.done} of {len(expanded.runs)} runs are stored; run again to go on"
            )
            raise KeyboardInterrupt from error
        return progress.failed


def _conclude(experiment: Experiment, expanded: Plan, runs: tuple[Run, ...], folder: Path) -> None:
    findings = _judged(experiment, expanded, runs)
    terminal.print_findings(screen.out(), findings)
    file = writing.write_report(folder, experiment, expanded, runs, findings)
    screen.say(f"report: {file}")


def _stored(
    name: str, results: Path, fit: FitKind = "robust"
) -> tuple[Path, Experiment, Plan, tuple[Run, ...], Findings]:
    folder, experiment, expanded, runs = stored.read(name, results)
    return folder, experiment, expanded, runs, _judged(experiment, expanded, runs, fit)


def _salvaged(
    name: str, results: Path, fit: FitKind = "robust"
) -> tuple[Path, Experiment, Plan, tuple[Run, ...], Findings]:
    """As `_stored`, of what is left of a damaged store; says what is lost."""
    (folder, experiment, expanded, runs), lost = stored.salvage(name, results)
    screen.say(f"{len(runs)} runs can be read of the {len(expanded.runs)} that the spec asks for")
    for one in lost:
        screen.say(f"lost: {one}")
    return folder, experiment, expanded, runs, _judged(experiment, expanded, runs, fit)


def _judged(experiment: Experiment, expanded: Plan, runs: tuple[Run, ...], fit: FitKind = "robust") -> Findings:
    from storagelab.findings import analysis

    return analysis.analyse(experiment, expanded, runs, fit)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        screen.write(text)
    else:
        writing.write_atomically(output, text)
        screen.say(f"written: {output}")


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
