"""Scripts of the user's own: read, and refused where they hold a password."""

from __future__ import annotations

import re
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.model.loads.pgbench import Pgbench, Script, script_of
from storagelab.model.loads.sql import Sql
from storagelab.model.loads.sysbench import Sysbench
from storagelab.targets import Site
from storagelab.targets.generators.pgbench import Source

_LONGEST_SCRIPT_BYTES = 2**20
_HEAD_BYTES = 2**20
"""How much of a dump is looked at: one of several databases names the first of them at its head."""
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


def check_stays_inside(path: Path, name: str, key: str, elsewhere: re.Pattern[bytes], hint: str) -> None:
    """Refuses a file of SQL that leads out of the database that storagelab makes, by the statements `elsewhere`. Raises
    PreflightError."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise PreflightError(f"{path} can't be read: {error.strerror}", key=key, hint="check its rights") from error
    found = elsewhere.search(head)
    if found is not None:
        line, said = head.count(b"\n", 0, found.start(1)) + 1, b" ".join(found[1].split()).decode()
        raise PreflightError(
            f"{name}, line {line}, says {said}, which leads out of the database that storagelab makes", key=key,
            hint=f"leave the line out; {hint}",
        )  # fmt: skip


def own_script(load: Sysbench, site: Site) -> tuple[Source, ...]:
    """The user's Lua file; none for one of sysbench's own scripts."""
    if not load.is_own:
        return ()
    return (Source(Script(load.script, 1), content_of(load.script, "workload.script", site)),)


def pgbench_scripts(load: Pgbench, site: Site) -> tuple[Source, ...]:
    """What pgbench runs: scripts of its own, and files of the user's."""
    return tuple(
        _pgbench_script(text, f"workload.scripts[{number}]", site) for number, text in enumerate(load.scripts, 1)
    )


def _pgbench_script(text: str, key: str, site: Site) -> Source:
    script = script_of(text)
    return Source(script, None if script.built_in else content_of(script.name, key, site))


def own_transactions(load: Sql, site: Site) -> tuple[Source, ...]:
    """The files of the user's own transactions."""
    return tuple(
        Source(Script(one.file, one.weight), content_of(one.file, f"workload.transactions[{number}].file", site))
        for number, one in enumerate(load.transactions, 1)
    )
