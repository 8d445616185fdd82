"""The settings a private server gets: what the cell needs to run at all, then what the spec asks for."""

from __future__ import annotations

from storagelab.model.config import Config
from storagelab.model.values import Scalar
from storagelab.targets.powers import LOADS_CODE, RUNS_PROGRAM, by_value

SPARE_CONNECTIONS = 8
"""Beside the workload's: storagelab's own, and those that PostgreSQL keeps for superusers."""
_LOCKS_PER_DATA_FILE = 2
OWN = (
    "listen_addresses", "unix_socket_directories", "unix_socket_permissions", "unix_socket_group", "data_directory",
    "config_file", "hba_file", "ident_file", "external_pid_file",
)  # fmt: skip
"""What keeps a private server private, and reachable for storagelab."""
_LOAD_CODE = ("jit_provider", "dynamic_library_path", "extension_control_path")


def power(name: str, value: Scalar) -> str | None:
    """What a setting has the server do beside keeping a database; storagelab's own settings are refused in any case."""
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

    A transaction that spreads over N data files locks N tables and N indexes, so the lock table has to grow with them.
    """
    needed: dict[str, Scalar] = {
        "max_connections": config.workload.connections + SPARE_CONNECTIONS,
        "max_locks_per_transaction": max(64, 32 + _LOCKS_PER_DATA_FILE * config.layout.data_files),
    }
    return {**needed, **config.target.settings}
