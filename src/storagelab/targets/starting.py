"""Finds, checks, tries and makes private servers of one engine, the same way for every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic

from storagelab.errors import PreflightError
from storagelab.machine.doctor import Ability
from storagelab.model.config import Config
from storagelab.model.plan import Plan
from storagelab.model.values import Scalar
from storagelab.targets.folders import Site
from storagelab.targets.private import P, PrivateServer, Settings
from storagelab.targets.programs import asked_folder
from storagelab.targets.steps import check_connections
from storagelab.targets.trial import Kind
from storagelab.targets.unprivileged import unprivileged
from storagelab.targets.volumes import check_server_may_enter


@dataclass(frozen=True)
class Starter(Generic[P]):
    """What an engine knows about its private servers: `find` its programs in a folder or on this machine, the `settings` of a
    cell's server, the `text` of a setting's value, `check` what the programs make of settings, and how `server` makes one."""

    title: str
    find: Callable[[str | None], P]
    settings: Callable[[Config], dict[str, Scalar]]
    text: Callable[[Scalar], str]
    check: Callable[[P, Settings], dict[str, str]]
    server: type[PrivateServer[P]]

    def programs(self, config: Config, site: Site) -> P:
        """The programs that a cell asks for. Raises PreflightError."""
        return self.find(asked_folder(config, site))

    def ability(self) -> Ability:
        """Can this machine start one?"""
        name = f"private {self.title}"
        try:
            found = self.find(None)
        except PreflightError as error:
            return Ability(name=name, state="no", detail=error.problem, mend=error.hint)
        return Ability(name=name, state="yes", detail=f"{self.title} {found.version} from {found.origin}")

    def check_cells(self, configs: Sequence[Config], site: Site) -> list[str]:
        """Describes each cell's server. Raises PreflightError for the first that would not run."""
        found = []
        for config in configs:
            programs = self.programs(config, site)
            expected = self.check(programs, self.settings(config))
            check_connections(config, int(expected["max_connections"]))
            found.append(f"{self.title} {programs.version} ({programs.origin}), private, started {unprivileged().how}")
        for name, path in sorted({item for config in configs for item in site.volume_paths(config).items()}):
            check_server_may_enter(path, f"volumes.{name}.path")
        return found

    def kinds(self, plan: Plan, site: Site) -> Iterator[Kind]:
        """Every kind of private server that a plan needs, for a trial start: one for each cell, in the plan's order."""
        for config in (cell.config for cell in plan.cells if not cell.config.target.attached):
            programs, settings = self.programs(config, site), self.settings(config)
            yield Kind(
                name=f"{self.title} {programs.version} from {programs.origin}",
                settings=tuple(f"{name} = {self.text(value)}" for name, value in config.target.settings.items()),
                key=(programs, *sorted((name, self.text(value)) for name, value in settings.items())),
                make=partial(self._in_folder, programs, settings),
            )

    def _in_folder(self, programs: P, settings: Settings, place: Path) -> PrivateServer[P]:
        return self.server(programs, data_folder=place / "server", log_folder=place / "log", settings=settings)
