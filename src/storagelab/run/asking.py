"""Sends messages to Dask's workers and reads their answers: to one worker, or to each host of a fleet before and
after the runs.
"""

from __future__ import annotations

import contextlib
import operator
import pkgutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, NamedTuple, TypeVar

from dask.task_spec import Task
from distributed import Client, Future

from storagelab.errors import PreflightError
from storagelab.run.data_only import error_text
from storagelab.run.joining import RESOURCE, Introducing, Introduction, Reach, is_safe, joined, refusal
from storagelab.run.messages import LARGEST_BYTES, Answer, NoMessage, Request, read, words

_FETCH_S = 60.0
_SOON_S, _LOOK_S = 5.0, 0.05
_NO_NAME = "its host is a container, without a permanent name: start it with STORAGELAB_HOST set"
START = f'dask worker ADDRESS --nthreads 1 --memory-limit 0 --resources "{RESOURCE}=1"'
"""How to start a worker of a fleet."""

T = TypeVar("T")
Report = TypeVar("Report")


def submitted(
    client: Client,
    address: str,
    key: str,
    request: Request[T, Any],
    task: T,
    resources: Mapping[str, int] | None = None,
) -> Future:
    """Sends a worker the name of its function and a message. Dask's own pickle of these names only functions of
    Python itself, so the scheduler does not need storagelab.
    """
    entry = Task(None, pkgutil.resolve_name, request.entry)
    return client.submit(
        operator.call,
        entry,
        request.message(task),
        key=key,
        workers=[address],
        pure=False,
        retries=0,
        resources=resources,
    )


def failure(answer: Answer[Any] | BaseException) -> str:
    """What is wrong with the worker, in words. A broken connection proves nothing about it, and `_look` finds out."""
    match answer:
        case Answer():
            return answer.machine and f"it failed: {answer.machine}"
        case CancelledError():
            return ""
        case NoMessage():
            return f"it sent an invalid answer: {answer}"
    return f"it failed: {error_text(answer)}"


def _size_of(future: Future) -> int:
    """The size of a result in bytes, as the scheduler knows it; 0 if unknown."""
    with contextlib.suppress(Exception):
        return max(map(int, future.client.nbytes([future.key], summary=False).values()))
    return 0


def answer_in(future: Future, request: Request[T, Report], task: T, host: str) -> Answer[Report] | BaseException:
    """A worker's answer, or the error. An answer that can't be fetched counts as cancelled."""
    try:
        if future.status not in ("finished", "error"):
            return CancelledError()
        return read(request, task, host, future.result(timeout=_FETCH_S))
    except (OSError, TimeoutError) as error:
        if future.status == "error":
            return error
        size = _size_of(future)
        return NoMessage(f"it has {size:,} bytes") if size > LARGEST_BYTES else CancelledError()
    except BaseException as error:  # noqa: BLE001 - the worker's own
        return error


def introduction_in(answer: Answer[Introduction] | BaseException) -> Introduction | str:
    """What a worker reported about itself, or why that can't be used."""
    if isinstance(answer, NoMessage):
        return failure(answer)
    if isinstance(answer, Answer) and answer.reports:
        introduced: Introduction = answer.reports[0]
        return introduced
    error = answer if isinstance(answer, BaseException) else answer.broke or OSError(answer.machine)
    return f"it can't load this storagelab ({error_text(error)})"


def no_slot(slots: str) -> str:
    """Why a worker can't make measured runs, judged by its slots; "" if it can, one at a time."""
    if slots == "1":
        return ""
    offers = f"{words(slots)} slots" if slots != "0" else "no slot"
    return f'it offers {offers} for measured runs: start it with --resources "{RESOURCE}=1"'


# --- the hosts of a fleet --------------------------------------------------------------------------------------------


class Present(NamedTuple):
    """The hosts that can make a fleet's runs, each with its worker's address; and why other workers can't."""

    address_of: dict[str, str]
    others: dict[str, str]
    """The worker's name for the user -> why it takes no part."""


def present(reach: Reach, say: Callable[[str], None], patience_s: float) -> Present:
    """The workers that are there. Raises PreflightError if two of them are on one host."""
    with joined(reach) as client:
        addresses = list(client.nthreads())
        others = {one: "it is not encrypted" for one in addresses if not (reach.insecure or is_safe(one))}
        asked = [one for one in addresses if one not in others]
        answers = _ask(client, asked, Introducing(), None, say, patience_s)
    address_of: dict[str, str] = {}
    for address, answer in answers.items():
        introduced = introduction_in(answer)
        if isinstance(introduced, str):
            others[address] = introduced
            continue
        host = introduced.host
        why = refusal(introduced.identity) or no_slot(introduced.slots) or ("" if host else _NO_NAME)
        if why:
            others[f"{address} on {host}" if host else address] = why
        elif host in address_of:
            raise PreflightError(
                f"two workers are on the host {host}: {address_of[host]} and {address}", key="--scheduler",
                hint="stop one of them: a host makes one run at a time; STORAGELAB_HOST tells hosts of one name apart",
            )  # fmt: skip
        else:
            address_of[host] = address
    return Present(dict(sorted(address_of.items())), others)


def ask_each(
    reach: Reach, address_of: Mapping[str, str], request: Request[T, Any], task: T, say: Callable[[str], None],
    patience_s: float,
) -> dict[str, object]:  # fmt: skip
    """What each host reports on the task: its only report, or an error."""
    with joined(reach) as client:
        answers = _ask(client, tuple(address_of.values()), request, task, say, patience_s)
    return {host: _report_in(answers[address]) for host, address in address_of.items()}


def _report_in(answer: Answer[Any] | BaseException) -> object:
    if isinstance(answer, NoMessage):
        return PreflightError(f"it sent an invalid answer: {answer}")
    if isinstance(answer, BaseException):
        return PreflightError(error_text(answer))
    if answer.machine or answer.broke is not None:
        return PreflightError(answer.machine or str(answer.broke))
    return answer.reports[0]


def _ask(
    client: Client,
    addresses: Sequence[str],
    request: Request[T, Any],
    task: T,
    say: Callable[[str], None],
    patience_s: float,
) -> dict[str, Answer[Any] | BaseException]:
    """The answer of each worker, or an error. A worker that is making another campaign's run answers after it."""
    asked: dict[str, Future] = {
        address: submitted(client, address, f"storagelab-{time.time_ns()}-{address}", request, task)
        for address in addresses
    }
    began, is_said = time.monotonic(), False
    while (busy := [one for one, future in asked.items() if not future.done()]) and _passed_s(began) < patience_s:
        if _passed_s(began) > _SOON_S and not is_said:
            say(f"waiting for {', '.join(busy)} to answer")
            is_said = True
        time.sleep(_LOOK_S)
    return {
        address: answer_in(future, request, task, "")
        if future.done()
        else TimeoutError(f"no answer in {patience_s:.0f} s")
        for address, future in asked.items()
    }


def _passed_s(began: float) -> float:
    return time.monotonic() - began
