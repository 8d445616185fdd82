"""Volumes that are made for each run: what they need of this machine, the target of a run on them, and what a killed
run left of them.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine.doctor import Ability, ability
from storagelab.machine.privileged import Privilege
from storagelab.model.config import BY_HAND, PRICE, Config, VolumeConfig
from storagelab.model.plan import Plan
from storagelab.model.target import ClaimedDrive
from storagelab.stopping import uninterrupted
from storagelab.volumes import limits, refusals
from storagelab.volumes import volume as provisioned
from storagelab.volumes.drives import Drive
from storagelab.volumes.folders import Folders, Site
from storagelab.volumes.volume import MadeVolume

_RUNS_A_COMMAND = "runs a command on this machine, as the user who runs storagelab"


def wanted(config: Config) -> dict[str, VolumeConfig]:
    """The cell's volumes that are made before each of its runs."""
    return {name: volume for name, volume in config.volumes.items() if volume.made and name in config.volumes_used}


class Making(NamedTuple):
    """What is done to make the plan's volumes, each step once; the drives whose content is destroyed; and warnings."""

    steps: tuple[str, ...]
    drives: tuple[ClaimedDrive, ...]
    warnings: tuple[str, ...]


def check(plan: Plan, site: Site) -> Making:
    """Raises PreflightError."""
    steps: dict[str, None] = {}
    drives: dict[ClaimedDrive, None] = {}
    warnings: dict[str, None] = {}
    for config in (cell.config for cell in plan.cells):
        of_cell: list[Drive] = []
        for name, volume in wanted(config).items():
            found = provisioned.check(name, volume, site.results)
            of_cell += found
            refusals.refuse_twice(of_cell, f"volumes.{name}")
            steps.update(dict.fromkeys(provisioned.steps(name, volume, found)))
            drives.update(dict.fromkeys(ClaimedDrive(serial=drive.serial, text=drive.text) for drive in found))
            warnings.update(dict.fromkeys(provisioned.warnings(name, volume, found)))
    if (
        any(volume.has_own_drive for cell in plan.cells for volume in wanted(cell.config).values())
        and os.geteuid() != 0
    ):
        warnings[
            "only root may make volumes: without its rights, name folders on drives that were prepared by hand"
        ] = None
    return Making(tuple(steps), tuple(drives), tuple(warnings))


def confirm(plan: Plan, site: Site) -> None:
    """Notes that the user has confirmed the plan's drives as they are now. Raises PreflightError."""
    done: set[tuple[str, ...]] = set()
    for config in (cell.config for cell in plan.cells):
        for name, volume in wanted(config).items():
            if volume.devices is not None and volume.devices not in done and site.results is not None:
                provisioned.confirm(name, volume, site.results)
                done.add(volume.devices)


def commands(plan: Plan) -> tuple[Privilege, ...]:
    """The commands that volumes run, each once."""
    found: dict[Privilege, None] = {}
    for config in (cell.config for cell in plan.cells):
        for name, volume in wanted(config).items():
            for key, command in (("prepare", volume.prepare), ("check", volume.check)):
                if command is not None and command != BY_HAND:
                    found[Privilege(key=f"volumes.{name}.{key}", value=command, does=_RUNS_A_COMMAND)] = None
    return tuple(found)


def abilities() -> tuple[Ability, ...]:
    """Whether this machine can make volumes and limit them, for the doctor."""
    small = VolumeConfig(path=".", file_bytes=2**30)
    return (
        ability("volumes made for each run", partial(_check_all, "a", small), lambda _: "drives from files, ext4"),
        ability(
            "limits as cloud disks have them", partial(limits.check, "volumes.a.limit"), lambda _: "by control groups"
        ),
    )


def _check_all(name: str, volume: VolumeConfig) -> None:
    provisioned.check_rights(name, volume)
    provisioned.check(name, volume)


def try_making(plan: Plan, site: Site) -> None:
    """Makes each kind of volume that the plan needs once, and removes it. Commands of the user's own are not run.
    Raises PreflightError with the message of the program that refuses.
    """
    tried: set[str] = set()
    for config in (cell.config for cell in plan.cells):
        for name, volume in wanted(config).items():
            plain = volume.model_copy(update={"prepare": None, "check": None, PRICE: None})
            keys = plain.model_dump_json()
            if not plain.has_own_drive or keys in tried:
                continue
            provisioned.check_rights(name, volume)
            tried.add(keys)
            try:
                with made({name: plain}, config, site, {}) as found:
                    refused = [one for one in found[0].checks if one.ok is not True]
            except RunFailed as error:
                raise PreflightError(f"can't be made: {error}", key=f"volumes.{name}") from error
            for one in refused:
                raise PreflightError(f"{one.name}: asked {one.asked}, got {one.got}", key=f"volumes.{name}")


# --- a run ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def made(
    volumes: Mapping[str, VolumeConfig], config: Config, site: Site, levels: Mapping[str, object]
) -> Iterator[list[MadeVolume]]:
    """Volumes that are made, and removed at the end: it leaves nothing behind. If something can't be removed after a
    failure, that is added to the failure's words; beside any other error, it goes to the log.
    """
    undo = contextlib.ExitStack()
    try:
        found = []
        for name, volume in volumes.items():
            folders = folders_of(site, config, name)
            undo.callback(partial(_remove, folders))
            folders.make()
            one = provisioned.made(name, volume, folders[name], site.spec_folder, levels, site.results)
            found.append(undo.enter_context(one))
        yield found
    except BaseException as error:
        with uninterrupted():
            try:
                undo.close()
            except RunFailed as failure:
                if isinstance(error, RunFailed):
                    raise type(error)(f"{error}\n  and not all was removed: {failure}") from error
                logging.getLogger("storagelab").info("not all was removed: %s", failure)
        raise
    with uninterrupted():
        undo.close()


def folders_of(site: Site, config: Config, name: str) -> Folders:
    """The experiment's own folder for one volume, below the volume's path."""
    return Folders(site, {name: site.volume_paths(config)[name]}, purpose=f"volume-{name}")


# --- what a killed run left -------------------------------------------------------------------------------------------


def sweep(config: Config, site: Site, stop_orphan: Callable[[Path], bool]) -> list[str]:
    """Removes what killed runs left of the cell's volumes; returns what was removed. Raises PreflightError."""
    removed = []
    for name in wanted(config):
        folders = folders_of(site, config, name)
        for folder in folders.leftovers():
            stopped = [place for place in folder.glob("*/storagelab-*") if stop_orphan(place / "server")]
            removed += [f"stopped the server left running in {place}" for place in stopped]
            try:
                _remove(folders)
            except RunFailed as error:
                raise PreflightError(f"what an earlier run left is still there: {error}") from error
            removed.append(f"removed {folder}, left behind by a killed run")
    if site.results is not None and any(volume.devices for volume in wanted(config).values()):
        removed += put_back(site.results)
    return removed


def put_back(results: Path, may_wipe: Collection[str] = ()) -> list[str]:
    """Gives back the drives that killed runs of an experiment left claimed; returns what was done. Raises
    PreflightError.
    """
    try:
        return provisioned.put_back(results, may_wipe)
    except RunFailed as error:
        raise PreflightError(f"not all drives could be given back: {error}") from error


def _remove(folders: Folders) -> None:
    provisioned.remove_left(folders.paths)
    folders.remove()
