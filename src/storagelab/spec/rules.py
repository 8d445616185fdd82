"""Rules between the keys of one cell, beyond the type of each: volumes must exist, there must be one way to the server,
and real servers take no keys for simulated ones, nor the other way round."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import ValidationError

from storagelab.errors import SpecError
from storagelab.model.config import OPERATING_SYSTEM, Config
from storagelab.model.hints import choices, shown
from storagelab.model.workload import KINDS
from storagelab.spec import raw_io
from storagelab.spec.keys import Problem, Tables, checked, error_for, validated
from storagelab.spec.raw_io import FOR_DATABASES
from storagelab.spec.written import Written

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WHOLE_PATH = re.compile(r"/|[A-Za-z]:[/\\]|\\\\")


def config_of(tables: Tables) -> Config:
    """The configuration in `tables`, checked. Raises SpecError naming the key."""
    said = dict(tables.get("workload", {}))
    kind = "raw-io" if tables.get("target", {}).get("engine") == "raw-io" else "random-insert"
    config = _read({**tables, "workload": {"kind": kind, **said}})
    for error in _conflicts(config):
        raise error
    return config


def _read(tables: Tables) -> Config:
    """Refuses first what is wrong by itself, then what is wrong for the kind of the workload."""
    try:
        return validated(Config, tables)
    except ValidationError:
        engine = checked(Written, tables).target.engine
        raise next(_workload_misfits(tables, engine)) from None


def _workload_misfits(tables: Tables, engine: str) -> Iterator[SpecError]:
    said = tables["workload"]
    kind = said["kind"]
    yield from _kind_conflicts(kind, engine)
    for name in said:
        if name not in KINDS[kind].model_fields:
            yield _key_of_another_kind(name, kind, engine)
    for name, field in KINDS[kind].model_fields.items():
        if field.is_required() and name not in said:
            yield error_for(Problem("missing", ("workload", name), None), Written, tables)


def _kind_conflicts(kind: str, engine: str) -> Iterator[SpecError]:
    if engine == "raw-io" and not KINDS[kind].raw_io:
        yield SpecError(FOR_DATABASES, key="workload.kind", hint="Leave it out.")
    load = KINDS[kind]
    if engine != "raw-io" and load.raw_io:
        yield _for_raw_io("workload.kind", engine)
    if engine != "raw-io" and load.engines and engine not in load.engines:
        problem = f"{kind} loads {' and '.join(load.engines)}, and target.engine is {engine}"
        yield SpecError(problem, key="workload.kind", hint=f'Set engine = "{load.engines[0]}" in [target].')


def _key_of_another_kind(name: str, kind: str, engine: str) -> SpecError:
    key, owners = f"workload.{name}", [one for one, member in KINDS.items() if name in member.model_fields]
    if KINDS[kind].raw_io:
        return SpecError(FOR_DATABASES, key=key, hint="Leave it out.")
    owners = [one for one in owners if not KINDS[one].raw_io]
    if not owners:
        return _for_raw_io(key, engine)
    problem = f"is for {' and '.join(owners)} workloads, and workload.kind is {kind}"
    return SpecError(problem, key=key, hint=f'Set kind = "{owners[0]}", or leave it out.')


def _for_raw_io(key: str, engine: str) -> SpecError:
    hint = 'Leave it out, or set engine = "raw-io" in [target].'
    return SpecError(f"is for raw I/O, and target.engine is {engine}", key=key, hint=hint)


def _conflicts(config: Config) -> Iterator[SpecError]:
    yield from _kind_conflicts(config.workload.kind, config.target.engine)
    if config.simulated:
        yield from _simulated_conflicts(config)
    elif config.target.raw_io:
        yield from raw_io.conflicts_on_real_drives(config)
    else:
        yield from _only_simulated(config)
        yield from _target_conflicts(config)
        yield from _remote_conflicts(config) if config.kind.starts_server else _running_server_conflicts(config)
    yield from _volume_conflicts(config)
    yield from _workload_conflicts(config)
    yield from _burn_in_conflicts(config)


def _burn_in_conflicts(config: Config) -> Iterator[SpecError]:
    if config.between_runs.burn_in and config.between_runs.format_drives:
        yield SpecError(
            "leaves no run to judge where the drives are formatted before every run: each one is the first after a "
            "preparation",
            key="between_runs.burn_in",
            hint="Set one of burn_in and format_drives; with drives formatted once, burn_in = 1 leaves the first run out.",
        )


def _workload_conflicts(config: Config) -> Iterator[SpecError]:
    if config.workload.raw_io:
        return
    if config.target.prepared is not None:
        yield _for_raw_io("target.prepared", config.target.engine)
    if not config.generated:
        yield from _only_for_generators(config)
    yield from config.workload.conflicts(config)


def _only_for_generators(config: Config) -> Iterator[SpecError]:
    """Refuses keys of a generated load in a cell with another load."""
    if config.between_runs.data == "template":
        problem = "is for loads of a generator: rows are inserted into an empty table, which takes no time to make"
        yield SpecError(problem, key="between_runs.data", hint="Leave it out.")
    for name in ("spread", "tables", "indexes", "temp"):
        if name in config.layout.model_fields_set:
            kinds = ", ".join(f'"{kind}"' for kind, load in KINDS.items() if load.generated)
            yield SpecError(
                f"is for loads of a generator, and workload.kind is {config.workload.kind}",
                key=f"layout.{name}", hint=f"Leave it out, or set workload.kind to {kinds}.",
            )  # fmt: skip


def _target_conflicts(config: Config) -> Iterator[SpecError]:
    target = config.target
    local = [volume for volume in config.volumes.values() if not volume.remote]
    if config.measure.raw is not None and not local:
        yield SpecError(
            "needs a volume with a path on this machine, where storagelab may make its own file",
            key="measure.raw",
            hint="Leave it out, or name the volumes of a server that runs on this machine.",
        )
    if "raw_s" in config.measure.model_fields_set and config.measure.raw is None:
        yield SpecError(
            "is for raw I/O beside the load", key="measure.raw_s", hint='Set raw = "after" too, or leave it out.'
        )
    if target.dsn is not None and target.dsn_env is not None:
        yield SpecError(
            "conflicts with target.dsn_env",
            key="target.dsn",
            hint="Both name the server to attach to: keep one of them.",
        )
    if target.attached and target.bin_dir is not None:
        yield SpecError(
            "conflicts with target.dsn or target.dsn_env",
            key="target.bin_dir",
            hint="bin_dir starts a private server, and a DSN attaches to a running one: keep one of them.",
        )
    if target.dsn_env is not None and not _VARIABLE.fullmatch(target.dsn_env):
        # The user may have written the DSN itself here, with its password: don't show it.
        yield SpecError(
            "is not the name of an environment variable",
            key="target.dsn_env",
            hint='Put the DSN in a variable and name the variable: dsn_env = "STORAGELAB_DSN".',
        )
    if target.attached and not config.kind.log_per_database and config.layout.log is not None:
        yield SpecError(
            "the log of a running server can't be moved",
            key="layout.log",
            hint="Leave layout.log out; or leave out the DSN, and storagelab starts a private server.",
        )


def _running_server_conflicts(config: Config) -> Iterator[SpecError]:
    """If storagelab starts no server, one must run already, perhaps elsewhere, in its operator's folders."""
    if not config.target.attached:
        hint = 'Put its DSN in a variable and name the variable: dsn_env = "STORAGELAB_DSN".'
        yield SpecError(f"is missing: storagelab starts no {config.kind.title}", key="target.dsn_env", hint=hint)
    for name, volume in config.volumes.items():
        if not volume.remote:
            hint = "Add remote = true: the path is on the server's machine, and storagelab makes no folder there."
            yield SpecError("is missing", key=f"volumes.{name}.remote", hint=hint)


def _remote_conflicts(config: Config) -> Iterator[SpecError]:
    """A private server runs on this machine, and a path on another machine must not depend on a folder of this one."""
    for name, volume in config.volumes.items():
        if volume.remote and not config.target.attached:
            problem = "storagelab starts this server itself, so its volumes are on this machine"
            hint = "Leave it out; or attach to a server elsewhere with target.dsn or target.dsn_env."
            yield SpecError(problem, key=f"volumes.{name}.remote", hint=hint)
        elif volume.remote and not _WHOLE_PATH.match(volume.path or ""):
            hint = "Write it as the server's machine does, for example /data/fast."
            yield SpecError(
                "must be an absolute path because the volume is remote", key=f"volumes.{name}.path", hint=hint
            )


def _only_simulated(config: Config) -> Iterator[SpecError]:
    """Refuses keys that a real server can't take."""
    between = config.between_runs
    said = {
        "target.scale": config.target.scale is not None,
        "server": config.server is not None,
        "drives": bool(config.drives),
        **{f"layout.{name}": name in config.layout.model_fields_set for name in ("data_size_bytes", "log_size_bytes")},
        **{
            f"volumes.{name}.{key}": True
            for name, volume in config.volumes.items()
            for key in sorted(volume.model_fields_set - {"path", "device", "remote"})
        },
        "between_runs.format_drives": between.format_drives,
        "between_runs.move_files": between.move_files,
    }
    for key in (key for key, there in said.items() if there):
        hint = 'Leave it out, or simulate all of it: engine = "simulated" in [target].'
        yield SpecError(f"is for simulated servers, and target.engine is {config.target.engine}", key=key, hint=hint)
    for name, volume in config.volumes.items():
        key = f"volumes.{name}.path"
        if volume.device is not None:
            yield _for_raw_io(f"volumes.{name}.device", config.target.engine)
        if volume.path is None:
            hint = f'Add to the spec:\n    [volumes.{name}]\n    path = "..."'
            yield SpecError("is missing; it must be text in quotes", key=key, hint=hint)
        elif not volume.path.strip() or "\0" in volume.path:
            yield SpecError("is empty", key=key, hint='Name a folder: path = "." is the folder of the spec.')


def _simulated_conflicts(config: Config) -> Iterator[SpecError]:
    target, between = config.target, config.between_runs
    said = {
        **{f"target.{name}": name in target.model_fields_set for name in ("settings", "bin_dir", "dsn", "dsn_env")},
        **{
            f"volumes.{name}.{place}": getattr(volume, place) is not None
            for name, volume in config.volumes.items()
            for place in ("path", "device")
            if not target.raw_io
        },
        **{f"volumes.{name}.remote": volume.remote for name, volume in config.volumes.items()},
        **{
            f"between_runs.{name}": name in between.model_fields_set
            for name in ("checkpoint", "drop_page_cache", "pause_s", "data")
        },
        **{
            f"measure.{name}": name in config.measure.model_fields_set
            for name in ("waits", "sample_hz", "raw", "raw_s")
        },
    }
    for key in (key for key, there in said.items() if there):
        problem = f"is for real servers, and target.engine is {target.engine}"
        yield SpecError(problem, key=key, hint="Leave it out.")
    if target.raw_io:
        yield from raw_io.conflicts(config)
    elif config.server is None:
        hint = 'Add to the spec:\n    [server]\n    cores = 8\n    memory = "16GB"'
        yield SpecError("is missing: a simulated server has cores and memory", key="server", hint=hint)
    if not config.drives:
        hint = 'Add to the spec:\n    [drives.ssd]\n    profile = "iodrive-320"'
        yield SpecError("is missing: a simulated volume needs drives", key="drives", hint=hint)
    for name, volume in config.volumes.items():
        if volume.drives is None and not (target.raw_io and volume.real):  # other cells of the spec use that one
            hint = f"Name the drive: drives = [{shown(next(iter(config.drives)))}]"
            yield SpecError("is missing: a simulated volume needs drives", key=f"volumes.{name}.drives", hint=hint)
    yield from _drive_conflicts(config)
    yield from _history_conflicts(config)


def _drive_conflicts(config: Config) -> Iterator[SpecError]:
    """Refuses unknown drives, drives named twice, and names that two drives would share."""
    singles = config.single_drives
    declared = [single for name in config.drives for single in config.drives_called(name)]
    for single in singles:
        if declared.count(single) > 1 or (single in config.drives and singles[single] != single):
            hint = f"{singles[single]} has count = {config.drives[singles[single]].count}: rename one of them."
            yield SpecError("is the name of two drives", key=f"drives.{single}", hint=hint)
    for name, volume in config.volumes.items():
        key = f"volumes.{name}.drives"
        members = [single for drive in volume.drives or () for single in config.drives_called(drive)]
        for drive in members:
            if drive not in singles:
                hint = choices(drive, dict.fromkeys([*config.drives, *singles]), "The spec's drives")
                yield SpecError(f"no drive is named {shown(drive)}", key=key, hint=hint)
            elif members.count(drive) > 1:
                hint = "A drive has one place in one volume: name it once, or raise its count."
                yield SpecError(f"names drive {shown(drive)} more than once", key=key, hint=hint)
        for drive in volume.lost:
            if drive not in members:
                hint = choices(drive, members, "Its drives")
                yield SpecError(f"{shown(drive)} is not one of its drives", key=f"volumes.{name}.lost", hint=hint)


def _history_conflicts(config: Config) -> Iterator[SpecError]:
    """A drive's history survives only the format that wipes nothing; raw I/O sets it for all drives at once."""
    for name, drive in ((name, drive) for name, drive in config.drives.items() if drive.history is not None):
        key = f"drives.{name}.history"
        if config.target.raw_io:
            prepared = "formatted" if drive.history == "new" else drive.history
            hint = f'Leave it out, and set prepared = "{prepared}" in [target], which applies to all drives.'
            yield SpecError(FOR_DATABASES, key=key, hint=hint)
        elif drive.format != OPERATING_SYSTEM:
            hint = f'Leave it out, or set format = "{OPERATING_SYSTEM}".'
            yield SpecError("is only for a drive that its maker's utility never formatted", key=key, hint=hint)


def _volume_conflicts(config: Config) -> Iterator[SpecError]:
    if not config.volumes and not config.target.attached:
        simulated = config.simulated
        whose, content = ("simulated", 'drives = ["ssd"]') if simulated else ("private", 'path = "/mnt/drive"')
        what = "" if simulated else ", with a folder on the drive to measure"
        yield SpecError(
            f"is missing: a {whose} server needs at least one place for its files",
            key="volumes",
            hint=f"Add to the spec{what}:\n    [volumes.a]\n    {content}",
        )
    named = [("layout.data", name) for name in config.layout.data or ()]
    named += [(f"layout.{what}", name) for what, name in config.extra_volumes.items()]
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
