"""`storagelab run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import typer
from typer import Option

from storagelab import verbs
from storagelab.verbs import Given, Unused, Verb, lacks, spec_of, when

app = Verb("Measure", 4)


def _measures(given: Given) -> bool:
    here = given["executor"] == "processes" and given["jobs"] > 1
    return here and not all(config.simulated for config in spec_of(given)[1])


def _without_volumes(key: str) -> Callable[[Given], bool]:
    """Returns a test: whether no volume of the spec has the key."""
    return lambda given: not any(getattr(one, key) for config in spec_of(given)[1] for one in config.volumes.values())


UNUSED = (
    Unused("--jobs", _measures, "is for simulated runs, and this spec measures",
           "Leave it out: measured runs are made one at a time."),
    Unused("--jobs", when("scheduler"), "is for processes of this machine, and --scheduler names a cluster",
           "Leave one of them out."),
    Unused("--scheduler --trust-network --time-limit", when("executor", "processes"), "is an option of a cluster",
           "Add --executor dask."),
    Unused("--within --budget", lacks("find_best"), "is an option of a race", "Add --find-best."),
    Unused("--prepared", _without_volumes("by_hand"), "is for volumes prepared by hand, and this spec has none"),
    Unused("--yes-wipe", _without_volumes("devices"), "is for whole drives, and this spec has none"),
)  # fmt: skip


@app.command(unused=UNUSED)
def run(
    spec_file: verbs.SpecArgument,
    results: verbs.ResultsOption = verbs.DEFAULT_RESULTS,
    again: Annotated[bool, Option("--again", help="Repeat failed runs.")] = False,
    jobs: Annotated[
        int | None, Option("--jobs", "-j", min=1, help="Processes for simulated runs. Default: one for each core.")
    ] = None,
    allow_commands: verbs.AllowCommandsOption = False,
    against: verbs.AgainstOption = None,
    despite_space: verbs.DespiteSpaceOption = False,
    yes_wipe: Annotated[
        list[str] | None,
        Option("--yes-wipe", metavar="SERIAL", help="Destroy everything on this drive of the spec. Repeatable."),
    ] = None,
    prepared: Annotated[
        list[str] | None, Option("--prepared", metavar="VOLUME", help="This volume is now ready for the next block.")
    ] = None,
    find_best: Annotated[
        bool, Option("--find-best", help="Make a race: stop repeating layouts that are surely slower.")
    ] = False,
    within: Annotated[
        str | None,
        Option(
            "--within", metavar="3%", help="End the race if a layout is surely at most this much slower than the best."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        Option("--budget", metavar="2h", help="Repeat the layouts still in the race until runs have taken this long."),
    ] = None,
    executor: Annotated[
        Literal["processes", "dask"],
        Option("--executor", help="Where to make runs: on this machine or, if simulated, on a Dask cluster."),
    ] = "processes",
    scheduler: Annotated[
        str | None,
        Option(
            "--scheduler",
            metavar="tls://HOST:8786",
            help="The cluster's scheduler. Default: Dask's setting (DASK_SCHEDULER_ADDRESS), or local processes.",
        ),
    ] = None,
    trust_network: Annotated[
        bool, Option("--trust-network", help="Join a cluster on other machines without TLS.")
    ] = False,
    time_limit: Annotated[
        str | None,
        Option("--time-limit", metavar="10min", help="Longest time of a run on a cluster. Default: estimated."),
    ] = None,
    full: Annotated[bool, Option("--full", help="Also print the evidence.")] = False,
    as_json: verbs.JsonOption = False,
) -> None:
    """Run or continue an experiment, then report what it found.

    The answer goes to the terminal, and the HTML report to the folder of results.
    """
    from storagelab.verbs import _running

    raced, budget_s = _running.race(find_best=find_best, within=within, budget=budget)
    asked = _running.Asked(
        again, jobs, allow_commands, raced, budget_s,
        _running.asked(executor, scheduler, trusted=trust_network, time_limit=time_limit),
        against, despite_space, as_json, full, may_wipe=tuple(yes_wipe or ()), prepared=tuple(prepared or ()),
    )  # fmt: skip
    if not _running.run(spec_file, results, asked):
        raise typer.Exit(1)
