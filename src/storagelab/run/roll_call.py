"""Asks each host of a fleet something, all at the same time, before runs are dealt or after."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from distributed import Client, Future

from storagelab.errors import PreflightError
from storagelab.run.cluster import CALL, Answer, no_slot
from storagelab.run.executors import Work
from storagelab.run.joining import HOST, QUESTION, RESOURCE, Reach, is_safe, joined, refusal

_SOON_S, _LOOK_S = 5.0, 0.05
_NO_NAME = "its host has no name that lasts, as it is a container: start it with STORAGELAB_HOST set"
START = f'dask worker ADDRESS --nthreads 1 --memory-limit 0 --resources "{RESOURCE}=1"'
"""How a worker of a fleet is started."""


class Present(NamedTuple):
    """The hosts that can make a fleet's runs, each with its worker's address; and why other workers can't."""

    address_of: dict[str, str]
    others: dict[str, str]
    """What to call a worker -> why it takes no part."""


def present(reach: Reach, say: Callable[[str], None], patience_s: float) -> Present:
    """Who is there. Raises PreflightError if two workers are on one host."""
    with joined(reach) as client:
        addresses = list(client.nthreads())
        others = {one: "it is not encrypted" for one in addresses if not (reach.insecure or is_safe(one))}
        asked = [one for one in addresses if one not in others]
        told = _ask(client, dict.fromkeys(asked, (QUESTION,)), say, patience_s)
    address_of: dict[str, str] = {}
    for address, identity in told.items():
        if not isinstance(identity, dict):
            others[address] = f"it can't load this storagelab ({type(identity).__name__}: {identity})"
            continue
        host = identity.get(HOST, "")
        why = refusal(identity) or no_slot(identity) or ("" if host else _NO_NAME)
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
    reach: Reach, address_of: Mapping[str, str], work: Work[Any, Any], task: object, say: Callable[[str], None],
    patience_s: float,
) -> dict[str, object]:  # fmt: skip
    """What each host reports on the task: its one piece of news, or an error."""
    payload = pickle.dumps((work, task))
    with joined(reach) as client:
        told = _ask(client, dict.fromkeys(address_of.values(), (CALL, {"payload": payload})), say, patience_s)
    return {host: _news(told[address]) for host, address in address_of.items()}


def _news(told: object) -> object:
    if not isinstance(told, bytes):
        return told
    answer: Answer = pickle.loads(told)  # noqa: S301 - of a worker, which runs our code
    if answer.machine or answer.broke is not None:
        return PreflightError(answer.machine or f"{type(answer.broke).__name__}: {answer.broke}")
    return answer.news[0]


def _ask(
    client: Client, what: Mapping[str, Sequence[object]], say: Callable[[str], None], patience_s: float
) -> dict[str, object]:
    """The answer of each worker, or an error. A worker amid another campaign's run answers when that is over."""
    asked: dict[str, Future] = {
        address: client.submit(
            eval, *words, key=f"storagelab-{time.time_ns()}-{address}", workers=[address], pure=False
        )
        for address, words in what.items()
    }
    began, told = time.monotonic(), False
    while (busy := [one for one, future in asked.items() if not future.done()]) and _passed_s(began) < patience_s:
        if _passed_s(began) > _SOON_S and not told:
            say(f"waiting for {', '.join(busy)} to answer")
            told = True
        time.sleep(_LOOK_S)
    return {address: _answer(future, patience_s) for address, future in asked.items()}


def _answer(future: Future, patience_s: float) -> object:
    if not future.done():
        return TimeoutError(f"no answer in {patience_s:.0f} s")
    try:
        return future.result(timeout=_SOON_S)
    except Exception as error:  # noqa: BLE001 - the worker's own
        return error


def _passed_s(began: float) -> float:
    return time.monotonic() - began
