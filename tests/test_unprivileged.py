"""How server programs run without root's rights, and how they get through folders that only root may enter."""

import os
import pwd
import subprocess
import time
from pathlib import Path

import pytest
from real_mariadb import needs_mariadb
from real_mariadb import running as running_mariadb
from real_servers import ask, connect, left_behind, measure, plan_of, running, site_at, small

from storagelab.errors import PreflightError
from storagelab.machine import rights
from storagelab.machine.rights import as_server, check_may_enter, give_to_server, unprivileged
from storagelab.run.engine import preflight

pytestmark = pytest.mark.usefixtures("fresh_databases")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root's rights can be given up by root only")


@pytest.fixture
def privileges():
    """Forgets how programs are started, before and after."""
    unprivileged.cache_clear()
    rights.may_cover.cache_clear()
    yield
    unprivileged.cache_clear()
    rights.may_cover.cache_clear()


@pytest.fixture
def closed(scratch) -> Path:
    """A folder that only root may enter, like /root, with another such folder in it."""
    folder = scratch / "closed"
    (folder / "lab" / "inner" / "vol").mkdir(parents=True)
    (folder / "secret").write_text("root's")
    folder.chmod(0o700)
    (folder / "lab" / "inner").chmod(0o700)
    return folder


def said(command: str, *reach: Path) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, preexec_fn=as_server(*reach))
    return done.stdout + done.stderr


@needs_root
def test_root_starts_programs_as_a_user_who_owns_nothing_of_roots(scratch):
    assert said("id -un; id -Gn").split() == ["nobody", "nogroup"]
    assert "Permission denied" in said("cat /etc/shadow")
    assert "Permission denied" in said(f"echo mine > {scratch}/made")
    assert not (scratch / "made").exists()


@needs_root
def test_root_rights_cannot_be_regained(scratch):
    """Not even through a setuid-root program."""
    program = scratch / "id-of-root"
    program.write_bytes(Path("/usr/bin/id").read_bytes())
    program.chmod(0o4755)
    assert subprocess.run([program, "-u"], user="nobody", capture_output=True, text=True).stdout == "0\n"
    assert said(f"{program} -u") == f"{unprivileged().owner[0]}\n"


@needs_root
@pytest.mark.parametrize("way", ["no such account", "not allowed"])
def test_root_without_any_way_is_told_what_to_do(monkeypatch, privileges, way):
    if way == "no such account":
        monkeypatch.setattr(rights, "_ACCOUNT", "nobody-of-that-name")
    else:
        monkeypatch.setattr(pwd, "getpwnam", lambda _: pwd.struct_passwd(["x", "x", -7, 1, "", "", ""]))
    with pytest.raises(PreflightError, match="refuse to run as root") as caught:
        unprivileged()
    assert "ordinary user" in caught.value.hint


@needs_root
def test_a_server_comes_through_closed_folders_and_sees_nothing_else_in_them(closed):
    volume = closed / "lab" / "inner" / "vol"
    give_to_server(volume)
    assert "Permission denied" in said(f"touch {volume}/made")
    assert said(f"cd {volume} && touch made && pwd", volume) == f"{volume}\n"
    assert (volume / "made").stat().st_uid == unprivileged().owner[0]
    assert "No such file" in said(f"cat {closed}/secret", volume)
    assert sorted(os.listdir(closed)) == ["lab", "secret"]


@needs_root
def test_a_way_through_a_link_in_a_closed_folder_is_gone_as_it_is_written(closed, scratch):
    (scratch / "open").mkdir()
    (closed / "link").symlink_to(scratch / "open")
    assert said(f"test -d {closed}/link && echo there", closed / "link") == "there\n"


@needs_root
def test_where_nothing_may_be_covered_the_folder_in_the_way_is_named(closed, monkeypatch, privileges):
    """As in most containers."""
    monkeypatch.setattr(rights, "_CLONE_NEWNS", -1)
    with pytest.raises(PreflightError) as caught:
        check_may_enter(closed / "lab" / "inner" / "vol")
    assert caught.value.problem == f"{closed} is closed to the server, which is started as nobody"
    assert f"chmod o+x {closed}" in caught.value.hint
    closed.chmod(0o711)
    (closed / "lab" / "inner").chmod(0o711)
    check_may_enter(closed / "lab" / "inner" / "vol")


@needs_root
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_postgresql_is_measured_in_a_folder_of_roots(closed, umask):
    before = os.umask(umask)
    try:
        config = small(closed, volumes=["a", "b"], data=["a", "b"], data_files=2, log="b")
        (closed / "a").chmod(0o700)
        preflight(plan_of(config), site_at(closed))
        measured = measure(config, site_at(closed))
    finally:
        os.umask(before)
    assert measured.unverified == ()
    assert left_behind(closed) == []


@needs_root
@needs_mariadb
def test_mariadb_is_measured_in_a_folder_of_roots(closed):
    config = small(closed, engine="mariadb", volumes=["a", "b"], data=["a", "b"], data_files=2, log="b")
    assert measure(config, site_at(closed)).unverified == ()
    assert left_behind(closed) == []


@needs_root
def test_a_program_that_only_root_may_read_is_refused_with_the_way_out(closed):
    from storagelab.engines.postgres.server import find_binaries

    programs = closed / "lab" / "bin"
    programs.mkdir()
    for name in ("postgres", "initdb"):
        (programs / name).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 18.1'\n")
        (programs / name).chmod(0o700)
    with pytest.raises(PreflightError, match=r"postgres does not run as nobody: .*Permission denied") as caught:
        find_binaries(str(programs))
    assert caught.value.hint == f"let others read it and what it needs: chmod -R o+rX {programs}"
    for name in ("postgres", "initdb"):
        (programs / name).chmod(0o755)
    assert find_binaries(str(programs)).version == "18.1"


@needs_root
def test_a_command_of_a_setting_reads_and_writes_nothing_of_roots(scratch):
    """Past the refusal: what runs has no more rights than the server."""
    (scratch / "secret").write_text("root's")
    (scratch / "secret").chmod(0o600)
    (scratch / "open").mkdir()
    (scratch / "open").chmod(0o777)
    tells = f"(id -un; cat {scratch}/secret; touch {scratch}/made) > {scratch}/open/told 2>&1"
    with running(scratch, archive_mode="on", archive_command=tells) as server, connect(server) as connection:
        ask(connection, "SELECT pg_switch_wal() FROM (SELECT pg_create_restore_point('x')) AS made")
        deadline = time.monotonic() + 30
        told = scratch / "open" / "told"
        while not (told.exists() and told.read_text().count("denied") == 2) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert told.read_text().startswith("nobody\n")
        assert "root's" not in told.read_text()
    assert not (scratch / "made").exists()


@needs_root
@needs_mariadb
def test_mariadb_runs_as_a_user_who_owns_nothing_of_roots(scratch):
    with running_mariadb(scratch / "server") as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid == unprivileged().owner[0]
        assert server.said("SELECT LOAD_FILE('/etc/shadow')") == [(None,)]
