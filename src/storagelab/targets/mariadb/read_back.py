"""What the server says of itself: what it really is and does, since asking for something proves nothing, and its counters."""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.model.measurement import Check
from storagelab.targets.mariadb.connecting import Connection, ask
from storagelab.targets.mariadb.settings import setting_name
from storagelab.targets.steps import Counters

_SHOWN = (
    "innodb_flush_log_at_trx_commit", "innodb_doublewrite", "sync_binlog", "log_bin", "innodb_flush_method",
    "innodb_page_size", "innodb_buffer_pool_size", "innodb_log_file_size", "innodb_redo_log_capacity",
    "innodb_use_native_aio", "innodb_io_capacity", "innodb_io_capacity_max", "innodb_log_file_buffering",
    "innodb_adaptive_hash_index", "innodb_change_buffering", "innodb_checksum_algorithm", "innodb_flush_neighbors",
    "innodb_read_io_threads", "innodb_write_io_threads", "performance_schema", "max_connections",
)  # fmt: skip


def server_facts(connection: Connection, asked: Mapping[str, object]) -> dict[str, object]:
    """The version, the settings that decide about storage and durability, and those asked for."""
    values = _variables(connection)
    names = [*_SHOWN, *(setting_name(name) for name in asked)]
    shown = {name: values[name] for name in sorted(set(names)) if name in values}
    return {
        "version": values["version"],
        "version_text": f"{values['version']} {values['version_comment']}",
        "settings": shown,
    }


def _variables(connection: Connection) -> dict[str, str]:
    return {name.lower(): value for name, value in ask(connection, "SHOW SESSION VARIABLES")}


def settings(connection: Connection, asked: Mapping[str, str], expected: Mapping[str, str]) -> list[Check]:
    """Checks each setting asked for against the server's; `expected` is its parser's reading."""
    values = _variables(connection)
    checks = []
    for name, text in sorted(asked.items()):
        got = values.get(setting_name(name))
        ok = None if got is None else _same(got, expected[name])
        shown = "nothing: the server does not show it" if got is None else got
        checks.append(
            Check(name=f"target.settings.{name}", asked=text, got=shown, ok=ok, read_from="SHOW SESSION VARIABLES")
        )
    return checks


def _same(got: str, expected: str) -> bool:
    """Compares texts despite the parser's own spelling: TRUE is ON, a number may have zeros after its point."""
    if _plain(got) == _plain(expected):
        return True
    try:
        return float(got) == float(expected)
    except ValueError:
        return False


def _plain(text: str) -> str:
    known = {"true": "on", "false": "off", "1": "on", "0": "off", "(no default value)": ""}
    return known.get(text.strip().casefold(), text.strip().casefold())


_GROUPS = {
    "log": (r"Innodb\_os\_log\_written", r"Innodb\_log\_w%", r"Innodb\_lsn\_current"),
    "data": (
        r"Innodb\_data\_fsyncs", r"Innodb\_data\_read%", r"Innodb\_data\_writ%", r"Innodb\_pages\_%",
        r"Innodb\_dblwr\_%", r"Innodb\_page\_splits",
    ),
    "buffer pool": (
        r"Innodb\_buffer\_pool\_read%", r"Innodb\_buffer\_pool\_write\_requests", r"Innodb\_buffer\_pool\_wait\_free",
        r"Innodb\_buffer\_pool\_pages\_%flushed",
    ),
    "rows": (r"Innodb\_rows\_%", r"Innodb\_row\_lock\_waits", r"Innodb\_row\_lock\_time"),
}  # fmt: skip
"""Counters that only grow; a difference over a run says nothing about a momentary fill level."""


def read_counters(connection: Connection) -> Counters:
    """Cumulative counters of SHOW GLOBAL STATUS that concern storage, `group -> name -> value`."""
    groups: Counters = {}
    for group, patterns in _GROUPS.items():
        condition = " OR ".join(["variable_name LIKE %s"] * len(patterns))
        rows = ask(connection, f"SHOW GLOBAL STATUS WHERE {condition}", list(patterns))
        groups[group] = {name.lower(): float(value) for name, value in rows if _is_number(value)}
    return groups


def read_file_counters(connection: Connection, files: dict[str, str]) -> Counters:
    """Calls and bytes of each data file so far; `files` maps the name to use for it to its path on the server."""
    if not files:
        return {}
    rows = ask(
        connection,
        "SELECT file_name, count_read, count_write, count_misc, sum_number_of_bytes_read, sum_number_of_bytes_write "
        f"FROM performance_schema.file_summary_by_instance WHERE file_name IN ({', '.join(['%s'] * len(files))})",
        list(files.values()),
    )
    names = {path: name for name, path in files.items()}
    columns = ("reads", "writes", "syncs_and_others", "read_bytes", "write_bytes")
    return {
        "data files": {
            f"{names[path]}.{column}": float(value)
            for path, *values in rows
            for column, value in zip(columns, values, strict=True)
        }
    }


def _is_number(value: str) -> bool:
    return value.lstrip("-").replace(".", "", 1).isdigit()
