"""Finds and removes what a killed run of an experiment left behind, on any engine."""

from __future__ import annotations

from pathlib import Path

from storagelab.errors import PreflightError, RunFailed
from storagelab.model.plan import Plan
from storagelab.targets import marks, templates, temporary
from storagelab.targets.folders import Folders, Site
from storagelab.targets.steps import places_of


def _stop_orphan(data_folder: Path) -> bool:
    """Stop the server of any engine that still runs on a data folder; true if there was one."""
    from storagelab.targets.engines import every_engine  # loaded only where something was left

    return any(engine.stop_orphan(data_folder) for engine in every_engine())


def sweep_temporary() -> list[str]:
    """End the programs that killed runs of any experiment left, and remove what is theirs in the temporary folder; says what
    was done."""
    removed = marks.end_left_behind()
    for owned in temporary.left_behind():
        stopped = [place for place in owned.iterdir() if _stop_orphan(place / "server")]
        removed += [f"stopped the server left running in {place}" for place in stopped]
        if temporary.remove_left_behind(owned):
            removed.append(f"removed {owned}, left behind by a killed run")
    return removed


def sweep(plan: Plan, site: Site) -> list[str]:
    """Remove servers still running, folders, and objects on attached servers; says what was removed.

    A folder's name tells only the experiment, so every engine is asked whether a server of its own runs in it.
    Raises PreflightError if that fails, or if something of such a name is not storagelab's.
    """
    removed = []
    for config in {places_of(cell.config, site): cell.config for cell in plan.cells}.values():
        volumes = site.volume_paths(config)
        folders, kept = Folders(site, volumes), templates.folders_of(site, volumes)
        left = [*folders.leftovers(), *kept.leftovers()]
        stopped = [folder for folder in left if _stop_orphan(folder / "server")]
        removed += [f"stopped the server left running in {folder}" for folder in stopped]
        if config.target.attached:
            from storagelab.targets.engines import engine_of

            dropped = engine_of(config).drop_leftovers(config, site)
            removed += [f"dropped {name}, left on the server by a killed run" for name in dropped]
        try:
            folders.remove()
            kept.remove()
        except RunFailed as error:
            raise PreflightError(f"what an earlier run left is still there: {error}") from error
        removed += [f"removed {folder}, left behind by a killed run" for folder in left]
    return removed
