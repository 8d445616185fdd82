"""The program fio: makes its command-line options from a job, and numbers from its report.

A run takes two processes. The first process is the warm-up, which doesn't count. So the kernel's counters of the drive,
from the start of the second process to its end, cover exactly the requests that fio's counters cover.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from storagelab.errors import PreflightError, RunFailed, noting, refuse
from storagelab.machine import host, temporary
from storagelab.machine.rights import end_with_parent
from storagelab.model.config import Config
from storagelab.model.measurement import RAW_IO_BESIDE, Latency, latency_of, merged
from storagelab.model.plan import Plan
from storagelab.servers.programs import environment, run
from storagelab.volumes.folders import Site
from storagelab.watching.counters import Counters

# --- where requests go, and what was sent ----------------------------------------------------------------------------
# The target of a run's requests, and the requests that were sent. Runs of fio and of traces use the same form.


Direction = Literal["read", "write"]


class Place(NamedTuple):
    """The target of requests. The target is either storagelab's own file or a device. A file is given by its folder and
    its name. A device is only read. The sender writes only the file and its own logs, which are in a temporary folder.
    """

    folder: Path
    name: str
    size_bytes: int
    read_only: bool = False
    direct: bool = True


class Requests(NamedTuple):
    """The requests of one direction that were sent."""

    requests: int
    bytes: int
    latency: Latency | None

    @property
    def block_bytes(self) -> float:
        """The mean size of a request."""
        return self.bytes / self.requests


class Outcome(NamedTuple):
    """The requests that were sent, as their sender counted them.

    `per_s` has the requests per second in each second, for each direction. `mean_s` has their mean latency in each
    second, or None if the second has no request. `due` has the number of requests that were due by the end of each
    second. It is None if a request is always due. `io_engine` is fio's I/O engine, or None without fio. `figures` has
    results that not every run has.
    """

    elapsed_s: float
    done: Mapping[Direction, Requests]
    cpu_s: float
    per_s: Mapping[Direction, tuple[float, ...]]
    mean_s: Mapping[Direction, tuple[float | None, ...]]
    due: Sequence[int] | None = None
    io_engine: str | None = None
    figures: Mapping[str, float] = MappingProxyType({})

    @property
    def requests(self) -> int:
        return sum(one.requests for one in self.done.values())

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.done.values())

    @property
    def standstill_s(self) -> int:
        """The longest time, in whole seconds, in which no request ended although requests were already due."""
        longest = now = done = 0
        for second, ended in enumerate(zip(*self.per_s.values(), strict=True)):
            waiting = self.due is None or (second > 0 and self.due[second - 1] > done)
            now = now + 1 if waiting and not sum(ended) else 0
            longest, done = max(longest, now), done + int(sum(ended))
        return longest

    @property
    def latency(self) -> Latency | None:
        return merged(one.latency for one in self.done.values() if one.latency is not None)


def check_direct(path: Path, key: str) -> None:
    """Raises PreflightError unless requests can bypass the page cache and reach a drive. A file system in memory has no
    drive, and some file systems refuse O_DIRECT.
    """
    facts = host.describe_volume(path)
    if facts["in_memory"]:
        raise PreflightError(
            f"{path} is on {facts['filesystem']}, which is memory: it has no drive to measure, and no direct I/O",
            key=key,
            hint="name a folder on a drive",
        )  # fmt: skip
    try:
        os.close(os.open(path, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT))  # without a name, it is deleted when closed
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise PreflightError(
                f"the file system of {path} ({facts['filesystem']}) refuses direct I/O (O_DIRECT)", key=key,
                hint="name a folder on a file system that supports it, such as ext4 or XFS",
            ) from error  # fmt: skip


def sector_bytes(path: Path) -> int | None:
    """Returns the sector size, in bytes, of the device below the file system. Returns None if it is unknown."""
    facts = host.describe_volume(path)
    for queue in (facts["file_system_queue"], facts["queue"]):
        found = queue.get("logical_block_bytes") if isinstance(queue, dict) else None
        if isinstance(found, int):
            return found
    return None


def device_bytes(path: Path) -> int:
    """Returns the size of a block device in bytes. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    finally:
        os.close(descriptor)


# --- the program -----------------------------------------------------------------------------------------------------


PACKAGE = "fio"
OLDEST = (3, 19)
"""The oldest version whose histograms of whole latencies and whose io_uring are reliable. Debian 11 has 3.25."""
_OPERATIONS = {
    ("read", "random"): "randread", ("read", "sequential"): "read", ("write", "random"): "randwrite",
    ("write", "sequential"): "write", ("mixed", "random"): "randrw", ("mixed", "sequential"): "rw",
}  # fmt: skip
_IO_ENGINES = ("io_uring", "libaio")
"""Both I/O engines can keep several requests in progress. Containers often forbid io_uring."""
_STARTING_S = 60.0
_RATES, _TIMES = "rates", "times"
"""How the names of fio's logs begin."""
_NO_SPACE = "No space left on device"
_ENDS_WITH_PARENT = partial(end_with_parent, signal.SIGKILL)


class Fio(NamedTuple):
    """The program fio on this machine."""

    program: str
    version: str


class Job(NamedTuple):
    """One job of fio."""

    operation: Literal["read", "write", "mixed"]
    pattern: Literal["random", "sequential"]
    block_bytes: int
    seconds: float
    threads: int = 1
    outstanding: int = 1
    read_fraction: float = 0.5
    seed: int = 1
    sync: str = "none"


def find(key: str = "target.engine") -> Fio:
    """Finds fio on the PATH. Raises PreflightError if it is missing, or older than OLDEST."""
    program = shutil.which("fio")
    if program is None:
        raise PreflightError(
            "raw I/O on real drives needs the program fio, and there is none on the PATH", key=key,
            hint=f"install the package {PACKAGE}: apt-get install {PACKAGE}",
        )  # fmt: skip
    return _asked(program, key)


@cache
def _asked(program: str, key: str) -> Fio:
    oldest = ".".join(map(str, OLDEST))
    try:
        report = run([program, "--version"], None, environment=environment(), timeout_s=20).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise PreflightError(
            f"{program} does not run: {error}", key=key, hint="try it by hand with --version"
        ) from error
    version = re.match(r"fio-(\d+)\.(\d+)", report)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        raise PreflightError(
            f"{program} says {report or 'nothing'} as its version; {oldest} or newer is needed", key=key,
            hint=f"install a newer package {PACKAGE}",
        )  # fmt: skip
    return Fio(program, report.removeprefix("fio-"))


def lay_out(fio: Fio, place: Place, block_bytes: int) -> str:
    """Writes the whole file with content that no drive can compress, so that reads reach the medium. Then tries one
    request of `block_bytes`. Returns the first I/O engine that works here. Raises RunFailed if none works.
    """
    written = ["--rw=write", "--bs=1M", "--iodepth=8", "--refill_buffers=1", "--end_fsync=1"]
    written, troubles = [*written, f"--size={place.size_bytes}"], []
    for io_engine in _IO_ENGINES:
        try:
            if not place.read_only:
                _report(_run(fio, place._replace(direct=True), [f"--ioengine={io_engine}", *written]))
            one = [f"--bs={block_bytes}", f"--size={block_bytes}", "--number_ios=1", f"--ioengine={io_engine}"]
            _report(_run(fio, place, ["--rw=read", *one]))
        except RunFailed as error:
            if _NO_SPACE in str(error):
                raise
            troubles.append(f"{io_engine}: {error}")
        else:
            return io_engine
    raise RunFailed("; ".join(troubles))


def make(
    fio: Fio, place: Place, job: Job, io_engine: str, progress: Callable[[], None] = lambda: None, *,
    logged: bool = True,
) -> Outcome:  # fmt: skip
    """Runs a job, and returns its outcome. Raises RunFailed with fio's message."""
    with temporary.folder("fio") as logs:
        logging = [f"--write_iops_log={logs}/{_RATES}", f"--write_lat_log={logs}/{_TIMES}", "--log_avg_msec=1000",
                   "--per_job_logs=1"] if logged else []  # fmt: skip
        options = [*_options(place, job), f"--ioengine={io_engine}", *logging]
        report = _report(_run(fio, place, options, progress, timeout_s=job.seconds + _STARTING_S))
        per_s, mean_s = _by_second(logs, job.seconds)
    return _outcome(report, per_s, mean_s)


def _options(place: Place, job: Job) -> list[str]:
    part = place.size_bytes // job.threads // job.block_bytes * job.block_bytes
    alone = job.pattern == "sequential" and job.threads > 1
    return [
        f"--rw={_OPERATIONS[job.operation, job.pattern]}",
        f"--bs={job.block_bytes}",
        f"--size={part if alone else place.size_bytes // job.block_bytes * job.block_bytes}",
        *([f"--offset_increment={part}"] if alone else []),
        *([f"--rwmixread={round(100 * job.read_fraction)}"] if job.operation == "mixed" else []),
        f"--numjobs={job.threads}",
        f"--iodepth={job.outstanding}",
        "--time_based",
        f"--runtime={round(job.seconds * 1e6)}us",
        # Random addresses come from the whole file, as with SQLIO and the simulated drives. By default, fio uses each
        # block once.
        "--norandommap=1",
        "--random_generator=tausworthe64",
        f"--randseed={job.seed % 2**62}",
        *{"none": [], "dsync": ["--sync=dsync"]}.get(job.sync, [f"--{job.sync}=1"]),
        "--lat_percentiles=1",
        "--clat_percentiles=0",
    ]


def _run(
    fio: Fio, place: Place, options: list[str], meanwhile: Callable[[], None] = lambda: None,
    timeout_s: float | None = None,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Runs fio. A colon in the file's name is escaped, because fio would take it as the end of the name."""
    common = [
        "--output-format=json+", "--name=storagelab", "--filename=" + place.name.replace(":", "\\:"),
        f"--direct={place.direct:d}", "--thread=1", "--group_reporting=1", "--allow_file_create=1", "--fallocate=none",
        *(["--readonly"] if place.read_only else []),
    ]  # fmt: skip
    try:
        return run(
            [fio.program, *common, *options], _ENDS_WITH_PARENT, timeout_s=timeout_s, environment=environment(),
            folder=place.folder, meanwhile=meanwhile,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f"fio did not end in {error.timeout:.0f} s: the drive does not answer") from error
    except OSError as error:
        raise RunFailed(f"can't run fio in {place.folder}: {error.strerror}") from error


def _report(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Returns fio's report of its only group of jobs. Raises RunFailed if the job failed."""
    before, brace, rest = ended.stdout.partition("{")
    found: dict[str, Any] = {}
    with contextlib.suppress(ValueError, LookupError):
        found = json.loads(brace + rest)["jobs"][0]
    if ended.returncode < 0:
        raise RunFailed(f"fio was ended by {signal.Signals(-ended.returncode).name}")
    if ended.returncode or not found or found.get("error"):
        lines = [line.strip() for line in (*ended.stderr.splitlines(), *before.splitlines()) if line.strip()]
        telling = [line for line in lines if re.search(r"error|failed|err=|No space|Invalid", line)] or lines
        trouble = telling[0].removeprefix("fio: ") if telling else f"exit code {ended.returncode}, without a message"
        raise RunFailed(f"fio failed: {trouble}")
    return found


_Rates = dict[Direction, tuple[float, ...]]
_Means = dict[Direction, tuple[float | None, ...]]


def _by_second(folder: Path, seconds: float) -> tuple[_Rates, _Means]:
    """Reads from fio's logs the requests per second and their mean latency, in each whole second, over all threads. If
    fio ended before it logged its last second, that second is left out. Otherwise it would look like a standstill.
    """
    whole = int(seconds + 0.01)
    logs = [(log, list(_logged(log))) for log in sorted(folder.glob(f"{_RATES}_iops*.log"))]
    if not all(whole in {second for second, _, _ in lines} for _, lines in logs):
        whole -= 1
    rates: dict[Direction, list[float]] = {}
    waited_s: dict[Direction, list[float]] = {}
    for log, lines in logs:
        means_s: dict[tuple[int, Direction], float] = {}
        for second, direction, ns in _logged(folder / log.name.replace(f"{_RATES}_iops", f"{_TIMES}_lat", 1)):
            # fio may add a line at its end, which has only the requests of the last moment. This line is ignored.
            means_s.setdefault((second, direction), ns / 1e9)
        for second, direction, rate in lines:
            if 1 <= second <= whole:
                rates.setdefault(direction, [0.0] * whole)[second - 1] += rate
                mean_s = means_s.get((second, direction), 0.0)
                waited_s.setdefault(direction, [0.0] * whole)[second - 1] += rate * mean_s
    means = {
        direction: tuple(
            sum_s / rate if sum_s else None for rate, sum_s in zip(found, waited_s[direction], strict=True)
        )
        for direction, found in rates.items()
    }
    return {direction: tuple(found) for direction, found in rates.items()}, means


def _logged(log: Path) -> Iterator[tuple[int, Direction, float]]:
    """Reads a log of lines such as "1001, 3114, 0, 0, 0". Yields for each line the second at whose end it was written,
    the direction, and the value. Yields nothing if there is no log.
    """
    if not log.exists():
        return
    for line in log.read_text(encoding="ascii", errors="replace").splitlines():
        fields = line.split(",")
        if len(fields) >= 3 and fields[2].strip() in ("0", "1"):
            yield round(int(fields[0]) / 1000), "write" if fields[2].strip() == "1" else "read", float(fields[1])


def _outcome(report: Mapping[str, Any], per_s: _Rates, mean_s: _Means) -> Outcome:
    directions: tuple[Direction, ...] = ("read", "write")
    done = {
        direction: Requests(int(found["total_ios"]), int(found["io_bytes"]), _latency(found["lat_ns"]))
        for direction in directions
        if (found := report[direction])["total_ios"]
    }
    elapsed_s = max(report[direction]["runtime"] for direction in directions) / 1000
    syncs = _latency(report["sync"]["lat_ns"]) if "lat_ns" in report.get("sync", {}) else None
    if not done or elapsed_s <= 0:
        raise RunFailed("fio completed no request in the time that counts: raise workload.duration")
    return Outcome(
        elapsed_s=elapsed_s,
        done=done,
        # These are fractions of the time that all threads ran together.
        cpu_s=(report["usr_cpu"] + report["sys_cpu"]) / 100 * report["job_runtime"] / 1000,
        per_s=per_s,
        mean_s=mean_s,
        io_engine=str(report["job options"]["ioengine"]),
        figures={} if syncs is None else {
            "syncs_per_s": syncs.operations / elapsed_s, "sync_latency_mean_s": syncs.mean_s,
            **{f"sync_latency_p{per_cent:g}_s": syncs.percentile_s(per_cent) for per_cent in (50, 99)},
            "sync_latency_longest_s": syncs.longest_ns / 1e9,
        },
    )  # fmt: skip


def _latency(whole: Mapping[str, Any]) -> Latency | None:
    bins = ((int(ns), int(count)) for ns, count in whole.get("bins", {}).items())
    return latency_of(bins, (round(whole["mean"] * whole["N"]), int(whole["min"]), int(whole["max"])))


# --- beside a load ---------------------------------------------------------------------------------------------------
#
# Measures with fio, for a short time, how much I/O a database's volumes can do, just before or just after the load.
#
# fio makes random reads and writes of the server's page size, and sequential ones in blocks of 128 KB, the size in
# which servers and kernels combine neighbouring pages. Sixteen requests are in progress, so that the drive is fully
# used.


IN_ORDER_BYTES = 128 * 1024
OUTSTANDING = 16
_MOST_BYTES = 256 * 2**20
_LEAST_BYTES = 16 * 2**20
_SHARE_OF_FREE = 4
_FILE = "raw-io-beside"


def check_beside(plan: Plan, site: Site) -> None:
    """Checks that raw I/O is possible on every volume that is to be measured. Raises PreflightError."""
    configs = [cell.config for cell in plan.cells if cell.config.measure.raw is not None]
    lacks = list[PreflightError]()
    if configs:
        with noting(lacks):
            find("measure.raw")
    for name, path in {
        (name, path) for config in configs for name, path in _used(config, site.volume_paths(config)).items()
    }:
        if path.exists():
            with noting(lacks):
                check_direct(path, f"volumes.{name}.path")
    refuse(lacks)


def _used(config: Config, of_volumes: Mapping[str, Path]) -> dict[str, Path]:
    return {name: of_volumes[name] for name in config.volumes_used if name in of_volumes}


def measure_beside(config: Config, folders: Mapping[str, Path], page_bytes: int, seed: int) -> Counters:
    """Returns a group of counters: `volume.NAME.random_write_ios_per_s` and so on. `folders` are storagelab's own
    folders on the volumes. If several volumes share a folder, it is measured once. Raises RunFailed."""
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
    program, place = find("measure.raw"), Place(folder, _FILE, size)
    found: dict[str, float] = {}
    try:
        io_engine = lay_out(program, place, page_bytes)
        at_random = Job("read", "random", page_bytes, seconds, outstanding=OUTSTANDING, seed=seed)
        in_order = at_random._replace(pattern="sequential", block_bytes=IN_ORDER_BYTES)
        for job in (one._replace(operation=way) for one in (at_random, in_order) for way in ("read", "write")):
            outcome = make(program, place, job, io_engine, logged=False)
            kind = f"{job.pattern}_{job.operation}"
            found[f"{kind}_bytes_per_s"] = outcome.bytes / outcome.elapsed_s
            found[f"{kind}_ios_per_s"] = outcome.requests / outcome.elapsed_s
    finally:
        (folder / _FILE).unlink(missing_ok=True)
    return found
