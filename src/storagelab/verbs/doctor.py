"""`storagelab doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from storagelab import screen
from storagelab.verbs import DEFAULT_RESULTS, JsonOption, ResultsOption, Unused, Verb, when

app = Verb("This machine", 1)
UNUSED = (
    Unused("--all", when("as_json"), "is for people", "Leave it out: --json has all."),
    Unused("--results --all", when("target"), "is for a look at this machine, and --target tests a server",
           "Leave one of them out."),
)  # fmt: skip


@app.command(unused=UNUSED)
def doctor(
    spec_file: Annotated[Path | None, Argument(metavar="SPEC", help="Also check this machine for this spec.")] = None,
    results: ResultsOption = DEFAULT_RESULTS,
    target: Annotated[str | None, Option("--target", metavar="DSN", help="Test this running server instead.")] = None,
    all_: Annotated[bool, Option("--all", help="Also show the evidence for each ability that works.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what this machine can't measure, and how to fix it.

    --target takes a DSN, or the name of an environment variable that holds one. It tests on that server everything that
    storagelab promises.
    """
    from storagelab.machine.doctor import Ability
    from storagelab.machine.doctor import abilities as abilities_of
    from storagelab.report.text.as_data import doctor_json
    from storagelab.report.text.terminal import print_abilities
    from storagelab.run.engine import lacks, server_abilities
    from storagelab.spec import matrix, reading
    from storagelab.verbs._planning import site_of

    if target is not None:
        if not _verify(target, spec_file, as_json=as_json):
            raise typer.Exit(1)
        return
    volumes: dict[str, Path] = {}
    lacking: tuple[Ability, ...] = ()
    if spec_file is not None:
        experiment = reading.load(spec_file)
        plan, site = matrix.expand(experiment), site_of(experiment, results / experiment.name)
        lacking = lacks(plan, site)
        for cell in plan.cells:
            volumes.update(site.volume_paths(cell.config))
    abilities = (*lacking, *server_abilities(), *abilities_of(volumes, results))
    if as_json:
        screen.write(doctor_json("abilities", abilities))
    else:
        print_abilities(screen.out(), abilities, all_)


def _verify(target: str, spec_file: Path | None, *, as_json: bool) -> bool:
    """Tests whether a running server keeps all promises. If a spec is given, uses the volumes of its first cell.
    Returns whether no promise failed.
    """
    from storagelab.report.text.as_data import doctor_json
    from storagelab.report.text.terminal import print_promises
    from storagelab.run import contract
    from storagelab.spec import matrix, reading
    from storagelab.stopping import Interruptible

    volumes = matrix.expand(reading.load(spec_file)).cells[0].config.volumes if spec_file is not None else None
    folder = spec_file.resolve().parent if spec_file is not None else None
    with Interruptible():
        promises = contract.verify(contract.target_of(target), volumes, screen.say, spec_folder=folder)
    if as_json:
        screen.write(doctor_json("promises", promises))
    else:
        print_promises(screen.out(), promises)
    return all(promise.state != "fail" for promise in promises)
