"""MariaDB's own client program: finds it, and runs files of SQL with it on the database under test."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.model.loads.sql import Sql
from storagelab.targets import Site
from storagelab.targets.generators.scripts import check_stays_inside, content_of
from storagelab.targets.mariadb.connecting import Address

_NAMES = ("mariadb", "mysql")
_ELSEWHERE = re.compile(
    rb"^\s*(?:/\*!\d+\s*)?(USE(?=\s+\S+\s*;?\s*$)|(?:CREATE|DROP)\s+(?:DATABASE|SCHEMA)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_OTHERS = {b"PGDMP": "a dump of pg_dump", b"\x1f\x8b": "compressed by gzip", b"\x28\xb5\x2f\xfd": "compressed by zstd"}


def find(beside: Path | None) -> Path:
    """The client program: that beside the server's own programs, else that on the PATH. Raises PreflightError that names
    the package."""
    places = [beside / name for name in _NAMES] if beside is not None else []
    on_path = next(filter(None, map(shutil.which, _NAMES)), None)
    found = next((place for place in [*places, *([Path(on_path)] if on_path else [])] if place.is_file()), None)
    if found is None:
        raise PreflightError(
            "mariadb is not on this machine", key="workload.kind", hint="install the package mariadb-client (of Debian)"
        )
    return found


def command(program: Path, address: Address, database: str) -> list[str]:
    """The command that reads SQL and stops at the first error; it finds a password in the environment."""
    place = (
        [f"--socket={address.unix_socket}"]
        if address.unix_socket
        else [f"--host={address.host}", f"--port={address.port}", "--protocol=tcp"]
    )
    tls = {"": [], "required": ["--ssl"], "verified": ["--ssl", "--ssl-verify-server-cert"]}[address.ssl]
    authority = [f"--ssl-ca={address.ssl_ca}"] if address.ssl_ca else []
    return [
        str(program), "--no-defaults", "--batch", "--default-character-set=utf8mb4", *place, *tls, *authority,
        f"--user={address.user}", f"--database={database}",
    ]  # fmt: skip


def files_of(load: Sql, site: Site) -> list[tuple[str, Path]]:
    """The files that make a database of the user's own, in their order, each with what it is. Raises PreflightError for one
    that can't be used."""
    files = list[tuple[str, Path]]()
    if load.restore is not None:
        path = site.place(load.restore, "workload.restore")
        _check(path, load.restore, "workload.restore")
        files.append((f"restoring {load.restore}", path))
    for number, name in enumerate(load.setup, 1):
        key = f"workload.setup[{number}]"
        content_of(name, key, site)
        path = site.place(name, key)
        _check(path, name, key)
        files.append((f"setup by {name}", path))
    return files


def _check(path: Path, name: str, key: str) -> None:
    """Refuses what the client can't read, and what leads out of the database that storagelab makes."""
    hint = "name a file of SQL, of mariadb-dump"
    if not path.is_file() or not os.access(path, os.R_OK):
        raise PreflightError(f"{path} {_state(path)}", key=key, hint=hint)
    with path.open("rb") as file:
        begin = file.read(max(map(len, _OTHERS)))
    for magic, what in _OTHERS.items():
        if begin.startswith(magic):
            raise PreflightError(f"{name} is {what}, not SQL", key=key, hint=hint)
    check_stays_inside(path, name, key, _ELSEWHERE, "dump one database by mariadb-dump without --databases")


def _state(path: Path) -> str:
    return "is a folder" if path.is_dir() else "can't be read" if path.exists() else "does not exist"
