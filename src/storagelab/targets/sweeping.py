"""What a killed run of an experiment left behind is found and removed, whichever engine it was of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from storagelab.errors import PreflightError, RunFailed
from storagelab.model.config import Config
from storagelab.model.plan import Plan
from storagelab.targets import temporary
from storagelab.targets.folders import Folders, Site
from storagelab.targets.steps import places_of

StopOrphan = Callable[[Path], bool]
"""Given a data folder, stops the server that is still running on it; says whether there was one."""
DropLeftovers = Callable[[Config, Site], list[str]]
"""Drops what is left on the attached server of a cell, and says what."""


def sweep_temporary(stop_orphans: Sequence[StopOrphan]) -> list[str]:
    """Remove what killed runs, of whichever experiment, left in the temporary folder; says what was removed."""
    removed = []
    for owned in temporary.left_behind():
        stopped = [place for place in owned.iterdir() if any(stop(place / "server") for stop in stop_orphans)]
        removed += [f"stopped the server left running in {place}" for place in stopped]
        if temporary.remove_left_behind(owned):
            removed.append(f"removed {owned}, left behind by a run that was killed")
    return removed


def sweep(
    plan: Plan, site: Site, stop_orphans: Sequence[StopOrphan], drop_leftovers: Mapping[str, DropLeftovers]
) -> list[str]:
    """Remove servers still running, folders, and objects on attached servers; says what was removed.

    A folder is named after the experiment only, so every engine is asked whether a server of its own runs in it.
    Raises PreflightError when that can't be done, or something of such a name is not storagelab's.
    """
    removed = []
    for config in {places_of(cell.config, site): cell.config for cell in plan.cells}.values():
        folders = Folders(site, site.volume_paths(config))
        left = folders.leftovers()
        stopped = [folder for folder in left if any(stop(folder / "server") for stop in stop_orphans)]
        removed += [f"stopped the server left running in {folder}" for folder in stopped]
        if config.target.attached:
            dropped = drop_leftovers[config.target.engine](config, site)
            removed += [f"dropped {name}, left on the server by a run that was killed" for name in dropped]
        try:
            folders.remove()
        except RunFailed as error:
            raise PreflightError(f"what an earlier run left is still there: {error}") from error
        removed += [f"removed {folder}, left behind by a run that was killed" for folder in left]
    return removed
