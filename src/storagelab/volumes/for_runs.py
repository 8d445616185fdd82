"""Volumes that are made for each run, or shared by the runs of a block: what they need of this machine, the target of a
run on them, and what a killed run left of them.

A block that was interrupted finds its volumes gone, except those prepared by hand. So they are made anew, and its other
runs belong to another preparation, which has another id. A volume prepared by hand stays as it is, across a reboot as
well: its block goes on with it as long as it is the same file system as when it was confirmed.
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

from storagelab.errors import PreflightError, RunFailed, StoragelabError
from storagelab.machine.doctor import Ability, ability
from storagelab.machine.rights import Privilege
from storagelab.model.config import BY_HAND, PRICE, Config, VolumeConfig
from storagelab.model.hints import shown
from storagelab.model.measurement import PREPARATION, Measurement
from storagelab.model.plan import Cell, Plan, PlannedBlock
from storagelab.model.target import ClaimedDrive, Progress, State, Target
from storagelab.stopping import uninterrupted
from storagelab.volumes import by_hand, limits, refusals
from storagelab.volumes import volume as provisioned
from storagelab.volumes.drives import Drive
from storagelab.volumes.folders import Folders, Site
from storagelab.volumes.volume import MadeVolume
from storagelab.words.names import listed

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


# --- a block ----------------------------------------------------------------------------------------------------------

AWAITED = 4
"""The exit code of `run` while it waits for a volume that a person prepares."""


class KeptVolumes:
    """The volumes that the runs of one block share. `close` removes what was made."""

    def __init__(self, block: PlannedBlock, site: Site, state: State) -> None:
        self._block, self._site = block, site
        self._made: dict[str, MadeVolume] = {}
        self._failed: dict[str, RunFailed] = {}
        self._undo = contextlib.ExitStack()
        confirmed = _confirmed(state)
        by_hand = all(one.by_hand for cell in block.cells.values() for one in _kept(cell).values())
        self._id = str(confirmed.get("id") if by_hand and confirmed else uuid.uuid4().hex[:12])
        self._runs = 0
        if (waits := _waiting(block, site, state, confirmed)) is not None:
            raise waits

    def of(self, cell: Cell) -> list[MadeVolume]:
        """The cell's volumes, made if they are not there yet, and read back again. Raises RunFailed; what can't be
        prepared is not tried again in this block.
        """
        found = []
        for name, volume in _kept(cell).items():
            if name in self._failed:
                raise self._failed[name]
            if name not in self._made:
                try:
                    making = made({name: volume}, cell.config, self._site, cell.levels)
                    self._made[name] = self._undo.enter_context(making)[0]
                except RunFailed as error:
                    self._failed[name] = error
                    raise
            found.append(self._made[name].for_a_run())
        return found

    def begin_run(self) -> dict[str, object]:
        """What the environment of the block's next run says of its preparation."""
        self._runs += 1
        return {PREPARATION: {"id": self._id, "run": self._runs}} if self._made else {}

    def close(self) -> None:
        """Raises RunFailed if some of it could not be removed."""
        self._undo.close()


def _kept(cell: Cell) -> dict[str, VolumeConfig]:
    return {name: one for name, one in wanted(cell.config).items() if one.kept_for_block}


# --- by hand ----------------------------------------------------------------------------------------------------------


class PreparationAwaited(StoragelabError):
    """A block can't begin before a person has prepared its volumes. `asked` = what is to be done, in words."""

    exit_code = AWAITED

    def __init__(self, names: list[str], block: int, asked: list[str], confirm: Callable[[], None]) -> None:
        self.names, self.asked, self.block = names, asked, block
        self.confirm = confirm
        """Checks that it was done, and notes it. Raises PreflightError that says what is not as asked."""
        super().__init__("; ".join(asked))

    def with_words(self, words: str) -> PreparationAwaited:
        """The same, with these words as its message."""
        other = PreparationAwaited(self.names, self.block, self.asked, self.confirm)
        other.args = (words,)
        return other


def _waiting(block: PlannedBlock, site: Site, state: State, confirmed: dict[str, object]) -> PreparationAwaited | None:
    """None if nothing is to be prepared by hand, or it was, and is still there."""
    cells = {name: cell for cell in block.cells.values() for name, one in _kept(cell).items() if one.by_hand}
    if not cells:
        return None
    places = {name: site.volume_paths(cell.config)[name] for name, cell in cells.items()}
    if confirmed.get("places") == {name: _file_system(place) for name, place in places.items()}:
        return None
    asked = [_asked(name, cell, places[name]) for name, cell in cells.items()]

    def confirm() -> None:
        for name, cell in cells.items():
            _refuse_other_than_asked(name, cell, site)
        found = {name: _file_system(place) for name, place in places.items()}
        note = {"id": uuid.uuid4().hex[:12], "places": found}
        state.write([json.dumps(note).encode()])

    return PreparationAwaited(list(cells), block.number, asked, confirm)


def _confirmed(state: State) -> dict[str, object]:
    try:
        found = json.loads(state.read() or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _file_system(place: Path) -> str:
    """What distinguishes the file system at a place from one that was made anew there."""
    try:
        return f"{os.statvfs(place).f_fsid:x}"
    except OSError as error:
        raise PreflightError(
            f"{place}: {error.strerror}", hint="make the folder, and mount the volume there"
        ) from error


def _asked(name: str, cell: Cell, place: Path) -> str:
    volume = cell.config.volumes[name]
    keys = [f"{key} = {shown(value)}" for key, value in by_hand.asked(volume).items()]
    levels = [
        f"{factor} = {shown(level)}" for factor, level in cell.levels.items() if factor.startswith(f"volumes.{name}")
    ]
    what = listed(keys or levels) or "anew"
    own = f". {volume.prepare_text.strip()}" if volume.prepare_text else ""
    return f"prepare volume {name} at {place}: {what}{own}"


def _refuse_other_than_asked(name: str, cell: Cell, site: Site) -> None:
    volume = cell.config.volumes[name]
    with made({name: volume}, cell.config, site, cell.levels) as (found,):
        wrong = [f"{one.name}: asked {one.asked}, got {one.got}" for one in found.checks if one.ok is not True]
    if wrong:
        raise PreflightError("; ".join(wrong), key=f"volumes.{name}", hint="prepare it as asked, then confirm it again")


@contextlib.contextmanager
def kept(block: PlannedBlock, site: Site, state: State) -> Iterator[KeptVolumes]:
    """The block's volumes, which leave nothing behind. Raises PreparationAwaited before anything is made."""
    volumes = KeptVolumes(block, site, state)
    with contextlib.ExitStack() as undo:
        undo.callback(volumes.close)
        yield volumes


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
