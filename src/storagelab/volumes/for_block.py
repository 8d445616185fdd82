"""Volumes that the runs of a block share: made when its first run needs them, or prepared by hand before; and what a
run says of them.

A block that was interrupted finds its volumes gone, except those prepared by hand. So they are made anew, and its other
runs belong to another preparation, which has another id. A volume prepared by hand stays as it is, across a reboot as
well: its block goes on with it as long as it is the same file system as when it was confirmed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from storagelab.errors import PreflightError, RunFailed, StoragelabError
from storagelab.model.config import Config, VolumeConfig
from storagelab.model.hints import shown
from storagelab.model.measurement import PREPARATION, Measurement
from storagelab.model.plan import Cell, PlannedBlock
from storagelab.model.target import Progress, State, Target
from storagelab.volumes import by_hand
from storagelab.volumes import for_run as made_volumes
from storagelab.volumes.folders import Site
from storagelab.volumes.volume import MadeVolume
from storagelab.words.names import listed

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
                    making = made_volumes.made({name: volume}, cell.config, self._site, cell.levels)
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
    return {name: one for name, one in made_volumes.wanted(cell.config).items() if one.kept_for_block}


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
    with made_volumes.made({name: volume}, cell.config, site, cell.levels) as made:
        wrong = [f"{one.name}: asked {one.asked}, got {one.got}" for one in made[0].checks if one.ok is not True]
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
    if not made_volumes.wanted(cell.config):
        with opening(cell.config, site) as target:
            yield target
        return
    began = time.perf_counter()
    shared = kept.of(cell)
    anew = {name: one for name, one in made_volumes.wanted(cell.config).items() if not one.kept_for_block}
    with made_volumes.made(anew, cell.config, site, cell.levels) as of_run:
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
