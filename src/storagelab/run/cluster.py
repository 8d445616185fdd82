"""Runs work on a cluster of Dask's. Only this module, `joining` and `roll_call` know Dask.

Each thread of a worker has a task to do and, while many are left, the next one waiting there, so that it does not stand still
while an answer is on its way here and a task on its way back. If a worker is lost, fails or hangs, its tasks are dealt again,
to others; what it may still send is ignored. Nothing is kept in the cluster: a restarted scheduler loses nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from distributed import Client, Future

from storagelab.errors import PreflightError
from storagelab.run.executors import Jobs, Work, sendable
from storagelab.run.joining import HOST, QUESTION, RESOURCE, SLOTS, Identity, Reach, is_safe, joined, refusal

CALL = "__import__('storagelab.run.cluster', fromlist=['perform']).perform(payload)"
"""Text, so that the scheduler needs no storagelab."""
_LOOK_S = 1.0
_PATIENCE_S = 600.0
"""For how long a scheduler that is gone may stay away."""
_SILENT_S = 5.0
_AWAY_S = 60.0
"""For how long a host of a fleet may be away before others make its rounds: Dask restarts a worker in some seconds."""
_FETCH_S = 60.0
_FETCHERS = 16
_TOGETHER = 256
"""At most so many answers are heard before tasks are dealt again."""

Task = TypeVar("Task")
News = TypeVar("News")


class Answer(NamedTuple):
    """What a worker sends back: its news; or an error of the work, or, in words, of its machine."""

    news: tuple[Any, ...] = ()
    broke: BaseException | None = None
    machine: str = ""


class _Lost(Exception):
    """The scheduler is gone, and with it all that it knew."""


@dataclass
class _Sent(Generic[Task]):
    task: Task
    worker: _Worker
    future: Future
    since_s: float | None = None
    """When it began; None while it waits at its worker."""
    given_up: bool = False
    """It took too long: whatever it still sends is ignored."""


@dataclass
class _Worker:
    address: str
    slots: int
    asked: Future
    """Who it is."""
    host: str = ""
    """Its host's name, where tasks are dealt by it."""
    welcome: bool = False
    at_work: list[str] = field(default_factory=list)
    """Keys of what was sent to it, what it hangs at included, in the order of sending, in which it works."""

    @property
    def waiting(self) -> list[str]:
        """Keys of what it has not begun."""
        return self.at_work[self.slots :]


class Cluster(Generic[Task, News]):
    """Works on all workers that the scheduler has at the time."""

    def __init__(
        self,
        work: Work[Task, News],
        reach: Reach,
        say: Callable[[str], None],
        *,
        limit_s: float,
        tick_s: float = 0.5,
        fleet: Collection[str] = (),
    ) -> None:
        """`work` must be a function that another process can find by name. A task that takes `limit_s` hangs. `fleet` = the
        hosts to which tasks are dealt by name, one at a time to each; without it, all workers are alike."""
        self._work, self._reach, self._say, self._limit_s, self._tick_s = work, reach, say, limit_s, tick_s
        self._fleet, self._seen = fleet, dict[str, float]()
        self._workers: dict[str, _Worker] = {}
        self._refused: dict[str, str] = {}
        self._sent: dict[str, _Sent[Task]] = {}
        self._numbered = 0
        self._clock = _Clock()

    @property
    def at_once(self) -> int:
        return sum(worker.slots for worker in self._workers.values() if worker.welcome) - self._hanging

    @property
    def hosts(self) -> Mapping[str, bool]:
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

    def execute(self, jobs: Jobs[Task, News]) -> None:
        """Any error here, or Ctrl-C, leaves the cluster. What its workers are amid is forgotten, and they go on with others'
        work; the processes of a local cluster end."""
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

    def _forget(self, jobs: Jobs[Task, News]) -> None:
        """All that was sent is to be made again."""
        for sent in self._sent.values():
            if not sent.given_up:
                jobs.ended(sent.task)
        self._sent, self._workers, self._refused = {}, {}, {}

    def _work_with(self, client: Client, jobs: Jobs[Task, News]) -> None:
        done = threading.Event()
        self._fetchers = ThreadPoolExecutor(_FETCHERS, thread_name_prefix="fetch")
        looking = threading.Thread(target=_look, args=(client, self._events, done), daemon=True)
        looking.start()
        try:
            while self._deal(jobs):
                self._hear(jobs)
                self._look_at_clock(jobs)
        finally:
            done.set()
            self._fetchers.shutdown(wait=False, cancel_futures=True)

    # --- dealing -----------------------------------------------------------------------------------------------------

    def _deal(self, jobs: Jobs[Task, News]) -> bool:
        """Send a task to each free thread, then one to wait there. Whether there is anything to wait for."""
        nothing = False
        for ahead in (False, True):
            for worker in self._workers.values():
                while (
                    worker.welcome
                    and len(worker.at_work) < (1 + ahead) * worker.slots
                    and not (ahead and self._hangs(worker))
                ):
                    task = jobs.deal(ahead=ahead, host=worker.host)
                    if task is None and not self._fleet:
                        return len(self._sent) > self._hanging
                    if task is None:
                        nothing = True
                        break  # another host may have one
                    self._send(worker, task)
        return not nothing or len(self._sent) > self._hanging or not jobs.over

    def _hangs(self, worker: _Worker) -> bool:
        return any(self._sent[key].given_up for key in worker.at_work)

    def _send(self, worker: _Worker, task: Task) -> None:
        self._numbered += 1
        key = f"storagelab-{id(self)}-{time.time_ns()}-{self._numbered}"
        payload = pickle.dumps((self._work, task))
        slot = {RESOURCE: 1} if self._fleet else None
        future = self._submit(worker.address, key, CALL, {"payload": payload}, resources=slot)
        self._sent[key] = _Sent(task, worker, future)
        worker.at_work.append(key)
        self._note_begun(worker)
        events, fetchers = self._events, self._fetchers

        def fetch(ended: Future) -> None:
            with contextlib.suppress(RuntimeError):  # it has been shut down
                fetchers.submit(lambda: events.put(("answered", key, _fetched(ended))))

        future.add_done_callback(fetch)

    def _note_begun(self, worker: _Worker) -> None:
        for key in worker.at_work[: worker.slots]:
            if self._sent[key].since_s is None:
                self._sent[key].since_s = self._clock.now_s

    def _take_back(self, jobs: Jobs[Task, News], worker: _Worker) -> None:
        """What waits there goes to others."""
        for key in worker.waiting:
            sent = self._sent.pop(key)
            worker.at_work.remove(key)
            sent.future.cancel()
            jobs.ended(sent.task)

    def _submit(self, address: str, key: str, *what: object, resources: Mapping[str, int] | None = None) -> Future:
        try:
            return self._client.submit(
                eval, *what, key=key, workers=[address], pure=False, retries=0, resources=resources
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise self._gone(error) from None

    def _gone(self, why: object) -> _Lost:
        reason = next(iter(str(why).splitlines()), "")
        return _Lost(f"the scheduler at {self._reach.address or 'this machine'} is gone ({reason})")

    # --- hearing -----------------------------------------------------------------------------------------------------

    def _hear(self, jobs: Jobs[Task, News]) -> None:
        """All that has come. Answers that come together are told together."""
        for kind, events in itertools.groupby(self._heard(), key=lambda event: event[0]):
            if kind == "answered":
                self._answered(jobs, [(key, answer) for _, key, answer in events])
                continue
            for _, which, what in events:
                match kind:
                    case "workers":
                        self._clock.heard()
                        self._see(jobs, which)
                    case "identity":
                        self._meet(which, what)
                    case "gone":
                        raise self._gone(what)

    def _heard(self) -> list[tuple[str, Any, Any]]:
        """What has come, but not so much that dealing waits long."""
        heard = []
        with contextlib.suppress(queue.Empty):
            heard.append(self._events.get(timeout=self._tick_s))
            while len(heard) < _TOGETHER:
                heard.append(self._events.get_nowait())
        return heard

    def _answered(self, jobs: Jobs[Task, News], answers: Sequence[tuple[str, Answer | BaseException]]) -> None:
        over = [(sent, answer) for key, answer in answers if (sent := self._over(jobs, key, answer)) is not None]
        good = [answer for _, answer in over if isinstance(answer, Answer) and not answer.machine]
        if news := [one for answer in good for one in answer.news]:
            jobs.told(*news)
        for broke in (answer.broke for answer in good if answer.broke is not None):
            raise broke
        for sent, answer in over:
            if why := _failure(answer):
                self._refuse(sent.worker, f"it failed: {why}")
                self._check_for_workers()
            jobs.ended(sent.task)

    def _over(self, jobs: Jobs[Task, News], key: str, answer: Answer | BaseException) -> _Sent[Task] | None:
        """What was sent and is over; None if it was dealt again meanwhile."""
        sent = self._sent.get(key)
        if sent is None:
            return None
        if _failure(answer):
            self._take_back(jobs, sent.worker)
        del self._sent[key]
        sent.worker.at_work.remove(key)
        self._note_begun(sent.worker)
        if not sent.given_up:
            return sent
        self._say(f"worker {sent.worker.address} answers again: what it was late with was dealt to another")
        return None

    def _see(self, jobs: Jobs[Task, News], threads: Mapping[str, int]) -> None:
        for address in self._workers.keys() - threads.keys():
            worker = self._workers.pop(address)
            self._refused = {other: why for other, why in self._refused.items() if why != _second(worker.host)}
            self._say(f"worker {address} is gone{'; its slice is dealt again' if worker.at_work else ''}")
            for key in worker.at_work:
                sent = self._sent.pop(key)
                if sent.since_s is None:
                    jobs.ended(sent.task)
                elif not sent.given_up:
                    jobs.lost(sent.task, f"its worker {address} is gone")
        for address in self._refused.keys() - threads.keys():
            del self._refused[address]
        for address in threads.keys() - self._workers.keys() - self._refused.keys():
            self._greet(address, threads[address])
        self._check_for_workers()

    def _check_for_workers(self) -> None:
        """Say once that there is nobody to work; raise an error if all that are there were refused."""
        if self._workers.keys() - self._refused.keys():
            self._waiting_said = False
        elif self._refused:
            reasons = "\n  ".join(f"{address}: {why}" for address, why in self._refused.items())
            raise PreflightError(f"no worker can be used:\n  {reasons}", key="--scheduler")
        elif not self._waiting_said:
            self._waiting_said = True
            self._say("no worker is there: waiting for one")

    def _greet(self, address: str, slots: int) -> None:
        """Ask a new worker who it is. It gets work when it has answered."""
        if not (self._reach.insecure or is_safe(address)):
            self._refused[address] = "it is not encrypted: use TLS, or insist with --insecure"
            self._say(f"worker {address} is refused: {self._refused[address]}")
            return
        asked = self._submit(address, f"storagelab-who-{time.time_ns()}-{address}", QUESTION)
        self._workers[address] = _Worker(address, slots, asked)
        events, fetchers = self._events, self._fetchers

        def fetch(ended: Future) -> None:
            with contextlib.suppress(RuntimeError):
                fetchers.submit(lambda: events.put(("identity", address, _fetched_as_is(ended))))

        asked.add_done_callback(fetch)

    def _meet(self, address: str, told: object) -> None:
        worker = self._workers.get(address)
        if worker is None:
            return
        if isinstance(told, CancelledError):
            del self._workers[address]  # it is greeted again if it is still there
            return
        if not isinstance(told, dict):
            why = f"it can't load this storagelab ({type(told).__name__}: {told})"
        else:
            why = refusal(told)
            if not why and self._fleet:
                why = self._refusal_of_host(told)
                worker.host, worker.slots = told[HOST], 1
        if why:
            self._refuse(worker, why)
            self._check_for_workers()
        else:
            worker.welcome = True

    def _refusal_of_host(self, told: Identity) -> str:
        """Why a worker can't make a fleet's runs; "" if it can."""
        host = told[HOST]
        if why := no_slot(told):
            return why
        if host not in self._fleet:
            return f"{host or 'its host'} was not among the hosts when `run` began"
        return _second(host) if any(one.host == host and one.welcome for one in self._workers.values()) else ""

    def _refuse(self, worker: _Worker, why: str) -> None:
        """Give it no more work. What it is amid may still come."""
        worker.welcome = False
        self._seen.pop(worker.host, None)
        self._refused[worker.address] = why
        if not worker.at_work:
            self._workers.pop(worker.address, None)
        self._say(f"worker {worker.address} is refused: {why}")

    # --- what takes too long -----------------------------------------------------------------------------------------

    def _look_at_clock(self, jobs: Jobs[Task, News]) -> None:
        if self._clock.falls_silent():
            self._say(f"the scheduler has not answered for {_SILENT_S:.0f} s: waiting")
        begun = [(sent, sent.since_s) for sent in self._sent.values() if sent.since_s is not None and not sent.given_up]
        for sent, since_s in begun:
            if self._clock.now_s - since_s > self._limit_s:
                sent.given_up = True
                self._take_back(jobs, sent.worker)
                address, limit = sent.worker.address, f"{self._limit_s:.0f} s"
                self._say(f"worker {address} hangs: no answer in {limit}; its slice is dealt again")
                jobs.lost(sent.task, f"its worker {address} did not answer within {limit}, the time limit of a slice")


def no_slot(told: Identity) -> str:
    """Why a worker can't make measured runs by what it offers; "" if it can: one at a time."""
    if told[SLOTS] == "1":
        return ""
    offers = f"{told[SLOTS]} slots" if told[SLOTS] != "0" else "no slot"
    return f'it offers {offers} for measured runs: start it with --resources "{RESOURCE}=1"'


def _second(host: str) -> str:
    return f"another worker makes the runs of {host}"


class _Clock:
    """The seconds in which the scheduler answered. A pause of the network, or of this machine, makes no worker late."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heard_at = time.monotonic()
        self._silent = False

    def heard(self) -> None:
        now = time.monotonic()
        if now - self._heard_at < _SILENT_S:
            self.now_s += now - self._heard_at
        self._heard_at, self._silent = now, False

    def falls_silent(self) -> bool:
        """Whether the scheduler has just fallen silent."""
        if self._silent or time.monotonic() - self._heard_at < _SILENT_S:
            return False
        self._silent = True
        return True


def _look(client: Client, events: queue.SimpleQueue[tuple[str, Any, Any]], done: threading.Event) -> None:
    """In a thread of its own, as a scheduler may take long to answer: tell which workers there are."""
    while not done.wait(_LOOK_S if client.status == "running" else 0.0):
        try:
            if client.status != "running":
                raise OSError("the connection broke")
            events.put(("workers", dict(client.nthreads()), None))
        except Exception as error:  # noqa: BLE001 - whatever its libraries break with: the connection is lost
            events.put(("gone", None, error))
            return


def _failure(answer: Answer | BaseException) -> str:
    """What is wrong with the worker, in words. A connection that broke is nobody's fault, and `_look` finds out."""
    if isinstance(answer, Answer):
        return answer.machine
    return "" if isinstance(answer, CancelledError) else f"{type(answer).__name__}: {answer}"


def _fetched(future: Future) -> Answer | BaseException:
    told = _fetched_as_is(future)
    if not isinstance(told, bytes):
        return told if isinstance(told, BaseException) else CancelledError()
    answer: Answer = pickle.loads(told)  # noqa: S301 - of a worker, which runs our code
    return answer


def _fetched_as_is(future: Future) -> object:
    """The result, or the error. One that can't be had is as good as cancelled."""
    try:
        if future.status not in ("finished", "error"):
            return CancelledError()
        return future.result(timeout=_FETCH_S)
    except (OSError, TimeoutError) as error:
        return error if future.status == "error" else CancelledError()
    except BaseException as error:  # noqa: BLE001 - the worker's own
        return error


# --- on the worker ---------------------------------------------------------------------------------------------------


def perform(payload: bytes) -> bytes:
    """Do the task in the payload; an Answer."""
    news: list[Any] = []
    try:
        work, task = pickle.loads(payload)  # noqa: S301 - of a client, which may run anything here
        work(task, news.append)
    except (OSError, MemoryError) as error:
        return pickle.dumps(Answer(machine=f"{type(error).__name__}: {error}"))
    except PreflightError as error:
        return pickle.dumps(Answer(machine=str(error)))
    except BaseException as error:  # noqa: BLE001 - it is raised again by the client
        return pickle.dumps(Answer(broke=sendable(error)))
    return pickle.dumps(Answer(tuple(news)))
