"""Does a server start with these settings? Its parser checks each by itself; only a start shows that they work together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from storagelab.errors import PreflightError, RunFailed
from storagelab.stopping import uninterrupted
from storagelab.targets import temporary
from storagelab.targets.extremes import standing_for
from storagelab.targets.looking import each
from storagelab.targets.private import StartFailed
from storagelab.targets.programs import Programs
from storagelab.targets.unprivileged import check_may_enter

MOST_TRIALS = 8
"""A start takes about half a second. If there are more kinds of server that don't differ in numbers alone, only the first
ones are tried."""


class Startable(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


class Kind(NamedTuple):
    """One kind of server: `name` with version and origin, `settings` as in the spec, all settings of its `programs` as
    `texts`, and `make` to make one whose files stand in a folder."""

    name: str
    settings: tuple[str, ...]
    programs: Programs
    texts: tuple[tuple[str, str], ...]
    make: Callable[[Path], Startable]


def try_kinds(kinds: Iterable[Kind]) -> None:
    """Start each kind of private server for a moment, in the system's temporary folder, and remove it. Of kinds that differ
    in numbers alone, those with the least and the most are started.

    Raises PreflightError with the server's own words and the end of its log for the first that does not start.
    """
    for kind in each(_to_try(kinds), "starting each kind of server for a moment"):
        try:
            _start_and_remove(kind)
        except StartFailed as error:
            if "No space left on device" in str(error):  # in the temporary folder, where it won't run
                continue
            raise PreflightError(
                str(error),
                key="target.settings" if kind.settings else "target",
                hint=f"{kind.name} was tried with {', '.join(kind.settings) or 'its default settings'}; "
                "nothing was stored",
            ) from error
        except (RunFailed, PreflightError, OSError):
            continue  # a full or closed temporary folder says nothing about the settings


def _to_try(kinds: Iterable[Kind]) -> list[Kind]:
    distinct: dict[tuple[Programs, object], Kind] = {}
    for kind in kinds:
        distinct.setdefault((kind.programs, kind.texts), kind)
    by_programs: dict[Programs, list[Kind]] = {}
    for kind in distinct.values():
        by_programs.setdefault(kind.programs, []).append(kind)
    found = [kind for alike in by_programs.values() for kind in standing_for(alike, lambda one: dict(one.texts))]
    return found[:MOST_TRIALS]


def _start_and_remove(kind: Kind) -> None:
    """Try one kind. Leaves nothing behind, even when interrupted."""
    place = temporary.path("trial")
    server = kind.make(place)
    try:
        temporary.prepare(place)
        place.mkdir()
        place.chmod(0o711)  # whatever the umask
        check_may_enter(place)
        server.start()
    finally:
        with uninterrupted():
            server.stop()
            temporary.remove(place)
