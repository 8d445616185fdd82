"""The user's own data: what a dump is, how its statements change on their way to a client program, and how a failure
reads.

Nothing of the data may get into a message: values are left out of the words of servers and programs.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Literal

from storagelab.errors import DataRefused, PreflightError, RunFailed
from storagelab.spec.given_files import begin_of, opened

Form = Literal["archive", "sql"]
Change = Callable[[bytes], bytes]
"""Changes one line of a dump; lines keep their number."""

_ARCHIVES = (b"PGDMP",)
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2"}
_TAR_MAGIC = slice(257, 262)
_HEAD_BYTES = 512
_VERSION = re.compile(rb"(?:Dumped from database version:?|Server version)\s+(\d+)(?:\.(\d+))?")
_VALUES = (
    (re.compile(r"""((?::|near|value) )"(?:[^"]|"")*\""""), r'\1"..."'),
    (re.compile(r"((?:near|entry|value:) )(?:'.*'(?= at line| for (?:key|column))|'.*'$)"), r"\1'...'"),
)
"""Values of the data in the messages of PostgreSQL and of MariaDB."""
_PASSING = re.compile(
    r"closed the connection|connection to server|could not connect|terminating connection|Lost connection|gone away|"
    r"out of memory|No space left|could not extend|deadlock|shutting down|recovery mode|is full",
    re.IGNORECASE,
)
"""Failures that are no fault of the file."""
_ENTRY = re.compile(r"from TOC entry \d+; \d+ \d+ (.+) \S+$", re.MULTILINE)
_ROW = re.compile(r"CONTEXT:\s+COPY [^,]+, line (\d+)")


def form_of(path: Path, key: str, dumped_by: str) -> Form:
    """Whether a dump is an archive of pg_dump (custom, directory or tar format) or SQL. Raises PreflightError for what
    can't be read, and for compressed SQL.
    """
    hint = f"name a dump of {dumped_by}"
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
    is_archive = head.startswith(_ARCHIVES) or head[_TAR_MAGIC] == b"ustar"
    return "archive" if is_archive else "sql"


def version_in(text: bytes) -> tuple[int, ...] | None:
    """The version of the server that a dump is of, as it says itself at its beginning."""
    found = _VERSION.search(text)
    return None if found is None else tuple(int(part) for part in found.groups() if part is not None)


def newer_words(dump: tuple[int, ...] | None, server: tuple[int, ...], title: str) -> str:
    """That the dump is of a newer server, if it is; it follows the words of a failure."""
    if dump is None or dump[: len(server)] <= server[: len(dump)]:
        return ""
    of, on = (".".join(map(str, one)) for one in (dump, server))
    return (
        f"; the dump is of {title} {of}, and this server is {on}, which is older: measure a "
        "newer server (target.bin_dir)"
    )


@contextlib.contextmanager
def changed(path: Path, change: Change) -> Iterator[Path]:
    """A path from which a program can read a file once, line by line as `change` makes it. Nothing is written to a
    drive."""
    read, write = os.pipe()

    def feed() -> None:
        with contextlib.suppress(OSError), open(write, "wb") as given, opened(path) as file:
            given.writelines(map(change, file))

    feeder = threading.Thread(target=feed, daemon=True)
    try:
        feeder.start()
        yield Path(f"/dev/fd/{read}")
    finally:
        os.close(read)  # a feeder that still writes ends by this
        feeder.join()


def without_data(words: str) -> str:
    """A message of a server or a program, without values of the data."""
    for pattern, shown in _VALUES:
        words = pattern.sub(shown, words)
    return words


def failure(
    what: str, output: CompletedProcess[str], read_as: str = "", more: Callable[[str], str] = lambda _: ""
) -> RunFailed:
    """The error for a client program that failed on a file of the user. `read_as` is the name of a file that the
    program read from its input. `more` follows the program's words.
    """
    said = output.stderr.strip()
    line = next((line for line in said.splitlines() if "error" in line.lower()), said)
    words = without_data(line.replace("<stdin>", read_as) if read_as else line)
    places = [f"entry {entry[1]}" for entry in [_ENTRY.search(said)] if entry]
    places += [f"line {row[1]} of its rows" for row in [_ROW.search(said)] if row]
    where = f" ({', '.join(places)})" if places else ""
    kind = RunFailed if output.returncode < 0 or not said or _PASSING.search(said) else DataRefused
    return kind(f"{what} failed: {words}{where}{more(words)}")
