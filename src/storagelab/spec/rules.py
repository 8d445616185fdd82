"""Rules between the keys of one cell. For example, volumes must exist, and each engine and each load takes only its own
keys."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import ValidationError

from storagelab.errors import SpecError, choices, refuse, shown
from storagelab.model.config import KINDS, Config
from storagelab.model.engines import ENGINES
from storagelab.model.loads.base import Rule, broken
from storagelab.model.volume import DRIVE_KEYS, LAYERS, MADE_KEYS, OPERATING_SYSTEM, PRICE, VolumeConfig
from storagelab.spec.keys import Tables, Written, checked, error_for, problems, validated
from storagelab.spec.units import without_unit

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WHOLE_PATH = re.compile(r"/|[A-Za-z]:[/\\]|\\\\")
STABLE_NAMES = "/dev/disk/by-id/"
_FOR_DATABASES = "is for databases, and target.engine is raw-io"
_FOR_RAW_IO = "is for raw I/O, and target.engine is"
_LEAVE_OUT = 'Leave it out, or set engine = "raw-io" in [target].'
_GENERATORS = ", ".join(f'"{kind}"' for kind, load in KINDS.items() if load.generated)


class Foreign(NamedTuple):
    """Keys that cells of some kind don't have."""

    keys: tuple[str, ...]
    problem: str
    hint: str = "Leave it out."


def _key_of(key: str) -> str:
    """Returns a key as people write it: sizes are written with units."""
    return key.removesuffix("_bytes") if without_unit(key.removesuffix("_bytes")) == key else key


def _is_stable(device: str) -> bool:
    """Whether this name of a device always means the same drive."""
    return device.startswith(STABLE_NAMES) and ".." not in device


def _is_quoted_well(options: str) -> bool:
    try:
        shlex.split(options)
    except ValueError:
        return False
    return True


def _claims(config: Config) -> list[str]:
    """Returns the drives of the cell's volumes. If several volumes name the same drive, the list has this drive several
    times.
    """
    return [device for name in config.volumes_used if name in config.volumes
            for device in config.volumes[name].devices or ()]  # fmt: skip


# --- keys that some cells don't have ---------------------------------------------------------------------------------

_HARMLESS_IF_EMPTY = ("drives", "format_drives", "move_files", "remote")
_OF_REAL_SERVERS = (
    "target.settings", "target.bin_dir", "target.dsn", "target.dsn_env", "between_runs.checkpoint",
    "between_runs.drop_page_cache", "between_runs.data", "measure.waits", "measure.sample_hz", "measure.raw",
    "measure.raw_s",
)  # fmt: skip
_ONLY_SIMULATED = Foreign(
    (
        "target.scale", "server", "drives", "layout.data_size_bytes", "layout.log_size_bytes",
        *(f"volumes.*.{key}"
          for key in sorted(VolumeConfig.model_fields.keys() - {"path", "device", "remote", PRICE} - MADE_KEYS)),
        "between_runs.format_drives", "between_runs.move_files",
    ),
    "is for simulated servers, and target.engine is {config.target.engine}",
    'Leave it out, or simulate all of it: engine = "simulated" in [target].',
)  # fmt: skip
_ONLY_REAL = Foreign(
    (*_OF_REAL_SERVERS, "volumes.*.remote", "between_runs.pause_s", *(f"volumes.*.{key}" for key in sorted(MADE_KEYS))),
    "is for real servers, and target.engine is {config.target.engine}",
)
_PLACES = _ONLY_REAL._replace(keys=("volumes.*.path", "volumes.*.device"))
_OF_DATABASES = Foreign(
    (
        "server", "layout.data_files", "layout.log_size_bytes", "layout.spread", "layout.tables", "layout.indexes",
        "between_runs.move_files", "between_runs.format_drives",
    ),
    _FOR_DATABASES,
)  # fmt: skip
_OF_DRIVES = Foreign(
    ("target.scale", "target.prepared", "drives"), "is for simulated drives, and no volume of the spec has any"
)
_OF_GENERATORS = Foreign(
    ("layout.spread", "layout.tables", "layout.indexes", "layout.temp", "layout.objects"),
    "is for loads of a generator, and workload.kind is {load.kind}",
    f"Leave it out, or set workload.kind to {_GENERATORS}.",
)

_OF_TABLES_OF_SQL_SERVER = _OF_GENERATORS._replace(keys=_OF_GENERATORS.keys[:-1])

# --- contradictions --------------------------------------------------------------------------------------------------

_OF_EVERY_CELL = (
    Rule("between_runs.burn_in", lambda config: config.between_runs.burn_in > 0 and config.between_runs.format_drives,
         "leaves no run to judge if the drives are formatted before every run: each run is the "
         "first after a preparation",
         "Set one of burn_in and format_drives; with drives formatted once, burn_in = 1 leaves the first run out."),
)  # fmt: skip
_OF_VOLUMES = (
    Rule("volumes.*.device", lambda _, volume: volume.device is not None,
         f"{_FOR_RAW_IO} {{config.target.engine}}", _LEAVE_OUT),
    Rule("volumes.*.path", lambda _, volume: volume.path is None,
         "is missing; it must be text in quotes", 'Add to the spec:\n    [volumes.{name}]\n    path = "..."'),
    Rule("volumes.*.path",
         lambda _, volume: volume.path is not None and (not volume.path.strip() or "\0" in volume.path),
         "is empty", 'Name a folder: path = "." is the folder of the spec.'),
)  # fmt: skip
_OF_SERVERS = (
    Rule("measure.raw",
         lambda config: config.measure.raw is not None and all(volume.remote for volume in config.volumes.values()),
         "needs a volume with a path on this machine, where storagelab may make its own file",
         "Leave it out, or name the volumes of a server that runs on this machine."),
    Rule("measure.raw_s", lambda config: "raw_s" in config.measure.model_fields_set and config.measure.raw is None,
         "is for raw I/O beside the load", 'Set raw = "after" too, or leave it out.'),
    Rule("target.dsn", lambda config: None not in (config.target.dsn, config.target.dsn_env),
         "conflicts with target.dsn_env", "Both name the server to attach to: keep one of them."),
    Rule("target.bin_dir", lambda config: config.target.attached and config.target.bin_dir is not None,
         "conflicts with target.dsn or target.dsn_env",
         "bin_dir starts a private server, and a DSN attaches to a running one: keep one of them."),
    # The user may have written the DSN itself here, with its password, so the value is not shown.
    Rule("target.dsn_env",
         lambda config: config.target.dsn_env is not None and not VARIABLE_NAME.fullmatch(config.target.dsn_env),
         "is not the name of an environment variable",
         'Put the DSN in a variable and name the variable: dsn_env = "STORAGELAB_DSN".'),
    Rule("layout.log",
         lambda config: config.target.attached and not config.kind.log_per_database and config.layout.log is not None,
         "the log of a running server can't be moved",
         "Leave layout.log out; or leave out the DSN, and storagelab starts a private server."),
)  # fmt: skip
_SHARE = re.compile(r"(100|[1-9][0-9]|[5-9])%")
_OF_HANDS = frozenset({"prepare_text", "size_bytes"})
_OF_ANY_VOLUME = frozenset({"file_bytes", "devices", "prepare", "check", "variables", "made_for"})
_CHECKED_BY_HAND = frozenset(
    {"sector_bytes", "filesystem", "mkfs_options", "mount_options", "read_ahead_bytes", "scheduler"}
)
"""Keys that describe how a person prepared a volume. storagelab reads all of them back, except the options of mkfs."""
_SOURCES = (("file", "file_bytes"), ("devices", "devices"))
"""The sources of a volume that storagelab makes. Each source has a key and a field."""
_OF_MADE_VOLUMES = (
    *(Rule(_key_of(f"volumes.*.{key}"),
           lambda _, volume, key=key: not volume.has_own_drive and bool(getattr(volume, key))
           and not (volume.by_hand and key in _CHECKED_BY_HAND),
           "is for a volume that storagelab makes, and this one is a folder that others may use",
           'Add file = "8GiB": storagelab then makes a drive of that size from a file in the folder.')
      for key in sorted(MADE_KEYS - DRIVE_KEYS - _OF_ANY_VOLUME - _OF_HANDS)),
    *(Rule(_key_of(f"volumes.*.{key}"),
           lambda _, volume, key=key: volume.devices is None and getattr(volume, key) is not None,
           "is for a volume made of drives", 'Leave it out, or name drives: devices = ["/dev/disk/by-id/..."].')
      for key in sorted(DRIVE_KEYS)),
    *(Rule(_key_of(f"volumes.*.{key}"),
           lambda _, volume, key=key: getattr(volume, key) is not None and not volume.by_hand,
           "is for a volume that you prepare yourself", 'Set prepare = "by-hand" too, or leave it out.')
      for key in sorted(_OF_HANDS)),
    Rule("volumes.*.made_for", lambda _, volume: volume.made_for is not None and not volume.made,
         "is for a volume that is made or prepared", 'Add file = "8GiB", or prepare = "...", or leave it out.'),
    Rule("volumes.*.made_for", lambda _, volume: volume.by_hand and volume.made_for == "run",
         'conflicts with prepare = "by-hand"', "You prepare a volume for a block of runs, not for "
         "each: leave made_for out."),
    *(Rule(f"volumes.*.{key}", lambda _, volume, field=field: volume.by_hand and getattr(volume, field) is not None,
           'conflicts with prepare = "by-hand"', "Either storagelab makes the volume, or you "
           "do: leave one of them out.")
      for key, field in _SOURCES),
    Rule("volumes.*.prepare", lambda config, volume: volume.kept_for_block and config.between_runs.data == "template",
         'conflicts with between_runs.data = "template"',
         "A template is kept on the volume, and the volume is prepared anew for each block: leave one of them out."),
    *(Rule(f"volumes.*.{key}",
           lambda config, volume, field=field: bool(getattr(volume, field)) and config.target.attached,
           "makes a volume of its own, and a server that runs already can't move there",
           f"Leave the DSN out, and storagelab starts a private server on it; or leave {key} out.")
      for key, field in _SOURCES),
    *(Rule(f"volumes.*.{key}",
           lambda config, volume, field=field: bool(getattr(volume, field)) and config.between_runs.data == "template",
           'conflicts with between_runs.data = "template"',
           "A template is kept on the volume, and the volume is made anew: leave one of them out.")
      for key, field in _SOURCES),
    Rule("volumes.*.device", lambda _, volume: volume.made and volume.device is not None,
         "conflicts with file, devices, prepare and check", "storagelab only reads such a device, as it is."),
    Rule("volumes.*.devices", lambda _, volume: volume.devices is not None and volume.file_bytes is not None,
         "conflicts with file", "A volume is made of a file or of drives: keep one of them."),
    Rule("volumes.*.devices", lambda _, volume: not all(_is_stable(device) for device in volume.devices or ()),
         "names a drive by a name that may be another drive's after the next start",
         f"Name each drive by its identity: ls -l {STABLE_NAMES}"),
    Rule("volumes.*.devices",
         lambda config, volume: any(_claims(config).count(device) > 1 for device in volume.devices or ()),
         "names a drive that is named twice", "A drive has one place in one volume."),
    *(rule for file in LAYERS for rule in file.Keys.rules),
    Rule("volumes.*.capacity", lambda _, volume: not _SHARE.fullmatch(volume.capacity or "100%"),
         "must be a whole percentage from 5% to 100%", 'For example capacity = "80%".'),
    Rule("volumes.*.mkfs_options", lambda _, volume: not _is_quoted_well(volume.mkfs_options or ""),
         "has a quotation mark that is not closed", "Close it, or leave it out."),
    Rule("volumes.*.mkfs_options", lambda _, volume: not volume.by_hand and "/" in (volume.mkfs_options or ""),
         "names a file or a device, which mkfs might overwrite",
         "Leave out what has a slash: mkfs is given the volume itself."),
    Rule("volumes.*.trim",
         lambda _, volume: volume.trim is not None and "discard" in (volume.mount_options or ""),
         "conflicts with mount_options", "Both say whether the file system discards: keep one of them."),
)  # fmt: skip
_OF_RUNNING_SERVERS = (
    Rule("target.dsn_env", lambda config: not config.target.attached,
         "is missing: storagelab starts no {config.kind.title}",
         'Put its DSN in a variable and name the variable: dsn_env = "STORAGELAB_DSN".'),
    Rule("volumes.*.remote", lambda _, volume: not volume.remote,
         "is missing", "Add remote = true: the path is on the server's machine, and storagelab makes no folder there."),
)  # fmt: skip
_OF_STARTED_SERVERS = (
    Rule("volumes.*.remote", lambda config, volume: volume.remote and not config.target.attached,
         "storagelab starts this server itself, so its volumes are on this machine",
         "Leave it out; or attach to a server elsewhere with target.dsn or target.dsn_env."),
    Rule("volumes.*.path", lambda _, volume: volume.remote and not _WHOLE_PATH.match(volume.path or "/"),
         "must be an absolute path because the volume is remote",
         "Write it as the server's machine does, for example /data/fast."),
)  # fmt: skip
_OF_SIMULATED_CELLS = (
    Rule("server", lambda config: config.server is None and not config.target.raw_io,
         "is missing: a simulated server has cores and memory",
         'Add to the spec:\n    [server]\n    cores = 8\n    memory = "16GB"'),
    Rule("drives", lambda config: not config.drives,
         "is missing: a simulated volume needs drives",
         'Add to the spec:\n    [drives.ssd]\n    profile = "iodrive-320"'),
    # In a spec of raw I/O, a volume with a path may belong to other cells.
    Rule("volumes.*.drives",
         lambda config, volume: volume.drives is None and not (config.target.raw_io and volume.real),
         "is missing: a simulated volume needs drives", 'Name the drive: drives = [{drive}]'),
)  # fmt: skip


def config_of(tables: Tables) -> Config:
    """Returns the configuration in `tables`, after all checks. Raises SpecError that names the key."""
    kind = "raw-io" if tables.get("target", {}).get("engine") == "raw-io" else "random-insert"
    config = _read({**tables, "workload": {"kind": kind, **tables.get("workload", {})}})
    refuse(list(_conflicts(config)))
    return config


def _read(tables: Tables) -> Config:
    """Returns the configuration. First refuses values that are wrong by themselves, then keys that the kind of load
    does not take, and missing keys.
    """
    try:
        return validated(Config, tables)
    except ValidationError:
        engine, kind = checked(Written, tables).target.engine, tables["workload"]["kind"]
    refuse(list(_kind_conflicts(kind, engine)))  # the kind and the engine decide which keys are allowed
    refuse([
        _key_of_another_kind(str(problem.parts[-1]), kind, engine)
        if problem.kind == "unknown" else error_for(problem, Written, tables)
        for problem in problems(Config, tables)
    ])  # fmt: skip
    raise AssertionError("the model refused the tables, but no problem was found")


def _kind_conflicts(kind: str, engine: str) -> Iterator[SpecError]:
    if engine == "raw-io" and not KINDS[kind].raw_io:
        yield SpecError(_FOR_DATABASES, key="workload.kind", hint="Leave it out.")
    load = KINDS[kind]
    if engine != "raw-io" and load.raw_io:
        yield _for_raw_io("workload.kind", engine)
    if engine != "raw-io" and load.engines and engine not in load.engines:
        problem = f"{kind} loads {' and '.join(load.engines)}, and target.engine is {engine}"
        others = "".join(f', or kind = "{one}" with its keys' for one in ENGINES[engine].generators)
        hint = f'Set engine = "{load.engines[0]}" in [target]{others}.'
        yield SpecError(problem, key="workload.kind", hint=hint)


def _key_of_another_kind(name: str, kind: str, engine: str) -> SpecError:
    key, owners = f"workload.{name}", [one for one, member in KINDS.items() if name in member.model_fields]
    if KINDS[kind].raw_io:
        return SpecError(_FOR_DATABASES, key=key, hint="Leave it out.")
    owners = [one for one in owners if not KINDS[one].raw_io]
    if not owners:
        return _for_raw_io(key, engine)
    problem = f"is for {' and '.join(owners)} workloads, and workload.kind is {kind}"
    return SpecError(problem, key=key, hint=f'Set kind = "{owners[0]}", or leave it out.')


def _for_raw_io(key: str, engine: str) -> SpecError:
    return SpecError(f"{_FOR_RAW_IO} {engine}", key=key, hint=_LEAVE_OUT)


def _conflicts(config: Config) -> Iterator[SpecError]:
    yield from _kind_conflicts(config.workload.kind, config.target.engine)
    if config.simulated:
        yield from _simulated_conflicts(config)
    elif config.target.raw_io:
        # Refuses keys of servers and of simulated drives, and all keys that could damage a drive's content
        yield from _raw_conflicts(config)
        yield from _foreign(config, Foreign(_OF_REAL_SERVERS, _FOR_DATABASES))
        if not any(volume.drives for volume in config.volumes.values()):
            yield from _foreign(config, _OF_DRIVES)
        for name in config.volumes_used if len(config.data_volumes) == 1 else ():
            if name in config.volumes:
                yield from _raw_volume_conflicts(config, name)
    else:
        yield from _foreign(config, _ONLY_SIMULATED)
        started = config.kind.starts_server
        yield from broken(
            config, (*_OF_VOLUMES, *_OF_SERVERS, *(_OF_STARTED_SERVERS if started else _OF_RUNNING_SERVERS))
        )
    yield from broken(config, _OF_MADE_VOLUMES)
    yield from _volume_conflicts(config)
    yield from _workload_conflicts(config)
    yield from broken(config, _OF_EVERY_CELL)


def _foreign(config: Config, foreign: Foreign) -> Iterator[SpecError]:
    for pattern in foreign.keys:
        for key in map(_key_of, _written(config, pattern)):
            yield Rule(key, lambda _: True, foreign.problem, foreign.hint).error(config)


def _written(config: Config, pattern: str) -> list[str]:
    """Returns the keys that match `pattern` and that the spec has. A * matches any name."""
    found: list[tuple[str, Any]] = [("", config)]
    for part in pattern.split("."):
        found = [(f"{key}.{name}", inside) for key, value in found for name, inside in _inside(value, part)]
    return [key.removeprefix(".") for key, _ in found]


def _inside(value: Any, part: str) -> list[tuple[str, Any]]:
    if part == "*":
        return list(value.items())
    if part not in value.model_fields_set:
        return []
    inside = getattr(value, part)
    return [] if inside is None or (part in _HARMLESS_IF_EMPTY and not inside) else [(part, inside)]


def _workload_conflicts(config: Config) -> Iterator[SpecError]:
    if config.workload.raw_io:
        return
    if config.target.prepared is not None:
        yield _for_raw_io("target.prepared", config.target.engine)
    if not config.generated:
        if config.between_runs.data == "template":
            problem = "is for loads of a generator: rows are inserted into an empty table, which takes no time to make"
            yield SpecError(problem, key="between_runs.data", hint="Leave it out.")
        yield from _foreign(config, _OF_TABLES_OF_SQL_SERVER if config.kind.log_per_database else _OF_GENERATORS)
    yield from config.workload.conflicts(config)


def _simulated_conflicts(config: Config) -> Iterator[SpecError]:
    if not config.target.raw_io:
        yield from _foreign(config, _PLACES)
    for name in config.data_volumes if config.target.raw_io else ():
        made = config.volumes[name].model_fields_set & MADE_KEYS if name in config.volumes else None
        if made and not config.volumes[name].drives:
            problem = f"is missing: {_key_of(f'volumes.{name}.{min(made)}')} is for a volume on this machine"
            yield SpecError(problem, key=f"volumes.{name}.path", hint='Name a folder: path = "/mnt/drive".')
    yield from _foreign(config, _ONLY_REAL)
    if config.target.raw_io:
        yield from _raw_conflicts(config)
    yield from broken(config, _OF_SIMULATED_CELLS)
    yield from _drive_conflicts(config)
    yield from _history_conflicts(config)


# --- raw I/O ---------------------------------------------------------------------------------------------------------


def _raw_conflicts(config: Config) -> Iterator[SpecError]:
    """Refuses keys that raw I/O does not have, both on real and on simulated drives."""
    yield from _foreign(config, _OF_DATABASES)
    yield from config.workload.conflicts(config)
    if len(config.data_volumes) > 1:
        hint = f"Name one: data = [{shown(config.data_volumes[0])}] in [layout]."
        yield SpecError("raw I/O runs on one volume, but there are several", key="layout.data", hint=hint)


def _raw_volume_conflicts(config: Config, name: str) -> Iterator[SpecError]:
    volume, key = config.volumes[name], f"volumes.{name}"
    for other in sorted(volume.model_fields_set - {"path", "device", PRICE} - MADE_KEYS):
        hint = "Leave it out, or give the volume drives instead of a place."
        problem = "is for simulated or remote volumes, and this one is a drive of this machine"
        yield SpecError(problem, key=f"{key}.{other}", hint=hint)
    if volume.device is None:
        if not (volume.path or "").strip() or "\0" in (volume.path or ""):
            yield SpecError("is empty", key=f"{key}.path", hint='Name a folder: path = "." is the folder of the spec.')
        if config.layout.data_size_bytes is None:
            hint = 'Add data_size = "4GB" to [layout]: more than the caches on the way to the medium hold.'
            problem = "is missing: on a real volume, storagelab writes a file of that size"
            yield SpecError(problem, key="layout.data_size_bytes", hint=hint)
        return
    if volume.path is not None:
        yield SpecError(
            "conflicts with path", key=f"{key}.device", hint="Name a device to read, or a folder, not both."
        )
    if not _is_stable(volume.device):
        yield SpecError(
            f"{volume.device} may be another drive after the next start", key=f"{key}.device",
            hint=f"Name the drive by its identity: ls -l {STABLE_NAMES}",
        )  # fmt: skip
    if config.workload.writes_drives:
        yield SpecError(
            f"{config.raw_load.operation} would destroy what is on the device {volume.device}",
            key="workload.operation",
            hint="storagelab only reads whole devices; to write, name a folder on the drive's "
            "file system with path = ...",
        )


# --- drives and volumes ---------------------------------------------------------------------------------------------


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
    """Refuses a history where it has no effect. A drive keeps its history only if the operating system formats it. For
    raw I/O, `prepared` sets the history of all drives at once.
    """
    for name, drive in ((name, drive) for name, drive in config.drives.items() if drive.history is not None):
        key = f"drives.{name}.history"
        if config.target.raw_io:
            prepared = "formatted" if drive.history == "new" else drive.history
            hint = f'Leave it out, and set prepared = "{prepared}" in [target], which applies to all drives.'
            yield SpecError(_FOR_DATABASES, key=key, hint=hint)
        elif drive.format != OPERATING_SYSTEM:
            hint = f'Leave it out, or set format = "{OPERATING_SYSTEM}".'
            yield SpecError("is only for a drive that its maker's utility never formatted", key=key, hint=hint)


def _volume_conflicts(config: Config) -> Iterator[SpecError]:
    if not config.volumes and not config.target.attached:
        simulated = config.simulated
        whose, content = ("simulated", 'drives = ["ssd"]') if simulated else ("private", 'path = "/mnt/drive"')
        what = "" if simulated else ", with a folder on the drive to measure"
        problem = f"is missing: a {whose} server needs at least one place for its files"
        yield SpecError(problem, key="volumes", hint=f"Add to the spec{what}:\n    [volumes.a]\n    {content}")
    named = [("layout.data", name) for name in config.layout.data or ()]
    named += [(key, name) for key, _, name in config.placed_keys]
    if config.layout.log is not None:
        named.append(("layout.log", config.layout.log))
    for key, name in named:
        if name not in config.volumes:
            hint = choices(name, config.volumes, "The spec's volumes")
            yield SpecError(f"no volume is named {shown(name)}", key=key, hint=hint)
    words = [what for _, what, _ in config.placed_keys]
    for word in (what for what in config.layout.objects if words.count(what) > 1):
        hint = "Keep only one of them."
        yield SpecError(f"places the same as layout.{word}", key=f"layout.objects.{word}", hint=hint)
    for name in config.layout.data or ():
        if (config.layout.data or ()).count(name) > 1:
            hint = "Data files go round robin over the list: name each volume once."
            yield SpecError(f"names volume {shown(name)} more than once", key="layout.data", hint=hint)
