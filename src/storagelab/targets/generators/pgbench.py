"""pgbench: its command, its log, and its messages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from storagelab.model.loads.pgbench import Pgbench, Script
from storagelab.model.loads.sql import Sql
from storagelab.targets.descriptors import read_file
from storagelab.targets.generators.transactions import Transactions, joined

LOG_PREFIX = "transactions"
"""What the names of its logs begin with. It opens them when its first session, which asks for the scale, is closed, and
before those of the load connect."""
COUNTED = "pgbench_branches"
"""From this table pgbench reads the scale, before it connects its sessions."""
_EPOCH, _EPOCH_US, _LATENCY, _LAG = 4, 5, 2, 6
_SKIPPED, _FAILED = -1.0, -2.0
_ABORTED = re.compile(
    r"client \d+ (?:script (?P<script>\d+) )?aborted in command (?P<command>\d+) (?:query \d+|\([^)]*\))?"
)
_NOISE = (
    "pgbench: error: Run was aborted",
    "pgbench: hint:",
    "pgbench (",
    "starting vacuum",
    "pgbench: detail:",
    "progress: ",
)
_PROGRESS = re.compile(r"^progress: ([\d.]+) s, ([\d.]+) tps", re.MULTILINE)


class Source(NamedTuple):
    """A script that a run uses: its entry in the spec, and the content of its file (None for one of pgbench's own)."""

    script: Script
    content: bytes | None

    @property
    def text(self) -> str:
        return (self.content or b"").decode(errors="replace")


def inputs(sources: Sequence[Source]) -> dict[str, bytes]:
    """The files that pgbench finds in its folder."""
    return {_name(number): source.content for number, source in enumerate(sources) if source.content is not None}


def _name(number: int) -> str:
    return f"script-{number}.sql"


def command(
    program: str,
    load: Pgbench | Sql,
    sources: Sequence[Source],
    folder: Path,
    longest_s: float,
    *,
    seed: int,
    scale: int | None = None,
) -> list[str]:
    """The command of a run. A run of set time is stopped from outside, after `longest_s` at the latest. `scale` is
    that of pgbench's own tables; with the user's scripts, pgbench does not know it.
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
        *length, *scripts, *(word for name, value in limits.items() if value is not None for word in (name, f"{value:.10g}")),
        *(["--scale", str(scale)] if scale is not None and all(one.content for one in sources) else []),
        *(["--progress", "1"] if load.warm_up_s == "auto" else []),
    ]  # fmt: skip


def per_second(output: str) -> list[float]:
    """Transactions a second since pgbench began, from its progress reports. A late report counts for all of its
    seconds.
    """
    rates, before_s = list[float](), 0.0
    for at, rate in _PROGRESS.findall(output):
        rates += [float(rate)] * max(1, round(float(at) - before_s))
        before_s = float(at)
    return rates


def initialise(program: str, load: Pgbench, steps: str, partitions: int) -> list[str]:
    """The command that makes pgbench's tables, by some of its own steps."""
    return [
        program, "--initialize", "--quiet", "--init-steps", steps, "--scale", str(load.scale), "--fillfactor",
        str(load.fillfactor), *(["--partitions", str(partitions), "--partition-method", "hash"] if partitions else []),
    ]  # fmt: skip


def read_log(folder: Path) -> Transactions:
    """The transactions of all threads; each thread writes its own file."""
    return joined([_read(read_file(file)) for file in sorted(folder.glob(f"{LOG_PREFIX}.*"))])


def _read(text: bytes) -> Transactions:
    """One file: client, number, latency in us or a word, script, seconds and microseconds of its end, and the lag in us if
    there is a rate (pgbench's manual, "Per-Transaction Logging")."""
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


def words(output: str, sources: Sequence[Source]) -> str:
    """pgbench's message about a failure in one line, with the line of the script that it concerns."""
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


_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|\$(\w*)\$.*?\$\1\$|/\*.*?\*/|;|[^\s'\";$/-]+|\S", re.DOTALL)


def line_of(script: str, command: int) -> int:
    """The line on which a command begins. Commands are counted from 0 as pgbench does, lines from 1."""
    begins = list(_beginnings(script))
    return begins[min(command, len(begins) - 1)] if begins else 1


def _beginnings(script: str) -> Iterator[int]:
    """The line of each command. A command with a backslash takes one line; a semicolon ends any other."""
    first, statements = 1, ""
    for number, line in enumerate([*script.splitlines(keepends=True), "\\"], 1):
        if not line.lstrip().startswith("\\"):
            statements += line
            continue
        yield from (first + offset for offset in _statements(statements))
        if line != "\\":
            yield number
        first, statements = number + 1, ""


def _statements(text: str) -> Iterator[int]:
    """The number of lines before each statement."""
    within = False
    for token in _TOKEN.finditer(text):
        if token[0].startswith(("--", "/*")):
            continue
        if token[0] != ";" and not within:
            yield text.count("\n", 0, token.start())
        within = token[0] != ";"
