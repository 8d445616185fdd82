"""The log in which a generator tells when each transaction ended: pgbench's own form, which sysbench is made to write.

Each thread writes its own file. A line has the client, the transaction's number, its latency in us or a word, the script,
seconds and microseconds of its end, and the lag in us if there is a rate (pgbench's manual, "Per-Transaction Logging").
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from storagelab.targets.descriptors import read_file
from storagelab.targets.generators.transactions import Transactions, joined

LOG_PREFIX = "transactions"
"""What the names of its files begin with. pgbench opens them when its first session, which asks for the scale, is closed, and
before those of the load connect."""
_EPOCH, _EPOCH_US, _LATENCY, _LAG = 4, 5, 2, 6
_SKIPPED, _FAILED = -1.0, -2.0


def read_log(folder: Path) -> Transactions:
    """The transactions of all threads."""
    return joined([_read(read_file(file)) for file in sorted(folder.glob(f"{LOG_PREFIX}.*"))])


def _read(text: bytes) -> Transactions:
    """One file; a line that is not complete is left out."""
    whole = text[: text.rfind(b"\n") + 1]
    if not whole:
        return joined([])
    columns = len(whole[: whole.find(b"\n")].split())
    plain = whole.replace(b"skipped", b"-1").replace(b"failed", b"-2")
    rows = np.array(plain.split(), dtype=np.float64).reshape(-1, columns)
    ended_s = rows[:, _EPOCH] + rows[:, _EPOCH_US] / 1e6
    latency_us = rows[:, _LATENCY]
    lag_us = rows[:, _LAG] if columns > _LAG else np.zeros(len(rows))
    done = latency_us >= 0
    return Transactions(
        ended_s[done], latency_us[done], lag_us[done], ended_s[latency_us == _SKIPPED], ended_s[latency_us == _FAILED]
    )


def in_lua(module: str) -> str:
    """A sysbench script that does what the one of this name does, and writes the log.

    A transaction that is tried again is one, and lasts from its first try on.
    """
    return _IN_LUA.replace("MODULE", module).replace("PREFIX", LOG_PREFIX)


_IN_LUA = """local ffi = require("ffi")
pcall(ffi.cdef, "struct storagelab_time { long s; long part; };"
  .. "int clock_gettime(int, struct storagelab_time *); int gettimeofday(struct storagelab_time *, void *);")
local time = ffi.new("struct storagelab_time")
local function steady_us()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) * 1e6 + tonumber(time.part) / 1e3
end
ffi.C.gettimeofday(time, nil)
local to_epoch_us = tonumber(time.s) * 1e6 + tonumber(time.part) - steady_us()
assert(loadfile(assert(package.searchpath("MODULE", package.path))))()
local work, log, began_us, number = event, nil, nil, 0
if work then
  function event(thread)
    if not log then
      log = io.open("PREFIX." .. thread, "w")
      log:setvbuf("full", 65536)
    end
    began_us = began_us or steady_us()
    local is_last = work(thread)
    local ended_us = steady_us()
    local at_us = ended_us + to_epoch_us
    local at_s = math.floor(at_us / 1e6)
    log:write(string.format("%d %d %.0f 0 %d %d\\n", thread, number, ended_us - began_us, at_s, at_us - at_s * 1e6))
    began_us, number = nil, number + 1
    return is_last
  end
end
"""
