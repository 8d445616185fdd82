"""Raw I/O on real volumes for tests: specs, and runs made as the loop makes them, with nothing left behind."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from storagelab.model.measurement import Run
from storagelab.run.engine import open_block
from storagelab.run.loop import make_run
from storagelab.run.scheduling import InFile
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse
from storagelab.volumes.folders import Site

needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio: apt-get install fio")

SPEC = """
name = "raw"
repetitions = 1
order = "as-listed"
target = { engine = "raw-io" }
[volumes.a]
path = "."
[layout]
data_size = "8MiB"
[workload]
operation = "read"
pattern = "random"
block = "8KiB"
outstanding = 2
duration = "1s"
"""


def parsed(folder: Path, text: str = SPEC) -> Any:
    return parse(text, str(folder / "raw.toml"))


def site_at(folder: Path) -> Site:
    return Site(experiment="raw", identity="0badcafe", spec_folder=folder)


def runs_of(folder: Path, text: str = SPEC) -> list[Run]:
    """All runs of a spec, block by block."""
    made = []
    for block in expand(parsed(folder, text)).blocks.values():
        with open_block(block, site_at(folder), InFile(folder / "state")) as opened:
            for position in opened.needed(range(len(block.runs))):
                planned = block.runs[position]
                made.append(
                    make_run(planned, block.cell_of(planned), 1, lambda p=planned: opened.open(p), lambda _done: None)
                )
    return made
