"""`--only topologies`: random drives with random contents, of which an experiment prepares some and is killed at a random
moment. After it is undone, every byte of the other drives must be what it was.

It runs in a guest with throw-away drives (`bench.guest`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.figures import Figure
from bench.guest import Drive, absent, run

COUNT = 1_000
_IN_ONE_BOOT = 25
_LETTERS = "ABCDE"
_DRIVE_BYTES = 48 * 2**20
_PATIENCE_S = 180.0
"""For each topology; on a busy machine, one took 60 to 150 s."""
_SCRIPT = Path(__file__).parent / "guest" / "one_topology.py"


def drawn(folder: Path, first_seed: int, count: int) -> list[dict[str, Any]]:
    """What came of the topologies of these seeds: a value for each, as `one_topology.py` tells it, with `broke` if it did
    not get to its end.
    """
    own = folder / f"topologies-{first_seed}"
    own.mkdir(parents=True)
    drives = [Drive(f"D{letter}", _DRIVE_BYTES, own / letter) for letter in _LETTERS]
    arguments = (str(first_seed), str(count))
    finished = run(_SCRIPT, drives, own / "results", arguments=arguments, limit_s=_PATIENCE_S * count)
    lines = [json.loads(line) for line in finished.output.splitlines() if line.startswith("{")]
    shutil.rmtree(own)
    if len(lines) < count:
        lines.append({"seed": first_seed + len(lines), "broke": (finished.output + finished.console)[-2_000:]})
    return lines


def figures(folder: Path, count: int) -> Iterator[Figure]:
    if reason := absent():
        print(f"topologies: no guest: {reason}")
        return
    found: list[dict[str, Any]] = []
    for first in range(1, count + 1, _IN_ONE_BOOT):
        found += drawn(folder, first, min(_IN_ONE_BOOT, count + 1 - first))
        print(f"  {len(found):,} topologies, {sum(map(is_wrong, found))} wrong", flush=True)
    for one in filter(is_wrong, found):
        print(f"  {json.dumps(one)}")
    killed = sum(one.get("told") == "killed" for one in found)
    claimed = sum(bool(one.get("claimed")) for one in found)
    compared = sum(one.get("compared_bytes", 0) for one in found)
    changed = sum(one.get("changed_outside", 0) for one in found)
    remark = f"{len(found):,} topologies: {claimed:,} took drives, {killed:,} were killed; {compared:,} bytes compared"
    yield Figure("bytes changed outside of an experiment's drives", changed, "bytes", "0", changed == 0, remark=remark)
    wrong = sum(map(is_wrong, found))
    yield Figure("topologies that left something, or did not get to their end", wrong, "", "0", wrong == 0)


def is_wrong(one: dict[str, Any]) -> bool:
    """Whether a byte outside changed, something was left, or the topology broke."""
    broke = "broke" in one or one["told"].startswith("BROKE") or one["undone"][-1] != "done"
    return broke or bool(one["changed_outside"] or one["left"])
