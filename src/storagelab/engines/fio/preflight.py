"""Checks that raw I/O can run on every volume and device of the plan. Changes nothing."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.loads import fio
from storagelab.loads.fio import check_direct, device_bytes, sector_bytes
from storagelab.loads.traces import read
from storagelab.machine import host
from storagelab.model.config import Config
from storagelab.model.plan import Plan
from storagelab.model.target import Preflight, VolumeNeed
from storagelab.servers.space import volume_needs
from storagelab.volumes.folders import Site

_READ_AS_IT_IS = (
    "{path} is read as it is: parts that were never written, or were discarded, may answer without the medium, faster "
    "than any drive"
)


def check(plan: Plan, site: Site) -> Preflight:
    """Checks everything that could make a run fail. Raises PreflightError naming the key."""
    program = fio.find()
    configs = {cell.cell_id: cell.config for cell in plan.cells}
    on_files = {cell_id: one for cell_id, one in configs.items() if one.volumes[one.data_volumes[0]].device is None}

    def bytes_on(config: Config, volume: str) -> int:
        return (config.layout.data_size_bytes or 0) if volume == config.data_volumes[0] else 0

    needs = volume_needs(list(on_files.values()), site, bytes_on, size_key="layout.data_size")
    traces: list[str] = []
    least_s: dict[str, float] = {}
    for cell_id, config in on_files.items():
        name = config.data_volumes[0]
        path = site.volume_paths(config)[name]
        made = config.volumes[name].has_own_drive
        if not made:  # the drive is made for each run; it takes direct I/O
            check_direct(path, f"volumes.{name}.path")
        sector = (config.volumes[name].sector_bytes or 512) if made else sector_bytes(path)
        for _, name_of_trace in config.workload.own_files:
            file = site.spec_folder / Path(name_of_trace).expanduser()
            trace = read(file)
            trace.check_fits(file, config.layout.data_size_bytes or 0, sector or 512)
            traces.append(trace.text)
            least_s |= {cell_id: trace.seconds} if config.workload.paced else {}
        if not config.workload.own_files:
            _check_block(config, sector, path)
    on_devices = [one for cell_id, one in configs.items() if cell_id not in on_files]
    devices = dict.fromkeys(_devices(on_devices))
    for config in on_devices:
        _check_device(config)
    notes = [_READ_AS_IT_IS.format(path=need.path) for need in devices]
    server = f"raw I/O by fio {program.version}, without a server"
    return Preflight(server=server, volumes=(*needs, *devices), notes=(*notes, *dict.fromkeys(traces)), least_s=least_s)


def _check_block(config: Config, sector: int | None, path: Path) -> None:
    work = config.raw_load
    if work.direct and sector is not None and work.block_bytes % sector:
        raise PreflightError(
            f"{work.block_bytes} B is no whole number of {sector} B sectors, and {path} takes direct I/O only in these",
            key="workload.block_bytes",
            hint=f"set a multiple of {sector}",
        )
    size = config.layout.data_size_bytes
    if size is not None and size < work.block_bytes * work.threads:
        raise PreflightError(
            f"{size} B has no room for a block of {work.block_bytes} B for each of {work.threads} threads",
            key="layout.data_size_bytes",
            hint="raise it; a file smaller than the caches on the way measures these",
        )


# --- devices ---------------------------------------------------------------------------------------------------------


def _devices(configs: list[Config]) -> Iterator[VolumeNeed]:
    for config in configs:
        name = config.data_volumes[0]
        device = config.volumes[name].device
        if device is not None:
            facts = host.describe_volume(device) if Path(device).exists() else {}
            what = ", ".join(filter(None, ("read only", str(facts.get("device") or ""))))
            yield VolumeNeed(name=name, path=device, device=what, needed_bytes=0, free_bytes=None)


def _check_device(config: Config) -> None:
    name = config.data_volumes[0]
    path, key = Path(config.volumes[name].device or ""), f"volumes.{name}.device"
    try:
        if not stat.S_ISBLK(path.stat().st_mode):
            raise PreflightError(f"{path} is no block device", key=key, hint="ls -l /dev/disk/by-id/")
        size = device_bytes(path)
    except OSError as error:
        hint = "ls -l /dev/disk/by-id/" if isinstance(error, FileNotFoundError) else "run storagelab as root"
        raise PreflightError(f"{path} can't be read: {error.strerror}", key=key, hint=hint) from error
    wanted = config.layout.data_size_bytes
    if wanted is not None and wanted > size:
        raise PreflightError(
            f"{wanted / 2**30:.2f} GiB is more than {path} has: {size / 2**30:.2f} GiB", key="layout.data_size_bytes",
            hint="lower it, or leave it out to read the whole device",
        )  # fmt: skip
    _check_block(config, sector_bytes(path), path)
