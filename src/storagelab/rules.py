"""What must hold between the keys of one cell, beyond the type of each: volumes that exist, one way to the server."""

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
    yield from _target_conflicts(config)
    yield from _volume_conflicts(config)
    work = config.workload
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
    if target.attached and config.layout.log is not None:
        yield SpecError(
            "the log of a running server can't be moved",
            key="layout.log",
            hint="Leave layout.log out; or leave out the DSN, and storagelab starts a private server.",
        )


def _volume_conflicts(config: Config) -> Iterator[SpecError]:
    if not config.volumes and not config.target.attached:
        yield SpecError(
            "there is none, and a private server needs at least one place for its files",
            key="volumes",
            hint='Add to the spec, with a folder on the drive to measure:\n    [volumes.a]\n    path = "/mnt/drive"',
        )
    for name, volume in config.volumes.items():
        if not volume.path.strip() or "\0" in volume.path:
            key = f"volumes.{name}.path"
            yield SpecError("is empty", key=key, hint='Name a folder: path = "." is the folder of the spec.')
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
