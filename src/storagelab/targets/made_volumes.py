"""Volumes that are made for each run: what they need of this machine, the target of a run on them, and what a killed
run left of them.

A spec that declares none of them never loads the code that makes them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine.doctor import Ability, ability
from storagelab.model.config import BY_HAND, PRICE, Config, VolumeConfig
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell, Plan
from storagelab.stopping import uninterrupted
from storagelab.targets import ClaimedDrive, Progress, Site, Target
from storagelab.targets.folders import Folders
from storagelab.targets.privileged import Privilege

if TYPE_CHECKING:
    from pathlib import Path

    from storagelab.provisioning.drives import Drive
    from storagelab.provisioning.volumes import MadeVolume
    from storagelab.targets.kept_volumes import KeptVolumes

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
            from storagelab.provisioning import refusals, volumes

            found = volumes.check(name, volume, site.results)
            of_cell += found
            refusals.refuse_twice(of_cell, f"volumes.{name}")
            steps.update(dict.fromkeys(volumes.steps(name, volume, found)))
            drives.update(dict.fromkeys(ClaimedDrive(serial=drive.serial, text=drive.text) for drive in found))
            warnings.update(dict.fromkeys(volumes.warnings(name, volume, found)))
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
                from storagelab.provisioning import volumes

                volumes.confirm(name, volume, site.results)
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
    from storagelab.provisioning import limits

    small = VolumeConfig(path=".", file_bytes=2**30)
    return (
        ability("volumes made for each run", partial(_check_all, "a", small), lambda _: "drives from files, ext4"),
        ability(
            "limits as cloud disks have them", partial(limits.check, "volumes.a.limit"), lambda _: "by control groups"
        ),
    )


def _check_all(name: str, volume: VolumeConfig) -> None:
    from storagelab.provisioning import volumes

    volumes.check_rights(name, volume)
    volumes.check(name, volume)


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
            from storagelab.provisioning import volumes

            volumes.check_rights(name, volume)
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
def opened(
    cell: Cell, site: Site, opening: Callable[[Config, Site], AbstractContextManager[Target]], kept: KeptVolumes
) -> Iterator[Target]:
    """The target of a run of the cell, on volumes that are made for it or `kept` for its block. Raises RunFailed."""
    if not wanted(cell.config):
        with opening(cell.config, site) as target:
            yield target
        return
    began = time.perf_counter()
    shared = kept.of(cell)
    anew = {name: one for name, one in wanted(cell.config).items() if not one.kept_for_block}
    with made(anew, cell.config, site, cell.levels) as of_run:
        volumes, took_s = [*shared, *of_run], time.perf_counter() - began
        with opening(_placed(cell.config, volumes), site) as target:
            yield _OnMadeVolumes(target, volumes, kept.begin_run(), took_s)


@contextlib.contextmanager
def made(
    volumes: Mapping[str, VolumeConfig], config: Config, site: Site, levels: Mapping[str, object]
) -> Iterator[list[MadeVolume]]:
    """Volumes that are made, and removed at the end: it leaves nothing behind. If something can't be removed after a
    failure, that is added to the failure's words; beside any other error, it goes to the log.
    """
    from storagelab.provisioning import volumes as making

    undo = contextlib.ExitStack()
    try:
        found = []
        for name, volume in volumes.items():
            folders = folders_of(site, config, name)
            undo.callback(partial(_remove, folders))
            folders.make()
            one = making.made(name, volume, folders[name], site.spec_folder, levels, site.results)
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


def _placed(config: Config, made: Sequence[MadeVolume]) -> Config:
    """The configuration on the volumes that were made: each is a place like any other. Those that it does not use are
    not there.
    """
    places = {one.name: VolumeConfig(path=str(one.path)) for one in made}
    others = {name: volume for name, volume in config.volumes.items() if not volume.made}
    in_order = {name: (places | others)[name] for name in config.volumes if name in places | others}
    return config.model_copy(update={"volumes": in_order})


class _OnMadeVolumes:
    """A target whose volumes were made for its run, or for its block; `facts` = what the environment says of that."""

    def __init__(
        self, target: Target, volumes: Sequence[MadeVolume], facts: Mapping[str, object], took_s: float
    ) -> None:
        self._target, self._made, self._facts, self._took_s = target, volumes, facts, took_s

    def describe(self) -> dict[str, object]:
        return self._with_facts(self._target.describe())

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:
        written = {
            f"volume.{one.name}.written_since_prepared_bytes": since
            for one in self._made
            if self._facts and (since := one.written_bytes()) is not None
        }
        waiting = list(self._made)

        def on_progress(work: int) -> None:
            while waiting:  # the first call tells that the load begins
                waiting.pop().begin()
            progress(work)

        with contextlib.ExitStack() as limits:
            for one in self._made:
                limits.enter_context(one.loaded())
            measured = self._target.run(cell, repetition, seed, on_progress)
        return measured.model_copy(
            update={
                "environment": self._with_facts(measured.environment),
                "checks": (*measured.checks, *(check for one in self._made for check in one.checks)),
                "counters": _with_written(measured.counters, written),
                "setup_s": (measured.setup_s or 0.0) + self._took_s,
            }
        )

    def _with_facts(self, environment: dict[str, object]) -> dict[str, object]:
        described = environment.get("volumes")
        volumes = dict(described) if isinstance(described, dict) else {}
        for one in self._made:
            volumes[one.name] = {**volumes.get(one.name, {}), "made": one.facts}
        return {**environment, **self._facts, "volumes": volumes}


def _with_written(counters: Mapping[str, Mapping[str, float]], written: Mapping[str, float]) -> dict[str, object]:
    return {**counters, "volumes": {**counters.get("volumes", {}), **written}} if written else dict(counters)


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
    from storagelab.provisioning import volumes

    try:
        return volumes.put_back(results, may_wipe)
    except RunFailed as error:
        raise PreflightError(f"not all drives could be given back: {error}") from error


def _remove(folders: Folders) -> None:
    from storagelab.provisioning import volumes

    volumes.remove_left(folders.paths)
    folders.remove()
