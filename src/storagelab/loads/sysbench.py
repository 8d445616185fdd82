"""sysbench: its command, its report, and its messages.

sysbench's final report counts from a checkpoint at the end of the warm-up. The bins of its histogram are 1.8 % wide,
and the name of each bin is its geometric middle. So a percentile differs from the exact percentile by at most 0.9 %.
sysbench itself writes no log of transactions. So a script that wraps the user's script writes one (`transactions`)."""

from __future__ import annotations

import math
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple, Self

from storagelab.errors import PreflightError, RunFailed
from storagelab.loads.generator import FATAL, Clients, Program
from storagelab.loads.own_files import Source, commands
from storagelab.loads.transactions import Transactions, in_lua, read_log
from storagelab.machine.descriptors import read_file
from storagelab.model.loads.base import GeneratedLoad
from storagelab.model.loads.sql import Sql
from storagelab.model.loads.sysbench import Sysbench
from storagelab.model.measurement import Latency, latency_of
from storagelab.servers.programs import version_output

OWN_SCRIPT = "storagelab-script.lua"
LOGGED = "storagelab-logged.lua"
"""A script that runs another script and logs its transactions."""
ASKING = "storagelab-asking.lua"
"""A script that sends a query in a session like those of a run, and prints the answer."""
TABLE = re.compile(r"sbtest\d+")
"""Matches the names of sysbench's tables."""
_COUNTS, _WARM = b"Threads started!", b"Checkpoint report:"
_NS_PER_MS = 1_000_000
_SECOND = re.compile(r"^\[ (\d+)s \] thds: \d+ tps: ([\d.]+) .*lat \(ms,99%\): ([\d.]+)", re.MULTILINE)
_BIN = re.compile(r"^\s*([\d.]+) \|.*?(\d+)\s*$", re.MULTILINE)
_WORDS = re.compile(r"^(?:FATAL|ERROR|PANIC|error): (.*)$|^(invalid option: .*)$", re.MULTILINE | re.IGNORECASE)


BEGINNING = "storagelab-beginning.lua"
_BEGINNING = Path(__file__).with_name("beginning.lua").read_text("utf-8")
_ASKING = """sysbench.cmdline.commands = {ask = {function()
  print("answer: " .. tostring(sysbench.sql.driver():connect():query_row("STATEMENT")))
end}}
"""


class SysbenchReport(NamedTuple):
    """The figures of sysbench's report since its last checkpoint. `seconds` maps each second of the run, counted from
    its start, to the second's transactions and their p99 in ms. The first `warm_up_s` seconds did not count. `log` has
    all transactions, including those of the warm-up.
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
        """None, because sysbench does not report it."""
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
        """Returns sysbench's figures of each second. Each second belongs to the interval that ends with it."""
        ends = [self.warm_up_s + round(edge_s - edges_s[0]) for edge_s in edges_s[1:]]
        found = [self.seconds.get(end) for end in ends]
        return {
            "transactions_per_s": tuple(None if one is None else one[0] for one in found),
            "latency_p99_s": tuple(None if one is None else one[1] / 1e3 for one in found),
        }


@cache
def find() -> str:
    """Returns the path of the program. Raises PreflightError that names the package if it is not on the PATH."""
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
    """Returns the text that sysbench prints when the warm-up is over."""
    return _WARM if load.longest_warm_up_s and load.transactions_per_connection is None else _COUNTS


def on_tables(server: Sequence[str], load: Sysbench) -> list[str]:
    """Returns the arguments for sysbench's script and its tables. `server` has the options that name the server."""
    # The user's own script may not have these options.
    sizes = {
        name: getattr(load, name)
        for name in ("tables", "table_size")
        if name in load.model_fields_set or not load.is_own
    }
    own = {name.replace("_", "-"): value for name, value in sizes.items()} | load.options
    given = (f"--{name}={('off', 'on')[value] if isinstance(value, bool) else value}" for name, value in own.items())
    return [f"./{OWN_SCRIPT}" if load.is_own else load.script, *server, *given]


def command(script: Sequence[str], load: GeneratedLoad, *, seed: int) -> list[str]:
    """Returns the command of a run. `script` has the script and its options."""
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
    """Returns the command that makes sysbench's tables."""
    return [find(), *on_tables(server, load), f"--threads={min(load.tables, 4)}", "prepare"]


def beginning_with(statement: str, command: Sequence[str]) -> tuple[list[str], dict[str, bytes]]:
    """Changes a command so that its sessions begin with a statement. Returns the command and the file that it needs. If
    `statement` is empty, the command stays the same."""
    if not statement:
        return list(command), {}
    program, script, *options = command
    escaped = "".join(f"\\{byte:03d}" for byte in statement.encode())  # so, Lua can read any content as one text
    text = _BEGINNING.replace("STATEMENT", escaped).replace("MODULE", Path(script).stem)
    return [program, f"./{BEGINNING}", *options], {BEGINNING: text.encode()}


def failed(output: CompletedProcess[str]) -> bool:
    """Whether sysbench failed. Its exit code is not enough, because it may be 0 although threads ended with an
    error.
    """
    return output.returncode != 0 or FATAL.search(output.stdout + output.stderr) is not None


def read_report(output: str, warm_up_s: float, log: Transactions) -> SysbenchReport:
    """Makes a report from the last part of sysbench's output and from the transactions of its log."""
    last = output[output.rfind("SQL statistics:") :]
    before = output[: output.rfind("SQL statistics:")]
    began = re.findall(r"total time:\s*([\d.]+)s", before)
    number, ignored, reconnects = (_figure(last, name) for name in ("transactions", "ignored errors", "reconnects"))
    least, longest, total = (round(_figure(last, name) * _NS_PER_MS) for name in ("min", "max", "sum"))
    bins = before[before.rfind("Latency histogram") :]
    return SysbenchReport(
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
    """Returns sysbench's message about a failure in one line."""
    found = [one or other for one, other in _WORDS.findall(output)]
    telling = (lambda one: one.startswith("error "), lambda one: "query" not in one.lower() or "failed" in one.lower())
    message = next((one for tells in telling for one in found if tells(one)), found[0] if found else "")
    lines = [line for line in output.splitlines() if line.strip()]
    message = message or (lines[-1] if lines else "it says nothing")
    message = re.sub(r" for query '.*", "", message)  # the query may hold thousands of rows
    return re.sub(r"\S*" + re.escape(OWN_SCRIPT), script, message)


# --- transactions in Lua ---------------------------------------------------------------------------------------------
#
# Converts the user's own transactions to Lua, so that sysbench can run them.
#
# The files are the same as for pgbench. They have statements, and lines that generate a value (`\\set who random(1,
# 100)`). Statements refer to such a value as `:who`. Other commands of pgbench are refused, because sysbench has no
# counterpart.


_SET = re.compile(
    r"\\set\s+(?P<name>\w+)\s+(?:random\(\s*(?P<least>-?\d+)\s*,\s*(?P<most>-?\d+)\s*\)|(?P<value>-?\d+))\s*", re.ASCII
)
_TOKEN = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`|(?P<note>--(?=\s|\Z)[^\n]*|\#[^\n]*|/\*(?![!M]).*?\*/)|"
    r"(?P<end>;)|\s+|[^\s'\"`;#/-]+|.",
    re.DOTALL,
)
_VARIABLE = re.compile(r"(?<![:\w]):(\w+)", re.ASCII)
_FAILED = re.compile(
    re.escape(OWN_SCRIPT) + r":(?P<line>\d+): (?:SQL error, errno = \d+, state = '\w*': )?(?P<message>.*)"
)
_LARGEST = 2**53
"""Lua represents whole numbers exactly up to this number."""

_BEGIN = """function thread_init() drv = sysbench.sql.driver(); con = drv:connect() end
function thread_done() con:disconnect() end
function sysbench.hooks.before_restart_event() con:query("ROLLBACK") end
local function random(least, most)
  return string.format("%d", math.min(most, least + math.floor(sysbench.rand.uniform_double() * (most - least + 1))))
end
local transactions = {}"""
_PICK = """function event()
  local left = sysbench.rand.uniform_double() * total
  for number, one in ipairs(transactions) do
    left = left - one.weight
    if left < 0 or number == #transactions then return one.run() end
  end
end"""


class LuaScript(NamedTuple):
    """A script for sysbench. `origins` has the origin (file and line) of each of its lines in the user's files, or
    None.
    """

    text: str
    origins: tuple[tuple[str, int] | None, ...]

    def words(self, output: str) -> str:
        """Returns sysbench's message about a failure in one line, with the user's file and line."""
        found = _FAILED.search(output)
        origin = self.origins[int(found["line"]) - 1] if found and int(found["line"]) <= len(self.origins) else None
        if found is None or origin is None:
            return words(output, "the transactions")
        return f"{origin[0]}, line {origin[1]}: {found['message'].strip()}"


def written(sources: Sequence[Source]) -> LuaScript:
    """Returns the script that chooses these transactions by their weights and runs them. Raises PreflightError if a
    command can't be converted to Lua.
    """
    lines: list[tuple[str, tuple[str, int] | None]] = [(line, None) for line in _BEGIN.splitlines()]
    for number, source in enumerate(sources, 1):
        lines.append((f"transactions[{number}] = {{weight = {source.script.weight}, run = function()", None))
        in_lines = list(_commands(source, f"workload.transactions[{number}].file"))
        if not any(line.startswith("con:") for line, _ in in_lines):
            raise PreflightError(
                f"{source.script.name} holds no statement", key=f"workload.transactions[{number}].file",
                hint="write the statements of one transaction into it",
            )  # fmt: skip
        lines += [(f"  {line}", (source.script.name, at)) for line, at in in_lines]
        lines.append(("end}", None))
    lines.append((f"local total = {sum(source.script.weight for source in sources)}", None))
    lines += [(line, None) for line in _PICK.splitlines()]
    return LuaScript("\n".join(line for line, _ in lines) + "\n", tuple(origin for _, origin in lines))


def _commands(source: Source, key: str) -> Iterator[tuple[str, int]]:
    """Yields each command as one line of Lua, with the number of the line on which it begins in the file."""
    known = set[str]()
    for number, command in commands(source.text, _TOKEN):
        if command.lstrip().startswith("\\"):
            name, value = _drawn(command, f"{source.script.name}, line {number}", key)
            # All variables are in one table, because Lua allows no more than 200 local variables.
            yield f"{'' if known else 'local v = {}; '}v.{name} = {value}", number
            known.add(name)
        else:
            yield f"con:query({_in_lua(command, known)})", number


def _drawn(line: str, where: str, key: str) -> tuple[str, str]:
    found = _SET.fullmatch(line.strip())
    if found is None:
        raise PreflightError(
            f"{where}: sysbench runs a transaction here, which does not know {line.strip()}", key=key,
            hint=r"write \set NAME random(LEAST, MOST) or \set NAME NUMBER, in whole numbers; let SQL do the rest",
        )  # fmt: skip
    if found["value"] is not None:
        return found["name"], f'"{int(found["value"])}"'
    least, most = int(found["least"]), int(found["most"])
    if not -_LARGEST < least <= most < _LARGEST:
        raise PreflightError(
            f"{where}: no random number is possible from {least} to {most}", key=key,
            hint="write the smaller number first; both below 2^53",
        )  # fmt: skip
    return found["name"], f"random({least}, {most})"


def _in_lua(statement: str, known: set[str]) -> str:
    """Converts a statement to an expression in Lua: texts, with variables between them."""
    parts, end = list[str](), 0
    for found in _VARIABLE.finditer(statement):
        if found[1] in known:
            parts += [_text(statement[end : found.start()]), f"v.{found[1]}"]
            end = found.end()
    return " .. ".join([*parts, _text(statement[end:])])


def _text(text: str) -> str:
    """Converts a text to a text in Lua. Control characters, quotes and backslashes are written as numbers."""
    return '"' + re.sub(r'[\\"\x00-\x1f\x7f]', lambda one: f"\\{ord(one[0]):03d}", text) + '"'


# --- its run ---------------------------------------------------------------------------------------------------------


def by_sysbench(clients: Clients, load: Sysbench, scripts: Sequence[Source], seed: int) -> Program:
    """Makes the Program that runs sysbench's own transactions or the user's script, on sysbench's tables."""
    script = on_tables(clients.options["sysbench"], load)
    return _sysbench(clients, load, script, inputs_of_sysbench(scripts), partial(words, script=load.script), seed)


def ask_by_sysbench(clients: Clients, statement: str) -> str:
    """Returns the server's answer in a session of sysbench, or "" for NULL. Raises RunFailed if sysbench can't
    log in.
    """
    command = [find(), f"./{ASKING}", *clients.options["sysbench"], "ask"]
    output = clients.in_folder(command, {ASKING: _ASKING.replace("STATEMENT", statement).encode()})
    if failed(output):
        raise RunFailed(f"sysbench can't log in: {words(output.stdout + output.stderr, ASKING)}")
    found = output.stdout.rpartition("answer: ")[2].strip()
    return "" if found == "nil" else found


def own_transactions_by_sysbench(clients: Clients, load: Sql, transactions: Sequence[Source], seed: int) -> Program:
    """Makes the Program that runs the user's transactions, converted to Lua, in sysbench."""
    script, command = written(transactions), [f"./{OWN_SCRIPT}", *clients.options["sysbench"]]
    return _sysbench(clients, load, command, {OWN_SCRIPT: script.text.encode()}, script.words, seed)


def _sysbench(
    clients: Clients, load: GeneratedLoad, script: Sequence[str], inputs: Mapping[str, bytes],
    words: Callable[[str], str], seed: int,
) -> Program:  # fmt: skip
    def read(folder: Path) -> SysbenchReport:
        said = read_file(folder / "said").decode(errors="replace")
        return read_report(said, load.longest_warm_up_s, read_log(folder))

    name, *options = script
    beginning, more = beginning_with(clients.first, command([f"./{LOGGED}", *options], load, seed=seed))
    return Program(
        title="sysbench", command=lambda _folder, _longest_s: beginning, read=read, words=words, stop=signal.SIGTERM,
        environment=clients.environment, inputs={**inputs, LOGGED: in_lua(Path(name).stem).encode(), **more},
        says_it_counts=counts(load), owner=clients.owner, in_child=clients.in_child,
    )  # fmt: skip


def inputs_of_sysbench(scripts: Sequence[Source]) -> dict[str, bytes]:
    names = [OWN_SCRIPT, *(source.script.name for source in scripts[1:])]
    return dict(zip(names, (source.content or b"" for source in scripts), strict=False))
