"""Checks that this machine and this server can run every cell of the plan. Changes nothing."""

from __future__ import annotations

import difflib
import math
import os
import socket
from collections.abc import Sequence
from functools import partial

import psycopg

from storagelab.engines.postgres import checkpoints, connecting
from storagelab.engines.postgres.known import DECIDING, judge
from storagelab.engines.postgres.layout import Layout
from storagelab.engines.postgres.reaching import AttachedReach
from storagelab.engines.postgres.server import STARTER
from storagelab.engines.postgres.settings import settings_text
from storagelab.errors import RunFailed
from storagelab.model.config import Config
from storagelab.model.durability import Durability
from storagelab.model.plan import Plan
from storagelab.model.target import Preflight
from storagelab.servers import attached as attaching
from storagelab.servers import places, space, templates
from storagelab.servers.attached import quoting
from storagelab.servers.interfaces import by_server
from storagelab.servers.places import share_on, tables_of
from storagelab.servers.space import (
    Memory,
    by_how,
    check_between_runs,
    check_folder_for_server,
    check_generators,
    check_place_names,
    memory_notes,
    volume_needs,
)
from storagelab.spec.units import parse_bytes
from storagelab.volumes.folders import Site

# What a row takes on disk, measured on 18.4 and rounded up: heap and index (half-full pages included), and log.
_RANDOM_ROW_BYTES = 270
_SEQUENTIAL_ROW_BYTES = 8192 + 40
_RANDOM_LOG_BYTES = 500
_SEQUENTIAL_LOG_BYTES = 8400
_SERVER_BYTES = 64 * 2**20
_PAGE_BYTES = 8192
_MAX_WAL_UNIT_BYTES = 2**20
_WAL_OVERSHOOT = 1.5
"""max_wal_size is a target that PostgreSQL may overshoot while a checkpoint is under way."""
_LOG_OF_DATA = 1.5
"""Log of making a generator's tables, and of reading them: their rows, their pages after a checkpoint, and hints.
Measured on 18.4: 1.05 for pgbench's tables at scale 20."""
_GROWTH_BYTES_PER_S = 2 * 2**20
"""What tables grow by in a second in which transactions write, a guess: 400 bytes of each of 5,000."""
_QUOTE = "has a single quote in it, which PostgreSQL does not accept in the path of data files"
_LIKE_US = (
    "the load's programs get the parts of the DSN, your HOME, PG*, KRB5* and SSL_CERT_*: certificates and keys must be "
    "where they look for them"
)
_LOCKS_NOTE = (
    "with so many data files, transactions may hold {needed:,} locks at once, and the server's lock table is sure to "
    "have room for {room:,}: if runs fail for lack of shared memory, raise max_locks_per_transaction on the server"
)


def check(plan: Plan, site: Site) -> Preflight:
    """Checks everything that could make a run fail. Raises PreflightError naming the key."""
    configs = [cell.config for cell in plan.cells]
    bytes_on = templates.with_kept(configs, site, _bytes_on, _copied_bytes_on)
    needs = (*volume_needs(configs, site, bytes_on), *places.needs(configs, _bytes_on))
    check_place_names(needs, lambda path: "'" in path, _QUOTE)
    check_between_runs(configs)
    private, running = by_how(configs)
    notes = [places.NOTE] if any(map(places.remote_paths, configs)) else []
    notes += memory_notes(private, _private_memory)
    notes += templates.notes(configs)
    found = [*STARTER.check_cells(private, site), *_check_attached(running, site, notes)]
    found += check_generators(configs, site, lambda config: STARTER.programs(config, site).folder)
    return Preflight(
        server="; ".join(dict.fromkeys(found)),
        volumes=needs,
        notes=tuple(notes),
        cycles=checkpoints.cycles_of(plan.cells),
    )


def durability(config: Config) -> Durability:
    """What survives a crash of the cell's server."""
    asked = {name.lower(): settings_text(value) for name, value in config.target.settings.items()}
    if not config.target.attached:
        return judge(asked)
    with connecting.connect(config.target) as connection:
        shown = connection.execute(
            "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(DECIDING)]
        ).fetchall()
    return judge({**dict(shown), **asked})


# --- attached servers ------------------------------------------------------------------------------------------------


def _check_attached(configs: Sequence[Config], site: Site, notes: list[str]) -> list[str]:
    """Checks attached servers; opens one connection for each server, however many cells it has."""
    found = []
    for sharing in by_server(configs):
        target = sharing[0].target
        with connecting.connect(target) as connection, quoting(target, psycopg.Error, connecting.words_of):
            connecting.check_direct(connection, target)
            facts = connecting.read_facts(connection)
            for config in sharing:
                _check_on_server(connection, facts, config, site)
            for config in {one.workload.kind: one for one in sharing if one.generated}.values():
                with quoting(target, RunFailed, str, "the load can't begin", _LIKE_US):
                    AttachedReach(config, site, facts).check_login()
            with socket.socket(fileno=os.dup(connection.fileno())) as line:
                where = attaching.where(line, on_this_machine=facts.on_this_machine)
            connecting.check_folders(connection, [Layout(config, site.prefix, None) for config in sharing])
        notes += memory_notes(sharing, partial(_memory_of, facts))
        notes += attaching.kept_by_load(one.partition("=")[0] for one in facts.set_for_load)
        most = max(map(_locks_at_once, sharing))
        if most > facts.locks:
            notes.append(_LOCKS_NOTE.format(needed=most, room=facts.locks))
        found.append(f"PostgreSQL {facts.version}, attached, {where}")
    return found


def _locks_at_once(config: Config) -> int:
    """The most locks held at once: a transaction may touch every data file, and locks its table and its index."""
    if config.generated:  # its transactions are short
        return config.database_load.connections * 2 * config.layout.data_files
    work = config.insert_load
    return work.connections * 2 * min(config.layout.data_files, work.rows_per_transaction)


def _check_on_server(
    connection: connecting.Connection, facts: connecting.ServerFacts, config: Config, site: Site
) -> None:
    connecting.check_rights(config, facts)

    def nearest(name: str) -> str:
        close = difflib.get_close_matches(name, facts.setting_contexts, 1)
        return f"did you mean {close[0]}?" if close else "see the server's view pg_settings"

    asked = {name: settings_text(value) for name, value in config.target.settings.items()}
    connecting.check_session_settings(connection, facts, asked, nearest)
    Layout(config, site.prefix, None).check_nothing_in_the_way(connection)
    if config.data_volumes:
        for volume, path in site.volume_paths(config).items():
            check_folder_for_server(facts.process_owner, volume, path)


# --- disk space ------------------------------------------------------------------------------------------------------


def _bytes_on(config: Config, volume: str) -> int:
    """The most disk space that one run of this cell takes on a volume."""
    if config.generated:  # what the user's own files make is not known before
        made = _data_bytes(config)
        return max(_making_bytes_on(config, volume, made), _copied_bytes_on(config, volume))
    work, files = config.insert_load, config.layout.data_files
    row_bytes = _SEQUENTIAL_ROW_BYTES if work.page_a_row else _RANDOM_ROW_BYTES
    log_bytes = work.rows * (_SEQUENTIAL_LOG_BYTES if work.page_a_row else _RANDOM_LOG_BYTES)
    files_here = sum(config.volume_of_data_file(i) == volume for i in range(files)) if config.data_volumes else 0
    return round(work.rows * row_bytes * files_here / files) + _server_bytes_on(config, volume, log_bytes)


def _data_bytes(config: Config) -> int:
    return space.data_bytes(config.generated_load, tables_of(config).unit_bytes) or 0


def _copied_bytes_on(config: Config, volume: str) -> int:
    """What a generator's tables and indexes take once each of them is in its place, with what a run adds."""
    load, made = config.generated_load, _data_bytes(config)
    grown = 0 if load.reads_only else _GROWTH_BYTES_PER_S * (load.longest_s or 0)
    share = share_on(config, tables_of(config)(config, "", None).known_objects, volume)
    overshoot = 1.0 if load.reads_only else _WAL_OVERSHOOT  # a copy begins after a checkpoint, and writes no more
    return round(share * (made + grown)) + _server_bytes_on(config, volume, _log_bytes(config, made), overshoot)


def _making_bytes_on(config: Config, volume: str, made: int) -> int:
    """What they take while they are made: sorted for their indexes, and filled on the first volume if moved only
    then.
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
    """The most log that making a generator's tables and a run write."""
    load = config.generated_load
    if not load.reads_only or load.data.units is None:
        return math.inf
    moved = 0 if tables_of(config).filled_in_place else 1
    return (_LOG_OF_DATA + moved) * made


def _server_bytes_on(config: Config, volume: str, log_bytes: float, overshoot: float = _WAL_OVERSHOOT) -> int:
    """What a private server takes besides tables: its own files, and its log of at most `log_bytes`."""
    if config.target.attached:
        return 0
    total = _SERVER_BYTES if volume in config.data_volumes[:1] else 0
    if config.log_volume == volume:
        most_bytes = overshoot * _size(config, "max_wal_size", 2**30, _MAX_WAL_UNIT_BYTES)
        total += round(min(log_bytes, most_bytes)) + 2 * 16 * 2**20
    return total


def _private_memory(config: Config) -> Memory:
    direct = "data" in str(config.target.settings.get("debug_io_direct", ""))
    buffers_bytes = _size(config, "shared_buffers", 128 * 2**20, _PAGE_BYTES)
    return Memory("shared_buffers", buffers_bytes, space.memory_here(), cached=not direct)


def _memory_of(facts: connecting.ServerFacts, _config: Config) -> Memory:
    machine = space.memory_here() if facts.on_this_machine else None
    return Memory("shared_buffers", facts.buffers_bytes, machine, cached=not facts.direct)


def _size(config: Config, name: str, default: int, unit_bytes: int) -> int:
    """The size in bytes of a setting; a number alone counts units."""
    asked = config.target.settings.get(name, default // unit_bytes)
    try:
        return parse_bytes(asked) if isinstance(asked, str) else int(asked) * unit_bytes
    except ValueError:
        return default  # the server has accepted it already; only the estimate is coarser
