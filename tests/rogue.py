"""Workers of Dask's that send what they should not: entry points in place of storagelab's own."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

from storagelab.run import messages, requests

LARGE_BYTES = 6_000_000


class Bomb(Exception):
    """Whoever unpickles it writes a file, but for the process `spared`."""

    def __init__(self, file: str, spared: int = 0) -> None:
        self.file, self.spared = file, spared

    def __reduce__(self) -> tuple[object, ...]:
        return burst, (self.file, self.spared)


def burst(file: str, spared: int) -> None:
    if os.getpid() != spared:
        Path(file).touch()


def simulate(message: bytes) -> object:
    """As `requests.simulate`, and then changed in the way that the environment names."""
    way = os.environ["ROGUE"]
    answer = requests.simulate(message)
    if way == "pickle":
        return pickle.dumps(Bomb(os.environ["BOMB"]))
    if way == "error":
        raise Bomb(os.environ["BOMB"], os.getpid())  # Dask tries there whether it can be unpickled
    if way == "no bytes":
        return Bomb(os.environ["BOMB"])
    if way == "large":
        return bytes(LARGE_BYTES)
    if way == "half":
        return answer[: len(answer) // 2]
    trouble, told, state = messages.unpacked(answer)
    if way == "drives":
        return messages.packed(trouble, told, b"not packed" + state)
    return messages.packed(trouble, json.dumps(_changed(json.loads(told), way)).encode(), state)


def _changed(runs: list[dict[str, object]], way: str) -> list[dict[str, object]]:
    first = runs[0]
    if way == "another cell":
        first["sequence"] = 10**6
    elif way == "another attempt":
        first["attempt"] = 7
    elif way == "nan":
        measured = first["measurement"]
        assert isinstance(measured, dict)
        measured["elapsed_s"] = float("nan")
    return runs


class Rogue(requests.SimulatedRuns):
    """Workers with ROGUE in their environment answer in that way, and others as they should."""

    entry = "rogue:as_it_likes"


def as_it_likes(message: bytes) -> object:
    do: Callable[[bytes], object] = simulate if os.environ.get("ROGUE") else requests.simulate
    return do(message)
