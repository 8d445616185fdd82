"""Finds the programs of private servers, checks their settings, and makes and tries servers. Every engine uses this
code.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from storagelab.errors import PreflightError, RunFailed, noting, refuse
from storagelab.machine import doctor, temporary
from storagelab.machine.rights import check_may_enter, unprivileged
from storagelab.model.config import Config
from storagelab.model.plan import Plan
from storagelab.model.target import each, step
from storagelab.model.values import Scalar
from storagelab.servers.private import P, PrivateServer, Settings, StartFailed
from storagelab.servers.programs import Programs, asked_folder
from storagelab.stopping import uninterrupted
from storagelab.volumes.folders import Site

# --- representatives -------------------------------------------------------------------------------------------------
#
# Selects a few servers that represent all servers whose settings differ only in their numbers.
#
# A server refuses numbers that are too small or too large. Examples are a lock table that does not fit into memory,
# more connections than files that it may open, and fewer connections than it reserves for superusers. So if it accepts
# the smallest and the largest value of each number, it accepts the values between them. Words, such as "on" or "fsync",
# have no order, nor have numbers with different units. So each combination of words and units is tried separately.

_NUMBER = re.compile(r"([-+]?[0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")

_T = TypeVar("_T")
Texts = Mapping[str, str]
"""The settings of one server: the texts of their values, as the server reads them."""


def standing_for(items: Sequence[_T], texts_of: Callable[[_T], Texts]) -> list[_T]:
    """The items that represent all items. They are in the same order as in `items`."""
    parted = [_parted(texts_of(item)) for item in items]
    alike = defaultdict[object, list[int]](list)
    for position, (words, _) in enumerate(parted):
        alike[words].append(position)
    numbers = [amounts for _, amounts in parted]
    return [items[position] for position in sorted(set().union(*(_extremes(one, numbers) for one in alike.values())))]


def _extremes(group: Sequence[int], numbers: Sequence[Mapping[str, float]]) -> set[int]:
    """For each number that differs: the first item with its smallest value, and the first with its largest value. If
    several items have this value, the other numbers decide, one after the other.
    """
    differing = [name for name in numbers[group[0]] if len({numbers[position][name] for position in group}) > 1]
    found = set() if differing else {group[0]}
    for name in differing:
        names = [name, *(other for other in differing if other != name)]
        by_amounts = {position: [numbers[position][one] for one in names] for position in group}
        found |= {min(group, key=by_amounts.__getitem__), max(group, key=by_amounts.__getitem__)}
    return found


def _parted(texts: Texts) -> tuple[tuple[tuple[str, str], ...], dict[str, float]]:
    """What must be equal in similar settings (the words, and the units of numbers), and the numbers by name."""
    words, numbers = [], {}
    for name, text in sorted(texts.items()):
        number = _NUMBER.fullmatch(text.strip())
        words.append((name, text if number is None else f"a number of {number[2]}"))
        if number is not None:
            numbers[name] = float(number[1])
    return tuple(words), numbers


# --- trial starts ----------------------------------------------------------------------------------------------------
#
# Tries whether a server starts with its settings. The server's own parser has checked each setting separately. Only a
# start shows whether the settings work together.


MOST_TRIALS = 8
"""The largest number of trial starts. A start takes about half a second. If more kinds of server remain, after kinds
that differ only in numbers were reduced, only the first ones are tried.
"""


class Kind(NamedTuple):
    """One kind of server. `name` has its version and origin. `settings` are those of the spec, and `texts` are all
    settings of the server. `make` makes a server of this kind with its files in a folder.
    """

    name: str
    settings: tuple[str, ...]
    programs: Programs
    texts: tuple[tuple[str, str], ...]
    make: Callable[[Path], PrivateServer[Any]]


def try_kinds(kinds: Iterable[Kind]) -> None:
    """Starts each kind of private server for a moment, in the system's temporary folder, and removes it. If kinds
    differ only in numbers, only those with the smallest and the largest numbers are started.

    Raises PreflightError for the first kind that does not start, with the server's message and the end of its log.
    """
    for kind in each(_to_try(kinds), "starting each kind of server for a moment"):
        try:
            # Try one kind. Remove everything afterwards, even after an interruption.
            place = temporary.path("trial")
            server = kind.make(place)
            try:
                temporary.prepare(place)
                place.mkdir()
                place.chmod(0o711)  # whatever the umask is
                check_may_enter(place)
                server.start()
            finally:
                with uninterrupted():
                    server.stop()
                    temporary.remove(place)
        except RunFailed as error:
            full = "No space left on device" in str(error)
            if full and "shared memory" in str(error):
                problem = f"{kind.name} does not start: {doctor.SHARED_MEMORY} is full"
                raise PreflightError(problem, key="target", hint=doctor.MORE_SHARED_MEMORY) from error
            if full or not isinstance(error, StartFailed):
                continue  # the space in the temporary folder shows nothing about the volumes of the runs
            raise PreflightError(
                str(error),
                key="target.settings" if kind.settings else "target",
                hint=f"{kind.name} was tried with {', '.join(kind.settings) or 'its default settings'}; "
                "nothing was stored",
            ) from error
        except (PreflightError, OSError):
            continue  # if the temporary folder can't be used, that shows nothing about the settings


def _to_try(kinds: Iterable[Kind]) -> list[Kind]:
    distinct: dict[tuple[Programs, object], Kind] = {}
    for kind in kinds:
        distinct.setdefault((kind.programs, kind.texts), kind)
    by_programs = defaultdict[Programs, list[Kind]](list)
    for kind in distinct.values():
        by_programs[kind.programs].append(kind)
    found = [kind for alike in by_programs.values() for kind in standing_for(alike, lambda one: dict(one.texts))]
    return found[:MOST_TRIALS]


Pairs = tuple[tuple[str, str], ...]
"""The settings of a server, in order: pairs of a name and the text of its value."""
_AT_ONCE = 100
"""The settings of this many cells fit into one command line."""


@dataclass(frozen=True)
class Starter(Generic[P]):
    """What an engine knows about its private servers.

    `find` finds its programs in a folder, or anywhere on this machine. `settings` returns the settings of a cell's
    server, and `text` the text of a setting's value. `ask` makes the programs read settings together, without a
    database. It returns the values that they read, or raises PreflightError with the programs' message. `is_own` says
    whether a setting keeps a private server private. `server` is the class of its servers.
    """

    title: str
    find: Callable[[str | None], P]
    settings: Callable[[Config], dict[str, Scalar]]
    text: Callable[[Scalar], str]
    ask: Callable[[P, Pairs], Mapping[str, str]]
    is_own: Callable[[str], bool]
    server: type[PrivateServer[P]]

    def programs(self, config: Config, site: Site) -> P:
        """The programs for a cell's server. Raises PreflightError if there are none."""
        return self.find(asked_folder(config, site))

    def ability(self) -> doctor.Ability:
        """For the doctor: whether this machine can start a private server of this engine."""
        return doctor.ability(
            f"private {self.title}",
            lambda: self.find(None),
            lambda found: f"{self.title} {found.version} from {found.origin}",
        )

    def check(self, programs: P, settings: Settings) -> dict[str, str]:
        """The values of the settings as the programs read them. They are checked separately, and then all together.
        Raises PreflightError for settings that the programs refuse. Raises it also for settings that storagelab sets to
        keep the server and its files private.
        """
        self._refuse_own(settings)
        asked = tuple((name, self.text(value)) for name, value in settings.items())
        found, lacks = dict[str, str](), list[PreflightError]()
        for pair in asked:
            with noting(lacks):
                found |= self.ask(programs, (pair,))
        refuse(lacks)
        return {**found, **self.ask(programs, asked)} if asked else found

    def accepts(self, programs: P, kinds: Sequence[Settings]) -> bool:
        """Whether the programs accept the settings of all these kinds in a single start. The settings of each kind that
        differ from the kind before it are put on one command line.
        """
        now, given = dict[str, str](), list[tuple[str, str]]()
        for settings in kinds:
            self._refuse_own(settings)
            given += [(name, text) for name, value in settings.items() if now.get(name) != (text := self.text(value))]
            now |= dict(given)
        with contextlib.suppress(PreflightError):
            return not given or bool(self.ask(programs, tuple(given)))
        return False

    def _refuse_own(self, settings: Settings) -> None:
        for name in filter(self.is_own, settings):
            raise PreflightError(
                "storagelab itself sets this on a private server", key=f"target.settings.{name}",
                hint="leave it out, or attach to your own server with target.dsn",
            )  # fmt: skip

    def check_cells(self, configs: Sequence[Config], site: Site) -> list[str]:
        """Returns the descriptions of the cells' servers. Each different description is returned once. Raises
        PreflightError for servers that can't run.
        """
        lacks, found = list[PreflightError](), dict[str, None]()
        by_programs = defaultdict[P, list[Config]](list)
        for config in configs:
            with noting(lacks):
                by_programs[self.programs(config, site)].append(config)
        for programs, sharing in by_programs.items():
            with noting(lacks):
                self._check_settings(programs, sharing)
            found[f"{self.title} {programs.version} ({programs.origin}), private, started {unprivileged().how}"] = None
        for name, path in sorted({item for config in configs for item in site.volume_paths(config).items()}):
            if path.is_dir() and os.access(path, os.W_OK | os.X_OK):  # another check refuses other volumes
                with noting(lacks):
                    check_may_enter(path, f"volumes.{name}.path")
        refuse(lacks)
        return list(found)

    def _check_settings(self, programs: P, configs: Sequence[Config]) -> None:
        """Checks the settings of all cells. Raises PreflightError.

        Checking one cell takes several starts of a program. So many cells are first checked with one start. If
        something is refused, halves of these cells are checked, until the refused cell is found. Only the
        representative cells are used to check whether settings work together.
        """
        neediest: dict[tuple[tuple[str, str], ...], Config] = {}
        """Maps settings to the cell that has these settings and the most connections."""
        for config in configs:
            key = tuple(self._texts(config).items())
            if config.database_load.connections > neediest.setdefault(key, config).database_load.connections:
                neediest[key] = config
        kinds = list(neediest.values())
        parts = [kinds[start : start + _AT_ONCE] for start in range(0, len(kinds), _AT_ONCE)][::-1]
        done, lacks = 0, list[PreflightError]()
        while parts:
            step("checking settings", done, len(kinds))
            part = parts.pop()
            if len(part) > 1 and not self.accepts(programs, [self.settings(config) for config in part]):
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]
                continue
            if len(part) == 1:
                with noting(lacks):
                    self._check_cell(programs, part[0])
            done += len(part)
        refuse(lacks)
        for config in kinds:
            asked = str(self.settings(config)["max_connections"])
            if asked.isdecimal():
                check_connections(config, int(asked))
            else:  # the server may read a number from this text
                self._check_cell(programs, config)
        for config in each(standing_for(kinds, self._texts), "checking whether settings work together"):
            self._check_cell(programs, config)

    def _check_cell(self, programs: P, config: Config) -> None:
        check_connections(config, int(self.check(programs, self.settings(config))["max_connections"]))

    def _texts(self, config: Config) -> dict[str, str]:
        return {name: self.text(value) for name, value in self.settings(config).items()}

    def kinds(self, plan: Plan, site: Site) -> Iterator[Kind]:
        """For trial starts: the kind of private server of each cell, in the plan's order."""
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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question "Did you mean ...? " with the known setting whose name is the most similar, or "" if none
    is similar.
    """
    close = difflib.get_close_matches(name, list(known), 1)
    return f"Did you mean {close[0]}? " if close else ""


SPARE_CONNECTIONS = 8
"""The number of connections of a private server in addition to the workload's. They are for storagelab and superusers.
"""


def check_connections(config: Config, asked: int) -> None:
    """Raises PreflightError if a private server has fewer connections than the workload and storagelab need."""
    connections = config.database_load.connections
    needed = connections + SPARE_CONNECTIONS
    if asked < needed:
        raise PreflightError(
            f"{asked} is too few: {connections} connections and {SPARE_CONNECTIONS} spare ones are needed",
            key="target.settings.max_connections",
            hint=f"set at least {needed}, or leave it out",
        )
