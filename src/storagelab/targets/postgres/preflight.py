"""Can this machine and this server run every cell of the plan? Looks, touches nothing."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from storagelab import host
from storagelab.errors import PreflightError
from storagelab.model import Config, Plan
from storagelab.targets import Preflight, Site, VolumeNeed
from storagelab.targets.folders import Folders
from storagelab.targets.postgres import attached, server
from storagelab.targets.postgres.binaries import binaries_for, may_enter, unprivileged
from storagelab.targets.postgres.layout import Layout
from storagelab.targets.postgres.settings import SPARE_CONNECTIONS, private_settings
from storagelab.units import parse_bytes

# What a row takes on disk, measured on 18.4 and rounded up: heap and index (half-full pages included), and log.
_RANDOM_ROW_BYTES = 270
_SEQUENTIAL_ROW_BYTES = 8192 + 40
_RANDOM_LOG_BYTES = 500
_SEQUENTIAL_LOG_BYTES = 8400
_SERVER_BYTES = 64 * 2**20
_MAX_WAL_UNIT_BYTES = 2**20
_WAL_OVERSHOOT = 1.5
"""max_wal_size is a target that PostgreSQL may overshoot while a checkpoint is under way."""


def check(plan: Plan, site: Site) -> Preflight:
    """Raises PreflightError, naming the key, for the first thing that would make a run fail."""
    configs = [cell.config for cell in plan.cells]
    needs = _volume_needs(configs, site)
    _check_between_runs(configs)
    private = [config for config in configs if not config.target.attached]
    running = [config for config in configs if config.target.attached]
    found = [*_check_private(private, site), *_check_attached(running, site)]
    return Preflight(server="; ".join(dict.fromkeys(found)), volumes=needs)


# --- private servers -------------------------------------------------------------------------------------------------


def _check_private(configs: Sequence[Config], site: Site) -> list[str]:
    found = []
    for config in configs:
        binaries = binaries_for(config, site)
        expected = server.check_settings(binaries, private_settings(config))
        _check_connections(config, int(expected["max_connections"]))
        found.append(f"PostgreSQL {binaries.version} ({binaries.origin}), private, started {unprivileged().how}")
    volumes = {item for config in configs for item in site.volume_paths(config).items()}
    for name, path in sorted(volumes):
        _check_server_may_enter(path, f"volumes.{name}.path")
    return found


def _check_connections(config: Config, asked: int) -> None:
    needed = config.workload.connections + SPARE_CONNECTIONS
    if asked < needed:
        raise PreflightError(
            f"{asked} is too few: {config.workload.connections} connections and {SPARE_CONNECTIONS} spare ones "
            "are needed",
            key="target.settings.max_connections",
            hint=f"set at least {needed}, or leave it out",
        )


def _check_server_may_enter(path: Path, key: str) -> None:
    """Root may go anywhere; the server, which runs without root's rights, may not."""
    if not may_enter(path):
        raise PreflightError(
            f"{path} can't be entered by the server, which is started {unprivileged().how}",
            key=key,
            hint="give others the right to pass through it and every folder above it (chmod o+x), name another folder, "
            "or run storagelab as the user whose folder it is",
        )


# --- attached servers ------------------------------------------------------------------------------------------------


def _check_attached(configs: Sequence[Config], site: Site) -> list[str]:
    """One connection for each server, however many cells there are."""
    found = []
    by_server: dict[tuple[str | None, str | None], list[Config]] = {}
    for config in configs:
        by_server.setdefault((config.target.dsn, config.target.dsn_env), []).append(config)
    for sharing in by_server.values():
        with attached.connect(sharing[0].target) as connection:
            facts = attached.read_facts(connection)
            for config in sharing:
                _check_on_server(connection, facts, config, site)
        where = "on this machine" if facts.on_this_machine else "remote: no resource/signal split"
        found.append(f"PostgreSQL {facts.version}, attached, {where}")
    return found


def _check_on_server(connection: attached.Connection, facts: attached.ServerFacts, config: Config, site: Site) -> None:
    on_volumes = bool(config.data_volumes)
    attached.check_rights(
        config.target, facts, connections=config.workload.connections, tablespaces=on_volumes,
        checkpoint=config.between_runs.checkpoint,
    )  # fmt: skip

    def nearest(name: str) -> str:
        close = difflib.get_close_matches(name, facts.setting_contexts, 1)
        return f"did you mean {close[0]}?" if close else "see the server's view pg_settings"

    asked = {name: server.settings_text(value) for name, value in config.target.settings.items()}
    attached.check_session_settings(connection, facts, asked, nearest)
    Layout(config, site.prefix, None).check_nothing_in_the_way(connection)
    if on_volumes:
        for volume, path in site.volume_paths(config).items():
            attached.check_folder_for_server(facts, volume, path)


# --- volumes ---------------------------------------------------------------------------------------------------------


def _volume_needs(configs: Sequence[Config], site: Site) -> tuple[VolumeNeed, ...]:
    """Each volume once, with the most that any cell needs on it. Raises PreflightError for one that can't be used."""
    paths: dict[str, Path] = {}
    needed: dict[str, int] = {}
    for config in configs:
        for name, path in site.volume_paths(config).items():
            key = f"volumes.{name}.path"
            if name in paths and paths[name] != path:
                name = f"{name} ({path})"  # noqa: PLW2901 - a factor moves the volume: show both places
            if name not in paths:
                _check_usable(path, key)
            paths[name] = path
            needed[name] = max(needed.get(name, 0), _bytes_on(config, name.split(" (")[0]))
    leftover_bytes = _leftover_bytes(configs, site)
    _check_space(configs, site, leftover_bytes)
    return tuple(
        VolumeNeed(
            name=name, path=str(path), device=_device_text(path), needed_bytes=needed[name],
            free_bytes=host.free_bytes(path) + leftover_bytes.get(os.stat(path).st_dev, 0),
        )
        for name, path in paths.items()
    )  # fmt: skip


def _leftover_bytes(configs: Sequence[Config], site: Site) -> dict[int, int]:
    """What a killed run of this experiment left on each file system (by st_dev): it is removed before the first run."""
    volumes = {str(path): path for config in configs for path in site.volume_paths(config).values()}
    return Folders(site, volumes).leftover_bytes()


def _check_usable(path: Path, key: str) -> None:
    if not path.exists():
        raise PreflightError(f"{path} does not exist", key=key, hint="mount the drive there, or make the folder")
    if not path.is_dir():
        raise PreflightError(f"{path} is not a folder", key=key, hint="name a folder on the drive")
    if "'" in str(path):
        raise PreflightError(
            f"{path} has a single quote in it, which PostgreSQL can't have in the place of data files",
            key=key,
            hint="name another folder, or rename this one",
        )
    if os.statvfs(path).f_blocks == 0:
        filesystem = host.describe_volume(path).get("filesystem") or "a file system without space"
        raise PreflightError(
            f"{path} is no place for files: {filesystem} there holds none", key=key, hint="name a folder on a drive"
        )
    if not os.access(path, os.W_OK | os.X_OK) or os.statvfs(path).f_flag & os.ST_RDONLY:
        raise PreflightError(
            f"{path} is not writable",
            key=key,
            hint="mount it read-write, give this user the right, or name another folder",
        )


def _check_space(configs: Iterable[Config], site: Site, leftover_bytes: Mapping[int, int]) -> None:
    """The hungriest cell of each file system against what is free there, which its volumes share."""
    hungriest: dict[int, tuple[int, list[tuple[str, Path]]]] = {}
    for config in configs:
        sharing: dict[int, list[tuple[str, Path]]] = {}
        for name, path in site.volume_paths(config).items():
            sharing.setdefault(os.stat(path).st_dev, []).append((name, path))
        for device, volumes in sharing.items():
            wanted = sum(_bytes_on(config, name) for name, _ in volumes)
            if device not in hungriest or wanted > hungriest[device][0]:
                hungriest[device] = wanted, volumes
    for device, (wanted, volumes) in hungriest.items():
        path = volumes[0][1]
        free = host.free_bytes(path) + leftover_bytes.get(device, 0)
        if wanted > free:
            raise PreflightError(
                f"{path} lacks space: about {wanted / 2**30:.2f} GiB needed, {free / 2**30:.2f} GiB free",
                key=" and ".join(f"volumes.{name}.path" for name, _ in volumes),
                hint="free some, name another volume, or lower workload.rows_per_connection",
            )


def _device_text(path: Path) -> str:
    facts = host.describe_volume(path)
    parts = [str(facts.get("filesystem") or ""), str(facts.get("device") or "")]
    parts.append("virtual disk" if facts.get("virtual") else "")
    return ", ".join(part for part in parts if part)


def _bytes_on(config: Config, volume: str) -> int:
    """Disk space that one run of this cell takes on a volume, at its largest."""
    sequential = config.workload.kind == "sequential-insert"
    rows = config.workload.rows
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


def _max_wal_bytes(config: Config) -> int:
    asked = config.target.settings.get("max_wal_size", "1GB")
    try:
        return parse_bytes(asked) if isinstance(asked, str) else int(asked) * _MAX_WAL_UNIT_BYTES
    except ValueError:
        return 2**30  # the server has already accepted it; only the estimate is coarser


def _check_between_runs(configs: Iterable[Config]) -> None:
    for config in configs:
        if config.between_runs.drop_page_cache and not host.can_drop_page_cache():
            raise PreflightError(
                "only root on Linux may drop the page cache",
                key="between_runs.drop_page_cache",
                hint="run storagelab as root, or set it to false",
            )
