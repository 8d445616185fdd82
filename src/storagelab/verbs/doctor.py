"""`storagelab doctor`."""

from __future__ import annotations

from pathlib import Path

from storagelab import screen
from storagelab.machine import doctor
from storagelab.report.text.as_data import doctor_json, promises_json
from storagelab.report.text.doctor import print_abilities, print_promises
from storagelab.spec import matrix, reading
from storagelab.stopping import Interruptible
from storagelab.targets import contract, server_abilities
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
