"""The settings a private server gets: what the cell needs to run at all, then what the spec asks for."""

from __future__ import annotations

from storagelab.model import Config
from storagelab.values import Scalar

SPARE_CONNECTIONS = 8
"""Beside the workload's: storagelab's own, and those that PostgreSQL keeps for superusers."""
_LOCKS_PER_DATA_FILE = 2


def private_settings(config: Config) -> dict[str, Scalar]:
    """Settings for a private server. The spec's win over ours.

    A transaction that spreads over N data files locks N tables and N indexes, so the lock table has to grow with them.
    """
    needed: dict[str, Scalar] = {
        "max_connections": config.workload.connections + SPARE_CONNECTIONS,
        "max_locks_per_transaction": max(64, 32 + _LOCKS_PER_DATA_FILE * config.layout.data_files),
    }
    return {**needed, **config.target.settings}
