"""Compares raw I/O through storagelab with fio by hand, and with volumes of known speed. Both need fio. The second also
needs root.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, paired_ratios, ratio_figure
from bench.known_answers import why_not
from storagelab.findings.comparable import is_steady
from storagelab.model.measurement import RAW_IO, RAW_IO_AT_DRIVE
from storagelab.model.plan import PlannedBlock
from storagelab.run.engine import open_block
from storagelab.run.scheduling import InFile
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse
from storagelab.volumes.folders import Site

KNOWN_IOPS = 500
_SIZE = 256 * 2**20
_SECONDS = 4
_SPEC = """
name = "raw"
repetitions = 1
target = {{ engine = "raw-io" }}
volumes = {{ a = {{ path = "{path}"{made} }} }}
layout = {{ data_size_bytes = {size} }}
[workload]
operation = "read"
pattern = "random"
block = "8KiB"
outstanding = 2
duration_s = {seconds}
"""


def figures(folder: Path, pairs: int) -> Iterator[Figure]:
    yield _against_fio(folder, pairs)
    if reason := why_not():
        yield Figure("raw I/O on a throttled volume", 0, "", f"left out: {reason}", None)
    else:
        yield from _of_known_speed(folder)
    yield _fourth_article(folder)


def _against_fio(folder: Path, pairs: int) -> Figure:
    """Measures pairs on one file of storagelab in one block. Each pair makes the same job twice: once through
    storagelab, and once with fio alone.
    """
    block = _block(folder, _SPEC.format(path=folder, made="", size=_SIZE, seconds=_SECONDS))
    with open_block(block, _site(folder), InFile(folder / "state")) as opened:

        def ours() -> float:
            with opened.open(block.runs[0]) as target:
                return target.run(block.first_cell, 1, 1, lambda _done: None).counters[RAW_IO]["ios_per_s"]

        ours()
        (file,) = folder.glob("storagelab-raw-*/raw-io-*")
        ratios = paired_ratios(pairs, ours, lambda: _by_hand(file))
    return ratio_figure(
        "raw I/O: IO/s through storagelab / by fio alone", ratios, "equal: 0.95 to 1.05", lambda r: 0.95 <= r <= 1.05,
        "8 KB random reads, two outstanding, one file",
    )  # fmt: skip


def _by_hand(file: Path) -> float:
    command = [
        "fio", "--name=x", f"--filename={file}", "--rw=randread", "--bs=8k", f"--size={_SIZE}", "--iodepth=2",
        "--direct=1",
        "--ioengine=io_uring", "--time_based", f"--runtime={_SECONDS}", "--norandommap=1", "--output-format=json",
    ]  # fmt: skip
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(json.loads(said[said.index("{") :])["jobs"][0]["read"]["iops"])


def _of_known_speed(folder: Path) -> Iterator[Figure]:
    place = folder / "known"
    place.mkdir()
    made = f", file_bytes = {128 * 2**20}, limit = {{ read_iops = {KNOWN_IOPS} }}"
    block = _block(place, _SPEC.format(path=place, made=made, size=32 * 2**20, seconds=10))
    with open_block(block, _site(place), InFile(place / "state")) as opened, opened.open(block.runs[0]) as target:
        measured = target.run(block.first_cell, 1, 1, lambda _done: None)
    rate, at_drive = measured.counters[RAW_IO]["ios_per_s"], measured.counters[RAW_IO_AT_DRIVE]
    off = 100 * abs(rate / KNOWN_IOPS - 1)
    yield Figure(f"raw I/O: IO/s of a volume throttled to {KNOWN_IOPS}", rate, "IO/s", "within 1 %", off <= 1)
    counted = 100 * abs(at_drive["reads_by_kernel"] / at_drive["reads_by_fio"] - 1)
    yield Figure("raw I/O: requests by fio against /proc/diskstats", counted, "% apart", "at most 2 %", counted <= 2)
    steady = bool(is_steady([measured]))
    yield Figure("raw I/O: steady state of a throttled volume", float(steady), "found", "1", steady)


def _fourth_article(folder: Path) -> Figure:
    spec, began = Path("experiments") / "raw-io-on-your-drives.toml", time.perf_counter()
    command = [sys.executable, "-m", "storagelab", "run", str(spec), "--results", str(folder / "fourth")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: the fourth article's spec failed:\n{done.stderr}")
    minutes = (time.perf_counter() - began) / 60
    return Figure(
        "raw I/O: the fourth article, simulated and on this disk", minutes, "min", "at most 6 min", minutes <= 6
    )


def _block(folder: Path, text: str) -> PlannedBlock:
    (block,) = expand(parse(text, str(folder / "raw.toml"))).blocks.values()
    return block


def _site(folder: Path) -> Site:
    return Site(experiment="raw", identity="0badcafe", spec_folder=folder)
