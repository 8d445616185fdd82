"""Checks that this server can run every cell of the plan. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from storagelab.engines.sqlserver import connect as db
from storagelab.engines.sqlserver.layout import TABLE_OBJECT, Layout, is_windows_path
from storagelab.engines.sqlserver.meanings import MAJOR_2017, check_settings, latch_note
from storagelab.errors import PreflightError
from storagelab.model.config import Config
from storagelab.model.objects import KEY, TABLES
from storagelab.model.plan import Plan
from storagelab.model.target import Preflight, VolumeNeed
from storagelab.servers import places
from storagelab.servers.attached import foreign, key_of, quoting
from storagelab.servers.interfaces import by_server
from storagelab.volumes.folders import Site

DRIVES = "SELECT fixed_drive_path, drive_type_desc, free_space_in_bytes FROM sys.dm_os_enumerate_fixed_drives"
FOLDER = "SELECT file_is_a_directory FROM sys.dm_os_file_exists({path})"

_ESCALATING_ROWS = 5_000
"""From this number of row locks on, the server tries to lock the whole table (lock escalation). Source: Microsoft,
Transaction locking and row versioning guide.
"""


class _Drive(NamedTuple):
    """A drive of the server's machine, as the server reports it."""

    path: str
    kind: str
    free_bytes: int | None


def check(plan: Plan, site: Site) -> Preflight:
    """Checks everything that could make a run fail. Raises PreflightError, which names the key."""
    found: list[str] = []
    notes: list[str] = []
    needs: dict[str, VolumeNeed] = {}
    for configs in by_server(cell.config for cell in plan.cells):
        target = configs[0].target
        with db.connect(target) as session, quoting(target, db.DriverError, db.words_of):
            facts = _check_server(session, configs, site)
            needs |= {need.name: need for need in _volume_needs(session, facts, configs)}
        found.append(f"{facts.name}, {facts.edition}, attached")
        notes += _notes(facts, configs)
    return Preflight(
        server="; ".join(dict.fromkeys(found)), volumes=tuple(needs.values()), notes=tuple(dict.fromkeys(notes))
    )


def _check_server(session: db.Session, configs: Sequence[Config], site: Site) -> db.ServerFacts:
    facts = db.read_facts(session)
    target = configs[0].target
    db.check_rights(target, facts)
    db.check_connections(target, facts, session, max(config.database_load.connections for config in configs))
    state = db.read_state(session)
    for config in configs:
        check_settings(config.target.settings, facts.major, state)
        if config.between_runs.drop_page_cache:
            raise PreflightError(
                "storagelab can't drop the page cache of another machine, and SQL Server bypasses that cache",
                key="between_runs.drop_page_cache",
                hint="set it to false",
            )
        _check_objects(config)
        _check_paths(config, facts)
    check_nothing_in_the_way(session, site.prefix, key_of(target))
    return facts


def _check_objects(config: Config) -> None:
    """Checks that the layout places no object except the load's only table. Its clustered index is the table itself.

    Raises PreflightError.
    """
    problem = config.placement.problem([TABLE_OBJECT])
    if problem is not None:
        raise PreflightError(problem.problem, key=KEY, hint=problem.hint)
    for word in config.placement.words.keys() - {TABLES}:
        hint = "leave it out: the clustered key is the table itself, and tempdb belongs to the whole server"
        raise PreflightError("can't be placed on SQL Server", key=f"{KEY}.{word}", hint=hint)


def _check_paths(config: Config, facts: db.ServerFacts) -> None:
    """Checks that T-SQL allows the paths of volumes, and that every file has a folder. Raises PreflightError."""
    for name, volume in config.volumes.items():
        try:
            db.text(volume.path or "")
        except ValueError as error:
            raise PreflightError(f"its path {error}", key=f"volumes.{name}.path", hint="name another folder") from None
    if not config.data_volumes and not (facts.data_path and facts.log_path):
        raise PreflightError(
            "the server does not report its default folder for files",
            key="volumes",
            hint="name a folder of its machine:\n    [volumes.a]\n    path = 'D:\\data'\n    remote = true",
        )


# --- volumes ---------------------------------------------------------------------------------------------------------


def _volume_needs(session: db.Session, facts: db.ServerFacts, configs: Sequence[Config]) -> list[VolumeNeed]:
    """For each volume: the largest space that a cell needs on it, and the facts about its drive from the server."""
    paths = {
        (name, volume.path or ""): max(
            Layout(other, "storagelab", facts).bytes_on(name) for other in configs if name in other.volumes
        )
        for config in configs
        for name, volume in config.volumes.items()
    }
    drives = _drives(session) if facts.major >= MAJOR_2017 and paths else []
    needs = []
    for (name, path), needed_bytes in paths.items():
        if facts.major >= MAJOR_2017 and is_windows_path(path):
            _check_folder(session, name, path)
        drive = _drive_of(path, drives)
        needs.append(
            VolumeNeed(
                name=name, path=path, device=f"{drive.kind.lower()}, {drive.path}" if drive else "on the server",
                needed_bytes=needed_bytes, free_bytes=drive.free_bytes if drive else None,
            )
        )  # fmt: skip
    _check_space(needs, drives)
    return needs


def _drives(session: db.Session) -> list[_Drive]:
    """The drives of the server's machine. The list is empty if the server does not report them. This is no reason to
    refuse a run.
    """
    try:
        rows = session.rows(DRIVES)
    except db.DriverError:
        return []
    return [_Drive(str(path), str(kind), None if free is None else int(free)) for path, kind, free in rows]


def _drive_of(path: str, drives: Iterable[_Drive]) -> _Drive | None:
    """The drive of a path, or None. A drive can be mounted in a folder of another drive. So if several drives fit, it
    is the drive with the longest path.
    """
    fitting = [drive for drive in drives if path.casefold().startswith(drive.path.casefold())]
    return max(fitting, key=lambda drive: len(drive.path), default=None)


def _check_folder(session: db.Session, name: str, path: str) -> None:
    """Checks that the server finds a folder. Raises PreflightError if it does not.

    This is for servers on Windows, because Microsoft does not document the view for folders on Linux. There, CREATE
    DATABASE fails if the folder is missing.
    """
    try:
        found = session.value(FOLDER.format(path=db.text(path)))
    except db.DriverError:
        return  # the server can't check it; if the folder is missing, CREATE DATABASE fails
    if found is not None and not found:
        raise PreflightError(
            f"{path} is not a folder that the server sees",
            key=f"volumes.{name}.path",
            hint="make it on the server's machine, and give the server's account the right to write there",
        )


def _check_space(needs: Sequence[VolumeNeed], drives: Sequence[_Drive]) -> None:
    """Checks that each drive has enough free space for all volumes on it. Raises PreflightError if it has not."""
    for drive in drives:
        there = [need for need in needs if _drive_of(need.path, drives) == drive]
        wanted = sum(need.needed_bytes or 0 for need in there)
        if drive.free_bytes is not None and wanted > drive.free_bytes:
            raise PreflightError(
                f"{drive.path} on the server lacks space: about {wanted / 2**30:.2f} GiB needed, "
                f"{drive.free_bytes / 2**30:.2f} GiB free",
                key=" and ".join(f"volumes.{need.name}.path" for need in there),
                hint="free some, name another volume, or lower workload.rows_per_connection",
            )


# --- notes -----------------------------------------------------------------------------------------------------------


def _notes(facts: db.ServerFacts, configs: Sequence[Config]) -> list[str]:
    notes = [
        "support for SQL Server has not been tried on a live server yet; test it with `storagelab doctor --target`"
    ]
    if any(volume.remote for config in configs for volume in config.volumes.values()):
        notes.append(places.NOTE)
    if any(config.insert_load.rows_per_transaction >= _ESCALATING_ROWS for config in configs):
        notes.append(f"with {_ESCALATING_ROWS:,} rows per transaction or more, the server may lock the whole table")
    if len({config.layout.data_files for config in configs}) > 1:
        notes.append(latch_note(facts.major))
    return notes


# --- what storagelab made --------------------------------------------------------------------------------------------
_DROP = """
IF DB_ID({literal}) IS NOT NULL
BEGIN
    ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE;
    DROP DATABASE {name};
END"""
_FILES = "SELECT physical_name FROM sys.master_files WHERE database_id = DB_ID({literal})"


def drop(session: db.Session, prefix: str, key: str) -> list[str]:
    """Drops the database of this name if storagelab made it, even if sessions use it. Returns the dropped names.

    If the database is not storagelab's, raises PreflightError and drops nothing.
    """
    if not exists(session, prefix):
        return []
    check_nothing_in_the_way(session, prefix, key)
    session.execute("USE master")
    session.execute(_DROP.format(literal=db.text(prefix), name=db.identifier(prefix)))
    return [f"database {prefix}"]


def exists(session: db.Session, prefix: str) -> bool:
    return session.value(f"SELECT DB_ID({db.text(prefix)})") is not None


def check_nothing_in_the_way(session: db.Session, prefix: str, key: str) -> None:
    """Raises PreflightError if another database has the name that storagelab needs.

    storagelab recognises its database by the files. There must be at least one file, and all files must have names that
    `Layout` gives.
    """
    if not exists(session, prefix):
        return
    ours = re.compile(re.escape(prefix) + r"_(?:primary\.mdf|data_\d{4}\.ndf|log\.ldf)")
    names = [re.split(r"[\\/]", str(path))[-1] for (path,) in session.rows(_FILES.format(literal=db.text(prefix)))]
    if not names or not all(map(ours.fullmatch, names)):
        raise foreign(f"database {prefix}", key)
