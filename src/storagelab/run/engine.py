"""The interface to an engine, and the steps that involve all engines. The module `engine` in each engine's folder
implements the interface."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

from storagelab.capture.folder import Watched
from storagelab.errors import Placed, PreflightError, RunFailed, noting, refuse
from storagelab.loads import fio
from storagelab.machine import host, temporary
from storagelab.machine.doctor import Ability
from storagelab.machine.rights import privileged_settings, refuse_privileged
from storagelab.model.config import Config, TargetConfig
from storagelab.model.durability import Durability
from storagelab.model.engines import KINDS_OF_ENGINE
from storagelab.model.plan import Plan, PlannedBlock, PlannedRun, one_of_each_template
from storagelab.model.target import Block, Preflight, State, Target, Tell, reporting_to
from storagelab.model.values import Scalar
from storagelab.predicting.recommending import Move
from storagelab.servers import places, templates
from storagelab.servers.attached import RunningServer
from storagelab.servers.durability import compared
from storagelab.servers.interfaces import by_server, places_of
from storagelab.servers.starting import Kind, try_kinds
from storagelab.volumes import for_runs
from storagelab.volumes.folders import Folders, Site


class _Independent:
    """A block whose runs are independent: each run has its own server or schema."""

    def __init__(self, block: PlannedBlock, site: Site, volumes: for_runs.BlockVolumes) -> None:
        self._block, self._site, self._volumes = block, site, volumes

    def needed(self, wanted: Collection[int]) -> Sequence[int]:
        return sorted(wanted)

    def open(self, planned: PlannedRun) -> AbstractContextManager[Target]:
        return for_runs.opened(self._block.cell_of(planned), self._site, open_target, self._volumes)


@contextmanager
def independent(block: PlannedBlock, site: Site, state: State) -> Iterator[Block]:
    """Opens a block of independent runs. Only volumes that are made for a block are kept from run to run."""
    with for_runs.kept(block, site, state) as volumes:
        yield _Independent(block, site, volumes)


class Engine(NamedTuple):
    """The functions of an engine. `check` checks the cells of a plan that use this engine. If the runs of an engine are
    independent, `open` returns the target of one run. Any other engine has its own `open_block`. The other functions
    are for engines with servers.
    """

    check: Callable[[Plan, Site], Preflight]
    open: Callable[[Config, Site], AbstractContextManager[Target]] | None = None
    open_block: Callable[[PlannedBlock, Site, State], AbstractContextManager[Block]] = independent
    kinds: Callable[[Plan, Site], Iterable[Kind]] = lambda *_: ()
    """Returns the private servers that a plan needs."""
    stop_orphan: Callable[[Path], bool] = lambda _: False
    """Stops the server that still runs on a data folder. Returns whether there was one."""
    drop_leftovers: Callable[[Config, Site], list[str]] = lambda *_: []
    """Drops what killed runs left on the server to which a cell attaches. Returns the dropped names."""
    abilities: Callable[[], tuple[Ability, ...]] = lambda: ()
    durability: Callable[[Config], Durability] | None = None
    """Returns which data survive a crash of the server or of its machine."""
    probe: Callable[[], Any] = lambda: None
    """Returns the engine's probe for the contract suite."""
    privilege: Callable[[str, Scalar], str | None] = lambda *_: None
    """Returns the effect that a setting with this name and value has outside the database, or None if it has no such
    effect.
    """
    found: Callable[[TargetConfig], RunningServer] | None = None
    """Reads the facts about the layout of a running server."""
    watched: Callable[[TargetConfig], Watched] | None = None
    """Opens a running server for a capture of its reads and writes."""
    moving: Callable[[Sequence[Move], Mapping[str, str]], Iterable[str]] = lambda *_: ()
    """Returns the statements with which an administrator moves objects to these folders of volumes. storagelab never
    runs these statements."""


@cache
def engine_in(folder: str) -> Engine:
    """Returns the engine in the folder of this name. `model.engines` lists the names."""
    return cast("Engine", import_module(f"storagelab.engines.{folder}.engine").ENGINE)


def engine_of(config: Config) -> Engine:
    return engine_in(config.kind.folder)


def every_engine() -> tuple[Engine, ...]:
    """Returns all engines. Each folder has one engine."""
    return tuple(dict.fromkeys(engine_in(kind.folder) for kind in KINDS_OF_ENGINE))


def open_block(block: PlannedBlock, site: Site, state: State) -> AbstractContextManager[Block]:
    """Prepares drives or servers for a block's runs. Leaving the context removes everything that was made."""
    return engine_of(block.first_cell.config).open_block(block, site, state)


def open_target(config: Config, site: Site) -> AbstractContextManager[Target]:
    """Opens the target of one independent run. Entering the context sets the target up, or raises RunFailed. Leaving it
    removes the target.
    """
    opening = engine_of(config).open
    assert opening is not None, "its runs come in blocks"
    return opening(config, site)


def preflight(plan: Plan, site: Site, *, allow_commands: bool = False, tell: Tell | None = None) -> Preflight:
    """Makes all checks that change nothing, for all cells. Raises PreflightError that names everything that is missing.

    If `allow_commands` is true, settings may run programs, load code and use other folders. Notes list such settings.
    `tell` receives the progress of the checks.
    """
    found = survey(plan, site, allow_commands=allow_commands, tell=tell)
    refuse(found.lacks)
    return found


def try_starting(plan: Plan, site: Site, tell: Tell | None = None) -> None:
    """Tries each kind of volume and each kind of server that the plan needs: makes or starts it for a moment, and
    removes it. `tell` receives the progress.

    If a server does not start, raises PreflightError with the server's own message.
    """
    with reporting_to(tell):
        for_runs.try_making(plan, site)
        try_kinds(kind for engine, part in _by_engine(plan) for kind in engine.kinds(part, site))


def remove_templates(plan: Plan, site: Site) -> None:
    """Removes the prepared data that were kept for the runs of a campaign. Raises RunFailed or PreflightError if a part
    of it could not be removed.
    """
    kept = one_of_each_template(cell.config for cell in plan.cells)
    for sharing in by_server(config for config in kept if config.target.attached):
        engine_of(sharing[0]).drop_leftovers(sharing[0], site)
    for volumes in {tuple(sorted(site.volume_paths(one).items())) for one in kept}:
        templates.folders_of(site, dict(volumes)).remove()


def lacks(plan: Plan, site: Site) -> tuple[Ability, ...]:
    """Returns a row for each requirement of a plan that this machine lacks. The doctor shows these rows."""
    found = [*for_runs.lacking_rights(plan), *survey(plan, site, allow_commands=True).lacks]
    return tuple(
        Ability(name=f"this spec: {error.key or 'target'}", state="no", detail=error.problem, mend=error.hint)
        for error in dict.fromkeys(found)
    ) or (Ability(name="this spec", state="yes", detail="this machine has what it needs"),)


def server_abilities() -> tuple[Ability, ...]:
    """Returns the servers that this machine could start, and the volumes that it could make. The doctor shows them."""
    return (*(ability for engine in every_engine() for ability in engine.abilities()), *for_runs.abilities())


def _by_engine(plan: Plan) -> Iterator[tuple[Engine, Plan]]:
    """Yields each engine of the plan, with a plan that has only the engine's cells."""
    for kind in dict.fromkeys(cell.config.kind for cell in plan.cells):
        cells = {cell.cell_id: cell for cell in plan.cells if cell.config.kind == kind}
        runs = tuple(planned for planned in plan.runs if planned.cell_id in cells)
        yield engine_in(kind.folder), Plan(cells=tuple(cells.values()), runs=runs)


def survey(plan: Plan, site: Site, *, allow_commands: bool = False, tell: Tell | None = None) -> Preflight:
    """Makes all engines' checks of their own cells, and returns the results. `lacks` has what is missing. If settings
    would run programs and are not allowed, nothing that the spec names is started.
    """
    lacks = list[Placed]()
    beyond = (*privileged_settings(plan, lambda config: engine_of(config).privilege), *for_runs.commands(plan))
    with noting(lacks):
        _refuse_mixing(plan)
        if not allow_commands:
            refuse_privileged(beyond)
    may_ask = not lacks
    with noting(lacks):
        fio.check_beside(plan, site)
    making = for_runs.check(plan, site)
    lacks += making.lacks
    found = list[Preflight]()
    with reporting_to(tell):
        for engine, part in _by_engine(plan) if may_ask else ():
            with noting(lacks):
                found.append(engine.check(part, site))
                lacks += found[-1].lacks
    needs = [need for one in found for need in one.volumes]
    # Each volume appears once, with the largest need of any cell, because cells run one after the other.
    most = [
        max((need for need in needs if (need.name, need.path) == volume), key=lambda need: need.needed_bytes or 0)
        for volume in dict.fromkeys((need.name, need.path) for need in needs)
    ]
    promises, warnings = tuple[str, ...](), tuple[str, ...]()
    if not lacks:
        promises, warnings = compared(plan, lambda config: engine_of(config).durability)
    return Preflight(
        server="; ".join(one.server for one in found),
        volumes=tuple(most),
        notes=(
            *(privilege.text for privilege in beyond),
            *dict.fromkeys(need.lacks for need in needs if need.lacks),
            *(note for one in found for note in one.notes),
            *(() if lacks else _placement_notes([cell.config for cell in plan.cells], site)),
            *warnings,
            *making.warnings,
        ),
        steps=making.steps,
        objects=places.planned([cell.config for cell in plan.cells], site),
        drives=making.drives,
        durability=promises,
        blocks_at_once=min((one.blocks_at_once for one in found if one.blocks_at_once is not None), default=None),
        cycles={cell_id: cycle for one in found for cell_id, cycle in one.cycles.items()},
        log_rooms={cell_id: room for one in found for cell_id, room in one.log_rooms.items()},
        least_s={cell_id: seconds for one in found for cell_id, seconds in one.least_s.items()},
        lacks=tuple({(error.key, error.problem): error for error in lacks}.values()),
    )


def _refuse_mixing(plan: Plan) -> None:
    """Raises PreflightError if some cells are simulated and others are not. Raw I/O may mix them: it is the same test
    on real and on simulated drives, so one report may show both. A block is never mixed.
    """
    kinds_there = {cell.config.kind for cell in plan.cells}
    if len({kind.provenance for kind in kinds_there}) > 1 and not all(kind.raw_io for kind in kinds_there):
        hint = "Write two specs: one series never mixes measured and simulated runs."
        raise PreflightError("some cells are simulated and some are not", key="target.engine", hint=hint)


# --- sweeping --------------------------------------------------------------------------------------------------------
#
# Finds and removes the remains of a killed run of an experiment, on any engine.


def _stop_orphan(data_folder: Path) -> bool:
    """Stops the server of any engine that still runs on a data folder. Returns whether there was one."""
    return any(engine.stop_orphan(data_folder) for engine in every_engine())


def _stop_orphans(places: Iterable[Path]) -> list[str]:
    stopped = [place for place in places if _stop_orphan(place / "server")]
    return [f"stopped the server left running in {place}" for place in stopped]


def sweep_temporary() -> list[str]:
    """Ends the programs that killed runs of any experiment left, and removes their files from the temporary folder.
    Returns a description of what was done.
    """
    removed = temporary.end_left_running()
    for owned in temporary.left_behind():
        removed += _stop_orphans(owned.iterdir())
        if temporary.remove_left_behind(owned):
            removed.append(f"removed {owned}, left behind by a killed run")
    return removed


def sweep(plan: Plan, site: Site) -> list[str]:
    """Removes what killed runs left. In the temporary folder, these are the remains of any experiment. Elsewhere, these
    are this experiment's running servers, folders, and objects on attached servers.

    Returns a description of what was done. A folder's name shows the experiment but not the engine, so every engine
    checks whether its server runs there. Raises PreflightError if a step fails, or if something with such a name does
    not belong to storagelab.
    """
    removed = sweep_temporary()
    for config in {places_of(cell.config, site): cell.config for cell in plan.cells}.values():
        removed += for_runs.sweep(config, site, _stop_orphan)
        volumes = site.volume_paths(config)
        folders, kept = Folders(site, volumes), templates.folders_of(site, volumes)
        left = [*folders.leftovers(), *kept.leftovers()]
        removed += _stop_orphans(left)
        if config.target.attached:
            dropped = engine_of(config).drop_leftovers(config, site)
            removed += [f"dropped {name}, left on the server by a killed run" for name in dropped]
        try:
            folders.remove()
            kept.remove()
        except RunFailed as error:
            raise PreflightError(f"an earlier run's remains could not be removed: {error}") from error
        removed += [f"removed {folder}, left behind by a killed run" for folder in left]
    return removed


def _placement_notes(configs: Sequence[Config], site: Site) -> Iterator[str]:
    """Yields notes on what a comparison of placements on this machine can't show. The user reads them before the runs
    take hours.
    """
    used, placements = list[tuple[Config, str, Path]](), set()
    for config in configs:
        paths = [(name, path) for name, path in site.volume_paths(config).items() if name in config.volumes_used]
        used += [(config, name, path) for name, path in paths]
        parts = (*config.data_volumes, f"log {config.log_volume}", *config.placed.items())
        placements.add((*parts, *sorted((name, str(path)) for name, path in paths)))
    devices: dict[str, dict[str, None]] = defaultdict(dict)
    for config, name, path in used if len(placements) > 1 else ():
        facts = host.describe_volume(path)
        device = facts["device"] or facts["source"]  # a container's overlay, tmpfs and NFS have no block device
        if device and config.volumes[name].limit is None:
            devices[str(device)][f"{name} ({path})"] = None
    for device, names in devices.items():
        if len(names) > 1:
            yield (
                f"volumes {', '.join(names)} are on one device ({device})\na layout that moves files from one to "
                "another separates nothing, so it shows no gain of more drives"
            )
    if any(config.target.attached and config.volumes and not config.kind.log_per_database for config in configs):
        yield "the log of a server that runs already stays where it is: only data files are placed on the volumes"
