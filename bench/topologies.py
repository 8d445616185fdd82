"""`--only topologies`: generates random drives with random contents.

An experiment prepares some of them, and is killed at a random moment. After storagelab has undone it, every byte of the
other drives must be unchanged. Each topology runs in a guest with throw-away drives (`bench.guest`). The guest is
either a kernel that runs as a program, with SCSI drives, or an emulated machine with NVMe drives. The NVMe drives can
be formatted to other sector sizes, but the emulated machine takes five times as long.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import count as counted
from pathlib import Path
from typing import Any

from bench.figures import Figure
from bench.guest import Drive, absent, run, user_mode

COUNT = 1_000
_IN_ONE_BOOT = 25
_LETTERS = "ABCDE"
_DRIVE_MIB = 48
_PATIENCE_S = 180.0
"""The time limit for each topology. On a busy machine, a topology took 60 to 150 s."""
_SCRIPT = Path(__file__).parent / "guest" / "one_topology.py"


def drawn(folder: Path, first_seed: int, count: int, *, nvme: bool = False) -> list[dict[str, Any]]:
    """Returns the results of the topologies with these seeds: what `one_topology.py` prints for each, or `broke` if a
    topology did not end.
    """
    own = folder / f"topologies-{first_seed}"
    own.mkdir(parents=True)
    options: dict[str, Any] = {"arguments": (str(first_seed), str(count)), "limit_s": _PATIENCE_S * count}
    if nvme:
        drives = [Drive(f"D{letter}", _DRIVE_MIB * 2**20, own / letter) for letter in _LETTERS]
        finished = run(_SCRIPT, drives, own / "results", **options)
    else:
        finished = user_mode.run(_SCRIPT, len(_LETTERS), _DRIVE_MIB, own / "results", **options)
    lines = [json.loads(line) for line in finished.output.splitlines() if line.startswith("{")]
    shutil.rmtree(own)
    if len(lines) < count:
        lines.append({"seed": first_seed + len(lines), "broke": (finished.output + finished.console)[-2_000:]})
    return [{**one, "nvme": nvme} for one in lines]


def figures(folder: Path, count: int, kept: Path | None = None) -> Iterator[Figure]:
    """The figures of `count` topologies. Topologies that are stored in the file `kept` are not made again. New
    topologies are added to the file.
    """
    nvme = user_mode.absent() != ""
    if nvme and (reason := absent()):
        print(f"topologies: no guest: {user_mode.absent()}; {reason}")
        return
    found = _read(kept)
    done = {one["seed"] for one in found}
    while missing := [seed for seed in range(1, count + 1) if seed not in done]:
        first = missing[0]
        size = next(size for size in counted(1) if size == _IN_ONE_BOOT or first + size not in missing)
        new = drawn(folder, first, size, nvme=nvme)
        found += new
        done |= {one["seed"] for one in new}
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(one) + "\n" for one in new)
        print(f"  {len(found):,} topologies, {sum(map(is_wrong, found))} wrong", flush=True)
    for one in filter(is_wrong, found):
        print(f"  {json.dumps(one)}")
    killed = sum("killed" in (one.get("told"), *one.get("undone", ())) for one in found)
    claimed = sum(bool(one.get("claimed")) for one in found)
    compared = sum(one.get("compared_bytes", 0) for one in found)
    changed = sum(one.get("changed_outside", 0) for one in found)
    remark = f"{len(found):,} topologies: {claimed:,} took drives, {killed:,} were killed; {compared:,} bytes compared"
    yield Figure("bytes changed outside of an experiment's drives", changed, "bytes", "0", changed == 0, remark=remark)
    wrong = sum(map(is_wrong, found))
    yield Figure("topologies that left something, or did not get to their end", wrong, "", "0", wrong == 0)


def _read(kept: Path | None) -> list[dict[str, Any]]:
    if kept is None or not kept.exists():
        return []
    return [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]


def is_wrong(one: dict[str, Any]) -> bool:
    """Whether a byte outside changed, something was left, or the topology did not end normally."""
    broke = "broke" in one or one["told"].startswith("BROKE") or one["undone"][-1] != "done"
    return broke or bool(one["changed_outside"] or one["left"])
