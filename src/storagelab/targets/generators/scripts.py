"""Scripts of the user's own: read, and refused where they hold a password."""

from __future__ import annotations

import re

from storagelab.errors import PreflightError
from storagelab.model.workload import Sysbench
from storagelab.spec.loads import Script
from storagelab.targets import Site
from storagelab.targets.generators.pgbench import Source

_LONGEST_SCRIPT_BYTES = 2**20
_PASSWORD = re.compile(r"\bpassword\b\s*(?:=\s*)?'|\bpassword=\S|\w+://[^\s/@:]*:[^\s/@]+@", re.IGNORECASE)
"""A password in SQL (`PASSWORD 'x'`) or in a connection string."""


def content_of(name: str, key: str, site: Site) -> bytes:
    """The content of a script's file. Raises PreflightError for one that can't be used."""
    path = site.place(name, key)
    try:
        if path.stat().st_size > _LONGEST_SCRIPT_BYTES:
            raise PreflightError(f"{path} is too long for a script", key=key, hint="a script holds one transaction")
        content = path.read_bytes()
    except OSError as error:
        raise PreflightError(f"{path} can't be read: {error.strerror}", key=key, hint="check its name") from error
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        if _PASSWORD.search(line):
            raise PreflightError(
                f"{name} holds a password in line {number}",
                key=key,
                hint="let the server know the login without one in a script: ~/.pgpass, PGPASSWORD, MYSQL_PWD",
            )
    return content


def own_script(load: Sysbench, site: Site) -> tuple[Source, ...]:
    """The user's Lua file; none for one of sysbench's own scripts."""
    if "." not in load.script and "/" not in load.script:
        return ()
    return (Source(Script(load.script, 1), content_of(load.script, "workload.script", site)),)
