"""Rules for raw I/O: requests of one size to one volume, without a database, on simulated drives or on real ones."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.errors import SpecError
from storagelab.model.config import Config
from storagelab.model.hints import shown

FOR_DATABASES = "is for databases, and target.engine is raw-io"
STABLE_NAMES = "/dev/disk/by-id/"
_OF_SERVERS = {
    "target": ("settings", "bin_dir", "dsn", "dsn_env"),
    "between_runs": ("checkpoint", "drop_page_cache", "data"),
    "measure": ("waits", "sample_hz", "raw", "raw_s"),
}


def conflicts(config: Config) -> Iterator[SpecError]:
    """Refuses what raw I/O does not have, wherever it runs."""
    layout = config.layout
    said = {
        "server": config.server is not None,
        **{f"layout.{name}": name in layout.model_fields_set for name in ("data_files", "log", "log_size_bytes")},
        "between_runs.move_files": config.between_runs.move_files,
        "between_runs.format_drives": config.between_runs.format_drives,
    }
    for key in (key for key, there in said.items() if there):
        yield SpecError(FOR_DATABASES, key=key, hint="Leave it out.")
    yield from config.workload.conflicts(config)
    if len(config.data_volumes) > 1:
        hint = f"Name one: data = [{shown(config.data_volumes[0])}] in [layout]."
        yield SpecError("raw I/O runs on one volume, but there are several", key="layout.data", hint=hint)


def conflicts_on_real_drives(config: Config) -> Iterator[SpecError]:
    """Refuses keys of servers and of simulated drives, and whatever could harm a drive."""
    yield from conflicts(config)
    for table, names in _OF_SERVERS.items():
        for name in names:
            if name in getattr(config, table).model_fields_set:
                yield SpecError(FOR_DATABASES, key=f"{table}.{name}", hint="Leave it out.")
    if not any(volume.drives for volume in config.volumes.values()):
        said = {
            "target.scale": config.target.scale is not None,
            "target.prepared": config.target.prepared is not None,
            "drives": bool(config.drives),
        }
        for key in (key for key, there in said.items() if there):
            yield SpecError("is for simulated drives, and no volume of the spec has any", key=key, hint="Leave it out.")
    for name in config.data_volumes[:1]:
        if name in config.volumes:
            yield from _volume_conflicts(config, name)


def _volume_conflicts(config: Config, name: str) -> Iterator[SpecError]:
    volume, key = config.volumes[name], f"volumes.{name}"
    for other in sorted(volume.model_fields_set - {"path", "device"}):
        hint = "Leave it out, or give the volume drives instead of a place."
        problem = "is for simulated or remote volumes, and this one is a drive of this machine"
        yield SpecError(problem, key=f"{key}.{other}", hint=hint)
    if volume.device is None:
        if not (volume.path or "").strip() or "\0" in (volume.path or ""):
            yield SpecError("is empty", key=f"{key}.path", hint='Name a folder: path = "." is the folder of the spec.')
        if config.layout.data_size_bytes is None:
            hint = 'Add data_size = "4GB" to [layout]: more than the caches on the way to the medium hold.'
            yield SpecError(
                "is missing: on a real volume, storagelab writes a file of that size",
                key="layout.data_size_bytes",
                hint=hint,
            )
        return
    if volume.path is not None:
        yield SpecError(
            "conflicts with path", key=f"{key}.device", hint="Name a device to read, or a folder, not both."
        )
    if not volume.device.startswith(STABLE_NAMES) or ".." in volume.device:
        yield SpecError(
            f"{volume.device} may be another drive after the next start", key=f"{key}.device",
            hint=f"Name the drive by its identity: ls -l {STABLE_NAMES}",
        )  # fmt: skip
    if config.raw_load.operation != "read":
        yield SpecError(
            f"{config.raw_load.operation} would destroy what is on the device {volume.device}",
            key="workload.operation",
            hint="storagelab only reads whole devices; to write, name a folder on the drive's file system with path = ...",
        )
