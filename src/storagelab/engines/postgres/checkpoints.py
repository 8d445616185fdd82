"""PostgreSQL's checkpoints: how many have begun, and how far apart they can come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import LiteralString

from storagelab.engines.postgres import connecting
from storagelab.engines.postgres.connecting import Connection
from storagelab.loads.settling import concerns
from storagelab.model.config import Config
from storagelab.model.plan import Cell
from storagelab.model.target import CheckpointCycle
from storagelab.servers.steps import by_server
from storagelab.spec.units import parse_bytes, parse_seconds

_BEGUN: Mapping[int, LiteralString] = {
    14: "SELECT checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter",
    17: "SELECT num_timed + num_requested FROM pg_stat_checkpointer",
}
_SHOWN = """
SELECT name, CASE name WHEN 'max_wal_size' THEN pg_size_bytes(current_setting(name))::text
                       WHEN 'checkpoint_timeout' THEN extract(epoch FROM current_setting(name)::interval)::text
                       ELSE setting END
FROM pg_settings WHERE name = ANY(ARRAY['checkpoint_timeout', 'max_wal_size', 'checkpoint_completion_target'])"""
_DEFAULTS = {"checkpoint_timeout": 300.0, "max_wal_size": 2.0**30, "checkpoint_completion_target": 0.9}


def checkpoint_count(connection: Connection) -> Callable[[], int]:
    """A function that asks how many checkpoints the server has begun."""
    statement = _BEGUN[max(version for version in _BEGUN if version <= connection.info.server_version // 10_000)]
    return lambda: int(connecting.value(connection, statement))


def cycles_of(cells: Sequence[Cell]) -> dict[str, CheckpointCycle]:
    """How far apart checkpoints come, by cell, where that matters to the runs and is known."""
    concerned = [cell for cell in cells if concerns(cell.config.workload)]
    shown: dict[tuple[str | None, str | None], CheckpointCycle] = {}
    for first, *_ in by_server([cell.config for cell in concerned if cell.config.target.attached]):
        with connecting.connect(first.target) as connection:
            shown[first.target.dsn, first.target.dsn_env] = _cycle_shown(connection)
    found = {
        cell.cell_id: shown[cell.config.target.dsn, cell.config.target.dsn_env]
        if cell.config.target.attached else _cycle_asked(cell.config)
        for cell in concerned
    }  # fmt: skip
    return {cell_id: cycle for cell_id, cycle in found.items() if cycle is not None}


def _cycle_asked(config: Config) -> CheckpointCycle | None:
    """The cycle of a private server; None if a setting can't be read here."""
    found = dict(_DEFAULTS)
    try:
        for name, value in config.target.settings.items():
            if name.lower() in found:
                found[name.lower()] = _number(name.lower(), str(value))
    except ValueError:
        return None
    return _cycle(found)


def _number(name: str, text: str) -> float:
    """A setting in seconds, bytes, or without a unit; a number alone counts the server's own units. Raises
    ValueError.
    """
    if text.replace(".", "").isdigit():
        return float(text) * (2**20 if name == "max_wal_size" else 1)
    return parse_bytes(text) if name == "max_wal_size" else parse_seconds(text)


def _cycle_shown(connection: Connection) -> CheckpointCycle:
    """The cycle of a server that already runs."""
    return _cycle({name: float(shown) for name, shown in connection.execute(_SHOWN).fetchall()})


def _cycle(settings: Mapping[str, float]) -> CheckpointCycle:
    # A checkpoint is asked for in time to be complete, with the log written meanwhile, within max_wal_size.
    log_bytes = settings["max_wal_size"] / (1 + settings["checkpoint_completion_target"])
    return CheckpointCycle(settings["checkpoint_timeout"], log_bytes, "checkpoint_timeout", "max_wal_size")
