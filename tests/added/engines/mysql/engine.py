"""MariaDB's engine with another program, which is not on this machine. A plan says so."""

from __future__ import annotations

import shutil
import subprocess

from storagelab.engines.mariadb import engine as mariadb
from storagelab.errors import PreflightError
from storagelab.model.plan import Plan
from storagelab.model.target import Preflight
from storagelab.volumes.folders import Site


def check(plan: Plan, site: Site) -> Preflight:
    program = shutil.which("mysqld")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout if program else "MariaDB"
    if "MariaDB" in version:
        hint = "install MySQL 8, or name a server that runs: dsn_env in [target]"
        raise PreflightError("no server program of MySQL is on this machine", key="target.engine", hint=hint)
    return mariadb.ENGINE.check(plan, site)


ENGINE = mariadb.ENGINE._replace(check=check)
