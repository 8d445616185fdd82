"""What all engines do together: check a plan, try its servers and volumes, and remove what killed runs left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from storagelab.errors import PreflightError, RunFailed
from storagelab.loads import fio
from storagelab.machine import host, marks, temporary
from storagelab.machine.doctor import Ability
from storagelab.machine.privileged import privileged_settings, refuse
from storagelab.model.config import Config
from storagelab.model.plan import Experiment, Plan
from storagelab.model.prepared import distinct
from storagelab.model.target import Preflight, Tell, VolumeNeed, reporting_to
from storagelab.run.engine import Engine, engine_in, engine_of, every_engine
from storagelab.servers import objects, templates
from storagelab.servers.durability import compared
from storagelab.servers.starting import Kind, try_kinds
from storagelab.servers.steps import by_server, places_of
from storagelab.volumes import for_run as made_volumes
from storagelab.volumes.folders import Folders, Site


def preflight(
    experiment: Experiment,  # noqa: ARG001 - other engines may ask it
    plan: Plan,
    site: Site,
    *,
    allow_commands: bool = False,
    tell: Tell | None = None,
) -> Preflight:
    """Make every check that changes nothing, for all cells. Raises PreflightError.

    `allow_commands` lets settings run programs, load code and use other folders; such settings are noted. `tell`
    receives the progress of the checks.
    """
    with reporting_to(tell):
        return check(plan, site, allow_commands=allow_commands)


def try_starting(plan: Plan, site: Site, tell: Tell | None = None) -> None:
    """Make each kind of volume and start each kind of server that the plan needs for a moment, and remove it. `tell`
    receives the progress.

    Raises PreflightError with the server's own message for one that does not start.
    """
    with reporting_to(tell):
        made_volumes.try_making(plan, site)
        try_kinds(kinds(plan, site))


def remove_templates(plan: Plan, site: Site) -> None:
    """Remove the prepared data that was kept for the runs of a campaign. Raises RunFailed or PreflightError if some
    could not be removed.
    """
    kept = distinct(cell.config for cell in plan.cells)
    for sharing in by_server(config for config in kept if config.target.attached):
        engine_of(sharing[0]).drop_leftovers(sharing[0], site)
    for volumes in {tuple(sorted(site.volume_paths(one).items())) for one in kept}:
        templates.folders_of(site, dict(volumes)).remove()


def server_abilities() -> tuple[Ability, ...]:
    """The servers that this machine could start and the volumes that it could make, for the doctor."""
    return (*(ability for engine in every_engine() for ability in engine.abilities()), *made_volumes.abilities())


def _by_engine(plan: Plan) -> Iterator[tuple[Engine, Plan]]:
    """Each engine of the plan, with its own cells."""
    for kind in dict.fromkeys(cell.config.kind for cell in plan.cells):
        cells = {cell.cell_id: cell for cell in plan.cells if cell.config.kind == kind}
        runs = tuple(planned for planned in plan.runs if planned.cell_id in cells)
        yield engine_in(kind.folder), Plan(cells=tuple(cells.values()), runs=runs)


def check(plan: Plan, site: Site, *, allow_commands: bool) -> Preflight:
    """The results of all engines' checks of their own cells. Raises PreflightError for the first that fails."""
    kinds_there = {cell.config.kind for cell in plan.cells}
    # Raw I/O is the same test everywhere, so its tables may stand side by side; blocks keep real and simulated runs
    # apart.
    if len({kind.provenance for kind in kinds_there}) > 1 and not all(kind.raw_io for kind in kinds_there):
        hint = "Write two specs: one series never mixes measured and simulated runs."
        raise PreflightError("some cells are simulated and some are not", key="target.engine", hint=hint)
    fio.check_beside(plan, site)
    beyond = (*privileged_settings(plan, lambda config: engine_of(config).privilege), *made_volumes.commands(plan))
    if not allow_commands:
        refuse(beyond)
    making = made_volumes.check(plan, site)
    found = [engine.check(part, site) for engine, part in _by_engine(plan)]
    lacking = [need.lacks for one in found for need in one.volumes if need.lacks]
    promises, warnings = compared(plan, lambda config: engine_of(config).durability)
    return Preflight(
        server="; ".join(one.server for one in found),
        volumes=_most_needed([need for one in found for need in one.volumes]),
        notes=(
            *(privilege.text for privilege in beyond),
            *dict.fromkeys(lacking),
            *(note for one in found for note in one.notes),
            *notes([cell.config for cell in plan.cells], site),
            *warnings,
            *making.warnings,
        ),
        steps=making.steps,
        objects=objects.planned([cell.config for cell in plan.cells], site),
        drives=making.drives,
        durability=promises,
        blocks_at_once=min((one.blocks_at_once for one in found if one.blocks_at_once is not None), default=None),
        cycles={cell_id: cycle for one in found for cell_id, cycle in one.cycles.items()},
        log_rooms={cell_id: room for one in found for cell_id, room in one.log_rooms.items()},
        least_s={cell_id: seconds for one in found for cell_id, seconds in one.least_s.items()},
    )


def kinds(plan: Plan, site: Site) -> Iterator[Kind]:
    for engine, part in _by_engine(plan):
        yield from engine.kinds(part, site)


def _most_needed(needs: list[VolumeNeed]) -> tuple[VolumeNeed, ...]:
    """Each volume once, with the most that any cell needs: cells run one after the other."""
    hungriest: dict[tuple[str, str], VolumeNeed] = {}
    for need in needs:
        known = hungriest.get((need.name, need.path))
        if known is None or (need.needed_bytes or 0) > (known.needed_bytes or 0):
            hungriest[need.name, need.path] = need
    return tuple(hungriest.values())


# --- sweeping --------------------------------------------------------------------------------------------------------
#
# Finds and removes what a killed run of an experiment left behind, on any engine.


def _stop_orphan(data_folder: Path) -> bool:
    """Stop the server of any engine that still runs on a data folder; true if there was one."""
    return any(engine.stop_orphan(data_folder) for engine in every_engine())


def sweep_temporary() -> list[str]:
    """End the programs that killed runs of any experiment left, and remove their things from the temporary folder.
    Returns what was done.
    """
    removed = marks.end_left_behind()
    for owned in temporary.left_behind():
        stopped = [place for place in owned.iterdir() if _stop_orphan(place / "server")]
        removed += [f"stopped the server left running in {place}" for place in stopped]
        if temporary.remove_left_behind(owned):
            removed.append(f"removed {owned}, left behind by a killed run")
    return removed


def sweep(plan: Plan, site: Site) -> list[str]:
    """Remove what killed runs left: runs of any experiment in the temporary folder, and of this one its servers that
    still run, its folders, and its objects on attached servers. Returns what was removed.

    A folder's name shows only the experiment, so every engine is asked whether its server runs there. Raises
    PreflightError if that fails, or if something has such a name and is not storagelab's.
    """
    removed = sweep_temporary()
    for config in {places_of(cell.config, site): cell.config for cell in plan.cells}.values():
        removed += made_volumes.sweep(config, site, _stop_orphan)
        volumes = site.volume_paths(config)
        folders, kept = Folders(site, volumes), templates.folders_of(site, volumes)
        left = [*folders.leftovers(), *kept.leftovers()]
        stopped = [folder for folder in left if _stop_orphan(folder / "server")]
        removed += [f"stopped the server left running in {folder}" for folder in stopped]
        if config.target.attached:
            dropped = engine_of(config).drop_leftovers(config, site)
            removed += [f"dropped {name}, left on the server by a killed run" for name in dropped]
        try:
            folders.remove()
            kept.remove()
        except RunFailed as error:
            raise PreflightError(f"what an earlier run left is still there: {error}") from error
        removed += [f"removed {folder}, left behind by a killed run" for folder in left]
    return removed


# --- notes for `plan` on experiments that move files between volumes --------------------------------------------------
#
# Where such a move separates nothing.


def notes(configs: Sequence[Config], site: Site) -> Iterator[str]:
    """What a comparison of placements can't show on this machine, before hours are spent on it."""
    if len({_placement(config, site) for config in configs}) > 1:
        yield from _on_one_device(configs, site)
    if any(config.target.attached and config.volumes and not config.kind.log_per_database for config in configs):
        yield "the log of a server that runs already stays where it is: only data files are placed on the volumes"


def _placement(config: Config, site: Site) -> tuple[object, ...]:
    """Where a cell's data, log and other parts lie."""
    paths = site.volume_paths(config)
    parts = (*config.data_volumes, f"log {config.log_volume}", *config.placed.items())
    return (*parts, *sorted((name, str(path)) for name, path in paths.items() if name in config.volumes_used))


def _on_one_device(configs: Sequence[Config], site: Site) -> Iterator[str]:
    sharing: dict[str, dict[str, None]] = defaultdict(dict)
    for config in configs:
        for name, path in site.volume_paths(config).items():
            device = host.describe_volume(path)["device"]
            if device and name in config.volumes_used and config.volumes[name].limit is None:
                sharing[str(device)][f"{name} ({path})"] = None
    for device, names in sharing.items():
        if len(names) > 1:
            yield (
                f"volumes {', '.join(names)} are on one device ({device}): a layout that moves files from one to "
                "another separates nothing, so it shows no gain of more drives"
            )
