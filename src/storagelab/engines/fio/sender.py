"""The program that sends a trace. Its arguments are TRACE THREADS BYTES_EACH FILE ...

It writes the results of the sent requests as JSON. It loads only the Rust core, so that it starts quickly.
"""

import json
import os
import resource
import sys
from pathlib import Path

from storagelab import _sim


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    trace, threads, bytes_each, *files = sys.argv[1:]
    before_s = _cpu_s()
    try:
        sent = _sim.replay(files, int(bytes_each), os.O_DIRECT, int(threads), Path(trace).read_text("ascii"))
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    json.dump({**json.loads(sent), "cpu_s": _cpu_s() - before_s}, sys.stdout)
