"""Runs work on a Dask cluster. Only this module, `joining` and `asking` know Dask.

Each thread of a worker has one task at a time. If a worker is lost, fails or hangs, its tasks are given to others, and
anything that it still sends is ignored. Nothing is kept in the cluster, so nothing is lost if the scheduler restarts.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from distributed import Client, Future

from storagelab.errors import PreflightError
from storagelab.run.asking import answer_in, failure, introduction_in, no_slot, submitted
from storagelab.run.executors import Jobs
from storagelab.run.joining import RESOURCE, Introducing, Introduction, Reach, is_safe, joined, refusal
from storagelab.run.messages import Answer, Request, words

_INTRODUCING = Introducing()
_LOOK_S = 1.0
_PATIENCE_S = 600.0
"""How long to wait for a scheduler that is gone."""
_SILENT_S = 5.0
_AWAY_S = 60.0
"""How long a host of a fleet may be away before others make its rounds. Dask restarts a worker in some seconds."""
_FETCHERS = 16
_MOST_THREADS = 1024
_TOGETHER = 256
"""The most answers that are read before tasks are scheduled again."""

T = TypeVar("T")
E = TypeVar("E")
Report = TypeVar("Report")


class _Lost(Exception):
    """The scheduler is gone, with everything that it knew."""


@dataclass
class _Sent(Generic[T]):
    task: T
    worker: _Worker
    future: Future
    since_s: float
    """When the task was sent."""
    given_up: bool = False
    """The task took too long: whatever still arrives is ignored."""


@dataclass
class _Worker:
    address: str
    slots: int
    asked: Future
    """The worker's identity, from its introduction."""
    host: str = ""
    """The name of the worker's host, if tasks are assigned by it."""
    welcome: bool = False
    at_work: list[str] = field(default_factory=list)
    """Keys of what was sent to the worker, including what it hangs at."""


class Cluster(Generic[T, Report]):
    """Works on all workers that the scheduler has at the time."""

    def __init__(
        self,
        request: Request[T, Report],
        reach: Reach,
        say: Callable[[str], None],
        *,
        limit_s: float,
        tick_s: float = 0.5,
        fleet: Collection[str] = (),
    ) -> None:
        """`request`: what workers do with a task. A task that takes `limit_s` hangs. `fleet`: the hosts that get
        tasks by name, one at a time each; without it, all workers are alike.
        """
        self._request, self._reach, self._limit_s, self._tick_s = request, reach, limit_s, tick_s
        self._tell = say
        self._fleet, self._seen = fleet, dict[str, float]()
        self._workers: dict[str, _Worker] = {}
        self._refused: dict[str, str] = {}
        self._sent: dict[str, _Sent[T]] = {}
        self._numbered = 0
        self._clock = _Clock()

    def _say(self, line: str) -> None:
        self._tell(words(line))

    @property
    def at_once(self) -> int:
        return sum(worker.slots for worker in self._workers.values() if worker.welcome) - self._hanging

    @property
    def hosts(self) -> Mapping[str, bool]:
        """The hosts of the fleet that are not lost, and whether each is there now (or may come back)."""
        there = {one.host: one for one in self._workers.values() if one.welcome}
        now = time.monotonic()
        self._seen |= dict.fromkeys(self._fleet & there.keys(), now)
        lost = {host for host, worker in there.items() if self._hangs(worker)}
        return {
            host: host in there
            for host in self._fleet
            if host not in lost and now - self._seen.get(host, 0.0) < _AWAY_S
        }

    @property
    def _hanging(self) -> int:
        return sum(sent.given_up for sent in self._sent.values())

    def execute(self, jobs: Jobs[T, Report]) -> None:
        """Any error here, or Ctrl-C, leaves the cluster. Results of its current tasks are dropped, and the workers
        go on with others' work; the processes of a local cluster end.
        """
        away_since: float | None = None
        while True:
            try:
                with joined(self._reach) as client:
                    if away_since is not None:
                        self._say(f"the scheduler at {self._reach.address} is back")
                    away_since = None
                    self._join(client)
                    self._work_with(client, jobs)
                    return
            except _Lost as lost:
                away_since = time.monotonic()
                self._say(
                    f"{lost}: waiting for it, up to {_PATIENCE_S / 60:.0f} min; what was sent to workers is sent again"
                )
            except PreflightError:
                if away_since is None or time.monotonic() - away_since > _PATIENCE_S:
                    raise
                time.sleep(_LOOK_S)
            finally:
                self._forget(jobs)

    def _join(self, client: Client) -> None:
        self._events: queue.SimpleQueue[tuple[str, Any, Any]] = queue.SimpleQueue()
        self._client, self._clock = client, _Clock()
        self._seen = dict.fromkeys(self._fleet, time.monotonic())
        self._waiting_said = False
        if client.dashboard_link:
            self._say(f"dashboard: {client.dashboard_link}")

    def _forget(self, jobs: Jobs[T, Report]) -> None:
        """Schedule everything again that was sent."""
        for sent in self._sent.values():
            if not sent.given_up:
                jobs.ended(sent.task)
        self._sent, self._workers, self._refused = {}, {}, {}

    def _work_with(self, client: Client, jobs: Jobs[T, Report]) -> None:
        done = threading.Event()
        self._fetchers = ThreadPoolExecutor(_FETCHERS, thread_name_prefix="fetch")
        looking = threading.Thread(target=_look, args=(client, self._events, done), daemon=True)
        looking.start()
        try:
            while self._assign(jobs):
                self._receive(jobs)
                self._look_at_clock(jobs)
        finally:
            done.set()
            self._fetchers.shutdown(wait=False, cancel_futures=True)

    # --- scheduling --------------------------------------------------------------------------------------------------

    def _assign(self, jobs: Jobs[T, Report]) -> bool:
        """Send a task to each free thread. Returns whether there is anything to wait for."""
        nothing = False
        for worker in self._workers.values():
            while worker.welcome and len(worker.at_work) < worker.slots:
                task = jobs.assign(worker.host)
                if task is None and not self._fleet:
                    return len(self._sent) > self._hanging
                if task is None:
                    nothing = True
                    break  # another host may have one
                self._send(worker, task)
        return not nothing or len(self._sent) > self._hanging or not jobs.over

    def _hangs(self, worker: _Worker) -> bool:
        return any(self._sent[key].given_up for key in worker.at_work)

    def _send(self, worker: _Worker, task: T) -> None:
        self._numbered += 1
        key = f"storagelab-{id(self)}-{time.time_ns()}-{self._numbered}"
        slot = {RESOURCE: 1} if self._fleet else None
        future = self._ask("answered", worker.address, key, self._request, task, worker.host, slot)
        self._sent[key] = _Sent(task, worker, future, self._clock.now_s)
        worker.at_work.append(key)

    def _ask(
        self, kind: str, address: str, key: str, request: Request[E, Any], task: E, host: str = "",
        resources: Mapping[str, int] | None = None,
    ) -> Future:  # fmt: skip
        """Send a worker a task. Its answer becomes an event of this kind, with the task's key or the worker."""
        try:
            future = submitted(self._client, address, key, request, task, resources)
        except (OSError, RuntimeError, ValueError) as error:
            raise self._gone(error) from None
        events, fetchers = self._events, self._fetchers
        which = key if kind == "answered" else address

        def fetch(ended: Future) -> None:
            with contextlib.suppress(RuntimeError):  # it has been shut down
                fetchers.submit(lambda: events.put((kind, which, answer_in(ended, request, task, host))))

        future.add_done_callback(fetch)
        return future

    def _gone(self, why: object) -> _Lost:
        reason = next(iter(str(why).splitlines()), "")
        return _Lost(f"the scheduler at {self._reach.address or 'this machine'} is gone ({reason})")

    # --- receiving ---------------------------------------------------------------------------------------------------

    def _receive(self, jobs: Jobs[T, Report]) -> None:
        """Handle everything that has come. Answers that come together are passed on together."""
        for kind, events in itertools.groupby(self._received(), key=lambda event: event[0]):
            if kind == "answered":
                self._answered(jobs, [(key, answer) for _, key, answer in events])
                continue
            for _, which, what in events:
                match kind:
                    case "workers":
                        self._clock.answered()
                        self._see(jobs, which)
                    case "identity":
                        self._meet(which, what)
                    case "gone":
                        raise self._gone(what)

    def _received(self) -> list[tuple[str, Any, Any]]:
        """What has come, but not so much that scheduling waits long."""
        received = []
        with contextlib.suppress(queue.Empty):
            received.append(self._events.get(timeout=self._tick_s))
            while len(received) < _TOGETHER:
                received.append(self._events.get_nowait())
        return received

    def _answered(self, jobs: Jobs[T, Report], answers: Sequence[tuple[str, Answer[Report] | BaseException]]) -> None:
        over = [(sent, answer) for key, answer in answers if (sent := self._over(key)) is not None]
        good = [answer for _, answer in over if isinstance(answer, Answer) and not answer.machine]
        if reports := [one for answer in good for one in answer.reports]:
            jobs.reported(*reports)
        for broke in (answer.broke for answer in good if answer.broke is not None):
            raise broke
        for sent, answer in over:
            if why := failure(answer):
                self._refuse(sent.worker, why)
                self._check_for_workers()
            jobs.ended(sent.task)

    def _over(self, key: str) -> _Sent[T] | None:
        """The task of an answer; None if the task was scheduled again meanwhile."""
        sent = self._sent.get(key)
        if sent is None:
            return None
        del self._sent[key]
        sent.worker.at_work.remove(key)
        if not sent.given_up:
            return sent
        self._say(f"worker {sent.worker.address} answers again: another worker has its task")
        return None

    def _see(self, jobs: Jobs[T, Report], threads: Mapping[str, int]) -> None:
        for address in self._workers.keys() - threads.keys():
            worker = self._workers.pop(address)
            self._refused = {other: why for other, why in self._refused.items() if why != _second(worker.host)}
            self._say(f"worker {address} is gone{'; its batch is scheduled again' if worker.at_work else ''}")
            for key in worker.at_work:
                sent = self._sent.pop(key)
                if not sent.given_up:
                    jobs.lost(sent.task, f"its worker {address} is gone")
        for address in self._refused.keys() - threads.keys():
            del self._refused[address]
        for address in threads.keys() - self._workers.keys() - self._refused.keys():
            self._greet(address, threads[address])
        self._check_for_workers()

    def _check_for_workers(self) -> None:
        """Say once that no worker is there; raise an error if all workers were refused."""
        if self._workers.keys() - self._refused.keys():
            self._waiting_said = False
        elif self._refused:
            reasons = "\n  ".join(f"{address}: {why}" for address, why in self._refused.items())
            raise PreflightError(f"no worker can be used:\n  {reasons}", key="--scheduler")
        elif not self._waiting_said:
            self._waiting_said = True
            self._say("no worker is there: waiting for one")

    def _greet(self, address: str, slots: int) -> None:
        """Ask a new worker for its introduction. It gets work when it has answered."""
        if not (self._reach.insecure or is_safe(address)):
            self._refused[address] = "it is not encrypted: use TLS, or insist with --insecure"
            self._say(f"worker {address} is refused: {self._refused[address]}")
            return
        asked = self._ask("identity", address, f"storagelab-who-{time.time_ns()}-{address}", _INTRODUCING, None)
        self._workers[address] = _Worker(address, slots, asked)

    def _meet(self, address: str, answer: Answer[Introduction] | BaseException) -> None:
        worker = self._workers.get(address)
        if worker is None:
            return
        if isinstance(answer, CancelledError):
            del self._workers[address]  # it is greeted again if it is still there
            return
        introduced = introduction_in(answer)
        if isinstance(introduced, str):
            why = introduced
        else:
            why = refusal(introduced.identity)
            if not why and self._fleet:
                why = self._refusal_of_host(introduced)
                worker.host, worker.slots = introduced.host, 1
        if why:
            self._refuse(worker, why)
            self._check_for_workers()
        else:
            worker.welcome = True

    def _refusal_of_host(self, introduced: Introduction) -> str:
        """Why a worker can't make a fleet's runs; "" if it can."""
        host = introduced.host
        if why := no_slot(introduced.slots):
            return why
        if host not in self._fleet:
            return f"{host or 'its host'} was not among the hosts when `run` began"
        return _second(host) if any(one.host == host and one.welcome for one in self._workers.values()) else ""

    def _refuse(self, worker: _Worker, why: str) -> None:
        """Give the worker no more tasks. Results of its current tasks may still come."""
        worker.welcome = False
        self._seen.pop(worker.host, None)
        self._refused[worker.address] = why
        if not worker.at_work:
            self._workers.pop(worker.address, None)
        self._say(f"worker {worker.address} is refused: {why}")

    # --- what takes too long -----------------------------------------------------------------------------------------

    def _look_at_clock(self, jobs: Jobs[T, Report]) -> None:
        if self._clock.falls_silent():
            self._say(f"the scheduler has not answered for {_SILENT_S:.0f} s: waiting")
        for sent in [one for one in self._sent.values() if not one.given_up]:
            if self._clock.now_s - sent.since_s > self._limit_s:
                sent.given_up = True
                address, limit = sent.worker.address, f"{self._limit_s:.0f} s"
                self._say(f"worker {address} hangs: no answer in {limit}; its batch is scheduled again")
                jobs.lost(sent.task, f"its worker {address} did not answer within {limit}, the time limit of a batch")


def _second(host: str) -> str:
    return f"another worker makes the runs of {host}"


class _Clock:
    """Counts the seconds in which the scheduler answered, so that a pause of the network or of this machine makes no
    worker late.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._answered_at = time.monotonic()
        self._silent = False

    def answered(self) -> None:
        now = time.monotonic()
        if now - self._answered_at < _SILENT_S:
            self.now_s += now - self._answered_at
        self._answered_at, self._silent = now, False

    def falls_silent(self) -> bool:
        """Whether the scheduler has just stopped answering."""
        if self._silent or time.monotonic() - self._answered_at < _SILENT_S:
            return False
        self._silent = True
        return True


def _look(client: Client, events: queue.SimpleQueue[tuple[str, Any, Any]], done: threading.Event) -> None:
    """Reports which workers there are. Runs in its own thread, as a scheduler may take long to answer."""
    while not done.wait(_LOOK_S if client.status == "running" else 0.0):
        try:
            if client.status != "running":
                raise OSError("the connection broke")
            events.put(("workers", _workers_of(client), None))
        except Exception as error:  # noqa: BLE001 - whatever its libraries break with: the connection is lost
            events.put(("gone", None, error))
            return


def _workers_of(client: Client) -> dict[str, int]:
    return {str(address): min(int(threads), _MOST_THREADS) for address, threads in client.nthreads().items()}
