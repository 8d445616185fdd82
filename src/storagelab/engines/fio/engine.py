"""Raw I/O on real drives, in blocks of runs.

On each volume, the runs of a block share one file. storagelab fills the file before the first run and removes it after
the last run. If a volume is a device, the runs only read the device.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from storagelab import __version__
from storagelab.engines.fio.sending import Places, Sender, sender_of
from storagelab.errors import Placed, PreflightError, RunFailed, noting
from storagelab.loads import fio
from storagelab.loads.fio import Direction, Fio, Outcome, Place, check_direct, device_bytes, sector_bytes
from storagelab.loads.traces import read
from storagelab.machine import host
from storagelab.machine.counts import DeviceCounters
from storagelab.machine.doctor import Ability, ability
from storagelab.machine.processes import others_s
from storagelab.model.config import Config
from storagelab.model.measurement import LOAD, RAW_IO, RAW_IO_AT_DRIVE, Check, Measurement, TimeSeries
from storagelab.model.plan import Cell, Plan, PlannedBlock, PlannedRun
from storagelab.model.target import Preflight, Progress, State, Target, VolumeNeed
from storagelab.run.engine import Engine
from storagelab.servers.space import volume_needs
from storagelab.stopping import uninterrupted
from storagelab.volumes import for_runs
from storagelab.volumes.folders import Folders, Site
from storagelab.watching.counters import MachineCounters
from storagelab.watching.pace import check_watching

LEAST_AT_DRIVE = 0.98
"""If the drive received less than this share of fio's bytes, a cache answered some requests."""
_FILE = "raw-io"
_PERCENTILES = (50.0, 95.0, 99.0, 99.9)


class RawBlock:
    """All runs of one block. A run can affect later runs only through the state of the drive."""

    def __init__(self, block: PlannedBlock, site: Site, volumes: for_runs.BlockVolumes) -> None:
        self._block, self._site, self._volumes = block, site, volumes
        self._fio = fio.find()
        self._folders: dict[Path, Folders] = {}
        self._io_engines: dict[tuple[Path, str], str] = {}
        """For each prepared file: the I/O engine of fio that works on it."""

    def needed(self, wanted: Collection[int]) -> Sequence[int]:
        return sorted(wanted)

    @contextmanager
    def open(self, planned: PlannedRun) -> Iterator[Target]:
        """The target of one run. Writes the file before the first run on a volume. Raises RunFailed if this fails."""
        cell = self._block.cell_of(planned)
        opening = self._alone if for_runs.wanted(cell.config) else self._shared
        with for_runs.opened(cell, self._site, opening, self._volumes) as target:
            yield target

    @contextmanager
    def _alone(self, config: Config, _site: Site) -> Iterator[Target]:
        """The target of a run on a volume that storagelab made for this run. The run has its own file."""
        block = RawBlock(self._block, self._site, self._volumes)
        try:
            with block._shared(config, self._site) as target:
                yield target
        finally:
            with uninterrupted():
                block.close()

    @contextmanager
    def _shared(self, config: Config, _site: Site) -> Iterator[Target]:
        began = time.perf_counter()
        sender = sender_of(config, self._site)
        places = [self._place(config, name)._replace(direct=sender.direct) for name in config.volumes_used]
        keys = [(place.folder, place.name) for place in places]
        for key, place in zip(keys, places, strict=True):
            if key not in self._io_engines:
                self._io_engines[key] = self._laid_out(place, sender)
        yield _RawTarget(self._fio, config, places, sender, self._io_engines[keys[0]], time.perf_counter() - began)

    def _place(self, config: Config, name: str) -> Place:
        device = config.volumes[name].device
        if device is not None:
            return Place(Path("/"), device, config.layout.data_size_bytes or device_bytes(Path(device)), read_only=True)
        path = self._site.volume_paths(config)[name]
        folders = self._folders.get(path) or Folders(self._site, {name: path})
        if path not in self._folders:
            folders.make()
            self._folders[path] = folders
        (folder,) = folders.paths
        size = config.layout.data_size_bytes
        assert size is not None
        return Place(folder, f"{_FILE}-{size}", size)

    def _laid_out(self, place: Place, sender: Sender) -> str:
        if not place.read_only:
            for name in [name for folder, name in self._io_engines if folder == place.folder]:
                (place.folder / name).unlink(missing_ok=True)  # has another size; the volume may lack space for both
                del self._io_engines[place.folder, name]
        try:
            return fio.lay_out(self._fio, place, sender.block_bytes)
        except BaseException:
            if not place.read_only:
                (place.folder / place.name).unlink(missing_ok=True)
            raise

    def close(self) -> None:
        """Removes the files and folders of this block. Raises RunFailed if some files can't be removed."""
        problems = []
        for folders in self._folders.values():
            try:
                folders.remove()
            except RunFailed as error:
                problems.append(str(error))
        if problems:
            raise RunFailed("; ".join(problems))


@contextmanager
def opened(block: PlannedBlock, site: Site, state: State) -> Iterator[RawBlock]:
    """The runs of a block. Removes their files at the end, even after an error."""
    with for_runs.kept(block, site, state) as volumes:
        raw = RawBlock(block, site, volumes)
        try:
            yield raw
        finally:
            with uninterrupted():
                raw.close()


class _RawTarget:
    """One run."""

    def __init__(
        self, program: Fio, config: Config, places: Places, sender: Sender, io_engine: str, setup_s: float
    ) -> None:
        self._fio, self._config, self._places, self._io_engine = program, config, places, io_engine
        self._sender = sender
        self._setup_s = setup_s
        self._paths = {
            # The drive is found by this path: the folder of the file, or the device.
            name: Path(place.name) if place.read_only else place.folder
            for name, place in zip(config.volumes_used, places, strict=True)
        }

    def describe(self) -> dict[str, object]:
        at, paths = self._places[0], self._paths
        facts = {
            name: {**host.describe_volume(path), "power_loss_protection": "not known"} for name, path in paths.items()
        }
        name, path = next(iter(paths.items()))
        if at.read_only:
            facts[name] |= {"size_bytes": device_bytes(path), "free_bytes": None}
        return {
            "host": host.describe_host(),
            "volumes": facts,
            "server": {
                **self._sender.facts(self._fio, self._io_engine),
                "direct": at.direct,
                "file_bytes": at.size_bytes,
                "sector_bytes": sector_bytes(path),
                "prepared": "read as it is" if at.read_only else "written full, once, before the first run",
            },
            "storagelab": {"version": __version__},
        }

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:
        environment = self.describe()
        time.sleep(self._config.between_runs.pause_s)
        progress(0)
        began_s, amount = time.monotonic(), self._config.workload.work.amount

        def tell() -> None:  # the unit of progress is a millisecond
            progress(min(amount, round((time.monotonic() - began_s) * 1000)))

        self._sender.warm_up(self._fio, self._places, self._io_engine, seed, tell)
        with DeviceCounters(self._paths) as devices:
            machine = MachineCounters(devices, None)

            def meanwhile() -> None:
                tell()
                machine.look()

            counts_s = time.monotonic()
            outcome = self._sender.send(self._fio, self._places, self._io_engine, seed, meanwhile)
            counts_s = max(counts_s, time.monotonic() - outcome.elapsed_s)  # the sender starts a moment later
            machine.end()
            counters = machine.counted(with_checkpoint=False)
        at_drive, cpu = _at_drive(counters.get("volumes", {}), self._paths, outcome), counters.get("cpu", {})
        if "busy_s" in cpu:
            cpu = {**cpu, "others_s": others_s(cpu)}
        return Measurement(
            provenance="measured",
            elapsed_s=outcome.elapsed_s,
            requests=outcome.requests,
            latency=outcome.latency,
            counters={
                RAW_IO: {**figures(outcome), **outcome.figures},
                **({RAW_IO_AT_DRIVE: at_drive} if at_drive else {}),
                LOAD: {"counts_after_s": counts_s - began_s},
                **counters,
                "cpu": cpu,
            },
            series=_series(outcome, list(self._paths)),
            environment=environment,
            checks=(
                *_checks(at_drive, outcome, self._io_engine),
                *machine.checks(outcome.elapsed_s),
                *check_watching("", None, outcome.elapsed_s, stood_s=machine.standstill.seconds),
            ),
            setup_s=self._setup_s,
        )


def figures(outcome: Outcome) -> dict[str, float]:
    """The results of a run, by name. Results of simulated drives have the same names."""
    latency = outcome.latency
    found = {
        "ios_per_s": outcome.requests / outcome.elapsed_s,
        "bytes_per_s": outcome.bytes / outcome.elapsed_s,
        "cpu_per_io_s": outcome.cpu_s / outcome.requests,
    }
    if len(outcome.done) > 1:
        found |= {f"{direction}s_per_s": one.requests / outcome.elapsed_s for direction, one in outcome.done.items()}
    if outcome.standstill_s:
        found["standstill_s"] = float(outcome.standstill_s)
    return found if latency is None else found | {
        "latency_mean_s": latency.mean_s,
        "latency_least_s": latency.least_ns / 1e9,
        **{f"latency_p{per_cent:g}_s": latency.percentile_s(per_cent) for per_cent in _PERCENTILES},
        "latency_longest_s": latency.longest_ns / 1e9,
    }  # fmt: skip


# --- what the kernel saw ---------------------------------------------------------------------------------------------


def _at_drive(counted: Mapping[str, float], volumes: Collection[str], outcome: Outcome) -> dict[str, float]:
    """The counts of the run's requests and bytes: by fio, and by the kernel at the devices below the file systems."""
    found: dict[str, float] = {}
    for direction, done in outcome.done.items():
        for what, by_fio in ((f"{direction}s", done.requests), (f"{direction}_bytes", done.bytes)):
            keys = [(f"volume.{volume}.file_system_{what}", f"volume.{volume}.{what}") for volume in volumes]
            by_kernel = [counted[key] for own, whole in keys if (key := own if own in counted else whole) in counted]
            if len(by_kernel) == len(volumes):
                found |= {f"{what}_by_fio": float(by_fio), f"{what}_by_kernel": sum(by_kernel)}
    return found


def _checks(at_drive: Mapping[str, float], outcome: Outcome, io_engine: str) -> Iterator[Check]:
    """Compares the bytes that the drive received with the bytes that fio sent.

    If the drive received more, other programs may have used it. If it received fewer, a cache answered some requests.
    """
    directions: tuple[Direction, ...] = ("read", "write")
    for direction in directions:
        by_fio, by_kernel = (at_drive.get(f"{direction}_bytes_by_{whose}") for whose in ("fio", "kernel"))
        if by_fio and by_kernel is not None:
            yield Check(
                name=f"bytes at the drive, {direction}", asked=f"{by_fio:.0f}", got=f"{by_kernel:.0f}",
                ok=by_kernel >= LEAST_AT_DRIVE * by_fio, read_from="the kernel's counters of the device",
            )  # fmt: skip

    if (got := outcome.io_engine) is not None:
        yield Check(name="I/O engine", asked=io_engine, got=got, ok=io_engine == got, read_from="fio's report")


def _series(outcome: Outcome, volumes: Sequence[str]) -> TimeSeries:
    seconds = max((len(rates) for rates in outcome.per_s.values()), default=0)
    if not seconds:
        return TimeSeries()
    columns: dict[str, tuple[float | None, ...]] = {
        **{f"volume.{volumes[0]}.{direction}_bytes_per_s":
           tuple(rate * outcome.done[direction].block_bytes for rate in rates)
           for direction, rates in outcome.per_s.items() if len(volumes) == 1},
        **{f"{direction}_latency_mean_s": means_s for direction, means_s in outcome.mean_s.items()},
    }  # fmt: skip
    whole = tuple(sum(rates) for rates in zip(*outcome.per_s.values(), strict=True))
    return TimeSeries(
        at_s=tuple(float(second) for second in range(1, seconds + 1)), columns={"requests_per_s": whole, **columns}
    )


# --- doctor ----------------------------------------------------------------------------------------------------------
#
# The command `doctor` shows whether this machine can do raw I/O on real drives.


def abilities() -> tuple[Ability, ...]:
    return (ability("raw I/O on drives", fio.find, lambda found: f"fio {found.version} ({found.program})"),)


# --- preflight -------------------------------------------------------------------------------------------------------
#
# Checks that raw I/O can run on every volume and device of the plan. Changes nothing.


_READ_AS_IT_IS = (
    "{path} is read as it is: parts that were never written or were discarded may answer faster than any drive, "
    "without a read of the medium"
)


def check(plan: Plan, site: Site) -> Preflight:
    """Checks whether fio, the volumes and the devices fit every cell of the plan. The result lists all problems."""
    lacks, version = list[Placed](), "of a version to be found"
    with noting(lacks):
        version = fio.find().version
    configs = {cell.cell_id: cell.config for cell in plan.cells}
    on_files = {
        cell_id: one for cell_id, one in configs.items()
        if all(one.volumes[name].device is None for name in one.volumes_used)
    }  # fmt: skip

    def bytes_on(config: Config, volume: str) -> int:
        return (config.layout.data_size_bytes or 0) if volume in config.volumes_used else 0

    on_volumes = volume_needs(list(on_files.values()), site, bytes_on, size_key="layout.data_size")
    traces: list[str] = []
    least_s: dict[str, float] = {}
    for cell_id, config in on_files.items():
        if not on_volumes.lacks:
            with noting(lacks):
                traced, seconds = _check_on_files(config, site)
                traces += traced
                least_s |= {cell_id: seconds} if seconds is not None else {}
    on_devices = [one for cell_id, one in configs.items() if cell_id not in on_files]
    devices = dict.fromkeys(_devices(on_devices))
    for config in on_devices:
        with noting(lacks):
            _check_device(config)
    notes = [_READ_AS_IT_IS.format(path=need.path) for need in devices]
    return Preflight(
        server=f"raw I/O by fio {version}, without a server", volumes=(*on_volumes.needs, *devices),
        notes=(*notes, *dict.fromkeys(traces)), least_s=least_s, lacks=(*on_volumes.lacks, *lacks),
    )  # fmt: skip


def _check_on_files(config: Config, site: Site) -> tuple[list[str], float | None]:
    """Checks a cell whose volumes are folders. Returns a text for each trace of the cell.

    If the trace is sent at its own pace, also returns its duration in seconds, otherwise None. Raises PreflightError.
    """
    sectors, texts, seconds = [], [], None
    for name in config.volumes_used:
        path = site.volume_paths(config)[name]
        made = config.volumes[name].has_own_drive
        if not made:  # A drive that storagelab makes for each run supports direct I/O.
            check_direct(path, f"volumes.{name}.path")
        sectors.append((config.volumes[name].sector_bytes or 512) if made else sector_bytes(path) or 512)
    for _, name_of_trace in config.workload.own_files:
        file = site.spec_folder / Path(name_of_trace).expanduser()
        trace = read(file, config)
        trace.check_fits(file, config.layout.data_size_bytes or 0, max(sectors))
        texts.append(trace.text)
        seconds = trace.seconds if config.workload.paced else None
    if not config.workload.own_files:
        _check_block(config, sectors[0], path)
    return texts, seconds


def _check_block(config: Config, sector: int | None, path: Path) -> None:
    work = config.raw_load
    if work.direct and sector is not None and work.block_bytes % sector:
        raise PreflightError(
            f"{work.block_bytes} B is no multiple of {sector} B: {path} supports direct I/O only in whole sectors",
            key="workload.block_bytes",
            hint=f"set a multiple of {sector}",
        )
    size = config.layout.data_size_bytes
    if size is not None and size < work.block_bytes * work.threads:
        raise PreflightError(
            f"{size} B has no room for a block of {work.block_bytes} B for each of {work.threads} threads",
            key="layout.data_size_bytes",
            hint="raise it; if the file is smaller than a cache between fio and the drive, the run measures the cache",
        )


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


ENGINE = Engine(check=check, open_block=opened, abilities=abilities)
