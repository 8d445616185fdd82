"""Finds the MariaDB server on this machine."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.targets.programs import BIN_DIR, Programs, version_said

OLDEST = (10, 11)
"""Older releases lack RANDOM_BYTES and the path of each data file in the catalogue, and are out of support."""

_SERVERS = ("mariadbd", "mysqld")
_INSTALLERS = ("mariadb-install-db", "mysql_install_db")
_SAID = re.compile(r"Ver (\d+\.\d+\.\d+)(-MariaDB)?")


class Binaries(Programs):
    """The programs of one installation: `server` is mariadbd, `installer` the script that makes a database."""

    server: Path
    installer: Path

    @property
    def release(self) -> tuple[int, int]:
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)


def find_binaries(bin_dir: str | None) -> Binaries:
    """The server to start: in `bin_dir` if given, else on the PATH.

    Raises PreflightError when there is none, it is too old, or it is MySQL.
    """
    if bin_dir is not None:
        folder = Path(bin_dir).expanduser()
        server = next((folder / name for name in _SERVERS if (folder / name).is_file()), None)
        if server is None:
            raise PreflightError(
                f"{folder} holds no mariadbd",
                key=BIN_DIR,
                hint="name the folder of a MariaDB installation that holds mariadbd, "
                "or leave bin_dir out to use the one on the PATH",
            )
        return _inspect(server, BIN_DIR)
    for name in _SERVERS:
        found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/libexec:/usr/local/sbin")
        if found:
            return _inspect(Path(found), "this system")
    raise PreflightError(
        "no MariaDB server found on this machine",
        key=BIN_DIR,
        hint="install it (Debian and Ubuntu: apt-get install mariadb-server-core), or name the folder of mariadbd "
        "in target.bin_dir, or attach to a running server with target.dsn",
    )


@cache
def _inspect(server: Path, origin: str) -> Binaries:
    version = _version(server)
    if version < OLDEST:
        raise PreflightError(
            f"{server} is MariaDB {'.'.join(map(str, version))}, which is too old",
            key=BIN_DIR,
            hint=f"storagelab measures MariaDB {'.'.join(map(str, OLDEST))} and later",
        )
    return Binaries(
        server=server, installer=_installer(server, origin), version=".".join(map(str, version)), origin=origin
    )


def _version(server: Path) -> tuple[int, ...]:
    said = version_said(server, "--no-defaults")
    match = _SAID.search(said)
    if match is None or not match[2]:
        mysql = "MySQL" in said
        raise PreflightError(
            f"{server} is {'MySQL' if mysql else 'not MariaDB'}: it says {said.strip()!r}",
            key=BIN_DIR,
            hint="storagelab starts MariaDB only; start MySQL yourself and attach to it with target.dsn"
            if mysql
            else "name the folder of a MariaDB installation that holds mariadbd",
        )
    return tuple(map(int, match[1].split(".")))


def _installer(server: Path, origin: str) -> Path:
    """Beside the server, or where the same installation keeps scripts, or on the PATH."""
    near = [server.parent, server.parent.parent / "bin", server.parent.parent / "scripts"]
    for folder in near:
        for name in _INSTALLERS:
            if (folder / name).is_file():
                return folder / name
    found = next(filter(None, map(shutil.which, _INSTALLERS)), None) if origin == "this system" else None
    if found is None:
        raise PreflightError(
            f"{server.parent} holds mariadbd, but no mariadb-install-db is near it",
            key=BIN_DIR,
            hint="install the rest of the server (Debian and Ubuntu: apt-get install mariadb-server-core)",
        )
    return Path(found)
