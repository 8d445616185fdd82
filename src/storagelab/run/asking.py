"""Sends a worker of Dask's a message, and reads its answer."""

from __future__ import annotations

import contextlib
import operator
import pkgutil
from collections.abc import Mapping
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from dask.task_spec import Task
from distributed import Client, Future

from storagelab.run.data_only import told_by
from storagelab.run.joining import RESOURCE, Introduction
from storagelab.run.messages import LARGEST_BYTES, Answer, Errand, NoMessage, read, words

_FETCH_S = 60.0

T = TypeVar("T")
News = TypeVar("News")


def submitted(
    client: Client, address: str, key: str, errand: Errand[T, Any], task: T, resources: Mapping[str, int] | None = None
) -> Future:
    """Sends a worker the name of its function and a message. Dask's own pickle of them names nothing but Python's own
    functions, so the scheduler needs no storagelab."""
    entry = Task(None, pkgutil.resolve_name, errand.entry)
    return client.submit(
        operator.call,
        entry,
        errand.message(task),
        key=key,
        workers=[address],
        pure=False,
        retries=0,
        resources=resources,
    )


def failure(answer: Answer[Any] | BaseException) -> str:
    """What is wrong with the worker, in words. A connection that broke is nobody's fault, and `_look` finds out."""
    match answer:
        case Answer():
            return answer.machine and f"it failed: {answer.machine}"
        case CancelledError():
            return ""
        case NoMessage():
            return f"it sent an invalid answer: {answer}"
    return f"it failed: {told_by(answer)}"


def _size_of(future: Future) -> int:
    """The bytes of a result, as the scheduler knows them; 0 if it doesn't."""
    with contextlib.suppress(Exception):
        return max(map(int, future.client.nbytes([future.key], summary=False).values()))
    return 0


def heard(future: Future, errand: Errand[T, News], task: T, host: str) -> Answer[News] | BaseException:
    """A worker's answer, or the error. One that can't be had is as good as cancelled."""
    try:
        if future.status not in ("finished", "error"):
            return CancelledError()
        return read(errand, task, host, future.result(timeout=_FETCH_S))
    except (OSError, TimeoutError) as error:
        if future.status == "error":
            return error
        size = _size_of(future)
        return NoMessage(f"it has {size:,} bytes") if size > LARGEST_BYTES else CancelledError()
    except BaseException as error:  # noqa: BLE001 - the worker's own
        return error


def introduction_in(told: Answer[Introduction] | BaseException) -> Introduction | str:
    """What a worker said of itself, or why that is nothing."""
    if isinstance(told, NoMessage):
        return failure(told)
    if isinstance(told, Answer) and told.news:
        introduced: Introduction = told.news[0]
        return introduced
    error = told if isinstance(told, BaseException) else told.broke or OSError(told.machine)
    return f"it can't load this storagelab ({told_by(error)})"


def no_slot(slots: str) -> str:
    """Why a worker can't make measured runs by the slots it offers; "" if it can: one at a time."""
    if slots == "1":
        return ""
    offers = f"{words(slots)} slots" if slots != "0" else "no slot"
    return f'it offers {offers} for measured runs: start it with --resources "{RESOURCE}=1"'
