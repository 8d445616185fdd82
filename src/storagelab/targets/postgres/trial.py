"""Every kind of private PostgreSQL that a plan needs, to be started for a moment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from storagelab.model.plan import Plan
from storagelab.targets.folders import Site
from storagelab.targets.postgres.binaries import Binaries, binaries_for
from storagelab.targets.postgres.server import Server
from storagelab.targets.postgres.settings import Settings, private_settings, settings_text
from storagelab.targets.trial import Kind


def kinds(plan: Plan, site: Site) -> Iterator[Kind]:
    """One for each cell of a private server, in the plan's order."""
    for config in (cell.config for cell in plan.cells if not cell.config.target.attached):
        binaries, settings = binaries_for(config, site), private_settings(config)
        yield Kind(
            name=f"PostgreSQL {binaries.version} from {binaries.origin}",
            settings=tuple(f"{name} = {settings_text(value)}" for name, value in config.target.settings.items()),
            key=(binaries.folder, *sorted((name, settings_text(value)) for name, value in settings.items())),
            make=partial(_server, binaries, settings),
        )


def _server(binaries: Binaries, settings: Settings, place: Path) -> Server:
    return Server(binaries, data_folder=place / "server", log_folder=place / "log", settings=settings)
