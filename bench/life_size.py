"""Makes one simulated run at scale 1, in a separate process, so that its memory can be measured: `python -m
bench.life_size FOLDER`.

It prints one line of JSON: the run's CPU time and wall time in seconds, the process's peak memory in MB, and the rows.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

from storagelab import _sim
from storagelab.engines.simulated.scenario import scenario
from storagelab.spec import matrix, reading

_SPEC = """
question = "What does a run at scale 1 cost?"
[target]
engine = "simulated"
scale = 1
[server]
cores = 8
memory = "16GB"
[drives.ssd]
profile = "iodrive-320"
format = "maximum-write"
driver = "2.2.3"
sector_bytes = 512
[volumes.a]
drives = ["ssd"]
[layout]
data = ["a"]
log = "a"
data_files = 8
[workload]
kind = "random-insert"
connections = 64
rows_per_connection = 2_500_000
rows_per_transaction = 1_000
"""


def main() -> int:
    folder = Path(sys.argv[1])
    file = folder / "life-size.toml"
    file.write_text(_SPEC, encoding="utf-8")
    plan = matrix.expand(reading.load(file))
    content = scenario(replace(plan.blocks[0], runs=plan.runs[:1]), folder)
    began, began_cpu = time.perf_counter(), time.process_time()
    text = _sim.Block(json.dumps(content)).run_next()
    cpu_s, wall_s = time.process_time() - began_cpu, time.perf_counter() - began
    assert text is not None
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu_s": cpu_s, "wall_s": wall_s, "peak_mb": peak_mb, "rows": json.loads(text)["rows"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
