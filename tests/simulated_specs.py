"""Specs of simulated worlds so small that a run takes milliseconds; shared by the tests of the simulator."""

from pathlib import Path

from real_servers import site_at

from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.run.loop import batches, make_batch
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse

SMALL = """
name = "small"
repetitions = 2
order = "cell-by-cell"
[target]
engine = "simulated"
scale = 256
[server]
cores = 4
memory = "4GB"
[drives.ssd]
profile = "iodrive-320"
format = "basic"
driver = "2.2.3"
sector_bytes = 512
[volumes.a]
drives = ["ssd"]
[workload]
connections = 8
rows_per_connection = 500_000
rows_per_transaction = 100
[factors]
"drives.ssd.format" = ["basic", "maximum-write"]
"layout.data_files" = [1, 4]
"""

ONE_BLOCK = ('"drives.ssd.format" = ["basic", "maximum-write"]\n', "")
"""The change that leaves one drive format, and so one block."""


def changed(text: str, *changes: tuple[str, str]) -> str:
    """The text with each (old, new) of `changes` replaced."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def small(*changes: tuple[str, str], folder: Path = Path("lab")) -> Experiment:
    """`SMALL` with `changes`."""
    return parse(changed(SMALL, *changes), str(folder / "small.toml"))


def planned(*changes: tuple[str, str]) -> Plan:
    return expand(small(*changes))


def run_once(folder: Path, *changes: tuple[str, str], repetitions: int = 1) -> list[Run]:
    """Every run of `SMALL` with `changes`, made."""
    plan = planned(("repetitions = 2", f"repetitions = {repetitions}"), *changes)
    told: list[object] = []
    for whole in batches(plan, {}, site_at(folder), folder):
        make_batch(whole, told.append)
    return [item for item in told if isinstance(item, Run)]
