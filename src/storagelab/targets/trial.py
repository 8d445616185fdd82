"""Does a server start with these settings? Its parser takes each for itself; only a start shows that they go together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from storagelab.errors import PreflightError, RunFailed
from storagelab.stopping import uninterrupted
from storagelab.targets import temporary
from storagelab.targets.private import StartFailed
from storagelab.targets.unprivileged import check_may_enter

MOST_TRIALS = 8
"""A start takes about half a second; of more kinds of server the first ones are tried."""


class Startable(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


class Kind(NamedTuple):
    """One kind of server: `name` with version and origin, `settings` as the spec asks for them, `key` tells kinds apart,
    `make` gives one whose files will stand in a folder."""

    name: str
    settings: tuple[str, ...]
    key: tuple[object, ...]
    make: Callable[[Path], Startable]


def try_kinds(kinds: Iterable[Kind]) -> None:
    """Start each kind of private server for a moment, in the system's temporary folder, and remove it.

    Raises PreflightError with the server's own words and the end of its log for the first that does not come up.
    """
    for kind in list({kind.key: kind for kind in reversed(list(kinds))}.values())[::-1][:MOST_TRIALS]:
        try:
            _start_and_remove(kind)
        except StartFailed as error:
            if "No space left on device" in str(error):  # of the temporary folder, which is not where it will run
                continue
            raise PreflightError(
                str(error),
                key="target.settings" if kind.settings else "target",
                hint=f"{kind.name} was tried with {', '.join(kind.settings) or 'its default settings'}; "
                "nothing was stored",
            ) from error
        except (RunFailed, PreflightError, OSError):
            continue  # the temporary folder is full or barred, which says nothing about the settings


def _start_and_remove(kind: Kind) -> None:
    """Nothing is left of it, also when it is interrupted."""
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
