"""Dumps of pg_dump: what is left out of one that is SQL, what is in an archive, and which version of the server it is
of.
"""

from __future__ import annotations

import re
from pathlib import Path

from storagelab.engines.postgres import reaching as programs
from storagelab.errors import PreflightError
from storagelab.loads.own_files import Change, version_in
from storagelab.machine.unprivileged import as_server
from storagelab.model.objects import Object
from storagelab.servers.programs import environment, installation, run
from storagelab.spec.given_files import begin_of

KEY = "workload.restore"
OTHER_VERSION = (
    "; a newer pg_dump may have made it: dump by the pg_dump of this server's version or as SQL (--format=plain), or "
    "measure a newer server (target.bin_dir)"
)
_LEFT_OUT = re.compile(
    rb"(?:ALTER\s.+\sOWNER TO\s.+|(?:GRANT|REVOKE)\s.+\s(?:TO|FROM)\s.+|ALTER DEFAULT PRIVILEGES\s.+|"
    rb"SET SESSION AUTHORIZATION\s.+|SET default_tablespace\s*=.*);\s*",
    re.DOTALL,
)
"""Statements of owners, rights and tablespaces, each on one line, as pg_dump writes them."""
_ROWS_BEGIN = re.compile(rb"COPY\s.+\sFROM stdin;\s*", re.IGNORECASE | re.DOTALL)
_QUOTE = re.compile(rb"\$[A-Za-z_]*\$")
_ENTRY = re.compile(r"\d+; \d+ \d+ (TABLE|MATERIALIZED VIEW|INDEX|CONSTRAINT) (\S+) (?:\S+ )?(\S+) \S+")
_HEAD_BYTES = 4096


def leaving_out_owners() -> Change:
    """Leaves out of a dump's SQL who owns what and who may do what: those roles need not exist here. Rows and the
    bodies of functions stay as they are.
    """
    in_rows, in_body = False, b""

    def change(line: bytes) -> bytes:
        nonlocal in_rows, in_body
        if in_rows:
            in_rows = line.rstrip() != b"\\."
            return line
        for quote in _QUOTE.findall(line):
            if in_body in (b"", quote):
                in_body = b"" if in_body else quote
        if not in_body and _LEFT_OUT.fullmatch(line):
            return b"\n"
        in_rows = not in_body and _ROWS_BEGIN.fullmatch(line) is not None
        return line

    return change


def content_of(path: Path, beside: Path | None) -> str:
    """What pg_restore lists of an archive. Raises PreflightError with its words for one that it can't read."""
    program = programs.find("pg_restore", beside)
    command = [str(program), "--list", str(path)]
    output = run(command, as_server(path.parent, *installation(program)), environment=environment())
    if output.returncode != 0:
        words = output.stderr.strip()
        other = OTHER_VERSION if "unsupported version" in words else ""
        raise PreflightError(f"{words}{other}", key=KEY, hint="name a dump of pg_dump that others may read (chmod +r)")
    return output.stdout


def version_of(path: Path, is_archive: bool, beside: Path | None) -> tuple[int, ...] | None:
    """The version of the server that a dump is of, if it says so."""
    if is_archive:
        return version_in(content_of(path, beside).encode())
    return version_in(begin_of(path, _HEAD_BYTES, KEY))


def objects_in(listed: str) -> list[Object]:
    """The tables and indexes that an archive holds."""
    found = (_ENTRY.fullmatch(line) for line in listed.splitlines())
    return [
        Object((entry[3],), "index" if entry[1] in ("INDEX", "CONSTRAINT") else "table", entry[2])
        for entry in found
        if entry
    ]
