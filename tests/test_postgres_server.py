"""A private server: made, started, stopped and removed; reachable through its socket only, and never left running."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from real_mariadb import needs_mariadb
from real_servers import (
    ask,
    connect,
    left_behind,
    postgres_processes,
    running,
    server_processes,
    started_elsewhere,
    until,
)

from storagelab.engines.postgres import server
from storagelab.engines.postgres.server import Server, find_binaries, stop_orphan
from storagelab.errors import PreflightError, RunFailed
from storagelab.machine import temporary
from storagelab.machine.rights import unprivileged

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root's rights can be given up by root only")


def listening_sockets_of(pid: int) -> list[str]:
    """Addresses of TCP sockets that a process listens on, by the kernel."""
    own = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                listening.append(fields[1])
    return listening


# --- its life --------------------------------------------------------------------------------------------------------


def test_a_server_listens_on_no_tcp_port_and_its_socket_is_its_owners_alone(scratch):
    with running(scratch) as private:
        assert listening_sockets_of(private.pid) == []
        with connect(private) as connection:
            assert ask(connection, "SHOW listen_addresses") == ""
            assert ask(connection, "SHOW unix_socket_directories").startswith(str(scratch / "tmp"))
        (socket,) = (scratch / "tmp").glob("storagelab-*/socket-*/.s.PGSQL.5432")
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    assert left_behind(scratch) == []


def test_the_log_lies_where_it_was_asked_for(scratch, fresh_databases):
    with running(scratch) as private:
        assert Path(os.path.realpath(private.data_folder / "pg_wal")) == private.log_folder
        assert len(list(private.log_folder.glob("0000*"))) > 0


def test_a_database_is_made_with_checksums_and_segments_as_they_were_asked_for(scratch):
    with running(scratch, data_checksums=False, wal_segment_size="32MB") as private, connect(private) as connection:
        assert ask(connection, "SHOW data_checksums") == "off"
        assert ask(connection, "SHOW wal_segment_size") == "32MB"
    asked = {"data_checksums": "false", "wal_segment_size": "32MB", "max_connections": 20}
    expected = server.STARTER.check(find_binaries(None), asked)
    assert expected == {"data_checksums": "off", "wal_segment_size": str(2**25), "max_connections": "20"}
    for wrong in ({"wal_segment_size": "3MB"}, {"wal_segment_size": "large"}, {"data_checksums": 3}):
        with pytest.raises(PreflightError, match=f"target.settings.{next(iter(wrong))}"):
            server.STARTER.check(find_binaries(None), wrong)


def test_a_volume_of_an_odd_name_is_no_trouble(scratch, fresh_databases):
    odd = scratch / 'it\'s \\ a 100 % "odd" näme'
    odd.mkdir(mode=0o711)
    with running(odd) as private, connect(private) as connection:
        assert ask(connection, "SELECT 1") == 1


@needs_root
def test_root_starts_it_as_another_user_and_only_its_own_folders_change_hands(scratch, fresh_databases):
    with running(scratch) as private, connect(private) as connection:
        status = Path(f"/proc/{private.pid}/status").read_text()
        uids = next(line.split()[1:] for line in status.splitlines() if line.startswith("Uid:"))
        assert set(uids) == {str(unprivileged().owner[0])}
        assert "CapEff:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        assert ask(connection, "SELECT 1") == 1
        assert {path.lstat().st_uid for path in private.data_folder.rglob("*")} == {unprivileged().owner[0]}
    assert scratch.stat().st_uid == 0
    assert (scratch / "tmp").stat().st_uid == 0
    assert left_behind(scratch) == []


def ask_elsewhere(private: Server, statement: str) -> object:
    with connect(private) as connection:
        return ask(connection, statement)


# --- its end ---------------------------------------------------------------------------------------------------------


def test_sessions_of_a_server_that_was_killed_do_not_outlive_it(scratch):
    with running(scratch) as private, contextlib.closing(connect(private)) as connection:
        # A session at work notices its server's death only when it next waits.
        connection.pgconn.send_query(b"DO $$ BEGIN LOOP END LOOP; END $$")
        until(lambda: ask_elsewhere(private, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO %'") == 1)
        os.kill(private.pid, signal.SIGKILL)
        until(private.died)
        assert connection.info.backend_pid in postgres_processes(scratch)
        private.stop()
        assert postgres_processes(scratch) == []


@pytest.mark.parametrize("engine", ["postgres", pytest.param("mariadb", marks=needs_mariadb)])
def test_a_server_dies_with_the_process_that_started_it_however_that_dies(scratch, engine):
    with started_elsewhere(engine, scratch) as starter:
        assert server_processes(scratch) != []
        starter.kill()
    until(lambda: server_processes(scratch) == [], timeout_s=10)
    assert engine == "mariadb" or not stop_orphan(scratch / "server")
    assert temporary.left_behind() == list((scratch / "tmp").iterdir()) != []  # the socket's folder, for the next run


def test_a_server_that_did_not_die_is_stopped_by_whoever_cleans_up(scratch):
    with running(scratch) as private:
        assert stop_orphan(private.data_folder)
        assert postgres_processes(scratch) == []


def test_a_process_that_took_over_the_number_of_a_dead_server_is_left_alone(scratch):
    (scratch / "server").mkdir()
    with subprocess.Popen(["sleep", "60"]) as innocent:
        (scratch / "server" / "postmaster.pid").write_text(f"{innocent.pid}\n{scratch}/server\n")
        assert not stop_orphan(scratch / "server")
        assert innocent.poll() is None
        innocent.kill()


# --- servers that do not start ---------------------------------------------------------------------------------------


def broken(scratch: Path, **settings: object) -> str:
    """Why a server with these settings does not start."""
    private = Server(find_binaries(None), data_folder=scratch / "s", log_folder=scratch / "l", settings=settings)
    with pytest.raises(RunFailed) as caught:
        private.start()
    private.stop()
    assert left_behind(scratch) == []
    return str(caught.value)


def test_a_program_that_is_killed_as_it_makes_the_database_is_said_to_be_killed(scratch):
    private = Server(find_binaries(None), data_folder=scratch / "s", log_folder=scratch / "l", settings={})
    with pytest.raises(RunFailed, match=r"^sh was killed by signal 11 \(SIGSEGV\)$"):
        private._run(["sh", "-c", "kill -SEGV $$"])


def test_more_memory_than_there_is_is_said_in_the_servers_words(scratch):
    reason = broken(scratch, shared_buffers="7TB", huge_pages="off")
    assert "could not map anonymous shared memory: Cannot allocate memory" in reason


def shared_memory_of(server: Server) -> tuple[set[Path], int]:
    """The files of its shared memory, by the kernel, and the number of its System V segment."""
    maps = Path(f"/proc/{server.pid}/maps").read_text()
    files = {Path(line.split()[5]) for line in maps.splitlines() if "/dev/shm/PostgreSQL." in line}
    return files, int((server.data_folder / "postmaster.pid").read_text().splitlines()[6].split()[1])


def system_v_segments() -> set[int]:
    return {int(line.split()[1]) for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}


@pytest.mark.parametrize("by", ["the storagelab that started it", "the next call"])
def test_the_shared_memory_of_a_server_that_was_killed_is_removed(scratch, by):
    (scratch / "beside").mkdir(mode=0o711)
    with running(scratch) as private, running(scratch / "beside") as beside:
        files, segment = shared_memory_of(private)
        assert files
        assert segment in system_v_segments()
        files_beside, segment_beside = shared_memory_of(beside)
        for pid in postgres_processes(private.data_folder):
            os.kill(pid, signal.SIGKILL)
        until(private.died)
        assert all(file.exists() for file in files)
        if by == "the next call":
            stop_orphan(private.data_folder)
        else:
            private.stop()
        assert not any(file.exists() for file in files)
        assert segment not in system_v_segments()
        assert all(file.exists() for file in files_beside)
        assert segment_beside in system_v_segments()


MAKES_A_SEGMENT = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, int(sys.argv[1]), 0o1600)
ctypes.memmove(libc.shmat(segment, None, 0), sys.argv[2].encode(), len(sys.argv[2]))
print(os.getpid(), segment, flush=True)
sys.stdin.read()
"""


def test_shared_memory_of_a_server_that_was_killed_before_it_wrote_there_is_removed(tmp_path):
    def segment_after(size: int, content: str, sign: str = "", *, killed: bool = True) -> bool:
        """Whether the segment of a process that a data folder names is there after the clean-up."""
        command = [sys.executable, "-c", MAKES_A_SEGMENT, str(size), content]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            pid, segment = process.stdout.readline().split()
            (tmp_path / "postmaster.pid").write_text(f"{sign}{pid}\n{tmp_path}\n")
            if killed:
                process.kill()
                process.wait()
            server.remove_left(tmp_path)
            left = int(segment) in system_v_segments()
            server._LIBC.shmctl(int(segment), server._IPC_RMID, None)
            process.kill()
        return left

    assert not segment_after(56, "")
    assert not segment_after(56, "", "-")
    assert segment_after(56, "", killed=False)
    assert segment_after(56, "somebody else's")
    assert segment_after(64, "")


def test_shared_memory_of_another_server_stays(scratch):
    with running(scratch) as private:
        files, segment = shared_memory_of(private)
        forged = scratch / "forged"
        forged.mkdir()
        (forged / "postmaster.pid").write_bytes((private.data_folder / "postmaster.pid").read_bytes())
        server.remove_left(forged)
        server.remove_left(private.data_folder)
        assert all(file.exists() for file in files)
        assert segment in system_v_segments()
