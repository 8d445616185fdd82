"""Checks that this machine and this server can run every cell of the plan. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from storagelab.engines.mariadb import connecting, redo_log, settings
from storagelab.engines.mariadb.connecting import Connection, ask, connect
from storagelab.engines.mariadb.known import DECIDING, judge
from storagelab.engines.mariadb.layout import Layout
from storagelab.engines.mariadb.reaching import AttachedReach
from storagelab.engines.mariadb.server import STARTER
from storagelab.engines.mariadb.settings import bytes_of, private_settings
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
from storagelab.volumes.folders import Site

# What a row takes on disk, measured on 10.11 and rounded up; includes half-full pages.
_RANDOM_ROW_BYTES = 300
_DEFAULT_PAGE_BYTES = 16 * 1024
_SERVER_BYTES = 128 * 2**20
_EMPTY_DATA_FILE_BYTES = 128 * 1024
_BUFFERS, _DEFAULT_BUFFERS_BYTES = "innodb_buffer_pool_size", 128 * 2**20
_LAST_LETTER = 0xFFFF
"""The server keeps paths of files in three-byte UTF-8, and puts a file elsewhere if that can't represent its path."""
_LETTER = "has a letter in it that MariaDB does not accept in the path of data files"
_NO_CERTIFICATES = (
    "sysbench 1.0 encrypts only with a certificate of its own, which it is not given: if the server demands TLS, reach "
    "it by its socket (?unix_socket=...), or measure workload.kind = 'random-insert', which needs no sysbench"
)
_SEQUENTIAL_NOTE = (
    "MariaDB always leaves room for two rows on a page, so with sequential-insert every row needs one new page "
    "outside the tree instead"
)
_LEFT_NOTE = (
    "the server leaves one empty folder named {name} on each remote volume, since it drops only the files in it"
)


def check(plan: Plan, site: Site) -> Preflight:
    """Checks everything that could make a run fail. Raises PreflightError naming the key."""
    configs = [cell.config for cell in plan.cells]
    bytes_on = templates.with_kept(configs, site, _bytes_on, _bytes_on)
    needs = (*volume_needs(configs, site, bytes_on), *places.needs(configs, _bytes_on))
    check_place_names(needs, lambda path: any(ord(letter) > _LAST_LETTER for letter in path), _LETTER)
    check_between_runs(configs)
    private, running = by_how(configs)
    notes = memory_notes(private, _private_memory)
    found = [*STARTER.check_cells(private, site), *_check_attached(running, site, notes)]
    found += check_generators(configs, site, lambda config: STARTER.programs(config, site).server.parent)
    sequential = any(not config.generated and config.insert_load.page_a_row for config in configs)
    notes += [_SEQUENTIAL_NOTE] if sequential else []
    notes += templates.notes(configs)
    if any(map(places.remote_paths, configs)):
        notes += [places.NOTE, _LEFT_NOTE.format(name=site.prefix)]
    return Preflight(
        server="; ".join(dict.fromkeys(found)),
        volumes=needs,
        notes=tuple(notes),
        log_rooms=redo_log.rooms_of(plan.cells),
    )


def durability(config: Config) -> Durability:
    """What survives a crash of the cell's server."""
    asked = {
        settings.setting_name(name): settings.settings_text(value) for name, value in config.target.settings.items()
    }
    if not config.target.attached:
        return judge(asked)
    with connect(config.target) as connection:
        names = ", ".join(["%s"] * len(DECIDING))
        shown = ask(connection, f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({names})", DECIDING)
        version = str(connection.get_server_info())
    return judge({**{str(name).lower(): str(value) for name, value in shown}, **asked}, version)


def _check_attached(configs: Sequence[Config], site: Site, notes: list[str]) -> list[str]:
    """Checks attached servers; opens one connection for each server, however many cells it has."""
    found = []
    for sharing in by_server(configs):
        with connect(sharing[0].target) as connection:
            facts = connecting.read_facts(connection)
            for config in sharing:
                _check_on_server(connection, facts, config, site)
            for config in {one.workload.kind: one for one in sharing if one.generated}.values():
                with quoting(config.target, RunFailed, str, "the load can't begin", _NO_CERTIFICATES):
                    AttachedReach(config, site, facts).check_login()
            notes += attaching.kept_by_load(connecting.set_for_load(sharing[0].target, connection))
            where = attaching.where(connecting.line_of(connection), on_this_machine=facts.on_this_machine)
        notes += memory_notes(sharing, partial(_memory_of, facts))
        found.append(f"{facts.name}, attached, {where}")
    return found


def _check_on_server(connection: Connection, facts: connecting.ServerFacts, config: Config, site: Site) -> None:
    connecting.check_rights(config, facts, site.prefix)
    connecting.check_session_settings(connection, facts, config.target.settings)
    Layout(config, site.prefix, None).check_nothing_in_the_way(connection)
    for volume, path in site.volume_paths(config).items():
        check_folder_for_server(facts.process_owner, volume, path)
        connecting.check_known_folder(connection, facts, volume, path)
    for volume, place in places.remote_paths(config).items():
        connecting.check_known_folder(connection, facts, volume, Path(place))


def _bytes_on(config: Config, volume: str) -> int:
    """The most disk space that one run of this cell takes on a volume."""
    if config.generated:
        known = space.data_bytes(config.generated_load, tables_of(config).unit_bytes)
        rows, row_bytes_known = known or 0, 1  # what the user's own files make is unknown before the run
    else:
        rows, row_bytes_known = config.insert_load.rows, _RANDOM_ROW_BYTES
    total = 0
    volumes = config.data_volumes
    private = not config.target.attached
    if volumes:
        files = config.layout.data_files
        files_here = sum(config.volume_of_data_file(i) == volume for i in range(files))
        sequential = not config.generated and config.insert_load.page_a_row
        row_bytes = bytes_of(config, "innodb_page_size", _DEFAULT_PAGE_BYTES) * 1.1 if sequential else row_bytes_known
        known = tables_of(config)(config, "", None).known_objects if config.generated else None
        total += round(rows * row_bytes * share_on(config, known, volume)) + files_here * _EMPTY_DATA_FILE_BYTES
        total += _SERVER_BYTES if volume == volumes[0] and private else 0
    if config.log_volume == volume and private:
        total += bytes_of(config, redo_log.SIZE, redo_log.DEFAULT_BYTES)
    return total


def _private_memory(config: Config) -> Memory:
    direct = str(private_settings(config).get("innodb_flush_method", "O_DIRECT")).upper().startswith("O_DIRECT")
    buffers = bytes_of(config, _BUFFERS, _DEFAULT_BUFFERS_BYTES)
    return Memory(_BUFFERS, buffers, space.memory_here(), cached=not direct)


def _memory_of(facts: connecting.ServerFacts, _config: Config) -> Memory:
    machine = space.memory_here() if facts.on_this_machine else None
    return Memory(_BUFFERS, facts.buffers_bytes, machine, cached=not facts.direct)
