"""sysbench: its command, its report, and its messages.

sysbench's final report counts from a checkpoint at the end of the warm-up. Its histogram has bins 1.8 % wide, each
named by its geometric middle, so a percentile differs from that of the latencies by at most 0.9 %. It has no log, so a
script around the one that it runs writes one (`transactions`).
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple, Self

from storagelab.errors import PreflightError
from storagelab.loads.generator import FATAL
from storagelab.loads.transactions import Transactions, in_lua
from storagelab.model.latency import Latency, latency_of
from storagelab.model.loads.base import GeneratedLoad
from storagelab.model.loads.sysbench import Sysbench
from storagelab.servers.programs import version_output

OWN_SCRIPT = "storagelab-script.lua"
LOGGED = "storagelab-logged.lua"
"""The script that does what another one does, and logs its transactions."""
ASKING = "storagelab-asking.lua"
"""The script that asks the server something in a session like those of a run, and prints the answer."""
TABLE = re.compile(r"sbtest\d+")
"""The names of sysbench's tables."""
_COUNTS, _WARM = b"Threads started!", b"Checkpoint report:"
_NS_PER_MS = 1_000_000
_SECOND = re.compile(r"^\[ (\d+)s \] thds: \d+ tps: ([\d.]+) .*lat \(ms,99%\): ([\d.]+)", re.MULTILINE)
_BIN = re.compile(r"^\s*([\d.]+) \|.*?(\d+)\s*$", re.MULTILINE)
_WORDS = re.compile(r"^(?:FATAL|ERROR|PANIC|error): (.*)$|^(invalid option: .*)$", re.MULTILINE | re.IGNORECASE)


BEGINNING = "storagelab-beginning.lua"
_BEGINNING = """local made = sysbench.sql.driver
function sysbench.sql.driver(...)
  local driver = made(...)
  local function connect()
    local session = driver:connect()
    session:query("STATEMENT")
    return session
  end
  return setmetatable({connect = connect}, {__index = function(_, name)
    return function(_, ...) return driver[name](driver, ...) end
  end})
end
assert(loadfile(assert(package.searchpath("MODULE", package.path))))()
"""
_ASKING = """sysbench.cmdline.commands = {ask = {function()
  print("answer: " .. tostring(sysbench.sql.driver():connect():query_row("STATEMENT")))
end}}
"""


class Reported(NamedTuple):
    """The figures of sysbench's report since its last checkpoint. `seconds` maps each second of the run, counted from
    its start, to its transactions and its p99 in ms. The first `warm_up_s` of them did not count. `log` has all of its
    transactions, those of the warm-up too.
    """

    number: int
    not_done: Mapping[str, int]
    elapsed_s: float
    histogram: tuple[tuple[int, int], ...]
    exact_ns: tuple[int, int, int]
    seconds: Mapping[int, tuple[float, float]]
    warm_up_s: int
    log: Transactions

    @property
    def lag_s(self) -> tuple[float, float] | None:
        """sysbench does not report it."""
        return None

    @property
    def span_s(self) -> tuple[float, float]:
        return 0.0, self.elapsed_s

    def within(self, start_s: float, end_s: float) -> Self:
        return self

    def begun_at_earliest(self, start_s: float) -> Self:
        return self

    def latency(self) -> Latency | None:
        return latency_of(self.histogram, self.exact_ns)

    def series(self, edges_s: Sequence[float]) -> dict[str, tuple[float | None, ...]]:
        """sysbench's own seconds, each assigned to the interval that ends with it."""
        ends = [self.warm_up_s + round(edge_s - edges_s[0]) for edge_s in edges_s[1:]]
        found = [self.seconds.get(end) for end in ends]
        return {
            "transactions_per_s": tuple(None if one is None else one[0] for one in found),
            "latency_p99_s": tuple(None if one is None else one[1] / 1e3 for one in found),
        }


@cache
def find() -> str:
    """The program on the PATH. Raises PreflightError that names the package."""
    program = shutil.which("sysbench")
    if program is None:
        raise PreflightError(
            "sysbench is not on this machine", key="workload.kind", hint="install the package sysbench (of Debian)"
        )
    output = version_output(Path(program))
    found = re.search(r"sysbench (\d+)\.(\d+)", output)
    if found is None or int(found[1]) < 1:
        raise PreflightError(f"{output.strip()} is too old", key="workload.kind", hint="install sysbench 1.0 or later")
    return program


def version() -> str:
    return version_output(Path(find())).split("(")[0].strip()


def counts(load: GeneratedLoad) -> bytes:
    """What sysbench prints when the warm-up is over."""
    return _WARM if load.longest_warm_up_s and load.transactions_per_connection is None else _COUNTS


def on_tables(server: Sequence[str], load: Sysbench) -> list[str]:
    """sysbench's script and the tables that it works on. `server` holds the options that lead to the server."""
    script = f"./{OWN_SCRIPT}" if load.is_own else load.script
    own = [
        f"--{name}={('off', 'on')[value] if isinstance(value, bool) else value}" for name, value in load.options.items()
    ]
    return [script, *server, f"--tables={load.tables}", f"--table-size={load.table_size}", *own]


def with_log(script: Sequence[str]) -> tuple[list[str], str]:
    """The same script and options with a log of its transactions, and the text of LOGGED."""
    name, *options = script
    return [f"./{LOGGED}", *options], in_lua(Path(name).stem)


def command(script: Sequence[str], load: GeneratedLoad, *, seed: int) -> list[str]:
    """The command of a run of this script with its options."""
    if load.transactions_per_connection is None:
        length = [f"--time={int(load.longest_warm_up_s + load.duration_s)}", "--events=0"]
        length += [f"--report-checkpoints={int(load.longest_warm_up_s)}"] if load.longest_warm_up_s else []
    else:
        length = ["--time=0", f"--events={load.transactions_per_connection * load.connections}"]
    rate = [f"--rate={max(1, round(load.rate))}"] if load.rate is not None else []
    return [
        find(), *script, f"--threads={load.connections}", "--report-interval=1", "--histogram=on",
        "--percentile=99", f"--rand-seed={seed % 2**31}", *length, *rate, "run",
    ]  # fmt: skip


def initialise(server: Sequence[str], load: Sysbench) -> list[str]:
    """The command that makes sysbench's tables."""
    return [find(), *on_tables(server, load), f"--threads={min(load.tables, 4)}", "prepare"]


def beginning_with(statement: str, command: Sequence[str]) -> tuple[list[str], dict[str, bytes]]:
    """The same command with sessions that begin with a statement, if there is one, and the file that it needs."""
    if not statement:
        return list(command), {}
    program, script, *options = command
    escaped = "".join(f"\\{byte:03d}" for byte in statement.encode())  # whatever it holds, to Lua it is one text
    text = _BEGINNING.replace("STATEMENT", escaped).replace("MODULE", Path(script).stem)
    return [program, f"./{BEGINNING}", *options], {BEGINNING: text.encode()}


def asking(server: Sequence[str], statement: str) -> tuple[list[str], dict[str, bytes]]:
    """The command that asks the server for one value, and the file that it needs."""
    return [find(), f"./{ASKING}", *server, "ask"], {ASKING: _ASKING.replace("STATEMENT", statement).encode()}


def answer(output: str) -> str:
    """What the server answered; "" for NULL."""
    found = output.rpartition("answer: ")[2].strip()
    return "" if found == "nil" else found


def failed(output: CompletedProcess[str]) -> bool:
    """Whether sysbench failed: its threads may end with an error that its exit code does not show."""
    return output.returncode != 0 or FATAL.search(output.stdout + output.stderr) is not None


def read_report(output: str, warm_up_s: float, log: Transactions) -> Reported:
    """The figures of the last part of sysbench's report, and its log."""
    last = output[output.rfind("SQL statistics:") :]
    before = output[: output.rfind("SQL statistics:")]
    began = re.findall(r"total time:\s*([\d.]+)s", before)
    number, ignored, reconnects = (_figure(last, name) for name in ("transactions", "ignored errors", "reconnects"))
    least, longest, total = (round(_figure(last, name) * _NS_PER_MS) for name in ("min", "max", "sum"))
    bins = before[before.rfind("Latency histogram") :]
    return Reported(
        number=round(number), not_done={"retried": round(ignored), "reconnects": round(reconnects)},
        elapsed_s=_figure(last, "total time") - (float(began[-1]) if began else 0.0),
        histogram=tuple((round(float(value) * _NS_PER_MS), int(count)) for value, count in _BIN.findall(bins)),
        exact_ns=(total, least, longest), warm_up_s=int(warm_up_s), log=log,
        seconds={int(at): (float(tps), float(p99)) for at, tps, p99 in _SECOND.findall(output)},
    )  # fmt: skip


def _figure(report: str, name: str) -> float:
    found = re.search(rf"^\s*{name}:\s*([\d.]+)", report, re.MULTILINE)
    return float(found[1]) if found else math.nan


def words(output: str, script: str) -> str:
    """sysbench's message about a failure, in one line."""
    found = [one or other for one, other in _WORDS.findall(output)]
    telling = (lambda one: one.startswith("error "), lambda one: "query" not in one.lower() or "failed" in one.lower())
    message = next((one for tells in telling for one in found if tells(one)), found[0] if found else "")
    lines = [line for line in output.splitlines() if line.strip()]
    message = message or (lines[-1] if lines else "it says nothing")
    message = re.sub(r" for query '.*", "", message)  # it may hold thousands of rows
    return re.sub(r"\S*" + re.escape(OWN_SCRIPT), script, message)
