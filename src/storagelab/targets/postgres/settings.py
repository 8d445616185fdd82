"""The settings of a private server, and how the server itself reads each."""

from __future__ import annotations

import difflib
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.model.config import Config
from storagelab.model.values import Scalar
from storagelab.targets import temporary
from storagelab.targets.postgres.binaries import Binaries
from storagelab.targets.powers import LOADS_CODE, RUNS_PROGRAM, by_value
from storagelab.targets.private import Settings, changes, refuse_own
from storagelab.targets.programs import environment, installation, run
from storagelab.targets.steps import SPARE_CONNECTIONS
from storagelab.targets.unprivileged import as_server, give_to_server

_LOCKS_PER_DATA_FILE = 2
OWN = (
    "listen_addresses", "unix_socket_directories", "unix_socket_permissions", "unix_socket_group", "data_directory",
    "config_file", "hba_file", "ident_file", "external_pid_file",
)  # fmt: skip
"""The settings that keep a private server private, and reachable for storagelab."""
_LOAD_CODE = ("jit_provider", "dynamic_library_path", "extension_control_path")


def power(name: str, value: Scalar) -> str | None:
    """What a setting makes the server do besides keeping a database; storagelab's own settings are refused in any case."""
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
    """Settings for a private server. The spec's win over ours.

    A transaction that spreads over N data files locks N tables and N indexes, so the lock table has to grow with N.
    """
    needed: dict[str, Scalar] = {
        "max_connections": config.database_load.connections + SPARE_CONNECTIONS,
        "max_locks_per_transaction": max(64, 32 + _LOCKS_PER_DATA_FILE * config.layout.data_files),
    }
    return {**needed, **config.target.settings}


def check_settings(binaries: Binaries, settings: Settings) -> dict[str, str]:
    """How the server itself reads each setting, in its base units: `{name: value}`, to compare with later.

    This asks the server's own parser, on an empty temporary folder: no database is made. Raises PreflightError with the
    server's words for the first setting that it refuses.
    """
    _refuse_own(settings)
    asked = {name: settings_text(value) for name, value in settings.items()}
    expected = {name: _ask_parser(binaries, name, ((name, text),)) for name, text in asked.items()}
    if asked:
        _ask_parser(binaries, next(iter(asked)), tuple(asked.items()))
    return expected


def accepts(binaries: Binaries, kinds: Sequence[Settings]) -> bool:
    """Whether the server's parser takes the settings of all these kinds, read one after the other by one program."""
    for settings in kinds:
        _refuse_own(settings)
    given = tuple(changes(kinds, settings_text))
    try:
        return not given or bool(_ask_parser(binaries, given[0][0], given))
    except PreflightError:
        return False


def _refuse_own(settings: Settings) -> None:
    refuse_own(settings, lambda name: name.lower() in OWN)


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
        said = _said(binaries, command, folder)
    if said.returncode != 0:
        near = nearest_setting(binaries, name) if "unrecognized configuration parameter" in said.stderr else ""
        raise PreflightError(
            f"the server refuses it: {own_words(said.stderr)}",
            key=f"target.settings.{name}" if len(settings) == 1 else "target.settings",
            hint=f"{near}PostgreSQL {binaries.version} from {binaries.origin} was asked",
        )
    return said.stdout.removesuffix("\n")  # a blank at the end may be the setting's own


def nearest_setting(binaries: Binaries, name: str) -> str:
    """ "Did you mean ...? " with the server's most similarly spelt setting; empty if there is none."""
    said = _said(binaries, [binaries.program("postgres"), "--describe-config"])
    known = [line.split("\t", maxsplit=1)[0] for line in said.stdout.splitlines()]
    close = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {close[0]}? " if close else ""


def _said(binaries: Binaries, command: Sequence[str], *reach: Path) -> subprocess.CompletedProcess[str]:
    in_child = as_server(*installation(Path(binaries.program("postgres"))), *reach)
    return run(command, in_child, timeout_s=30, environment=environment())


def own_words(log: str) -> str:
    """The messages in a server log, without time stamps."""
    lines = [line.split("] ", 1)[-1].strip() for line in log.splitlines() if line.strip()]
    wanted = [line for line in lines if not line.startswith("LOG:")]
    return " ".join(wanted or lines)
