"""MariaDB's redo log: how much of its room is in use, and after how much log its server must write pages."""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.engines.mariadb.connecting import Connection, ask, connect
from storagelab.engines.mariadb.settings import bytes_of
from storagelab.loads.settling import FULL, concerns
from storagelab.model.config import Config
from storagelab.model.plan import Cell
from storagelab.servers.steps import by_server

SIZE, DEFAULT_BYTES = "innodb_log_file_size", 96 * 2**20
_ROOM = 0.78
"""Of the log's size, what the server lets a checkpoint lag behind at most (measured on 10.11: 0.78 of 24 MiB, 0.80 of
96).
"""
_AGE, _MOST = "innodb_checkpoint_age", "innodb_checkpoint_max_age"


def log_room(connection: Connection) -> tuple[int, int] | None:
    """The bytes of log since the last checkpoint, and how many there can be; None if the server, as MySQL, doesn't
    tell.
    """
    shown = ask(connection, f"SHOW GLOBAL STATUS WHERE variable_name IN ('{_AGE}', '{_MOST}')")
    found = {str(name).lower(): int(value) for name, value in shown}
    return (found[_AGE], found[_MOST]) if {_AGE, _MOST} <= found.keys() else None


def rooms_of(cells: Sequence[Cell]) -> dict[str, float]:
    """The bytes of log after which pages must be written, by cell, where that matters to the runs and is known."""
    concerned = [cell for cell in cells if concerns(cell.config.workload)]
    shown: dict[tuple[str | None, str | None], tuple[int, int] | None] = {}
    for first, *_ in by_server([cell.config for cell in concerned if cell.config.target.attached]):
        with connect(first.target) as connection:
            shown[first.target.dsn, first.target.dsn_env] = log_room(connection)
    rooms = {cell.cell_id: _asked(cell.config) if not cell.config.target.attached else None for cell in concerned}
    for cell in concerned:
        found = shown.get((cell.config.target.dsn, cell.config.target.dsn_env))
        if cell.config.target.attached and found is not None:
            rooms[cell.cell_id] = float(found[1])
    return {cell_id: FULL * room for cell_id, room in rooms.items() if room is not None}


def _asked(config: Config) -> float:
    return _ROOM * bytes_of(config, SIZE, DEFAULT_BYTES)
