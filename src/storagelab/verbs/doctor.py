"""`storagelab doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from storagelab import screen
from storagelab.machine import doctor
from storagelab.machine.doctor import Ability
from storagelab.model.promises import Promise
from storagelab.report.text.as_data import doctor_json, promises_json
from storagelab.report.text.columns import print_paragraph
from storagelab.report.words.secrets import masked
from storagelab.run import contract
from storagelab.run.engine import server_abilities
from storagelab.spec import matrix, reading
from storagelab.stopping import Interruptible
from storagelab.verbs.planning import site_of


def look(spec_file: Path | None, results: Path, *, whole: bool = False, as_json: bool = False) -> None:
    """Shows what this machine can't and can measure, on the volumes of a spec if there is one."""
    volumes: dict[str, Path] = {}
    if spec_file is not None:
        experiment = reading.load(spec_file)
        site = site_of(experiment, results / experiment.name)
        for cell in matrix.expand(experiment).cells:
            volumes.update(site.volume_paths(cell.config))
    abilities = (*server_abilities(), *doctor.abilities(volumes, results))
    if as_json:
        screen.write(doctor_json(abilities))
    else:
        print_abilities(screen.out(), abilities, whole)


def verify(target: str, spec_file: Path | None, *, as_json: bool = False) -> bool:
    """Whether a running server keeps all promises, on the volumes of the spec's first cell if there is one."""
    volumes = matrix.expand(reading.load(spec_file)).cells[0].config.volumes if spec_file is not None else None
    folder = spec_file.resolve().parent if spec_file is not None else None
    with Interruptible():
        promises = contract.verify(contract.target_of(target), volumes, screen.say, spec_folder=folder)
    if as_json:
        screen.write(promises_json(promises))
    else:
        print_promises(screen.out(), promises)
    return all(promise.state != "fail" for promise in promises)


# --- what the doctor found, and the promises that a server kept, on a terminal ----------------------------------------

_STATES = {"no": ("no    ", "red"), "partly": ("partly", "yellow"), "yes": ("yes   ", "green")}
_OUTCOMES = {"pass": ("pass", "green"), "fail": ("FAIL", "red"), "open": ("open", "yellow")}


def print_abilities(console: Console, abilities: Sequence[Ability], whole: bool = False) -> None:
    """Print a paragraph for each ability that is missing or partly there, with how to fix it; then the names of those
    that work, or with `whole` a paragraph for each of them too; then how many there are of each, and what follows.
    """
    of = {state: [one for one in abilities if one.state == state] for state in _STATES}
    for one in (*of["no"], *of["partly"], *(of["yes"] if whole else ())):
        mark, style = _STATES[one.state]
        console.print(Text.assemble((mark, style), "  ", (one.name, "bold")), soft_wrap=True)
        print_paragraph(console, one.detail, first="        ")
        print_paragraph(console, one.mend and f"to fix it: {one.mend}", first="        ")
    if not whole:
        print_paragraph(console, "; ".join(one.name for one in of["yes"]), first="yes     ")
    verdict = "what needs none of those that lack can be measured" if of["no"] else "all of it can be measured"
    print_paragraph(console, f"{len(of['yes'])} work, {len(of['partly'])} partly, {len(of['no'])} lack: {verdict}")


def print_promises(console: Console, promises: Sequence[Promise]) -> None:
    """Print a line for each promise, with the evidence below it, and a count at the end."""
    for promise in promises:
        mark, style = _OUTCOMES[promise.state]
        console.print(Text.assemble((mark, style), "  ", (promise.name, "bold")), soft_wrap=True)
        for line in masked(promise.detail).splitlines():
            print_paragraph(console, line.strip(), first="      ")
    counts = {state: sum(promise.state == state for promise in promises) for state in _OUTCOMES}
    console.print(f"{counts['pass']} kept, {counts['fail']} broken, {counts['open']} open", highlight=False)
