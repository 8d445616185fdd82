"""Checks that this machine and this server can run every cell of the plan. Changes nothing.

It checks the properties of a running server, the rights of the login, and the disk space that the runs need.
"""

from __future__ import annotations

import difflib
import math
import os
import shlex
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psycopg
from psycopg.rows import dict_row

from storagelab.engines.postgres import connect as db
from storagelab.engines.postgres.layout import Layout, needs_database
from storagelab.engines.postgres.meanings import DECIDING, judge
from storagelab.engines.postgres.server import OLDEST_MAJOR, STARTER
from storagelab.errors import PreflightError
from storagelab.loads.settling import concerns
from storagelab.model.config import Config
from storagelab.model.durability import Durability
from storagelab.model.plan import Plan
from storagelab.model.target import CheckpointCycle, Preflight
from storagelab.servers import checks, space
from storagelab.servers.attached import kept_by_load, owner_of, process_age_s, require, where
from storagelab.servers.durability import of_cell
from storagelab.servers.places import Places, remote_name, share_on, tables_of
from storagelab.spec.units import parse_bytes, parse_seconds
from storagelab.volumes.folders import Site

# The disk space of a row in bytes, measured on 18.4 and rounded up: in heap and index, with half-full pages, and in the
# log.
_RANDOM_ROW_BYTES = 270
_SEQUENTIAL_ROW_BYTES = 8192 + 40
_RANDOM_LOG_BYTES = 500
_SEQUENTIAL_LOG_BYTES = 8400
_SERVER_BYTES = 64 * 2**20
_PAGE_BYTES = 8192
_MAX_WAL_UNIT_BYTES = 2**20
_WAL_OVERSHOOT = 1.5
"""The largest log as a multiple of max_wal_size. PostgreSQL may exceed max_wal_size while a checkpoint runs."""
_LOG_OF_DATA = 1.5
"""The bytes of log per byte of data when a generator's tables are made and read. They hold rows, whole pages after a
checkpoint, and hint bits. Measured on 18.4: 1.05 for pgbench's tables at scale 20."""
_GROWTH_BYTES_PER_S = 2 * 2**20
"""How many bytes the tables grow per second if transactions write. This is a guess: 5,000 transactions of 400 bytes."""
_LIKE_US = (
    "the load's programs get the DSN's options, HOME, PG*, KRB5* and SSL_CERT_* from you: certificates and keys must "
    "be in the places that these name, or in libpq's default places"
)
_LOCKS_NOTE = (
    "transactions may hold {needed:,} locks at once, but the server's lock table may have room for only {room:,}\n"
    "if runs fail because shared memory is full, raise max_locks_per_transaction on the server"
)


def check(plan: Plan, site: Site) -> Preflight:
    """Checks everything that could make a run fail. Raises PreflightError, which names the key."""
    found = CHECKS.check(plan, site)
    concerned = [cell for cell in plan.cells if concerns(cell.config.workload)]
    return found.model_copy(update={"cycles": checks.by_cell(concerned, db.connected, _cycle_shown, _cycle_asked)})


def durability(config: Config) -> Durability:
    """Which data survive a crash of the cell's server."""
    asked = {name.lower(): db.settings_text(value) for name, value in config.target.settings.items()}
    return of_cell(config, asked, db.connected, _deciding, judge)


def _deciding(connection: db.Connection) -> tuple[dict[str, str], str]:
    shown = connection.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(DECIDING)])
    return dict(shown.fetchall()), ""


# --- running servers -------------------------------------------------------------------------------------------------


class ServerFacts(checks.AttachedFacts):
    """The facts about a PostgreSQL server that already runs, and the rights of the login."""

    superuser: bool
    may_create: bool
    may_make_database: bool
    locks: int  # the lock table has room for at least this number of locks
    standby: bool  # whether it is a hot standby, which accepts no writes
    set_for_load: tuple[str, ...]  # settings of the database or role, as "name=value"
    setting_contexts: dict[str, str]

    @property
    def major(self) -> int:
        return self.release[0]


_FACTS = Path(__file__).with_name("server_facts.sql").read_text("utf-8")


def read_facts(connection: db.Connection) -> ServerFacts:
    """Reads the properties of the server and the rights of this login."""
    row = connection.cursor(row_factory=dict_row).execute(_FACTS).fetchone()
    assert row is not None
    owner = _owner_on_this_machine(connection.info.backend_pid, row.pop("began_s"))
    contexts = dict(connection.execute("SELECT name, context FROM pg_settings").fetchall())
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        place = where(line, on_this_machine=owner is not None)
    return ServerFacts(**row, process_owner=owner, where=place, setting_contexts=contexts)


def _owner_on_this_machine(pid: int, backend_start_s: float) -> tuple[int, int] | None:
    """The owner of the process that serves storagelab's own session. Returns None if the process is not on this
    machine.

    The name and the start time of the process must match, because the pid on a remote server may be the pid of another
    process here. The kernel must also show the process's scheduling times.
    """
    folder = Path(f"/proc/{pid}")
    age_s = process_age_s(folder, ("postgres", "postmaster"))
    is_ours = age_s is not None and abs(time.time() - age_s - backend_start_s) < 2.0
    return owner_of(folder) if is_ours and os.access(folder / "schedstat", os.R_OK) else None


def _check_server(connection: db.Connection, configs: Sequence[Config], site: Site) -> tuple[ServerFacts, list[str]]:
    db.check_direct(connection, configs[0].target)
    facts = read_facts(connection)
    layouts = [Layout(config, site.prefix, None) for config in configs]
    for config, layout in zip(configs, layouts, strict=True):
        check_rights(config, facts)
        asked = {name: db.settings_text(value) for name, value in config.target.settings.items()}
        check_session_settings(connection, facts, asked)
        layout.check_nothing_in_the_way(connection)
        for volume, path in site.volume_paths(config).items() if config.data_volumes else ():
            space.check_folder_for_server(facts.process_owner, volume, path)
    _check_folders(connection, layouts)
    # A transaction may use every data file. Then it locks the table and the index of each. A generator's transactions
    # are short.
    most = max(
        2 * one.database_load.connections
        * (one.layout.data_files if one.generated
           else min(one.layout.data_files, one.insert_load.rows_per_transaction)) for one in configs
    )  # fmt: skip
    kept = (one.partition("=")[0] for one in facts.set_for_load)
    notes = kept_by_load(name for name in kept if name.lower() not in db.unended(facts.major))
    return facts, notes + ([_LOCKS_NOTE.format(needed=most, room=facts.locks)] if most > facts.locks else [])


def check_rights(config: Config, facts: ServerFacts) -> None:
    """Checks the login's rights and the server's limits. Raises PreflightError, which names the missing right or the
    limit.
    """
    database = needs_database(config)
    old, room = checks.needs_of_every_engine(facts, (OLDEST_MAJOR,), config.database_load.connections)
    right, grant = "role pg_checkpoint", "GRANT pg_checkpoint TO ..."
    if facts.major < 15:
        right, grant = "right SUPERUSER", "use a superuser"
    needs = [
        old,
        (not facts.standby,
         "the server is a hot standby, so it accepts no writes",
         "name its primary, or another server that accepts writes; the command capture also watches a standby"),
        (facts.may_create or database,
         "the login lacks the right CREATE on the database, which is needed to make storagelab's schema",
         "as its owner: GRANT CREATE ON DATABASE ... TO ..."),
        (facts.may_make_database or not database,
         "the login lacks the right CREATEDB, which is needed to make the load's database",
         "as an administrator: ALTER ROLE ... CREATEDB"),
        (facts.superuser or not config.data_volumes,
         "the login lacks the right SUPERUSER, which is needed to put data files on volumes by CREATE TABLESPACE",
         "use a superuser, or leave [volumes] out to measure in the server's own folder"),
        (facts.may_write_out or not config.between_runs.checkpoint,
         f"the login lacks the {right}, which is needed for CHECKPOINT between runs",
         f"{grant}, or set between_runs.checkpoint = false"),
        room,
    ]  # fmt: skip
    require(config.target, needs)


def check_session_settings(connection: db.Connection, facts: ServerFacts, settings: Mapping[str, str]) -> None:
    """Checks that the spec's settings can be set for a session. On an attached server, storagelab can set them only for
    sessions.

    Sets each setting in this session and resets it. Raises PreflightError with the server's message if a setting can't
    be set.
    """
    for name, value in settings.items():
        key, context = f"target.settings.{name}", facts.setting_contexts.get(name)
        if context is None:
            close = difflib.get_close_matches(name, facts.setting_contexts, 1)
            hint = f"did you mean {close[0]}?" if close else "see the server's view pg_settings"
            raise PreflightError("the server has no such setting", key=key, hint=hint)
        if context not in ("user", "superuser") or (context == "superuser" and not facts.superuser):
            raise PreflightError(
                f"it can't be set for a session (its context is {context})", key=key,
                hint="set it on the server yourself, or let storagelab start a private server (leave target.dsn out)",
            )  # fmt: skip
        try:
            with connection.transaction(force_rollback=True):
                connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        except psycopg.Error as error:
            hint = f"PostgreSQL {facts.version} was asked"
            raise PreflightError(f"the server refuses it: {db.words_of(error)}", key=key, hint=hint) from error


def _check_folders(connection: db.Connection, layouts: Iterable[Places]) -> None:
    """Checks that the folders for tablespaces exist on the server's machine, because neither PostgreSQL nor storagelab
    can make them on another machine.

    Raises PreflightError if a folder is missing. The error has the command with which the operator makes the folders.
    """
    wanted = {
        (layout.volume_of(number), layout.folder_of(number)): number
        for layout in layouts for number in layout.data_files if layout.is_remote(number)
    }  # fmt: skip
    statement = "SELECT coalesce((pg_stat_file(%s, true)).isdir, false)"
    missing = [
        place for place in sorted(wanted) if connection.execute(statement, [str(place[1])]).fetchone() != (True,)
    ]
    if missing:
        volume, first = missing[0]
        numbers = [wanted[place] for place in missing if place[0] == volume]
        raise PreflightError(
            f"the server sees no folder {first}",
            key=f"volumes.{volume}.path",
            hint="have its operator run there: install -d -m 700 -o postgres "
            f"{shlex.quote(str(first.parent))}/{_brace(min(numbers), max(numbers))} (postgres = the server's account)",
        )


def _brace(first: int, last: int) -> str:
    """A shell pattern for all folder names from the first to the last number. It may include folders that exist."""
    begin, dash, number = remote_name(first).rpartition("-")
    return begin + dash + (number if first == last else f"{{{number}..{remote_name(last).rpartition('-')[2]}}}")


# --- disk space ------------------------------------------------------------------------------------------------------


def _bytes_on(config: Config, volume: str) -> int:
    """The most disk space in bytes that one run of this cell needs on a volume."""
    if config.generated:  # the objects in the user's own files are unknown before the run
        return max(_making_bytes_on(config, volume, _data_bytes(config)), _copied_bytes_on(config, volume))
    work, files = config.insert_load, config.layout.data_files
    row_bytes = _SEQUENTIAL_ROW_BYTES if work.page_a_row else _RANDOM_ROW_BYTES
    log_bytes = work.rows * (_SEQUENTIAL_LOG_BYTES if work.page_a_row else _RANDOM_LOG_BYTES)
    files_here = sum(config.volume_of_data_file(i) == volume for i in range(files)) if config.data_volumes else 0
    return round(work.rows * row_bytes * files_here / files) + _server_bytes_on(config, volume, log_bytes)


def _data_bytes(config: Config) -> int:
    return space.data_bytes(config.generated_load, tables_of(config).unit_bytes) or 0


def _copied_bytes_on(config: Config, volume: str) -> int:
    """The bytes of a generator's tables and indexes on a volume, with their growth in a run and the server's files."""
    load, made = config.generated_load, _data_bytes(config)
    grown = 0 if load.reads_only else _GROWTH_BYTES_PER_S * (load.longest_s or 0)
    share = share_on(config, tables_of(config)(config, "", None).known_objects, volume)
    overshoot = 1.0 if load.reads_only else _WAL_OVERSHOOT  # after the copy, reads write no log
    return round(share * (made + grown)) + _server_bytes_on(config, volume, _log_bytes(config, made), overshoot)


def _making_bytes_on(config: Config, volume: str, made: int) -> int:
    """The bytes on a volume during the set-up.

    The builds of indexes need space to sort. Tables that are later moved are first on the first volume.
    """
    tables = tables_of(config)
    in_place = _copied_bytes_on(config, volume)
    if volume not in config.data_volumes[:1]:
        return in_place
    if tables.filled_in_place:
        indexes: float = tables.index_share
        return in_place + round(2 * indexes * made)
    largest = made / max(1, len(tables(config, "", None).spread)) if config.layout.data_files > 1 else 0
    return _server_bytes_on(config, volume, _log_bytes(config, made)) + round(made + largest)


def _log_bytes(config: Config, made: int) -> float:
    """The most bytes of log that are written while a generator's tables are made and during a run."""
    load = config.generated_load
    if not load.reads_only or load.data.units is None:
        return math.inf
    moved = 0 if tables_of(config).filled_in_place else 1
    return (_LOG_OF_DATA + moved) * made


def _server_bytes_on(config: Config, volume: str, log_bytes: float, overshoot: float = _WAL_OVERSHOOT) -> int:
    """The bytes that a private server needs on a volume in addition to tables: for its own files, and for its log of at
    most `log_bytes`.
    """
    if config.target.attached:
        return 0
    total = _SERVER_BYTES if volume in config.data_volumes[:1] else 0
    if config.log_volume == volume:
        most_bytes = overshoot * _size(config, "max_wal_size", 2**30, _MAX_WAL_UNIT_BYTES)
        total += round(min(log_bytes, most_bytes)) + 2 * _size(config, "wal_segment_size", 2**24, 1)
    return total


def _private_buffers(config: Config) -> tuple[int, bool]:
    direct = "data" in str(config.target.settings.get("debug_io_direct", ""))
    return _size(config, "shared_buffers", 128 * 2**20, _PAGE_BYTES), direct


def _size(config: Config, name: str, default: int, unit_bytes: int) -> int:
    """The size in bytes of a setting. If its value is a number, the unit is `unit_bytes`."""
    asked = config.target.settings.get(name, default // unit_bytes)
    try:
        return parse_bytes(asked) if isinstance(asked, str) else int(asked) * unit_bytes
    except ValueError:
        return default  # the server has accepted the value; only this estimate gets less exact


CHECKS = checks.Checks(
    starter=STARTER, programs_folder=lambda programs: Path(programs.folder), bytes_on=_bytes_on,
    kept_bytes_on=_copied_bytes_on, is_barred=lambda path: "'" in path,
    bar="has a single quote, which PostgreSQL does not accept in the path of data files",
    buffers="shared_buffers", private_buffers=_private_buffers, connect=db.connected, check_server=_check_server,
    check_login=lambda config, site, facts: db.AttachedReach(config, site, facts=facts).check_login(),
    login_hint=_LIKE_US,
)  # fmt: skip


# --- checkpoints -----------------------------------------------------------------------------------------------------
# The longest time between checkpoints.


_CYCLE_SHOWN = """
SELECT name, CASE name WHEN 'max_wal_size' THEN pg_size_bytes(current_setting(name))::text
                       WHEN 'checkpoint_timeout' THEN extract(epoch FROM current_setting(name)::interval)::text
                       ELSE setting END
FROM pg_settings WHERE name = ANY(ARRAY['checkpoint_timeout', 'max_wal_size', 'checkpoint_completion_target'])"""
_DEFAULTS = {"checkpoint_timeout": 300.0, "max_wal_size": 2.0**30, "checkpoint_completion_target": 0.9}


def _cycle_asked(config: Config) -> CheckpointCycle | None:
    """The checkpoint cycle of a private server. Returns None if a setting can't be read as a number."""
    asked = {name.lower(): str(value) for name, value in config.target.settings.items()}
    try:
        return _cycle({**_DEFAULTS, **{name: _number(name, asked[name]) for name in _DEFAULTS if name in asked}})
    except ValueError:
        return None


def _number(name: str, text: str) -> float:
    """The value of a setting in seconds or bytes, or without a unit. Raises ValueError if it is not such a value.

    If `text` has no unit, it is in the server's own unit.
    """
    if text.replace(".", "").isdigit():
        return float(text) * (2**20 if name == "max_wal_size" else 1)
    return parse_bytes(text) if name == "max_wal_size" else parse_seconds(text)


def _cycle_shown(connection: db.Connection) -> CheckpointCycle:
    """The checkpoint cycle of a server that already runs."""
    return _cycle({name: float(shown) for name, shown in connection.execute(_CYCLE_SHOWN).fetchall()})


def _cycle(settings: Mapping[str, float]) -> CheckpointCycle:
    # The server begins a checkpoint so early that it ends before the log exceeds max_wal_size.
    log_bytes = settings["max_wal_size"] / (1 + settings["checkpoint_completion_target"])
    return CheckpointCycle(settings["checkpoint_timeout"], log_bytes, "checkpoint_timeout", "max_wal_size")
