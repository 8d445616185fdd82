"""Article A at several scales, in the release build: a small world agrees with a large one; facts that need no fit."""

import json
from concurrent.futures import ThreadPoolExecutor
from math import log
from pathlib import Path

import pytest

from storagelab import _sim, profiles
from storagelab.engines.simulated.scenario import server
from storagelab.model.config import ServerConfig

pytestmark = pytest.mark.slow

SCALES, FILES = (32, 64), (1, 8)
CONNECTIONS, ROWS = 64, 160_000_000


def outcome(scale: int, files: int) -> dict:
    """One run on a new drive in the maximum-write format, with driver 2.2.3."""
    profile = profiles.load("iodrive-320", Path()).model_dump(exclude_none=True)
    scenario = {
        "scale": scale, "seed": 1, "sample_every_s": 30.0,
        "server": server(ServerConfig(cores=8, memory_bytes=16 * 2**30)),
        "drives": {"ssd": {"profile": profile, "format": "maximum-write", "driver": "2.2.3", "sector_bytes": 512}},
        "volumes": {"a": {"drives": ["ssd"]}},
        "runs": [{
            "data_files": files, "data_volumes": ["a"], "log_volume": "a", "seed": 1,
            "workload": {
                "kind": "random-insert", "connections": CONNECTIONS, "rows_per_connection": ROWS // CONNECTIONS,
                "rows_per_transaction": 1000,
            },
        }],
    }  # fmt: skip
    text = _sim.Block(json.dumps(scenario)).run_next()
    assert text is not None
    return {**json.loads(text), "scale": scale}


@pytest.fixture(scope="module")
def runs() -> dict[tuple[int, int], dict]:
    """Runs by scale and number of files. A run releases the GIL, so two are made side by side."""
    wanted = [(scale, files) for scale in SCALES for files in FILES]
    with ThreadPoolExecutor(2) as side_by_side:
        return dict(zip(wanted, side_by_side.map(lambda pair: outcome(*pair), wanted), strict=True))


@pytest.mark.parametrize("files", FILES)
def test_scales_32_and_64_agree_within_3_percent(runs, files):
    life_s = {scale: runs[scale, files]["elapsed_ns"] * scale / 1e9 for scale in SCALES}
    assert max(life_s.values()) / min(life_s.values()) < 1.03, life_s


@pytest.mark.parametrize("files", FILES)
def test_160_million_rows_are_about_37_gigabytes_in_pages_ln_2_full(runs, files):
    for run in (runs[scale, files] for scale in SCALES):
        assert run["rows"] == CONNECTIONS * (ROWS // CONNECTIONS // run["scale"])
        gigabytes = run["counters"]["table_bytes"] * run["scale"] / 1e9
        assert gigabytes == pytest.approx(37.0, rel=0.03)
        assert run["rows"] / run["counters"]["leaf_pages"] / 50 == pytest.approx(log(2), rel=0.01)


@pytest.mark.parametrize("files", FILES)
def test_an_insert_reads_0_283_pages_and_the_formula_says_why(runs, files):
    """A page is in memory with probability b / x once the table is x of its end: 1 - b - b ln(1/b) on average."""
    for run in (runs[scale, files] for scale in SCALES):
        counters = run["counters"]
        reads = counters["reads"] / run["rows"]
        b = counters["pool_pages"] / counters["leaf_pages"]
        assert reads == pytest.approx(0.283, rel=0.02)
        assert reads == pytest.approx(1 - b - b * log(1 / b), rel=0.03)


@pytest.mark.parametrize("files", FILES)
def test_elapsed_is_waits_and_cpu_of_a_connection(runs, files):
    """To the nanosecond with the time after a connection's early end: a transaction or two (0.04 % each at scale 1)."""
    for run in (runs[scale, files] for scale in SCALES):
        lived_ns = sum(row["resource_ns"] + row["signal_ns"] for row in run["waits"]) + run["cpu_ns"]
        assert lived_ns + run["finished_early_ns"] == CONNECTIONS * run["elapsed_ns"]
        assert lived_ns / CONNECTIONS == pytest.approx(run["elapsed_ns"], rel=0.0008 * run["scale"])


def test_a_row_takes_48_to_64_microseconds_of_cpu_time_in_memory(runs):
    for run in runs.values():
        counters = run["counters"]
        assert 48_000 < counters["memory_phase_cpu_ns"] / counters["memory_phase_rows"] < 64_000
        in_memory = counters["pool_pages"] / counters["leaf_pages"]
        assert counters["memory_phase_rows"] / run["rows"] == pytest.approx(in_memory, rel=0.03)
