"""A real cluster of Dask's on this machine: a scheduler and workers, each a process of its own that a test may kill."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dask
from real_servers import free_port, until
from some_work import tell_who
from test_executors import Noting

from storagelab.run.cluster import Cluster, asked

RECIPES = Path(__file__).parent.parent / "docs" / "how-to" / "cluster"
_HOST = "127.0.0.1"
_NO_DASHBOARD = ("--no-dashboard", "--dashboard-address", f"{_HOST}:0")


def certified(folder: Path) -> Path:
    """A folder of Dask's settings with certificates, made as the documentation says."""
    folder.mkdir(parents=True)
    subprocess.run([RECIPES / "certificates.sh", "2"], cwd=folder, check=True, capture_output=True)
    (folder / "tls.yaml").write_text((RECIPES / "tls.yaml").read_text().replace("/etc/dask", str(folder)))
    return folder


class Machines:
    """The processes of one cluster, and what they say in `folder`."""

    def __init__(self, folder: Path, *, scheme: str = "tcp", host: str = _HOST, **environment: str) -> None:
        self.folder, self.host, self.port = folder, host, free_port()
        self.environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
        self.address = f"{scheme}://{_HOST}:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.start_scheduler()

    def start_scheduler(self) -> None:
        scheme = self.address.partition("://")[0]
        words = ["--protocol", scheme, "--host", self.host, "--port", str(self.port), *_NO_DASHBOARD]
        self.scheduler = self._start("scheduler", "distributed.cli.dask_scheduler", *words)

    def add_worker(self, **environment: str) -> subprocess.Popen[bytes]:
        """Start one. It looks for the scheduler until that answers."""
        name = f"worker-{len(self.workers)}"
        words = ["--nthreads", "1", "--no-nanny", *_NO_DASHBOARD, "--host", _HOST, "--memory-limit", "0"]
        folder = self.folder / name
        folder.mkdir(parents=True)
        where = [self.address, "--local-directory", str(folder), *words]
        self.workers.append(self._start(name, "distributed.cli.dask_worker", *where, **environment))
        return self.workers[-1]

    def make_up(self, workers: int) -> None:
        """Start as many as are missing."""
        for _ in range(workers - sum(worker.poll() is None for worker in self.workers)):
            self.add_worker()
        until(self.all_are_there, timeout_s=90)

    def _start(self, name: str, module: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdout=log, stderr=log, env={**os.environ, **self.environment, **environment},
            )  # fmt: skip
        self.processes.append(process)
        return process

    def end(self, *processes: subprocess.Popen[bytes]) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(timeout=10)

    def all_are_there(self) -> bool:
        """Whether every worker has found the scheduler."""
        logs = [self.folder / f"worker-{number}.log" for number in range(len(self.workers))]
        return all("Registered to" in log.read_text() for log in logs)


@contextlib.contextmanager
def machines(
    folder: Path, workers: int, *, scheme: str = "tcp", host: str = _HOST, **environment: str
) -> Iterator[Machines]:
    """`host` is the address at which the scheduler listens; "" means every address of this machine."""
    made = Machines(folder, scheme=scheme, host=host, **environment)
    try:
        made.make_up(workers)
        yield made
    finally:
        made.end(*made.processes)


def done_by(address: str, folder: Path | None = None) -> list[str]:
    """The cluster's work for a client with Dask's settings in this folder."""
    jobs = Noting("a", "b")
    settings = dask.config.collect([str(folder)], env={}) if folder else {}
    with dask.config.set(dask.config.merge(dask.config.config, settings)):
        Cluster(tell_who, asked(address, 1, trusted=False), lambda _: None, limit_s=60.0).execute(jobs)
    return sorted(jobs.reported_tasks)
