"""The user's own files: scripts, transactions, and the dump from which a database is restored."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Literal, NamedTuple

from storagelab.errors import DataRefused, PreflightError, RunFailed
from storagelab.model.loads.pgbench import Pgbench, Script, script_of
from storagelab.model.loads.sql import Sql
from storagelab.model.loads.sysbench import Sysbench
from storagelab.spec.given_files import begin_of, opened
from storagelab.volumes.folders import Site


class Source(NamedTuple):
    """A script that a run uses: its entry in the spec, and the content of its file. The content is None for pgbench's
    own scripts.
    """

    script: Script
    content: bytes | None

    @property
    def text(self) -> str:
        return (self.content or b"").decode(errors="replace")


# --- scripts ---------------------------------------------------------------------------------------------------------
#
# Reads the user's own scripts, and refuses those that contain a password.


def commands(script: str, token: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yields each command of a script for pgbench, with the line on which the command begins (from 1). A command is a
    line that begins with a backslash, or a statement without its comments. `token` matches the parts of a statement.
    Its group `note` matches a comment, and its group `end` a semicolon.
    """
    statements, first = "", 1
    for number, line in enumerate([*script.splitlines(keepends=True), "\\"], 1):
        if not line.lstrip().startswith("\\"):
            statements += line
            continue
        for offset, statement in _statements(statements, token):
            yield first + offset, statement
        if line != "\\":
            yield number, line
        statements, first = "", number + 1


def _statements(text: str, token: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yields each statement, with the number of lines before it."""
    statement, offset = "", 0
    for found in token.finditer(text):
        if found["end"] is not None:
            if statement.strip():
                yield offset, statement.strip()
            statement = ""
        elif found["note"] is not None:
            statement += " "
        else:
            offset = offset if statement.strip() else text.count("\n", 0, found.start())
            statement += found[0]
    if statement.strip():
        yield offset, statement.strip()


_LONGEST_SCRIPT_BYTES = 2**20
_MOST_BESIDE = 50
_HEAD_BYTES = 2**20
"""The number of bytes of a dump that are checked. A dump of several databases names the first database near its
beginning."""
_PASSWORD = re.compile(r"\bpassword\b\s*(?:=\s*)?'|\bpassword=\S|\w+://[^\s/@:]*:[^\s/@]+@", re.IGNORECASE)
"""Matches a password in SQL (`PASSWORD 'x'`) or in a connection string."""


def content_of(name: str, key: str, site: Site) -> bytes:
    """Returns the content of a script's file. Raises PreflightError if the file can't be used."""
    path = site.place(name, key)
    content = begin_of(path, _LONGEST_SCRIPT_BYTES + 1, key)
    if len(content) > _LONGEST_SCRIPT_BYTES:
        raise PreflightError(f"{path} is too long for a script", key=key, hint="a script holds one transaction")
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        if _PASSWORD.search(line):
            raise PreflightError(
                f"{name} holds a password in line {number}",
                key=key,
                hint="keep the password out of scripts: use ~/.pgpass, PGPASSWORD or MYSQL_PWD",
            )
    return content


def check_stays_inside(path: Path, name: str, key: str, elsewhere: re.Pattern[bytes], hint: str) -> None:
    """Refuses an SQL file that has a statement of the pattern `elsewhere`. Such a statement would change objects
    outside the database that storagelab makes. Raises PreflightError.
    """
    head = begin_of(path, _HEAD_BYTES, key)
    found = elsewhere.search(head)
    if found is not None:
        line, output = head.count(b"\n", 0, found.start(1)) + 1, b" ".join(found[1].split()).decode()
        raise PreflightError(
            f"{name}, line {line}, says {output}, which leads out of the database that storagelab makes", key=key,
            hint=f"leave the line out; {hint}",
        )  # fmt: skip


def own_script(load: Sysbench, site: Site) -> tuple[Source, ...]:
    """Returns the user's Lua file, and the other Lua files of its folder, which it may require. Returns nothing for
    sysbench's own scripts.
    """
    if not load.is_own:
        return ()
    key = "workload.script"
    path = site.place(load.script, key)
    beside = [one for one in sorted(path.parent.glob("*.lua")) if one.name != path.name]
    if len(beside) > _MOST_BESIDE:
        raise PreflightError(
            f"{len(beside)} Lua files are in the folder of {load.script}, and all of them would be copied", key=key,
            hint="put the script and those that it needs into a folder of their own",
        )  # fmt: skip
    sources = [(load.script, load.script), *((one.name, str(one)) for one in beside)]
    return tuple(Source(Script(name, 1), content_of(place, key, site)) for name, place in sources)


def pgbench_scripts(load: Pgbench, site: Site) -> tuple[Source, ...]:
    """Returns the scripts that pgbench runs: its own scripts, and the user's files."""
    return tuple(
        Source(script, None if script.built_in else content_of(script.name, f"workload.scripts[{number}]", site))
        for number, script in enumerate(map(script_of, load.scripts), 1)
    )


def own_files(load: Sql, site: Site) -> Iterator[tuple[str, str, str, Path]]:
    """Yields the files that make the user's own database, in order. Each has its kind, name, key and path. Raises
    PreflightError if a file can't be used.
    """
    if load.restore is not None:
        key = "workload.restore"
        yield f"restoring {load.restore}", load.restore, key, site.place(load.restore, key)
    for number, name in enumerate(load.setup, 1):
        key = f"workload.setup[{number}]"
        content_of(name, key, site)
        yield f"setup by {name}", name, key, site.place(name, key)


def own_transactions(load: Sql, site: Site) -> tuple[Source, ...]:
    """Returns the files of the user's own transactions."""
    return tuple(
        Source(Script(one.file, one.weight), content_of(one.file, f"workload.transactions[{number}].file", site))
        for number, one in enumerate(load.transactions, 1)
    )


# --- dumps -----------------------------------------------------------------------------------------------------------
#
# Dumps of the user's own data: their form, changes of their statements for a client program, and messages about
# failures.
#
# Messages must not contain data, so values are removed from the messages of servers and programs.


Form = Literal["archive", "sql"]
Change = Callable[[bytes], bytes]
"""A function that changes one line of a dump. The numbers of the lines stay the same."""

_ARCHIVES = (b"PGDMP",)
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2"}
_TAR_MAGIC = slice(257, 262)
_HEAD_BYTES = 512
_VERSION = re.compile(rb"(?:Dumped from database version:?|Server version)\s+(\d+)(?:\.(\d+))?")
_VALUES = (
    (re.compile(r"""((?::|near|value) )"(?:[^"]|"")*\""""), r'\1"..."'),
    (re.compile(r"((?:near|entry|value:) )(?:'.*'(?= at line| for (?:key|column))|'.*'$)"), r"\1'...'"),
)
"""Patterns of values of the user's data in the messages of PostgreSQL and of MariaDB."""
_PASSING = re.compile(
    r"closed the connection|connection to server|could not connect|terminating connection|Lost connection|gone away|"
    r"out of memory|No space left|could not extend|deadlock|shutting down|recovery mode|is full",
    re.IGNORECASE,
)
"""Matches messages about failures that the user's file does not cause."""
_ENTRY = re.compile(r"from TOC entry \d+; \d+ \d+ (.+) \S+$", re.MULTILINE)
_ROW = re.compile(r"CONTEXT:\s+COPY [^,]+, line (\d+)")


def form_of(path: Path, key: str) -> Form:
    """Returns whether a dump is an archive of pg_dump (custom, directory or tar format) or SQL. Raises PreflightError
    if the file can't be read, or if it is compressed SQL.
    """
    hint = "name a dump of pg_dump"
    if path.is_dir():
        if not (path / "toc.dat").exists():
            raise PreflightError(f"{path} is a folder, and no dump", key=key, hint=hint)
        return "archive"
    if not path.exists():
        raise PreflightError(f"{path} does not exist", key=key, hint=hint)
    head = begin_of(path, _HEAD_BYTES, key)
    for magic, program in _COMPRESSED.items():
        if head.startswith(magic):
            raise PreflightError(f"{path} is compressed by {program}", key=key, hint="unpack it first")
    return "archive" if head.startswith(_ARCHIVES) or head[_TAR_MAGIC] == b"ustar" else "sql"


def version_in(text: bytes) -> tuple[int, ...] | None:
    """Returns the version of the server that made a dump. The version is read from the beginning of the dump."""
    found = _VERSION.search(text)
    return None if found is None else tuple(int(part) for part in found.groups() if part is not None)


def newer_words(dump: tuple[int, ...] | None, server: tuple[int, ...], title: str) -> str:
    """Returns a note for a message about a failure, if a newer server made the dump. Otherwise returns ""."""
    if dump is None or dump[: len(server)] <= server[: len(dump)]:
        return ""
    of, on = (".".join(map(str, one)) for one in (dump, server))
    return (
        f"; the dump is of {title} {of}, and this server is {on}, which is older: measure a "
        "newer server (target.bin_dir)"
    )


@contextlib.contextmanager
def changed(path: Path, change: Change) -> Iterator[Path]:
    """Yields a path from which a program can read the file once. The program reads each line as `change` changed it. No
    data is written to a drive."""
    read, write = os.pipe()

    def feed() -> None:
        with contextlib.suppress(OSError), open(write, "wb") as given, opened(path) as file:
            given.writelines(map(change, file))

    feeder = threading.Thread(target=feed, daemon=True)
    try:
        feeder.start()
        yield Path(f"/dev/fd/{read}")
    finally:
        os.close(read)  # if the thread still writes, this ends it
        feeder.join()


def without_data(words: str) -> str:
    """Returns a message of a server or a program without values of the user's data."""
    for pattern, shown in _VALUES:
        words = pattern.sub(shown, words)
    return words


def failure(
    what: str, output: CompletedProcess[str], read_as: str = "", more: Callable[[str], str] = lambda _: ""
) -> RunFailed:
    """Makes the error for a client program that failed on a file of the user. If the program read the file from stdin,
    `read_as` is the name to show. `more` returns text that follows the program's message.
    """
    said = output.stderr.strip()
    line = next((line for line in said.splitlines() if "error" in line.lower()), said)
    words = without_data(line.replace("<stdin>", read_as) if read_as else line)
    places = [f"entry {entry[1]}" for entry in [_ENTRY.search(said)] if entry]
    places += [f"line {row[1]} of its rows" for row in [_ROW.search(said)] if row]
    where = f" ({', '.join(places)})" if places else ""
    kind = RunFailed if output.returncode < 0 or not said or _PASSING.search(said) else DataRefused
    return kind(f"{what} failed: {words}{where}{more(words)}")
