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
from storagelab.targets.extremes import standing_for
from storagelab.targets.folders import Site
from storagelab.targets.looking import each, step
from storagelab.targets.private import P, PrivateServer, Settings
from storagelab.targets.programs import asked_folder
from storagelab.targets.steps import check_connections
from storagelab.targets.trial import Kind
from storagelab.targets.unprivileged import unprivileged
from storagelab.targets.volumes import check_server_may_enter

_AT_ONCE = 100
"""So many cells' settings fit onto one command line."""


@dataclass(frozen=True)
class Starter(Generic[P]):
    """What an engine knows about its private servers: `find` its programs in a folder or on this machine, the `settings` of a
    cell's server, the `text` of a setting's value, `check` what the programs make of settings, `accepts` whether they take
    all of these one after the other, and how `server` makes one."""

    title: str
    find: Callable[[str | None], P]
    settings: Callable[[Config], dict[str, Scalar]]
    text: Callable[[Scalar], str]
    check: Callable[[P, Settings], dict[str, str]]
    accepts: Callable[[P, Sequence[Settings]], bool]
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
        found: dict[str, None] = {}
        by_programs: dict[P, list[Config]] = {}
        for config in configs:
            by_programs.setdefault(self.programs(config, site), []).append(config)
        for programs, sharing in by_programs.items():
            self._check_settings(programs, sharing)
            found[f"{self.title} {programs.version} ({programs.origin}), private, started {unprivileged().how}"] = None
        for name, path in sorted({item for config in configs for item in site.volume_paths(config).items()}):
            check_server_may_enter(path, f"volumes.{name}.path")
        return list(found)

    def _check_settings(self, programs: P, configs: Sequence[Config]) -> None:
        """Asking about one cell's settings takes several starts of a program. So one start reads those of many cells, and
        only if something in them is refused, it is looked for. How settings go together is asked of those that stand for
        all."""
        neediest: dict[tuple[tuple[str, str], ...], Config] = {}
        """Cells with the same settings -> that with the most connections."""
        for config in configs:
            key = tuple(self._texts(config).items())
            known = neediest.setdefault(key, config)
            if config.database_load.connections > known.database_load.connections:
                neediest[key] = config
        kinds = list(neediest.values())
        parts = [kinds[start : start + _AT_ONCE] for start in range(0, len(kinds), _AT_ONCE)][::-1]
        done = 0
        while parts:
            step("checking settings", done, len(kinds))
            part = parts.pop()
            if len(part) > 1 and not self.accepts(programs, [self.settings(config) for config in part]):
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]
                continue
            if len(part) == 1:
                self._check_cell(programs, part[0])
            done += len(part)
        for config in kinds:
            asked = str(self.settings(config)["max_connections"])
            if asked.isdecimal():
                check_connections(config, int(asked))
            else:  # the server may read it in its own way
                self._check_cell(programs, config)
        for config in each(standing_for(kinds, self._texts), "checking how settings go together"):
            self._check_cell(programs, config)

    def _check_cell(self, programs: P, config: Config) -> None:
        expected = self.check(programs, self.settings(config))
        check_connections(config, int(expected["max_connections"]))

    def _texts(self, config: Config) -> dict[str, str]:
        return {name: self.text(value) for name, value in self.settings(config).items()}

    def kinds(self, plan: Plan, site: Site) -> Iterator[Kind]:
        """Every kind of private server that a plan needs, for a trial start: one for each cell, in the plan's order."""
        for config in (cell.config for cell in plan.cells if not cell.config.target.attached):
            programs, settings = self.programs(config, site), self.settings(config)
            yield Kind(
                name=f"{self.title} {programs.version} from {programs.origin}",
                settings=tuple(f"{name} = {self.text(value)}" for name, value in config.target.settings.items()),
                programs=programs,
                texts=tuple(sorted(self._texts(config).items())),
                make=partial(self._in_folder, programs, settings),
            )

    def _in_folder(self, programs: P, settings: Settings, place: Path) -> PrivateServer[P]:
        return self.server(programs, data_folder=place / "server", log_folder=place / "log", settings=settings)
