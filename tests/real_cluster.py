"""A real cluster of Dask's on this machine: a scheduler and workers, each a process of its own that a test may kill."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from real_servers import until

_HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as asking:
        asking.bind((_HOST, 0))
        return int(asking.getsockname()[1])


class Machines:
    """The processes of one cluster, and what they say in `folder`."""

    def __init__(self, folder: Path, *options: str, scheme: str = "tcp", **environment: str) -> None:
        self.folder, self.options, self.port = folder, options, free_port()
        self.environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
        self.address = f"{scheme}://{_HOST}:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.start_scheduler()

    def start_scheduler(self) -> None:
        words = ["--host", self.address.rpartition(":")[0], "--port", str(self.port), "--no-dashboard", *self.options]
        self.scheduler = self._start("scheduler", "distributed.cli.dask_scheduler", *words)
        until(self._answers, timeout_s=60)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((_HOST, self.port), timeout=1):
            return True
        return False

    def add_worker(self, *before: str, threads: int = 1, **environment: str) -> subprocess.Popen[bytes]:
        name = f"worker-{len(self.processes)}"
        words = ["--nthreads", str(threads), "--no-nanny", "--no-dashboard", "--host", _HOST, "--memory-limit", "0"]
        folder = self.folder / name
        folder.mkdir(parents=True)
        where = [self.address, "--local-directory", str(folder), *words, *self.options]
        return self._start(name, "distributed.cli.dask_worker", *where, before=before, **environment)

    def _start(
        self, name: str, module: str, *words: str, before: tuple[str, ...] = (), **environment: str
    ) -> subprocess.Popen[bytes]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*before, sys.executable, "-m", module, *words],
                stdout=log, stderr=log, env={**os.environ, **self.environment, **environment},
            )  # fmt: skip
        self.processes.append(process)
        return process

    def all_are_there(self) -> bool:
        """Whether every worker has found the scheduler."""
        return all("Registered to" in log.read_text() for log in self.folder.glob("worker-*.log"))

    def stop(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(timeout=10)


@contextlib.contextmanager
def machines(
    folder: Path, workers: int = 1, *options: str, scheme: str = "tcp", **environment: str
) -> Iterator[Machines]:
    made = Machines(folder, *options, scheme=scheme, **environment)
    try:
        for _ in range(workers):
            made.add_worker()
        until(made.all_are_there, timeout_s=90)
        yield made
    finally:
        made.stop()
