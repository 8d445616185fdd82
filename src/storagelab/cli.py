"""The command line: all verbs with their options. It prints each error once and sets the exit code: 0 done, 1 some runs
failed (`compare`: too slow), 2 the user's mistake, 3 `compare` can't tell, 4 `run` waits for a person, 130 interrupted.

Data goes to stdout, everything else to stderr. The code behind a verb is loaded when the verb is used, so no verb waits
for the libraries of another.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from storagelab import cli_capture, cli_offered, screen
from storagelab.cli_offered import DEFAULT_RESULTS, OutputOption, ResultsOption
from storagelab.cli_unused import Verbs
from storagelab.errors import StoragelabError
from storagelab.findings import FitKind
from storagelab.model.engines import LARGEST_SCALE
from storagelab.stopping import INTERRUPTED, Interruptible
from storagelab.version import __version__

_PANELS = {
    "Measure": ("demo", "init", "plan", "run", "gather", "k8s"),
    "Read": ("report", "waits", "compare", "export", "schema"),
    "Predict": ("capture", "predict"),
    "Simulate": ("simulate", "validate"),
    "This machine": ("doctor", "drives", "volumes"),
}
"""The verbs in the order of `--help`."""


class _Verbs(TyperGroup):
    """The verbs, in groups. A wrong value of an option is told in plain words."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is click's
        return [verb for verbs in _PANELS.values() for verb in verbs]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel, verbs in _PANELS.items():
            with formatter.section(panel):
                known = [(verb, self.get_command(ctx, verb)) for verb in verbs]
                formatter.write_dl([(verb, command.get_short_help_str(72)) for verb, command in known if command])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader has had enough (`| head`); Python shall not flush into the closed pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(128 + signal.SIGPIPE)  # as if it had ended by that signal: 1 would be a gate's answer
        except typer.BadParameter as error:
            error.message = error.message.replace("Value error, ", "")
            if error.message.startswith("'pdf' "):
                error.message += " For a PDF, print the page (html) in a browser; --brief is made for one sheet."
            raise


app = Verbs(
    cls=_Verbs,
    help="Which storage layout is fastest for this database, by how much, and why?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# --- what several verbs take ------------------------------------------------------------------------------------------

SpecArgument = Annotated[Path, typer.Argument(metavar="SPEC", help="TOML file of the experiment.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the experiment, or its spec file.")]
FitOption = Annotated[
    FitKind,
    typer.Option(
        "--fit",
        help="robust: leave out odd runs that the machine caused, count others in their cells; "
        "least-squares: count all.",
    ),
]
AllowCommandsOption = Annotated[
    bool,
    typer.Option("--allow-commands", help="Allow server settings that run programs, load code or use other folders."),
]
AgainstOption = Annotated[
    Path | None,
    typer.Option("--against", metavar="SPEC", help="A second spec, run in turns with the first: like with like."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead, of a stable form.")]
DespiteSpaceOption = Annotated[
    bool, typer.Option("--despite-space", help="Go on although a volume may lack space; a run that fills it fails.")
]
SqlServerNamesOption = Annotated[
    bool, typer.Option("--sql-server-names", help="Name, beside each wait, the one of SQL Server that comes closest.")
]

# --- verbs -----------------------------------------------------------------------------------------------------------


@app.command("plan")
def plan_(
    spec_file: SpecArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    against: AgainstOption = None,
    all_: Annotated[bool, typer.Option("--all", help="Add reasons, ways out, each cell and each run.")] = False,
    allow_commands: AllowCommandsOption = False,
    despite_space: DespiteSpaceOption = False,
    pilot: Annotated[
        str | None,
        typer.Option(
            "--pilot",
            metavar="NAME",
            help="Say how small a difference can be found, judging by this experiment's runs.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what to decide before the runs, and their number and time.

    Nothing is run or changed.
    """
    from storagelab.verbs import plan

    plan.show(
        spec_file, results, every_run=all_, allow_commands=allow_commands, despite_space=despite_space, pilot=pilot,
        second=against, as_json=as_json,
    )  # fmt: skip


@app.command("run")
def run_(
    spec_file: SpecArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    again: Annotated[bool, typer.Option("--again", help="Repeat failed runs.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="Processes for simulated runs; default: one for each core."),
    ] = None,
    allow_commands: AllowCommandsOption = False,
    against: AgainstOption = None,
    despite_space: DespiteSpaceOption = False,
    yes_wipe: Annotated[
        list[str] | None,
        typer.Option("--yes-wipe", metavar="SERIAL", help="Destroy everything on this drive of the spec; repeatable."),
    ] = None,
    prepared: Annotated[
        list[str] | None,
        typer.Option("--prepared", metavar="VOLUME", help="It is prepared by hand for the next block."),
    ] = None,
    find_best: Annotated[
        bool, typer.Option("--find-best", help="A race: stop repeating layouts that are surely slower.")
    ] = False,
    within: Annotated[
        str | None,
        typer.Option(
            "--within", metavar="3%", help="End the race when one is surely at most this much slower than the fastest."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", metavar="2h", help="Repeat the layouts still in the race until runs have taken this long."
        ),
    ] = None,
    executor: Annotated[
        Literal["processes", "dask"],
        typer.Option("--executor", help="Who makes the runs: this machine, or for simulated runs a Dask cluster."),
    ] = "processes",
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="tls://HOST:8786",
            help="The cluster's scheduler; default: Dask's setting (DASK_SCHEDULER_ADDRESS), or local processes.",
        ),
    ] = None,
    trust_network: Annotated[
        bool, typer.Option("--trust-network", help="Join a cluster beyond this machine without TLS.")
    ] = False,
    time_limit: Annotated[
        str | None,
        typer.Option(
            "--time-limit", metavar="10min", help="A run on a cluster that takes longer hangs; default: estimated."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print the evidence, too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run or continue an experiment, then report what it found.

    The answer goes to the terminal, the HTML report into the folder of results.
    """
    from storagelab.verbs import run

    cluster = run.asked(executor, scheduler, trusted=trust_network, time_limit=time_limit)
    raced, budget_s = run.race(find_best=find_best, within=within, budget=budget)
    asked = run.Asked(
        again,
        jobs,
        allow_commands,
        raced,
        budget_s,
        cluster,
        against,
        despite_space,
        as_json,
        full,
        may_wipe=tuple(yes_wipe or ()),
        prepared=tuple(prepared or ()),
    )
    if not run.run(spec_file, results, asked):
        raise typer.Exit(1)


@app.command("simulate")
def simulate_(
    spec_file: SpecArgument,
    cell: Annotated[
        str | None,
        typer.Option("--cell", metavar="ID", help="The cell to run, as `plan --all` names it; default: the first."),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print the scenario with all defaults, and the whole outcome, as JSON.")
    ] = False,
    every_io: Annotated[bool, typer.Option("--every-io", help="The same, with each I/O of the run.")] = False,
) -> None:
    """Simulate one run; show what went in and came out.

    The run is made on drives as its block begins. Nothing is stored.
    """
    from storagelab.verbs import simulate

    simulate.simulate(spec_file, cell, trace=trace, every_io=every_io)


@app.command("report")
def report_(
    name: NameArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    format_: Annotated[
        Literal["html", "md", "text", "png", "svg"], typer.Option("--format", help="Format of the report.")
    ] = "html",
    output: OutputOption = None,
    fit: FitOption = "robust",
    chart: Annotated[
        str, typer.Option("--chart", metavar="CHART", help="png, svg: this chart alone, such as cells.")
    ] = "",
    embed_data: Annotated[bool, typer.Option("--embed-data", help="html: include raw data of any size.")] = False,
    brief: Annotated[bool, typer.Option("--brief", help="html: the answer alone, on one printed sheet.")] = False,
    limit: Annotated[str, typer.Option(metavar="LIMIT", help='Draw a limit: "10ms", or a rate: "900/s".')] = "",
    sql_server_names: SqlServerNamesOption = False,
) -> None:
    """Write the report of an experiment from its stored runs.

    html writes one file; png and svg write one file for each chart, or one chart alone; md and text go to stdout. For a
    PDF, print the page. Data for other programs: storagelab export.
    """
    from storagelab.verbs import results as verbs

    how = verbs.Asked(embed_data=embed_data, brief=brief, sql_server_names=sql_server_names, limit=limit)
    verbs.report(name, results, format_, output, fit, chart=chart, asked=how)


@app.command("waits")
def waits_(
    name: NameArgument,
    cells: Annotated[
        list[str] | None,
        typer.Argument(metavar="CELL", help='Cells by id (c07) or by levels ("data_files=4,log=b"); default: all.'),
    ] = None,
    results: ResultsOption = DEFAULT_RESULTS,
    uncut: Annotated[bool, typer.Option("--uncut", help="Show all waits, not only the top 95 %.")] = False,
    sql_server_names: SqlServerNamesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the wait statistics of each cell."""
    from storagelab.verbs import results as verbs

    verbs.waits(name, cells or (), results, uncut=uncut, sql_server_names=sql_server_names, as_json=as_json)


@app.command("compare")
def compare_(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Two or more campaigns, by name, spec or folder; or one campaign and two of its cells.",
        ),
    ],
    results: ResultsOption = DEFAULT_RESULTS,
    format_: Annotated[Literal["text", "md", "html", "json"], typer.Option("--format", help="What to write.")] = "text",
    output: OutputOption = None,
    fit: FitOption = "robust",
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            "--fail-if-slower",
            metavar="SHARE",
            help="Exit with 1 if a later campaign is surely slower than the first by more than this (5%), with "
            "3 if the runs can't tell.",
        ),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Compare the last campaign with all before it, five and more of one spec.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare campaigns, or two cells of one, and gate a script.

    Campaigns: `compare A B`, such as before and after an upgrade. Cells of one: `compare NAME CELL CELL`.

    A cell is named by its id (c07) or by levels ("data_files=4,driver=2.2.3").
    """
    from storagelab.verbs import compare

    asked = compare.Asked(results, "json" if as_json else format_, output, fit, fail_if_slower, history)
    if result := compare.show(names, asked):
        raise typer.Exit(int(result))


@app.command("gather")
def gather_(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER...", help="Results of one spec, made on one host each: db1/my db2/my db3/my."),
    ],
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Make one campaign of several hosts' campaigns of one spec.

    Its verdict is for hosts like these: layouts are compared within each host.
    """
    from storagelab.verbs import run

    run.gather(folders, results, as_json=as_json)


@app.command("export")
def export_(
    name: NameArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    format_: Annotated[
        Literal["json", "csv", "waits-csv", "sqlite"], typer.Option("--format", help="Format of the data.")
    ] = "json",
    output: OutputOption = None,
    fit: FitOption = "robust",
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Export what is still readable in a damaged store.")
    ] = False,
) -> None:
    """Write all stored data for other programs: JSON, CSV, SQLite.

    json follows schema 2 and holds every run with all its waits; csv has a line for each run, waits-csv one for each
    wait; sqlite writes a file with tables of runs, waits, series and cells.
    """
    from storagelab.verbs import results as verbs

    verbs.export(name, results, format_, output, fit, salvage=salvage)


@app.command("doctor")
def doctor_(
    spec_file: Annotated[
        Path | None, typer.Argument(metavar="SPEC", help="Also check the volumes of this spec.")
    ] = None,
    results: ResultsOption = DEFAULT_RESULTS,
    target: Annotated[
        str | None, typer.Option("--target", metavar="DSN", help="Test this running server instead.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Add what was found of each ability that works.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what this machine can't measure, and how to fix it.

    --target takes a DSN, or the name of an environment variable that holds one, and tests everything that storagelab
    promises on that server.
    """
    from storagelab.verbs import doctor

    if target is None:
        doctor.look(spec_file, results, whole=all_, as_json=as_json)
    elif not doctor.verify(target, spec_file, as_json=as_json):
        raise typer.Exit(1)


@app.command("validate")
def validate_(
    format_: Annotated[
        Literal["md", "csv", "json"] | None,
        typer.Option("--format", help="Format of the tables; default: for the terminal."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Also write the tables, as md, into this file.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ID", help="Article (A) or figure (A1) to check; default: all."),
    ] = None,
    scale: Annotated[
        int,
        typer.Option(
            "--scale", min=1, max=LARGEST_SCALE, help="Simulate a world this many times smaller than life-size."
        ),
    ] = 64,
    repetitions: Annotated[
        int | None, typer.Option("--repetitions", min=1, help="Runs of each cell; default: as in each spec.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes; default: one for each core.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option("--results", help="Folder to keep the runs in, and to continue from.")
    ] = None,
    experiments: Annotated[
        Path | None, typer.Option("--experiments", metavar="FOLDER", help="Folder of the ready-made specs.")
    ] = None,
) -> None:
    """Compare the simulator with published figures.

    The table shows each figure as published and as simulated, with the error. A miss doesn't change the exit code.
    """
    from storagelab.verbs.validate import validate

    validate(
        only or (), format_, write, scale=scale, repetitions=repetitions, jobs=jobs, results=results,
        experiments=experiments,
    )  # fmt: skip


for verbs in (cli_offered, cli_capture):
    verbs.add_to(app)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        _say_version()
        raise typer.Exit


def _say_version() -> None:
    screen.say(f"storagelab {__version__}", stdout=True)


def main() -> None:
    """Run the command line. No other place turns errors into messages and exit codes."""
    stopping = Interruptible()
    try:
        with stopping:
            if sys.argv[1:] == ["--version"]:
                _say_version()  # avoids loading the libraries that read options, which take most of the time
            else:
                app(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - it is told or raised again
        # Any error after a request to stop follows from stopping in the middle of something, such as a library's
        # loading.
        if stopping.asked:
            sys.exit(INTERRUPTED)
        _fail(error)


def _has_folder() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _fail(error: Exception) -> None:
    """Prints the message of an error that is not our bug, and exits with its code; raises any other error again."""
    match error:
        case StoragelabError():
            screen.say(f"storagelab: {error}")
            sys.exit(error.exit_code)
        case OSError() if not _has_folder():
            screen.say("storagelab: the working folder is gone: go to one that exists (cd)")
            sys.exit(StoragelabError.exit_code)
        case MemoryError() | ImportError() if isinstance(error, MemoryError) or "map segment" in str(error):
            screen.say(
                "storagelab: memory ran out: end other programs, or lift limits (ulimit -v, those of the container)"
            )
            sys.exit(StoragelabError.exit_code)
        case OSError():
            screen.say(f"storagelab: {error.filename or 'input/output'}: {error.strerror or error}")
            sys.exit(StoragelabError.exit_code)
        case _:
            raise error


if __name__ == "__main__":
    main()
