"""Volumes that storagelab makes for each run, or for all runs of a block. Checks what they require, opens the target of
a run on them, and removes the remains of a killed run.

If a block is interrupted, its volumes are removed. When the block continues, they are made again, and the other runs of
the block get the ID of a new preparation. A volume that a person prepared is not removed, even after a reboot. The
block continues with this volume if it still is the file system that the user confirmed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from storagelab.errors import PreflightError, RunFailed, StoragelabError, noting, shown
from storagelab.machine.doctor import Ability, ability
from storagelab.machine.rights import Privilege
from storagelab.model.config import Config
from storagelab.model.measurement import PREPARATION, Measurement
from storagelab.model.plan import Cell, Plan, PlannedBlock
from storagelab.model.target import ClaimedDrive, Progress, State, Target
from storagelab.model.volume import BY_HAND, PRICE, VolumeConfig
from storagelab.stopping import uninterrupted
from storagelab.volumes import limits, refusals
from storagelab.volumes import volume as provisioned
from storagelab.volumes.drives import Drive
from storagelab.volumes.folders import Folders, Site
from storagelab.volumes.volume import Volume
from storagelab.words.names import listed

_RUNS_A_COMMAND = "runs a command on this machine, as the user who runs storagelab"
_ONLY_ROOT = "only root may make volumes: if you are not root, name folders on drives that were prepared by hand"


def wanted(config: Config) -> dict[str, VolumeConfig]:
    """The cell's volumes that storagelab makes, or that a person prepares, for its runs."""
    return {name: volume for name, volume in config.volumes.items() if volume.made and name in config.volumes_used}


def _of(plan: Plan) -> Iterator[tuple[Config, str, VolumeConfig]]:
    """Every such volume of all cells: the cell's configuration, the volume's name, and the volume."""
    return ((cell.config, name, volume) for cell in plan.cells for name, volume in wanted(cell.config).items())


class Making(NamedTuple):
    """What is needed to make the plan's volumes. `steps` has each step once. `drives` are the drives whose content is
    destroyed. `lacks` says what this machine lacks.
    """

    steps: tuple[str, ...]
    drives: tuple[ClaimedDrive, ...]
    warnings: tuple[str, ...]
    lacks: tuple[PreflightError, ...]


def check(plan: Plan, site: Site) -> Making:
    """Checks whether this machine can make the plan's volumes. Changes nothing."""
    steps, claimed, warnings = list[str](), list[ClaimedDrive](), list[str]()
    lacks = list[PreflightError]()
    for cell in plan.cells:
        of_cell: list[Drive] = []
        for name, volume in wanted(cell.config).items():
            with noting(lacks):
                found = provisioned.check(name, volume, site.results)
                of_cell += found
                refusals.refuse_twice(of_cell, f"volumes.{name}")
                steps += provisioned.steps(name, volume, found)
                claimed += [ClaimedDrive(serial=drive.serial, text=drive.text) for drive in found]
                warnings += provisioned.warnings(name, volume, found)
    if os.geteuid() != 0 and any(volume.has_own_drive for _, _, volume in _of(plan)):
        warnings.append(_ONLY_ROOT)
    return Making(
        tuple(dict.fromkeys(steps)), tuple(dict.fromkeys(claimed)), tuple(dict.fromkeys(warnings)), tuple(lacks)
    )


def lacking_rights(plan: Plan) -> list[PreflightError]:
    """An error for each volume that this user may not make."""
    lacks = list[PreflightError]()
    for _, name, volume in _of(plan):
        with noting(lacks):
            provisioned.check_rights(name, volume)
    return lacks


def confirm(plan: Plan, site: Site) -> None:
    """Notes that the user confirmed the plan's drives as they are now. Raises PreflightError if one can't be used."""
    done: set[tuple[str, ...]] = set()
    for _, name, volume in _of(plan):
        if volume.devices is not None and volume.devices not in done and site.results is not None:
            provisioned.confirm(name, volume, site.results)
            done.add(volume.devices)


def commands(plan: Plan) -> tuple[Privilege, ...]:
    """The user's own commands that make or check volumes. Each command is returned once."""
    asked = [
        (f"volumes.{name}.{key}", command)
        for _, name, volume in _of(plan) for key, command in (("prepare", volume.prepare), ("check", volume.check))
        if command is not None and command != BY_HAND
    ]  # fmt: skip
    return tuple(Privilege(key=key, value=command, does=_RUNS_A_COMMAND) for key, command in dict.fromkeys(asked))


def abilities() -> tuple[Ability, ...]:
    """Checks for the doctor whether this machine can make volumes and limit them."""
    small = VolumeConfig(path=".", file_bytes=2**30)

    def check_all() -> None:
        provisioned.check_rights("a", small)
        provisioned.check("a", small)

    return (
        ability("volumes made for each run", check_all, lambda _: "drives from files, ext4"),
        ability(
            "limits like those of cloud disks", partial(limits.check, "volumes.a.limit"), lambda _: "by control groups"
        ),
    )


def try_making(plan: Plan, site: Site) -> None:
    """Makes each kind of volume that the plan needs once, and removes it. Does not run the user's own commands. Raises
    PreflightError with the message of the program that fails.
    """
    tried: set[str] = set()
    for config, name, volume in _of(plan):
        plain = volume.model_copy(update={"prepare": None, "check": None, PRICE: None})
        keys = plain.model_dump_json()
        if not plain.has_own_drive or keys in tried:
            continue
        provisioned.check_rights(name, volume)
        tried.add(keys)
        try:
            with made({name: plain}, config, site, {}) as (one,):
                refused = _refused(one)
        except RunFailed as error:
            raise PreflightError(f"can't be made: {error}", key=f"volumes.{name}") from error
        if refused:
            raise PreflightError(refused[0], key=f"volumes.{name}")


def _refused(volume: Volume) -> list[str]:
    """Describes each property of the volume that differs from the spec."""
    return [f"{one.name}: asked {one.asked}, got {one.got}" for one in volume.checks if one.ok is not True]


# --- a run ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def made(
    volumes: Mapping[str, VolumeConfig], config: Config, site: Site, levels: Mapping[str, object]
) -> Iterator[list[Volume]]:
    """Makes the volumes, and removes them at the end. If a run fails and something can't be removed, the failure's
    message says so. After any other error, this goes to the log. Raises RunFailed.
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
                    raise type(error)(f"{error}\n  and some of it could not be removed: {failure}") from error
                logging.getLogger("storagelab").info("some of it could not be removed: %s", failure)
        raise
    with uninterrupted():
        undo.close()


def folders_of(site: Site, config: Config, name: str) -> Folders:
    """The experiment's own folder for one volume, below the volume's path."""
    return Folders(site, {name: site.volume_paths(config)[name]}, purpose=f"volume-{name}")


# --- what a killed run left -------------------------------------------------------------------------------------------


def sweep(config: Config, site: Site, stop_orphan: Callable[[Path], bool]) -> list[str]:
    """Removes the remains of killed runs on the cell's volumes. Returns what it removed. Raises PreflightError."""
    removed = []
    for name in wanted(config):
        folders = folders_of(site, config, name)
        for folder in folders.leftovers():
            stopped = [place for place in folder.glob("*/storagelab-*") if stop_orphan(place / "server")]
            removed += [f"stopped the server left running in {place}" for place in stopped]
            try:
                _remove(folders)
            except RunFailed as error:
                raise PreflightError(f"the remains of an earlier run can't be removed: {error}") from error
            removed.append(f"removed {folder}, left behind by a killed run")
    if site.results is not None and any(volume.devices for volume in wanted(config).values()):
        removed += put_back(site.results)
    return removed


def put_back(results: Path, may_wipe: Collection[str] = ()) -> list[str]:
    """Gives back the drives that are still claimed because runs of an experiment were killed. Returns descriptions of
    the steps. Raises PreflightError.
    """
    try:
        return provisioned.put_back(results, may_wipe)
    except RunFailed as error:
        raise PreflightError(f"some drives could not be given back: {error}") from error


def _remove(folders: Folders) -> None:
    provisioned.remove_left(folders.paths)
    folders.remove()


# --- a block ----------------------------------------------------------------------------------------------------------

AWAITED = 4
"""The exit code of `run` while a block waits for a person to prepare its volumes."""


class BlockVolumes:
    """The volumes that the runs of one block share. Closing `undo` removes those that were made."""

    def __init__(self, block: PlannedBlock, site: Site, state: State, undo: contextlib.ExitStack) -> None:
        self._site, self._undo = site, undo
        self._made: dict[str, Volume] = {}
        self._failed: dict[str, RunFailed] = {}
        confirmed = _confirmed(state)
        by_hand = all(one.by_hand for cell in block.cells.values() for one in _kept(cell).values())
        self._id = str(confirmed.get("id") if by_hand and confirmed else uuid.uuid4().hex[:12])
        self._runs = 0
        if (waits := _waiting(block, site, state, confirmed)) is not None:
            raise waits

    def of(self, cell: Cell) -> list[Volume]:
        """The cell's volumes in their current state. Makes those that do not exist yet. Raises RunFailed. If making a
        volume failed, this block does not try it again.
        """
        for name, volume in _kept(cell).items():
            if name in self._failed:
                raise self._failed[name]
            if name not in self._made:
                try:
                    (self._made[name],) = self._undo.enter_context(
                        made({name: volume}, cell.config, self._site, cell.levels)
                    )
                except RunFailed as error:
                    self._failed[name] = error
                    raise
        return [self._made[name].for_a_run() for name in _kept(cell)]

    def begin_run(self) -> dict[str, object]:
        """Counts a run. Returns the ID of the block's preparation and the run's number, for the run's environment."""
        self._runs += 1
        return {PREPARATION: {"id": self._id, "run": self._runs}} if self._made else {}


@contextlib.contextmanager
def kept(block: PlannedBlock, site: Site, state: State) -> Iterator[BlockVolumes]:
    """The block's volumes. They are removed at the end. Raises PreparationAwaited before anything is made. Raises
    RunFailed if a volume can't be removed.
    """
    with contextlib.ExitStack() as undo:
        yield BlockVolumes(block, site, state, undo)


def _kept(cell: Cell) -> dict[str, VolumeConfig]:
    return {name: one for name, one in wanted(cell.config).items() if one.kept_for_block}


# --- by hand ----------------------------------------------------------------------------------------------------------


class PreparationAwaited(StoragelabError):
    """The error if a block can't start before a person has prepared its volumes. `asked` says what to prepare."""

    exit_code = AWAITED

    def __init__(self, names: list[str], block: int, asked: list[str], confirm: Callable[[], None]) -> None:
        self.names, self.asked, self.block = names, asked, block
        self.confirm = confirm
        """Checks the preparation, and notes it. Raises PreflightError, which lists the differences from the spec."""
        super().__init__("; ".join(asked))

    def with_words(self, words: str) -> PreparationAwaited:
        """Returns the same error with another message."""
        other = PreparationAwaited(self.names, self.block, self.asked, self.confirm)
        other.args = (words,)
        return other


def _waiting(block: PlannedBlock, site: Site, state: State, confirmed: dict[str, object]) -> PreparationAwaited | None:
    """The preparation that a person must make before the block. Returns None if there is none, or if it was made and
    still exists.
    """
    cells = {name: cell for cell in block.cells.values() for name, one in _kept(cell).items() if one.by_hand}
    if not cells:
        return None
    places = {name: site.volume_paths(cell.config)[name] for name, cell in cells.items()}
    if confirmed.get("places") == {name: _file_system(place) for name, place in places.items()}:
        return None

    def confirm() -> None:
        for name, cell in cells.items():
            with made({name: cell.config.volumes[name]}, cell.config, site, cell.levels) as (one,):
                wrong = "; ".join(_refused(one))
            if wrong:
                raise PreflightError(wrong, key=f"volumes.{name}", hint="correct the volume, then confirm it again")
        found = {name: _file_system(place) for name, place in places.items()}
        state.write([json.dumps({"id": uuid.uuid4().hex[:12], "places": found}).encode()])

    asked = [_asked(name, cell, places[name]) for name, cell in cells.items()]
    return PreparationAwaited(list(cells), block.number, asked, confirm)


def _confirmed(state: State) -> dict[str, object]:
    try:
        found = json.loads(state.read() or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _file_system(place: Path) -> str:
    """The ID of the file system that contains `place`. A new file system has a new ID. Raises PreflightError."""
    try:
        return f"{os.statvfs(place).f_fsid:x}"
    except OSError as error:
        hint = "make the folder, and mount the volume there"
        raise PreflightError(f"{place}: {error.strerror}", hint=hint) from error


def _asked(name: str, cell: Cell, place: Path) -> str:
    volume = cell.config.volumes[name]
    keys = [f"{key} = {shown(value)}" for key, value in provisioned.asked_of_a_person(volume).items()]
    levels = [
        f"{factor} = {shown(level)}" for factor, level in cell.levels.items() if factor.startswith(f"volumes.{name}")
    ]
    own = f". {volume.prepare_text.strip()}" if volume.prepare_text else ""
    return f"prepare volume {name} at {place}: {listed(keys or levels) or 'anew'}{own}"


# --- a run ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def opened(
    cell: Cell, site: Site, opening: Callable[[Config, Site], AbstractContextManager[Target]], kept: BlockVolumes
) -> Iterator[Target]:
    """Opens the target of a run on the cell's volumes. These are the volumes of the run's block (`kept`) and the
    volumes that are made for this run. Raises RunFailed.
    """
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
            yield _OnVolumes(target, volumes, kept.begin_run(), took_s)


def _placed(config: Config, made: Sequence[Volume]) -> Config:
    """The configuration with the paths of the volumes that were made, and without volumes that the cell doesn't use."""
    places = {one.name: VolumeConfig(path=str(one.path)) for one in made}
    places |= {name: volume for name, volume in config.volumes.items() if not volume.made}
    return config.model_copy(update={"volumes": {name: places[name] for name in config.volumes if name in places}})


class _OnVolumes:
    """A target on volumes that were made for its run or its block. `facts` are added to the run's environment."""

    def __init__(self, target: Target, volumes: Sequence[Volume], facts: Mapping[str, object], took_s: float) -> None:
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
            while waiting:  # the first call means that the load begins
                waiting.pop().begin()
            progress(work)

        with contextlib.ExitStack() as limits:
            for one in self._made:
                limits.enter_context(one.loaded())
            measured = self._target.run(cell, repetition, seed, on_progress)
        counters = dict(measured.counters)
        if written:
            counters["volumes"] = {**counters.get("volumes", {}), **written}
        return measured.model_copy(
            update={
                "environment": self._with_facts(measured.environment),
                "checks": (*measured.checks, *(check for one in self._made for check in one.checks)),
                "counters": counters, "setup_s": (measured.setup_s or 0.0) + self._took_s,
            }
        )  # fmt: skip

    def _with_facts(self, environment: dict[str, object]) -> dict[str, object]:
        described = environment.get("volumes")
        volumes = dict(described) if isinstance(described, dict) else {}
        for one in self._made:
            volumes[one.name] = {**volumes.get(one.name, {}), "made": one.facts}
        return {**environment, **self._facts, "volumes": volumes}
