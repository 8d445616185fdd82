"""Does a server start with these settings? Its parser takes each for itself; only a start shows that they go together."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from storagelab.errors import PreflightError, RunFailed
from storagelab.model import Config, Plan
from storagelab.targets.folders import Site
from storagelab.targets.postgres.binaries import Binaries, binaries_for
from storagelab.targets.postgres.server import Server, Settings, StartFailed, settings_text
from storagelab.targets.postgres.settings import private_settings
from storagelab.targets.uninterrupted import uninterrupted
from storagelab.targets.unprivileged import may_enter

MOST_TRIALS = 8
"""A start takes about half a second; of more kinds of server the first ones are tried."""


def try_starting(plan: Plan, site: Site) -> None:
    """Start each kind of private server of the plan for a moment, in the system's temporary folder, and remove it.

    Raises PreflightError with the server's own words and the end of its log for the first that does not come up.
    """
    for config, binaries, settings in list(_kinds(plan, site))[:MOST_TRIALS]:
        try:
            _start_and_remove(binaries, settings)
        except StartFailed as error:
            if "No space left on device" in str(error):  # of the temporary folder, which is not where it will run
                continue
            asked = ", ".join(f"{name} = {settings_text(value)}" for name, value in config.target.settings.items())
            raise PreflightError(
                str(error),
                key="target.settings" if asked else "target",
                hint=f"PostgreSQL {binaries.version} from {binaries.origin} was tried with "
                f"{asked or 'its default settings'}; nothing was stored",
            ) from error
        except (RunFailed, OSError):
            continue  # the temporary folder is full or barred, which says nothing about the settings


def _kinds(plan: Plan, site: Site) -> Iterator[tuple[Config, Binaries, Settings]]:
    """One cell for each server with settings that differ, in the plan's order."""
    seen = set()
    for cell in plan.cells:
        if cell.config.target.attached:
            continue
        binaries, settings = binaries_for(cell.config, site), private_settings(cell.config)
        kind = (binaries.folder, *sorted((name, settings_text(value)) for name, value in settings.items()))
        if kind not in seen:
            seen.add(kind)
            yield cell.config, binaries, settings


def _start_and_remove(binaries: Binaries, settings: Settings) -> None:
    """Nothing is left of it, also when it is interrupted."""
    place = Path(tempfile.gettempdir()) / f"storagelab-trial-{secrets.token_hex(4)}"
    server = Server(binaries, data_folder=place / "server", log_folder=place / "log", settings=settings)
    try:
        place.mkdir(mode=0o711)
        if may_enter(place):
            server.start()
    finally:
        with uninterrupted():
            server.stop()
            shutil.rmtree(place, ignore_errors=True)
