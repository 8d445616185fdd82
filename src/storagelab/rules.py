"""What must hold between the keys of one cell, beyond the type of each: volumes that exist, one way to the server,
and nothing said to a real server that only a simulated one can do, or the other way round."""

from __future__ import annotations

import re
from collections.abc import Iterator

from storagelab.errors import SpecError
from storagelab.keys import Tables, checked, choices, shown
from storagelab.model import Config

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def config_of(tables: Tables) -> Config:
    """The configuration that `tables` say, checked. Raises SpecError naming the key."""
    config = checked(Config, tables)
    for error in _conflicts(config):
        raise error
    return config


def _conflicts(config: Config) -> Iterator[SpecError]:
    if config.target.simulated:
        yield from _simulated_conflicts(config)
    else:
        yield from _only_simulated(config)
        yield from _target_conflicts(config)
        yield from _sqlserver_conflicts(config) if config.target.engine == "sqlserver" else _remote_conflicts(config)
    yield from _volume_conflicts(config)
    yield from _workload_conflicts(config)


def _workload_conflicts(config: Config) -> Iterator[SpecError]:
    work = config.workload
    if work.kind == "mixed" and work.read_fraction is None:
        hint = "Add to the spec:\n    [workload]\n    read_fraction = 0.5"
        yield SpecError("is missing: a mixed workload has reads", key="workload.read_fraction", hint=hint)
    if work.kind != "mixed" and work.read_fraction is not None:
        hint = 'Set kind = "mixed", or leave it out.'
        yield SpecError(
            f"is for mixed workloads, and workload.kind is {work.kind}", key="workload.read_fraction", hint=hint
        )
    said = "rows_per_transaction" in work.model_fields_set
    if said and work.rows_per_transaction > work.rows_per_connection:
        yield SpecError(
            f"{work.rows_per_transaction} is more than the {work.rows_per_connection} rows of a connection",
            key="workload.rows_per_transaction",
            hint="Raise workload.rows_per_connection, or lower this to at most that.",
        )


def _target_conflicts(config: Config) -> Iterator[SpecError]:
    target = config.target
    if target.dsn is not None and target.dsn_env is not None:
        yield SpecError(
            "stands beside target.dsn_env",
            key="target.dsn",
            hint="Both say which server to attach to: keep one of them.",
        )
    if target.attached and target.bin_dir is not None:
        yield SpecError(
            "stands beside target.dsn or target.dsn_env",
            key="target.bin_dir",
            hint="bin_dir starts a private server, a DSN attaches to one that runs already: keep one of them.",
        )
    if target.dsn_env is not None and not _VARIABLE.fullmatch(target.dsn_env):
        # What stands there by mistake may be the DSN itself, password and all: it is not shown.
        yield SpecError(
            "is not the name of an environment variable",
            key="target.dsn_env",
            hint='Put the DSN into a variable and name that: dsn_env = "STORAGELAB_DSN".',
        )
    if target.attached and target.engine != "sqlserver" and config.layout.log is not None:
        yield SpecError(
            "the log of a running server can't be moved",
            key="layout.log",
            hint="Leave layout.log out; or leave out the DSN, and storagelab starts a private server.",
        )


def _sqlserver_conflicts(config: Config) -> Iterator[SpecError]:
    """A SQL Server runs already, perhaps elsewhere: its folders are as its operator says."""
    if not config.target.attached:
        hint = 'Put its DSN into a variable and name that: dsn_env = "STORAGELAB_DSN".'
        yield SpecError("is missing: storagelab starts no SQL Server", key="target.dsn_env", hint=hint)
    for name, volume in config.volumes.items():
        if not volume.remote:
            hint = "Add remote = true: the path is one of the server's machine, and storagelab makes no folder there."
            yield SpecError("is missing", key=f"volumes.{name}.remote", hint=hint)


def _remote_conflicts(config: Config) -> Iterator[SpecError]:
    for name, volume in config.volumes.items():
        if volume.remote:
            problem = "storagelab makes folders on this engine's volumes, so they must be on this machine"
            yield SpecError(problem, key=f"volumes.{name}.remote", hint="Leave it out.")


def _only_simulated(config: Config) -> Iterator[SpecError]:
    """What a real server can't be told."""
    between = config.between_runs
    said = {
        "target.scale": config.target.scale is not None,
        "server": config.server is not None,
        "drives": bool(config.drives),
        **{f"volumes.{name}.drives": volume.drives is not None for name, volume in config.volumes.items()},
        "between_runs.format_drives": between.format_drives,
        "between_runs.move_files": between.move_files,
    }
    for key in (key for key, there in said.items() if there):
        hint = 'Leave it out, or simulate all of it: engine = "simulated" in [target].'
        yield SpecError(f"is for simulated servers, and target.engine is {config.target.engine}", key=key, hint=hint)
    for name, volume in config.volumes.items():
        key = f"volumes.{name}.path"
        if volume.path is None:
            hint = f'Add to the spec:\n    [volumes.{name}]\n    path = "..."'
            yield SpecError("is missing; it must be text in quotes", key=key, hint=hint)
        elif not volume.path.strip() or "\0" in volume.path:
            yield SpecError("is empty", key=key, hint='Name a folder: path = "." is the folder of the spec.')


def _simulated_conflicts(config: Config) -> Iterator[SpecError]:
    target, between = config.target, config.between_runs
    said = {
        **{f"target.{name}": name in target.model_fields_set for name in ("settings", "bin_dir", "dsn", "dsn_env")},
        **{f"volumes.{name}.path": volume.path is not None for name, volume in config.volumes.items()},
        **{
            f"between_runs.{name}": name in between.model_fields_set
            for name in ("checkpoint", "drop_page_cache", "pause_s")
        },
        **{f"measure.{name}": name in config.measure.model_fields_set for name in ("waits", "sample_hz")},
    }
    for key in (key for key, there in said.items() if there):
        yield SpecError("is for real servers, and target.engine is simulated", key=key, hint="Leave it out.")
    if config.server is None:
        hint = 'Add to the spec:\n    [server]\n    cores = 8\n    memory = "16GB"'
        yield SpecError("is missing: a simulated server has cores and memory", key="server", hint=hint)
    if not config.drives:
        hint = 'Add to the spec:\n    [drives.ssd]\n    profile = "iodrive-320"'
        yield SpecError("there is none, and a simulated volume is made of drives", key="drives", hint=hint)
    for name, volume in config.volumes.items():
        if volume.drives is None:
            hint = f"Name the drive: drives = [{shown(next(iter(config.drives)))}]"
            yield SpecError("is missing: a simulated volume is made of drives", key=f"volumes.{name}.drives", hint=hint)
        for drive in volume.drives or ():
            if drive not in config.drives:
                hint = choices(drive, config.drives, "The spec's drives")
                yield SpecError(f"no drive is named {shown(drive)}", key=f"volumes.{name}.drives", hint=hint)
    if config.workload.kind != "random-insert":
        hint = 'Use "random-insert", the only one that is simulated so far.'
        yield SpecError(f"{shown(config.workload.kind)} is not simulated", key="workload.kind", hint=hint)


def _volume_conflicts(config: Config) -> Iterator[SpecError]:
    if not config.volumes and not config.target.attached:
        simulated = config.target.simulated
        whose, content = ("simulated", 'drives = ["ssd"]') if simulated else ("private", 'path = "/mnt/drive"')
        what = "" if simulated else ", with a folder on the drive to measure"
        yield SpecError(
            f"there is none, and a {whose} server needs at least one place for its files",
            key="volumes",
            hint=f"Add to the spec{what}:\n    [volumes.a]\n    {content}",
        )
    named = [("layout.data", name) for name in config.layout.data or ()]
    if config.layout.log is not None:
        named.append(("layout.log", config.layout.log))
    for key, name in named:
        if name not in config.volumes:
            hint = choices(name, config.volumes, "The spec's volumes")
            yield SpecError(f"no volume is named {shown(name)}", key=key, hint=hint)
    for name in config.layout.data or ():
        if (config.layout.data or ()).count(name) > 1:
            hint = "Data files go round robin over the list: name each volume once."
            yield SpecError(f"names volume {shown(name)} more than once", key="layout.data", hint=hint)
