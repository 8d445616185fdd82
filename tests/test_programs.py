"""Programs run to their end, or end together with everything that they started, and see few of the caller's
variables.
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from raw_io_specs import needs_fio, runs_of
from real_mariadb import needs_mariadb, running
from real_servers import measure, site_at
from test_postgres_generated import SCHEMA, own

from storagelab.engines.postgres.connect import client_environment
from storagelab.machine import temporary
from storagelab.servers import programs
from storagelab.stopping import Interruptible

ENVIRONMENT = programs.environment()


def working_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder:
                found.append(process.name)
        except OSError:
            continue
    return found


def test_whatever_a_program_started_ends_with_it_when_it_takes_too_long(tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        programs.run(["sh", "-c", "sleep 60 & sleep 60"], None, environment=ENVIRONMENT, timeout_s=0.3, folder=tmp_path)
    time.sleep(0.1)
    assert working_in(tmp_path) == []


def test_whatever_a_program_started_ends_with_it_when_the_user_asks_to_stop(tmp_path):
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    with Interruptible(), Interruptible(), pytest.raises(KeyboardInterrupt):  # the outer one puts all back
        programs.run(["sh", "-c", "sleep 60 & sleep 60"], None, environment=ENVIRONMENT, folder=tmp_path)
    time.sleep(0.1)
    assert working_in(tmp_path) == []


SECRETS = (
    "SECRET_TOKEN", "AWS_SECRET_ACCESS_KEY", "STORAGELAB_RESULTS", "MYSQL_PWD", "PGPASSWORD", "FIO_TEST", "LD_PRELOAD",
)  # fmt: skip
EVERY_PROGRAMS = {"HOME", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ", temporary.MARK_VARIABLE}
SHELLS_OWN = {"PWD", "SHLVL", "_", "OLDPWD"}
SERVERS_OWN = {"PGDATA", "PGLOCALEDIR", "PGSYSCONFDIR", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY",
               "LC_NUMERIC", "LC_TIME"}  # fmt: skip
"""Set by PostgreSQL's programs themselves."""
CLIENTS_OWN = {"PGAPPNAME", "PGCLIENTENCODING", "PGDATABASE", "PGHOST", "PGOPTIONS", "PGPORT", "PGUSER"}
"""How they reach the private server."""


@pytest.fixture
def secrets(monkeypatch):
    for name in SECRETS:
        monkeypatch.setenv(name, "" if name == "LD_PRELOAD" else "s3cret")


def names_in(environment: bytes) -> set[str]:
    return {entry.partition(b"=")[0].decode() for entry in environment.replace(b"\0", b"\n").splitlines() if entry}


@pytest.mark.slow
@pytest.mark.usefixtures("secrets")
def test_sql_and_scripts_see_few_of_the_callers_variables(scratch):
    config = own(scratch)
    told = scratch / "told"
    told.mkdir(mode=0o777)
    told.chmod(0o777)
    (scratch / "schema.sql").write_text(
        f"{SCHEMA}\nCOPY (SELECT 1) TO PROGRAM 'cat > /dev/null; env > {told}/server';\n\\! env > {told}/psql\n"
    )
    (scratch / "order.sql").write_text(f"\\setshell nothing sh -c 'env > {told}/pgbench; echo 1'\nSELECT 1;\n")
    measure(config, site_at(scratch))
    known = EVERY_PROGRAMS | SHELLS_OWN | SERVERS_OWN | CLIENTS_OWN
    for file in ("server", "psql", "pgbench"):
        content = (told / file).read_bytes()
        assert b"s3cret" not in content, file
        assert names_in(content) <= known, file


@pytest.mark.slow
@needs_mariadb
@pytest.mark.usefixtures("secrets")
def test_a_servers_own_process_has_few_of_the_callers_variables(scratch):
    with running(scratch) as server:
        environment = Path(f"/proc/{server.pid}/environ").read_bytes()
    assert b"s3cret" not in environment
    assert names_in(environment) <= EVERY_PROGRAMS


@pytest.mark.slow
@needs_fio
@pytest.mark.usefixtures("secrets")
def test_fio_sees_few_of_the_callers_variables(scratch, monkeypatch):
    told, real = scratch / "told", shutil.which("fio")
    (scratch / "bin").mkdir()
    (scratch / "bin" / "fio").write_text(f'#!/bin/sh\nenv >> {told}\nexec {real} "$@"\n')
    (scratch / "bin" / "fio").chmod(0o755)
    monkeypatch.setenv("PATH", f"{scratch / 'bin'}:{os.environ['PATH']}")
    (run,) = runs_of(scratch)
    assert (run.status, run.reason) == ("ok", "")
    assert b"s3cret" not in told.read_bytes()
    assert names_in(told.read_bytes()) <= EVERY_PROGRAMS | SHELLS_OWN


def test_a_client_of_a_server_that_already_runs_keeps_what_leads_to_it_and_no_more(monkeypatch):
    kept = {
        "HOME": "/home/me", "PGPASSFILE": "/home/me/pass", "PGSSLROOTCERT": "/home/me/ca", "KRB5CCNAME": "/tmp/krb5",
    }  # fmt: skip
    for name, value in {**kept, "SECRET_TOKEN": "s3cret", "MYSQL_PWD": "s3cret"}.items():
        monkeypatch.setenv(name, value)
    attached = client_environment("host=db", {}, private=False)
    assert {name: attached[name] for name in kept} == kept
    assert "s3cret" not in attached.values()
    private = client_environment("host=/tmp/socket", {}, private=True)
    assert not {*kept.values(), "s3cret"} & set(private.values())
