"""A MariaDB or MySQL that already runs, as a start for a spec: its settings, and the places of its data and log."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pymysql

from storagelab.engines.mariadb import connecting
from storagelab.engines.mariadb.connecting import Connection, ask
from storagelab.model.config import TargetConfig
from storagelab.model.values import Scalar
from storagelab.servers.attached import RunningServer as Found

_OF_STORAGE = (
    "innodb_buffer_pool_size", "innodb_change_buffering", "innodb_doublewrite", "innodb_file_per_table",
    "innodb_flush_log_at_trx_commit", "innodb_flush_method", "innodb_flush_neighbors", "innodb_io_capacity",
    "innodb_io_capacity_max", "innodb_log_buffer_size", "innodb_log_file_size", "innodb_page_size",
    "innodb_read_io_threads", "innodb_use_native_aio", "innodb_write_io_threads",
)  # fmt: skip
_QUOTED = ", ".join(f"'{name.upper()}'" for name in _OF_STORAGE)
_NOT_CHOSEN = "('COMPILE-TIME', 'AUTO')"


def found(target: TargetConfig) -> Found:
    """What the server shows. Raises PreflightError if it can't be reached."""
    with connecting.connect(target) as connection:
        facts = connecting.read_facts(connection)
        data, log = ask(connection, "SELECT @@datadir, @@innodb_log_group_home_dir")[0]
        data_bytes = ask(
            connection, "SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables"
        )
        folder = Path(data)
        return Found(
            title=facts.name,
            settings=dict(_settings(connection)),
            places={"data": folder, "log": folder / log, **_elsewhere(connection)},
            here=facts.on_this_machine,
            data_bytes=int(data_bytes[0][0]),
        )


def _settings(connection: Connection) -> list[tuple[str, Scalar]]:
    """The chosen settings; none on MySQL, which does not say in one place which these are."""
    with contextlib.suppress(pymysql.MySQLError):
        rows = ask(
            connection,
            "SELECT LOWER(variable_name), global_value FROM information_schema.system_variables"
            f" WHERE variable_name IN ({_QUOTED}) AND global_value_origin NOT IN {_NOT_CHOSEN} ORDER BY 1",
        )
        return [(name, int(value) if str(value).isdigit() else str(value)) for name, value in rows]
    return []


def _elsewhere(connection: Connection) -> dict[str, Path]:
    """The folders outside the data folder that hold tables."""
    try:
        rows = ask(connection, "SELECT path FROM information_schema.innodb_sys_datafiles WHERE path LIKE '/%'")
    except pymysql.MySQLError:  # this login may not ask, or it is MySQL
        return {}
    folders = sorted({Path(path).parent for (path,) in rows})
    return {f"tables{number}": folder for number, folder in enumerate(folders, 1)}
