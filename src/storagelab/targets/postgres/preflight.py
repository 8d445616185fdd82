"""Checks that this machine and this server can run every cell of the plan. Touches nothing."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import partial

from storagelab.model.config import Config
from storagelab.model.durability import Durability
from storagelab.model.plan import Plan
from storagelab.spec.units import parse_bytes
from storagelab.targets import (
    Preflight,
    Site,
    attaching,
    checking,
    places,
    templates,
)
from storagelab.targets.checking import Memory, by_how, check_generators, memory_notes
from storagelab.targets.parts import tables_of
from storagelab.targets.postgres import connecting
from storagelab.targets.postgres.known import DECIDING, judge
from storagelab.targets.postgres.layout import Layout
from storagelab.targets.postgres.server import STARTER
from storagelab.targets.postgres.settings import settings_text
from storagelab.targets.steps import by_server
from storagelab.targets.volumes import check_between_runs, check_folder_for_server, check_place_names, volume_needs

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
_QUOTE = "has a single quote in it, which PostgreSQL does not accept in the path of data files"
_LOCKS_NOTE = (
    "with so many data files, transactions may hold {needed:,} locks at once, and the server's lock table is sure to have "
    "room for {room:,}: if runs fail for lack of shared memory, raise max_locks_per_transaction on the server"
)


def check(plan: Plan, site: Site) -> Preflight:
    """Checks everything that could make a run fail. Raises PreflightError naming the key."""
    configs = [cell.config for cell in plan.cells]
    bytes_on = templates.with_kept(configs, site, _bytes_on, _kept_bytes_on)
    needs = (*volume_needs(configs, site, bytes_on), *places.needs(configs, _bytes_on))
    check_place_names(needs, lambda path: "'" in path, _QUOTE)
    check_between_runs(configs)
    private, running = by_how(configs)
    notes = [places.NOTE] if any(map(places.remote_paths, configs)) else []
    notes += memory_notes(private, _private_memory)
    notes += templates.notes(configs)
    found = [*STARTER.check_cells(private, site), *_check_attached(running, site, notes)]
    found += check_generators(configs, site, lambda config: STARTER.programs(config, site).folder)
    return Preflight(server="; ".join(dict.fromkeys(found)), volumes=needs, notes=tuple(notes))


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
    """One connection for each server, however many cells there are."""
    found = []
    for sharing in by_server(configs):
        with connecting.connect(sharing[0].target) as connection:
            facts = connecting.read_facts(connection)
            for config in sharing:
                _check_on_server(connection, facts, config, site)
            connecting.check_folders(connection, [Layout(config, site.prefix, None) for config in sharing])
        notes += memory_notes(sharing, partial(_memory_of, facts))
        most = max(map(_locks_at_once, sharing))
        if most > facts.locks:
            notes.append(_LOCKS_NOTE.format(needed=most, room=facts.locks))
        where = attaching.where(on_this_machine=facts.on_this_machine)
        found.append(f"PostgreSQL {facts.version}, attached, {where}")
    return found


def _locks_at_once(config: Config) -> int:
    """The most locks held at once: a transaction may reach every data file, and locks its table and its index."""
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
    if config.generated:
        known = checking.data_bytes(config.generated_load, tables_of(config).unit_bytes)
        return _generated_bytes_on(
            config, 2 * (known or 0), volume
        )  # twice, while they are spread out; what the user's own files make is not known before
    sequential = config.insert_load.page_a_row
    rows = config.insert_load.rows
    total = 0
    volumes = config.data_volumes
    if volumes:
        files_here = sum(config.volume_of_data_file(i) == volume for i in range(config.layout.data_files))
        row_bytes = _SEQUENTIAL_ROW_BYTES if sequential else _RANDOM_ROW_BYTES
        total += round(rows * row_bytes * files_here / config.layout.data_files)
        total += _SERVER_BYTES if volume == volumes[0] and not config.target.attached else 0
    if config.log_volume == volume and not config.target.attached:
        log_bytes = rows * (_SEQUENTIAL_LOG_BYTES if sequential else _RANDOM_LOG_BYTES)
        total += round(min(log_bytes, _WAL_OVERSHOOT * _max_wal_bytes(config))) + 2 * 16 * 2**20
    return total


def _kept_bytes_on(config: Config, volume: str) -> int:
    """What the template of this cell takes on a volume."""
    known = checking.data_bytes(config.generated_load, tables_of(config).unit_bytes)
    return _generated_bytes_on(config, known or 0, volume)


def _generated_bytes_on(config: Config, data_bytes: int, volume: str) -> int:
    """The same for a generator's tables of this size, wherever on the layout's volumes they lie."""
    private, places = not config.target.attached, {*config.data_volumes, *config.extra_volumes.values()}
    total = data_bytes if volume in places else 0
    total += _SERVER_BYTES if private and volume in config.data_volumes[:1] else 0
    if config.log_volume == volume and private:
        total += round(_WAL_OVERSHOOT * _max_wal_bytes(config)) + 2 * 16 * 2**20
    return total


def _private_memory(config: Config) -> Memory:
    direct = "data" in str(config.target.settings.get("debug_io_direct", ""))
    return Memory("shared_buffers", _shared_buffers_bytes(config), checking.here(), cached=not direct)


def _memory_of(facts: connecting.ServerFacts, _config: Config) -> Memory:
    machine = checking.here() if facts.on_this_machine else None
    return Memory("shared_buffers", facts.buffers_bytes, machine, cached=not facts.direct)


def _shared_buffers_bytes(config: Config) -> int:
    asked = config.target.settings.get("shared_buffers", "128MB")
    try:
        return parse_bytes(asked) if isinstance(asked, str) else int(asked) * _PAGE_BYTES
    except ValueError:
        return 128 * 2**20  # as above


def _max_wal_bytes(config: Config) -> int:
    asked = config.target.settings.get("max_wal_size", "1GB")
    try:
        return parse_bytes(asked) if isinstance(asked, str) else int(asked) * _MAX_WAL_UNIT_BYTES
    except ValueError:
        return 2**30  # the server has accepted it already; only the estimate is coarser
