"""Makes runs on a Dask cluster. Only this module uses Dask.

As always with Dask, the client, the scheduler and the workers trust each other: anybody who can reach a scheduler can
run any program on its workers and clients. So storagelab connects to a scheduler on another machine only by TLS, unless
the user allows a connection without it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import ipaddress
import logging
import platform
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from importlib import resources
from pathlib import Path
from typing import Any, Generic, NamedTuple

import dask
import distributed
from distributed import Client, Future, KilledWorker, LocalCluster, Security

from storagelab import __version__, _sim
from storagelab.errors import PreflightError, StoragelabError
from storagelab.run.executors import Jobs, Report, Task, Work, sendable

_LOCAL = "127.0.0.1"
_ANSWER_S = 10.0
_TICK_S = 0.5
_PATIENCE_S = 600.0
"""The time, in seconds, to wait for a lost scheduler."""
_SETTINGS = {
    "distributed.admin.large-graph-warning-threshold": "1 TB",  # a batch contains its drives' large state
    "distributed.scheduler.allowed-failures": 0,  # if a worker dies, storagelab itself schedules its batch again
    # Dask's own monitoring takes time from the runs in workers. Workers inherit these settings.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}
logging.getLogger("distributed").setLevel(logging.CRITICAL)  # storagelab itself reports the important events


class Reach(NamedTuple):
    """Where the cluster is. Without an `address`, the cluster consists of `processes` processes on this machine.
    `trusted` says whether storagelab may connect to the cluster without TLS.
    """

    address: str | None
    processes: int
    trusted: bool = False


class Cluster(Generic[Task, Report]):
    """An executor that uses the scheduler's current workers. Each of their threads has at most one task at a time."""

    def __init__(self, work: Work[Task, Report], reach: Reach, say: Callable[[str], None], *, limit_s: float) -> None:
        """Makes the executor. `work` must be a function that workers can find by name. A task counts as lost if it
        takes longer than `limit_s` seconds.
        """
        self._work, self._reach, self._say, self._limit_s = work, reach, say, limit_s
        self._threads = reach.processes
        self._sent: dict[Future, tuple[Task, float]] = {}
        """The tasks in progress. Each has the time at which it was sent."""
        self._hanging: list[Future] = []
        """Tasks that were given up but still run. Dask can't stop them, so each still occupies a thread of its
        worker.
        """
        self._welcome: set[str] = set()
        """The workers that have the same versions as this process."""

    @property
    def at_once(self) -> int:
        return max(1, self._threads)

    def execute(self, jobs: Jobs[Task, Report]) -> None:
        """Executes all jobs. If an error occurs here, or the user presses Ctrl-C, this process leaves the cluster, and
        the results of the current tasks are lost. If a lost scheduler returns, all tasks without a report are sent
        again. Raises StoragelabError if the scheduler does not return.
        """
        deadline = 0.0
        while True:
            try:
                with joined(self._reach) as client, client.as_current():
                    self._send_and_receive(client, jobs)
                return
            except CancelledError:
                self._say(f"the scheduler is lost: waiting for it, for at most {_PATIENCE_S / 60:.0f} min")
                for task, _ in self._sent.values():
                    jobs.ended(task)
                self._sent, self._hanging, self._welcome = {}, [], set()
                deadline = time.monotonic() + _PATIENCE_S
            except PreflightError as error:
                if not deadline:
                    raise
                if time.monotonic() > deadline:
                    raise StoragelabError(f"{error}\n  all runs that ended are stored; run again to continue") from None
                time.sleep(_TICK_S)

    def _send_and_receive(self, client: Client, jobs: Jobs[Task, Report]) -> None:
        """Sends tasks and receives their reports until all are done. Raises CancelledError, like Dask, if the scheduler
        has gone and has lost its state.
        """
        waited = False
        while self._send(client, jobs):
            if not self._threads and not waited:
                self._say(f"no worker yet: waiting; start one: dask worker {self._reach.address or ''}".rstrip())
            waited = not self._threads
            if self._sent:
                with contextlib.suppress(TimeoutError):  # Dask raises Python's own TimeoutError
                    distributed.wait(list(self._sent), timeout=_TICK_S, return_when="FIRST_COMPLETED")
            else:
                time.sleep(_TICK_S)
            self._receive(jobs)

    def _send(self, client: Client, jobs: Jobs[Task, Report]) -> bool:
        """Sends a task to each free thread. Returns whether any task is in progress or may still come."""
        try:
            threads = client.nthreads()
            new = sorted(threads.keys() - self._welcome)
            self._welcome |= _checked(client.run(identity, workers=new, on_error="return") if new else {})
        except (OSError, RuntimeError) as error:
            raise CancelledError from error
        self._threads = sum(count for worker, count in threads.items() if worker in self._welcome)
        self._hanging = [future for future in self._hanging if not future.done()]
        while len(self._sent) + len(self._hanging) < self._threads:
            if (task := jobs.assign()) is None:
                return bool(self._sent)
            future = client.submit(_done, self._work, task, workers=sorted(self._welcome), pure=False)
            self._sent[future] = task, time.monotonic()
        return True

    def _receive(self, jobs: Jobs[Task, Report]) -> None:
        """Handles the tasks that have ended. Runs that arrive at the same time are stored first, in one step."""
        now = time.monotonic()
        outcomes: list[tuple[Task, list[Any] | str]] = []
        for future, (task, since_s) in list(self._sent.items()):
            if future.done():
                outcomes.append((task, _outcome(future)))
            elif now - since_s > self._limit_s:
                self._hanging.append(future)
                why = f"its worker did not answer within {self._limit_s:.0f} s, the time limit of a batch"
                outcomes.append((task, why))
            else:
                continue
            del self._sent[future]
        if reports := [report for _, outcome in outcomes if isinstance(outcome, list) for report in outcome]:
            jobs.reported(*reports)
        for task, outcome in outcomes:
            if isinstance(outcome, list):
                jobs.ended(task)
            else:
                self._say(f"{outcome}; its batch is scheduled again")
                jobs.lost(task, outcome)


def _outcome(future: Future) -> list[Any] | str:
    """Returns a worker's reports, or the reason why there are none. Raises errors of storagelab itself."""
    try:
        return future.result(timeout=_ANSWER_S)  # type: ignore[no-any-return]
    except (OSError, MemoryError, KilledWorker) as error:  # the worker ended, or its machine is full
        return f"its worker is gone, or failed ({' '.join(str(error).split()) or type(error).__name__})"


def _done(work: Work[Any, Any], task: object) -> list[Any]:
    """Does a task on a worker, and returns its reports."""
    reports: list[Any] = []
    try:
        work(task, lambda *told: reports.extend(told))
    except (OSError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - it is raised again by the client
        raise sendable(error) from None
    return reports


def _checked(answers: dict[str, dict[str, str] | Exception]) -> set[str]:
    """Returns the workers that answered, if all of them have this process's versions. Otherwise raises PreflightError.
    Lost workers are ignored.
    """
    for worker, theirs in answers.items():
        if isinstance(theirs, Exception):
            differing = "" if isinstance(theirs, OSError) else f"can't load storagelab ({theirs})"
        else:
            unlike = [(name, theirs.get(name), here) for name, here in identity().items() if theirs.get(name) != here]
            differing = "; ".join(f"its {name} is {there}, here {here}" for name, there, here in unlike)
        if differing:
            hint = "install the same storagelab with the same Python and Dask on all workers, and restart them"
            raise PreflightError(f"the worker {worker} differs: {differing}", key="--scheduler", hint=hint)
    return {worker for worker, theirs in answers.items() if not isinstance(theirs, Exception)}


def identity() -> dict[str, str]:
    """Returns the versions that must be equal on all machines, because results depend on them."""
    return {
        "storagelab": f"{__version__} ({_sources()})", "core": _sim.version(),
        "Python": ".".join(platform.python_version_tuple()[:2]), "Dask": distributed.__version__,
    }  # fmt: skip


@functools.cache
def _sources() -> str:
    """Returns a digest of the package's own files, because two checkouts of one version may differ."""
    folder = Path(str(resources.files("storagelab")))
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.rglob("*") if file.suffix in (".py", ".toml")):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:8]


# --- reaching a cluster -----------------------------------------------------------------------------------------------


def asked(address: str | None, processes: int, *, trusted: bool) -> Reach:
    """Returns the cluster that the option `--scheduler` or Dask's own setting names, or a local cluster if there is
    none. Raises PreflightError if the address is not encrypted, unless the network is `trusted`.
    """
    given = address or dask.config.get("scheduler-address", None)
    if given is None:
        return Reach(None, processes)
    scheme, _, rest = str(given).rpartition("://")
    host, _, port = rest.rpartition(":")
    if scheme not in ("", "tcp", "tls") or not host or not port.isdigit():
        hint = "write tcp://HOST:8786 or tls://HOST:8786"
        raise PreflightError(f"{given} is no address of a scheduler", key="--scheduler", hint=hint)
    whole = f"{scheme or ('tcp' if trusted or _is_local(rest) else 'tls')}://{rest}"
    if not trusted:
        _refuse_open(whole, f"{whole} is")
    if whole.startswith("tls://"):
        _check_certificates(whole)
    return Reach(whole, processes, trusted)


def _refuse_open(address: str, what: str) -> None:
    if not (address.startswith("tls://") or _is_local(address)):
        raise PreflightError(
            f"{what} not encrypted, and whoever reaches that port can run programs here and on all workers",
            key="--scheduler",
            hint=f"use TLS (tls://{address.rpartition('://')[2]}, docs/how-to/many-machines.md), start the scheduler "
            "with --host localhost, or add --trust-network on a network of your own",
        )


def _is_local(address: str) -> bool:
    """Whether the address can be reached only from this machine."""
    host = address.rpartition("://")[2].rpartition(":")[0].strip("[]")
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _check_certificates(address: str) -> None:
    for setting in ("distributed.comm.tls.ca-file", "distributed.comm.tls.client.cert"):
        file = dask.config.get(setting, None)
        if file is None or not Path(file).is_file():
            problem = "is not set" if file is None else f"names {file}, which is not a file"
            variable = "DASK_" + setting.upper().replace("-", "_").replace(".", "__")
            raise PreflightError(
                f"{address} needs a certificate, but Dask's setting {setting} {problem}",
                key="--scheduler", hint=f"set it in Dask's configuration, or by {variable}",
            )  # fmt: skip


@contextlib.contextmanager
def joined(reach: Reach) -> Iterator[Client]:
    """Yields a client of the cluster. A local cluster ends with the context. Raises PreflightError if no scheduler
    answers.
    """
    with dask.config.set(_SETTINGS), contextlib.ExitStack() as stack:
        if reach.address is None:
            cluster = LocalCluster(
                n_workers=reach.processes, threads_per_worker=1, processes=True, host=_LOCAL, protocol="tcp://",
                security=Security(require_encryption=False, tls_ca_file=None), dashboard_address=None,
                worker_dashboard_address=None, memory_limit=0, silence_logs=logging.CRITICAL,
                env={"DASK_LOGGING__DISTRIBUTED": "critical"},
            )  # fmt: skip
            yield stack.enter_context(Client(stack.enter_context(cluster), set_as_default=False))
            return
        try:
            client = stack.enter_context(Client(reach.address, timeout=_ANSWER_S, set_as_default=False))
            listens = str(client.scheduler_info()["address"])
        except (OSError, ValueError, RuntimeError, TypeError) as error:
            reason = next(iter(str(error.__cause__ or error).splitlines()), type(error).__name__)
            raise PreflightError(
                f"no scheduler answers at {reach.address}: {reason}",
                key="--scheduler", hint="start one with `dask scheduler`, or leave --scheduler out for a local cluster",
            ) from None  # fmt: skip
        if not reach.trusted:
            _refuse_open(listens, f"the scheduler at {reach.address} listens at {listens} too, which is")
        yield client
