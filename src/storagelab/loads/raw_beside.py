"""A short measurement of the I/O that a database's volumes can do, by fio, just before or after the load.

It reads and writes at random in the server's page size, and in order in blocks of 128 KB, the size in which servers and
kernels combine neighbouring pages. Sixteen requests are in progress, so that the drive is fully used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from storagelab.errors import RunFailed
from storagelab.loads import fio
from storagelab.loads.fio import Job
from storagelab.loads.raw_outcome import Place, check_direct
from storagelab.machine import host
from storagelab.model.config import Config
from storagelab.model.measurement import RAW_IO_BESIDE
from storagelab.model.plan import Plan
from storagelab.volumes.folders import Site
from storagelab.watching.counters import Counters

IN_ORDER_BYTES = 128 * 1024
OUTSTANDING = 16
_MOST_BYTES = 256 * 2**20
_LEAST_BYTES = 16 * 2**20
_SHARE_OF_FREE = 4
_FILE = "raw-io-beside"


def check(plan: Plan, site: Site) -> None:
    """Checks that every volume to be measured allows it. Raises PreflightError."""
    configs = [cell.config for cell in plan.cells if cell.config.measure.raw is not None]
    if configs:
        fio.find("measure.raw")
    for name, path in {
        (name, path) for config in configs for name, path in _used(config, site.volume_paths(config)).items()
    }:
        check_direct(path, f"volumes.{name}.path")


def _used(config: Config, of_volumes: Mapping[str, Path]) -> dict[str, Path]:
    return {name: of_volumes[name] for name in config.volumes_used if name in of_volumes}


def measure(config: Config, folders: Mapping[str, Path], page_bytes: int, seed: int) -> Counters:
    """A group of counters: `volume.NAME.random_write_ios_per_s` and so on. `folders` = storagelab's own, by volume.
    Volumes that share a folder are measured once. Raises RunFailed."""
    by_folder: dict[Path, dict[str, float]] = {}
    found: dict[str, float] = {}
    for name, folder in _used(config, folders).items():
        if folder not in by_folder:
            by_folder[folder] = _of_folder(folder, page_bytes, config.measure.raw_s, seed)
        found |= {f"volume.{name}.{figure}": value for figure, value in by_folder[folder].items()}
    return {RAW_IO_BESIDE: found} if found else {}


def _of_folder(folder: Path, page_bytes: int, seconds: float, seed: int) -> dict[str, float]:
    size = min(_MOST_BYTES, host.free_bytes(folder) // _SHARE_OF_FREE) // 2**20 * 2**20
    if size < _LEAST_BYTES:
        raise RunFailed(f"{folder} has no room for raw I/O: {host.free_bytes(folder) / 2**20:.0f} MiB free")
    program, place = fio.find("measure.raw"), Place(folder, _FILE, size)
    found: dict[str, float] = {}
    try:
        io_engine = fio.lay_out(program, place, page_bytes)
        for job in [
            Job("read", "random", page_bytes, seconds, outstanding=OUTSTANDING, seed=seed),
            Job("write", "random", page_bytes, seconds, outstanding=OUTSTANDING, seed=seed),
            Job("read", "sequential", IN_ORDER_BYTES, seconds, outstanding=OUTSTANDING, seed=seed),
            Job("write", "sequential", IN_ORDER_BYTES, seconds, outstanding=OUTSTANDING, seed=seed),
        ]:
            outcome = fio.make(program, place, job, io_engine, logged=False)
            kind = f"{job.pattern}_{job.operation}"
            found[f"{kind}_bytes_per_s"] = outcome.bytes / outcome.elapsed_s
            found[f"{kind}_ios_per_s"] = outcome.requests / outcome.elapsed_s
    finally:
        (folder / _FILE).unlink(missing_ok=True)
    return found
