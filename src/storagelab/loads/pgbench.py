"""pgbench: its command, its messages, and its run."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from storagelab.errors import RunFailed
from storagelab.loads.generator import Clients, Program
from storagelab.loads.own_files import Source, commands
from storagelab.loads.transactions import LOG_PREFIX, read_log
from storagelab.model.loads.pgbench import Pgbench
from storagelab.model.loads.sql import Sql

COUNTED = "pgbench_branches"
"""The table from which pgbench reads the scale before it connects its sessions."""
_ABORTED = re.compile(
    r"client \d+ (?:script (?P<script>\d+) )?aborted in command (?P<command>\d+) (?:query \d+|\([^)]*\))?"
)
_NOISE = (
    "pgbench: error: Run was aborted", "pgbench: hint:", "pgbench (", "starting vacuum", "pgbench: detail:",
    "progress: ",
)  # fmt: skip
_PROGRESS = re.compile(r"^progress: ([\d.]+) s, ([\d.]+) tps", re.MULTILINE)


def inputs(sources: Sequence[Source]) -> dict[str, bytes]:
    """Returns the files that pgbench needs in its folder."""
    return {_name(number): source.content for number, source in enumerate(sources) if source.content is not None}


def _name(number: int) -> str:
    return f"script-{number}.sql"


def command(
    program: str, load: Pgbench | Sql, sources: Sequence[Source], folder: Path, longest_s: float, *, seed: int,
    scale: int | None = None,
) -> list[str]:  # fmt: skip
    """Returns the command of a run. If the run has a set time, storagelab stops pgbench, and pgbench ends by itself
    after `longest_s` at the latest. `scale` is the scale of pgbench's own tables. If pgbench runs the user's scripts,
    it can't find the scale itself.
    """
    length = (
        ["--time", str(math.ceil(longest_s))]
        if load.transactions_per_connection is None
        else ["--transactions", str(load.transactions_per_connection)]
    )
    scripts = [
        word
        for number, source in enumerate(sources)
        for word in (
            ("--builtin", f"{source.script.name}@{source.script.weight}")
            if source.content is None
            else ("--file", f"{_name(number)}@{source.script.weight}")
        )
    ]
    limits = {
        "--rate": load.rate,
        "--latency-limit": None if load.latency_limit_s is None else load.latency_limit_s * 1000,
    }
    return [
        program, "--no-vacuum", "--log", "--log-prefix", str(folder / LOG_PREFIX), "--client", str(load.connections),
        "--jobs", str(min(load.threads, load.connections)), "--protocol", load.protocol, "--random-seed", str(seed),
        *length, *scripts,
        *(word for name, value in limits.items() if value is not None for word in (name, f"{value:.10g}")),
        *(["--scale", str(scale)] if scale is not None and all(one.content for one in sources) else []),
        *(["--progress", "1"] if load.warm_up_s == "auto" else []),
    ]  # fmt: skip


def per_second(output: str) -> list[float]:
    """Returns the transactions per second in each second since pgbench began. They come from its progress reports. A
    late report counts for all of its seconds.
    """
    rates, before_s = list[float](), 0.0
    for at, rate in _PROGRESS.findall(output):
        rates += [float(rate)] * max(1, round(float(at) - before_s))
        before_s = float(at)
    return rates


def initialise(program: str, load: Pgbench, steps: str, partitions: int) -> list[str]:
    """Returns the command that makes pgbench's tables with some of pgbench's own steps."""
    return [
        program, "--initialize", "--quiet", "--init-steps", steps, "--scale", str(load.scale), "--fillfactor",
        str(load.fillfactor), *(["--partitions", str(partitions), "--partition-method", "hash"] if partitions else []),
    ]  # fmt: skip


def words(output: str, sources: Sequence[Source]) -> str:
    """Returns pgbench's message about a failure in one line. It names the line of the script."""
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith(_NOISE)]
    message = next(
        (line for line in lines if "error" in line.lower() or "fatal" in line.lower()), lines[-1] if lines else ""
    )
    message = message.removeprefix("pgbench: ").removeprefix("error: ").removeprefix("fatal: ")
    for number, source in enumerate(sources):
        message = message.replace(_name(number), source.script.name)
    found = _ABORTED.search(message)
    if found is None:
        return message or "it says nothing"
    source = sources[int(found["script"] or 0)]
    rest = message[found.end() :].lstrip("of ;:").removeprefix("ERROR:").strip()
    if source.content is None:
        return f"{source.script.name}, command {found['command']}: {rest}"
    line = line_of(source.text, int(found["command"]))
    return f"{source.script.name}, line {line}: {rest}"


_TOKEN = re.compile(
    r"'(?:[^']|'')*'|\"[^\"]*\"|(?P<note>--[^\n]*|/\*.*?\*/)|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|(?P<end>;)|"
    r"[^\s'\";$/-]+|\S",
    re.DOTALL,
)


def line_of(script: str, command: int) -> int:
    """Returns the line on which a command begins. Like pgbench, this function counts commands from 0 and lines
    from 1.
    """
    begins = [line for line, _ in commands(script, _TOKEN)]
    return begins[min(command, len(begins) - 1)] if begins else 1


# --- its run ---------------------------------------------------------------------------------------------------------


def log_in_by_pgbench(clients: Clients, program: Path) -> None:
    """Raises RunFailed with pgbench's message if pgbench can't log in."""
    command = [str(program), "--no-vacuum", "--transactions=1", "--file=asking.sql"]
    output = clients.in_folder(command, {"asking.sql": b"SELECT 1;\n"})
    if output.returncode != 0:
        raise RunFailed(f"pgbench can't log in: {words(output.stderr, ())}")


def by_pgbench(
    clients: Clients, program: Path, load: Pgbench | Sql, scripts: Sequence[Source], seed: int, scale: int | None = None
) -> Program:
    """Makes the Program that runs pgbench with these scripts, on its own tables at this scale."""
    return Program(
        title="pgbench", read=read_log,
        command=partial(command, str(program), load, scripts, seed=seed, scale=scale),
        words=partial(words, sources=scripts), stop=signal.SIGALRM, environment=clients.environment,
        inputs=inputs(scripts), owner=clients.owner, in_child=clients.in_child, per_second=per_second,
        asks_first=f"{LOG_PREFIX}.*",
    )  # fmt: skip
