"""The server's own counters, before and after a run."""

from __future__ import annotations

from storagelab.targets.mariadb.connecting import Connection, ask
from storagelab.targets.steps import Counters

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
