"""The user's own transactions, written in Lua so that sysbench runs them.

The files are those that pgbench runs: statements, and lines that draw a value (`\\set who random(1, 100)`), which
statements name as `:who`. Other commands of pgbench are refused, since sysbench has no counterpart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from storagelab.errors import PreflightError
from storagelab.loads.pgbench import Source
from storagelab.loads.sysbench import OWN_SCRIPT
from storagelab.loads.sysbench import words as words_of_sysbench

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
"""Lua represents whole numbers exactly up to this one."""

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


class Written(NamedTuple):
    """A sysbench script. `origins` has the file and the line that each of its lines comes from, None for its own."""

    text: str
    origins: tuple[tuple[str, int] | None, ...]

    def words(self, output: str) -> str:
        """sysbench's message about a failure in one line, with the user's file and line."""
        found = _FAILED.search(output)
        origin = self.origins[int(found["line"]) - 1] if found and int(found["line"]) <= len(self.origins) else None
        if found is None or origin is None:
            return words_of_sysbench(output, "the transactions")
        return f"{origin[0]}, line {origin[1]}: {found['message'].strip()}"


def written(sources: Sequence[Source]) -> Written:
    """The script that runs these transactions by their weights. Raises PreflightError for what can't be written in
    Lua.
    """
    lines: list[tuple[str, tuple[str, int] | None]] = [(line, None) for line in _BEGIN.splitlines()]
    for number, source in enumerate(sources, 1):
        lines.append((f"transactions[{number}] = {{weight = {source.script.weight}, run = function()", None))
        commands = list(_commands(source, f"workload.transactions[{number}].file"))
        if not any(line.startswith("con:") for line, _ in commands):
            raise PreflightError(
                f"{source.script.name} holds no statement", key=f"workload.transactions[{number}].file",
                hint="write the statements of one transaction into it",
            )  # fmt: skip
        lines += [(f"  {line}", (source.script.name, at)) for line, at in commands]
        lines.append(("end}", None))
    lines.append((f"local total = {sum(source.script.weight for source in sources)}", None))
    lines += [(line, None) for line in _PICK.splitlines()]
    return Written("\n".join(line for line, _ in lines) + "\n", tuple(origin for _, origin in lines))


def _commands(source: Source, key: str) -> Iterator[tuple[str, int]]:
    """Each command in one line of Lua, with the number of the line on which it begins in the file."""
    known, statements, first = set[str](), "", 1
    for number, line in enumerate([*source.text.splitlines(keepends=True), "\\"], 1):
        if not line.lstrip().startswith("\\"):
            statements += line
            continue
        for statement, offset in _statements(statements):
            yield f"con:query({_in_lua(statement, known)})", first + offset
        if line != "\\":
            name, value = _drawn(line, f"{source.script.name}, line {number}", key)
            # Variables are in one table: Lua allows no more than 200 local ones.
            yield f"{'' if known else 'local v = {}; '}v.{name} = {value}", number
            known.add(name)
        statements, first = "", number + 1


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
            f"{where}: nothing can be drawn from {least} to {most}", key=key,
            hint="write the smaller number first; both below 2^53",
        )  # fmt: skip
    return found["name"], f"random({least}, {most})"


def _statements(text: str) -> Iterator[tuple[str, int]]:
    """Each statement without its comments, and the number of lines before it."""
    statement, offset = "", 0
    for token in _TOKEN.finditer(text):
        if token["note"] is not None:
            statement += " "
        elif token["end"] is not None:
            if statement.strip():
                yield statement.strip(), offset
            statement = ""
        else:
            if not statement.strip():
                offset = text.count("\n", 0, token.start())
            statement += token[0]
    if statement.strip():
        yield statement.strip(), offset


def _in_lua(statement: str, known: set[str]) -> str:
    """A statement as an expression of Lua: texts, and variables between them."""
    parts, end = list[str](), 0
    for found in _VARIABLE.finditer(statement):
        if found[1] in known:
            parts += [_text(statement[end : found.start()]), f"v.{found[1]}"]
            end = found.end()
    return " .. ".join([*parts, _text(statement[end:])])


def _text(text: str) -> str:
    """Bytes other than plain text are written as numbers."""
    return '"' + re.sub(r'[\\"\x00-\x1f\x7f]', lambda one: f"\\{ord(one[0]):03d}", text) + '"'
