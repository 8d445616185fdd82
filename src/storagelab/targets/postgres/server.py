"""A private PostgreSQL that storagelab makes, starts, stops and removes; only a socket leads to it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

import psycopg
from psycopg.pq import PGconn, Ping

from storagelab.errors import RunFailed
from storagelab.model.values import Scalar
from storagelab.targets import descriptors
from storagelab.targets.postgres import connecting, shared_memory
from storagelab.targets.postgres.binaries import Binaries, find_binaries
from storagelab.targets.postgres.settings import accepts, check_settings, own_words, private_settings, settings_text
from storagelab.targets.private import STOP_TIMEOUT_S, PrivateServer, Refusal, runs_as, stop_process
from storagelab.targets.programs import installation
from storagelab.targets.starting import Starter

USER = "storagelab"
PORT = 5432
"""Names the socket; a setting `port` may ask for another."""

_TROUBLE = re.compile(
    r"PANIC: |FATAL: (?!.*the database system is)|terminated by signal|exited with exit code|No space left"
)


def _in_file(text: str) -> str:
    """A value for the server's configuration file, where backslashes and quotes have a meaning."""
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"'{escaped}'"


class Server(PrivateServer[Binaries]):
    """PostgreSQL as a `PrivateServer`."""

    trouble, telling_lines = _TROUBLE, 1
    stop_signal, shut_down_signal = signal.SIGQUIT, signal.SIGINT

    def _reach(self) -> tuple[Path, ...]:
        return installation(Path(self.programs.program("postgres")))

    @property
    def conninfo(self) -> str:
        """The connection string for `connecting.connect_private`."""
        return psycopg.conninfo.make_conninfo(
            host=str(self._socket_folder), port=str(self.settings.get("port", PORT)), user=USER, dbname="postgres",
            client_encoding="UTF8",
        )  # fmt: skip

    def _make_database(self) -> None:
        said = self._run([
            self.programs.program("initdb"), "--pgdata", str(self.data_folder),
            "--waldir", str(self.log_folder), "--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C",
            "--no-sync", "--no-instructions",
        ])  # fmt: skip
        if said.returncode != 0:
            raise RunFailed(f"initdb failed: {said.stderr.strip() or said.stdout.strip()}")

    def _command(self) -> list[str]:
        return [self.programs.program("postgres"), "-D", str(self.data_folder)]

    def _write_settings(self) -> None:
        own: dict[str, Scalar] = {
            "listen_addresses": "",
            "port": PORT,
            "unix_socket_directories": str(self._socket_folder),
            "unix_socket_permissions": "0700",
            "cluster_name": "storagelab",
        }
        lines = [f"{name} = {_in_file(settings_text(value))}" for name, value in {**own, **self.settings}.items()]
        text = "\n# by storagelab\n" + "\n".join(lines) + "\n"
        try:
            with descriptors.appending(self.data_folder / "postgresql.conf") as file:
                file.write(text.encode())
        except OSError as error:
            raise RunFailed(f"can't write the settings: {error.filename}: {error.strerror}") from error

    def _refusal(self) -> Refusal | None:
        with connecting.without_variables():
            is_up = PGconn.ping(self.conninfo.encode()) == Ping.OK
        try:
            connecting.connect_private(self.conninfo).close()
        except psycopg.Error as error:
            return Refusal(str(error).strip(), by_server=is_up)
        return None

    def _own_words(self, log: str) -> str:
        return own_words(log)

    def _stop_sessions(self) -> None:
        _kill_sessions(self.data_folder)
        shared_memory.remove_left(self.data_folder)


def stop_orphan(data_folder: Path) -> bool:
    """Stop a server that an earlier, killed storagelab left on `data_folder`. True if there was one."""
    there_was_one = stop_process(data_folder / "postmaster.pid", str(data_folder), signal.SIGQUIT)
    there_was_one |= _kill_sessions(data_folder)
    shared_memory.remove_left(data_folder)
    return there_was_one


STARTER = Starter("PostgreSQL", find_binaries, private_settings, settings_text, check_settings, accepts, Server)


def _kill_sessions(data_folder: Path) -> bool:
    """Kill the sessions of a server that was itself killed: they notice only when they next wait.

    They are recognised by their working folder, which is the server's data folder. True if there were any.
    """
    found = []
    try:
        owner = data_folder.lstat().st_uid
    except OSError:
        return False
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            is_server = (process / "comm").read_text(encoding="utf-8").strip() == "postgres"
            is_there = is_server and os.readlink(process / "cwd") == str(data_folder)
            if is_there and runs_as(int(process.name), owner):
                os.kill(int(process.name), signal.SIGKILL)
                found.append(process)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while any(_has_folder(process) for process in found) and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(found)


def _has_folder(process: Path) -> bool:
    try:
        os.readlink(process / "cwd")
    except OSError:
        return False
    return True
