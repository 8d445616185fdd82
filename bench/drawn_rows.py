"""Stores simulated results, row by row, in the folder of `--kept`, so that an interrupted call can continue.

A folder belongs to one version of the statistics. If the statistics change, use a new folder.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Rng = np.random.Generator
_FOLDER = "STORAGELAB_BENCH_KEPT"
"""The name of an environment variable. The processes of a pool inherit it."""
_EVERY = 50
"""The counts are written after each so many experiments."""


def into(folder: Path | None) -> None:
    """Stores rows in this folder from now on. None = rows are not stored."""
    if folder is not None:
        os.environ[_FOLDER] = str(folder)


def counted(
    row: str, seed: int | Sequence[int], experiments: int, one: Callable[[Rng, int], Sequence[float]]
) -> list[float]:
    """Returns the sums of what `one` counts in this many experiments of a row."""
    rng, sums, begun, file = np.random.default_rng(seed), None, 0, _file(row)
    if file is not None and file.exists():
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["drawn"] <= experiments:
            sums, begun, rng.bit_generator.state = np.array(kept["sums"]), kept["drawn"], kept["random"]
        else:
            file = None  # with --quick, fewer experiments are requested, so the stored ones are left alone
    for number in range(begun, experiments):
        hits = np.array(one(rng, number), dtype=float)
        sums = hits if sums is None else sums + hits
        if file is not None and ((number + 1) % _EVERY == 0 or number + 1 == experiments):
            random = rng.bit_generator.state
            _write(file, {"row": row, "drawn": number + 1, "sums": sums.tolist(), "random": random})
    return [] if sums is None else sums.tolist()


def _file(row: str) -> Path | None:
    folder = os.environ.get(_FOLDER)
    name = re.sub(r"\W+", "-", row)[:80]
    return None if not folder else Path(folder) / f"{name}-{zlib.crc32(row.encode()):08x}.json"


def _write(file: Path, what: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(json.dumps(what), encoding="utf-8")
    new.replace(file)
