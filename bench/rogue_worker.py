"""Makes a Dask worker that loads this module answer batches wrongly, in the way that ROGUE in its environment says."""

from __future__ import annotations

import json
import os
from pathlib import Path

from storagelab.run import messages, requests

WAYS = ("pickle", "error", "another cell", "nan", "huge")
_honest = requests.simulate


class Bomb(Exception):
    """Any other process that unpickles this writes a file."""

    def __reduce__(self) -> tuple[object, ...]:
        return _burst, (os.environ["BOMB"], os.getpid())


def _burst(file: str, maker: int) -> None:
    if os.getpid() != maker:
        Path(file).touch()


def simulate(message: bytes) -> object:
    way = os.environ["ROGUE"]
    if way == "pickle":
        return Bomb()
    if way == "error":
        raise Bomb
    if way == "huge":
        return bytes(messages.LARGEST_BYTES + 1)
    trouble, content, state = messages.unpacked(_honest(message))
    runs = json.loads(content)
    if way == "another cell":
        runs[0]["sequence"] = 10**6
    else:
        runs[0]["measurement"]["elapsed_s"] = float("nan")
    return messages.packed(trouble, json.dumps(runs).encode(), state)


if os.environ.get("ROGUE"):
    requests.simulate = simulate  # type: ignore[assignment]
