"""PostgreSQL's own client programs: finds them, and runs them so that they reach the server under test and no other."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from psycopg.pq import Conninfo

from storagelab.errors import PreflightError
from storagelab.targets.postgres.binaries import OLDEST_MAJOR, system_folders
from storagelab.targets.postgres.connecting import VARIABLES
from storagelab.targets.programs import environment, version_said

PACKAGES = {"pgbench": "postgresql-contrib", "psql": "postgresql-client", "pg_restore": "postgresql-client"}
"""The package that holds each program where the server's programs don't bring it, by Debian's names."""
USERS_OWN = ("HOME", f"{VARIABLES}*", "KRB5*", "SSL_CERT_*")
"""The user's own variables by which the client library finds and trusts a server that already runs: its own, the home with
`.pgpass` and certificates, Kerberos' tickets, and the authorities that the system trusts."""
GENERATOR_NAME = "storagelab generator"
"""The application name by which the server's sessions of a generator are known."""


def find(name: str, beside: Path | None) -> Path:
    """A client program: that beside the server's own programs, else the system's newest, else that on the PATH.

    Raises PreflightError that names its package if there is none, or it is too old.
    """
    folders = [*([beside] if beside is not None else []), *system_folders()]
    places = [folder / name for folder in folders]
    on_path = shutil.which(name)
    found = next((place for place in [*places, *([Path(on_path)] if on_path else [])] if place.is_file()), None)
    if found is None:
        raise PreflightError(
            f"{name} is not on this machine",
            key="workload.kind",
            hint=f"install the package {PACKAGES[name]} (of Debian; elsewhere PostgreSQL's contrib or client programs)",
        )
    version = version_of(found)
    if int(version.split(".")[0]) < OLDEST_MAJOR:
        raise PreflightError(
            f"{found} is of PostgreSQL {version}, which is too old",
            key="workload.kind",
            hint=f"install {PACKAGES[name]} of PostgreSQL {OLDEST_MAJOR} or later",
        )
    return found


@cache
def version_of(program: Path) -> str:
    """The version that a client program reports: "18.4"."""
    said = version_said(program)
    found = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)?)", said)
    if found is None:
        raise PreflightError(f"{program} is not PostgreSQL's: it says {said.strip()!r}", key="workload.kind")
    return found[1]


def reaching(conninfo: str, options: Mapping[str, str], *, private: bool) -> dict[str, str]:
    """The environment in which a client program reaches the server of a connection string, with these settings in its
    sessions. A password is in the environment alone, which only this user may read. For a server that already runs, the
    user's own variables hold what the string leaves out."""
    known = environment(*(() if private else USERS_OWN))
    for option in Conninfo.parse(conninfo.encode()):
        if option.envvar and option.val is not None:
            known[option.envvar.decode()] = option.val.decode()
    settings = " ".join(f"-c {name}={_escaped(value)}" for name, value in options.items())
    known["PGOPTIONS"] = f"{known.get('PGOPTIONS', '')} {settings}".strip()
    known["PGAPPNAME"] = GENERATOR_NAME
    return known


def _escaped(value: str) -> str:
    """A value among the words of PGOPTIONS, where blanks separate."""
    return re.sub(r"([\\ ])", r"\\\1", value)
