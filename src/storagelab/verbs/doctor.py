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


def look(spec_file: Path | None, results: Path, *, as_json: bool = False) -> None:
    """Shows what this machine can measure, on the volumes of a spec if there is one."""
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
        print_abilities(screen.out(), abilities)


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

_STATES = {"yes": ("yes   ", "green"), "partly": ("partly", "yellow"), "no": ("no    ", "red")}
_OUTCOMES = {"pass": ("pass", "green"), "fail": ("FAIL", "red"), "open": ("open", "yellow")}


def print_abilities(console: Console, abilities: Sequence[Ability]) -> None:
    """Print a line for each ability; below a missing one, how to fix it."""
    for ability in abilities:
        mark, style = _STATES[ability.state]
        console.print(Text.assemble((mark, style), "  ", (ability.name, "bold")), soft_wrap=True)
        if ability.detail:
            print_paragraph(console, ability.detail, first="        ")
        if ability.mend:
            print_paragraph(console, f"to fix it: {ability.mend}", first="        ")


def print_promises(console: Console, promises: Sequence[Promise]) -> None:
    """Print a line for each promise, with the evidence below it, and a count at the end."""
    for promise in promises:
        mark, style = _OUTCOMES[promise.state]
        console.print(Text.assemble((mark, style), "  ", (promise.name, "bold")), soft_wrap=True)
        for line in masked(promise.detail).splitlines():
            print_paragraph(console, line.strip(), first="      ")
    counts = {state: sum(promise.state == state for promise in promises) for state in _OUTCOMES}
    console.print(f"{counts['pass']} kept, {counts['fail']} broken, {counts['open']} open", highlight=False)
