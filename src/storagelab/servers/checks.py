"""Checks that are the same for every engine with private and attached servers: the cells of a plan, settings that the
engine's own programs read, and settings that a server reports. The checks change nothing.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from storagelab.errors import PreflightError, RunFailed, noting
from storagelab.model.config import Config, TargetConfig
from storagelab.model.measurement import Check
from storagelab.model.plan import Cell, Plan
from storagelab.model.target import Preflight
from storagelab.model.values import Frozen
from storagelab.servers import places, space, templates
from storagelab.servers.attached import Need, enough_connections, quoting
from storagelab.servers.interfaces import C, by_server
from storagelab.servers.starting import Starter
from storagelab.volumes.folders import Site


class AttachedFacts(Frozen):
    """The facts about a server that already runs, and the rights of its login.

    `process_owner` is the account (uid, gid) of the server. It is None if the server runs on another machine, or if
    this system is not Linux. Then the kernel can't report on the server's sessions. Some engines also report their
    process's `pid`. `counts_files` says whether the server counts the I/O of each file.
    """

    title: str
    version: str
    release: tuple[int, ...]
    max_connections: int  # the limit for this login
    open_connections: int
    buffers_bytes: int
    direct: bool  # whether its data files bypass the kernel's page cache
    may_write_out: bool
    process_owner: tuple[int, int] | None
    where: str
    pid: int | None = None
    counts_files: bool = False

    @property
    def name(self) -> str:
        return f"{self.title} {self.version}"

    @property
    def on_this_machine(self) -> bool:
        return self.process_owner is not None


F = TypeVar("F", bound=AttachedFacts)
_T = TypeVar("_T")
Connect = Callable[[TargetConfig], AbstractContextManager[C]]
"""Connects to a running server. Raises PreflightError with the server's message, also if a later query fails."""


@dataclass(frozen=True)
class Checks(Generic[C, F]):
    """An engine's own part of a preflight.

    `bytes_on`: the disk space of a run that makes its own data. `kept_bytes_on`: the space of a template, or of a run
    with a copy of it. `is_barred` returns whether a path can't be used for data files. `bar` is the reason for this.
    `buffers`: the name of the setting for the memory that holds data. `private_buffers`: the size of this memory on a
    private server in bytes, and whether data files bypass the page cache there. `check_server` checks a running server
    for its cells, and returns facts and notes. `check_login` logs in as the load's program does. `login_hint`: likely
    causes if that fails.
    """

    starter: Starter[Any]
    programs_folder: Callable[[Any], Path]
    bytes_on: templates.BytesOn
    kept_bytes_on: templates.BytesOn
    is_barred: Callable[[str], bool]
    bar: str
    buffers: str
    private_buffers: Callable[[Config], tuple[int, bool]]
    connect: Connect[C]
    check_server: Callable[[C, Sequence[Config], Site], tuple[F, list[str]]]
    check_login: Callable[[Config, Site, F], None]
    login_hint: str

    def check(self, plan: Plan, site: Site) -> Preflight:
        """Checks everything that could make a run fail. The result lists the problems."""
        configs = [cell.config for cell in plan.cells]
        bytes_on = templates.with_kept(configs, site, self.bytes_on, self.kept_bytes_on)
        on_volumes = space.volume_needs(configs, site, bytes_on)
        needs, lacks = (*on_volumes.needs, *places.needs(configs, self.bytes_on)), [*on_volumes.lacks]
        private = [one for one in configs if not one.target.attached]
        memories = [(one, self._private_memory(one)) for one in private]
        found, notes = list[str](), space.memory_notes(memories)
        with noting(lacks):
            space.check_place_names(needs, self.is_barred, self.bar)
        with noting(lacks):
            space.check_between_runs(configs)
        with noting(lacks):
            found += self.starter.check_cells(private, site)
        with noting(lacks):
            for _, memory in memories:
                space.refuse_more_than_there_is(memory)
        for sharing in by_server([one for one in configs if one.target.attached]):
            with noting(lacks):
                title, more = self._check_running(sharing, site)
                found.append(title)
                notes += more
        with noting(lacks):
            found += space.check_generators(
                configs, site, lambda one: self.programs_folder(self.starter.programs(one, site))
            )
        notes += templates.notes(configs)
        notes += [places.NOTE] if any(map(places.remote_paths, configs)) else []
        server = "; ".join(dict.fromkeys(found))
        return Preflight(server=server, volumes=needs, notes=tuple(notes), lacks=tuple(lacks))

    def _private_memory(self, config: Config) -> space.Memory:
        buffers_bytes, direct = self.private_buffers(config)
        return space.Memory(self.buffers, buffers_bytes, space.memory_here(), cached=not direct)

    def _check_running(self, sharing: Sequence[Config], site: Site) -> tuple[str, list[str]]:
        """Checks a running server, and returns its title and notes. All its cells share one connection for this."""
        target = sharing[0].target
        with self.connect(target) as connection:
            facts, notes = self.check_server(connection, sharing, site)
            for config in {one.workload.kind: one for one in sharing if one.generated}.values():
                with quoting(target, RunFailed, str, "the load can't begin", self.login_hint):
                    self.check_login(config, site, facts)
        machine = space.memory_here() if facts.on_this_machine else None
        memory = space.Memory(self.buffers, facts.buffers_bytes, machine, cached=not facts.direct)
        notes = [*space.memory_notes([(one, memory) for one in sharing]), *notes]
        return f"{facts.name}, attached, {facts.where}", notes


def by_cell(
    cells: Sequence[Cell], connect: Connect[C], shown: Callable[[C], _T | None], asked: Callable[[Config], _T | None]
) -> dict[str, _T]:
    """A fact about each cell's server, by cell ID. A running server shows the value (`shown`). For a private server,
    the value comes from the settings (`asked`). Cells for which it is unknown are left out.
    """
    running: dict[tuple[str | None, str | None], _T | None] = defaultdict(lambda: None)
    for first, *_ in by_server([cell.config for cell in cells if cell.config.target.attached]):
        with contextlib.suppress(PreflightError), connect(first.target) as connection:
            running[first.target.dsn, first.target.dsn_env] = shown(connection)
    found = {
        cell.cell_id: running[target.dsn, target.dsn_env] if target.attached else asked(cell.config)
        for cell in cells for target in [cell.config.target]
    }  # fmt: skip
    return {cell_id: one for cell_id, one in found.items() if one is not None}


def needs_of_every_engine(facts: AttachedFacts, oldest: tuple[int, ...], connections: int) -> list[Need]:
    """The needs that the server is recent enough, and has enough free connections for a load."""
    free = facts.max_connections - facts.open_connections
    too_old = f"storagelab measures {facts.title} {'.'.join(map(str, oldest))} and later"
    return [
        (facts.release >= oldest, f"the server is {facts.name}, which is too old", too_old),
        enough_connections(connections, free, "max_connections on the server"),
    ]


# --- settings --------------------------------------------------------------------------------------------------------
#
# Compares the spec's settings with those that the server reports.


def read_back(
    asked: Mapping[str, str], shown: Callable[[str, str], tuple[str, bool] | None], read_from: str
) -> list[Check]:
    """Compares each requested setting with the server's report. `shown` returns the reported value, and whether it
    equals the requested value, or None if the server does not report the setting.
    """
    checks = []
    for name, text in sorted(asked.items()):
        got, ok = shown(name, text) or ("nothing: the server does not show it", None)
        checks.append(Check(name=f"target.settings.{name}", asked=text, got=got, ok=ok, read_from=read_from))
    return checks
