"""A private PostgreSQL: made, started, stopped and removed by storagelab; reachable through a socket only."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import psycopg
from psycopg.pq import PGconn, Ping

from storagelab.errors import PreflightError, RunFailed
from storagelab.model.values import Scalar
from storagelab.targets import temporary
from storagelab.targets.postgres import connecting
from storagelab.targets.postgres.binaries import Binaries
from storagelab.targets.postgres.settings import OWN, settings_text
from storagelab.targets.private import PrivateServer, Refusal, runs_with
from storagelab.targets.programs import environment, installation, run
from storagelab.targets.unprivileged import as_server, give_to_server, make_folder

USER = "storagelab"
PORT = 5432
"""Names the socket; a setting `port` may ask for another."""
STOP_TIMEOUT_S = 20.0

_TROUBLE = re.compile(
    r"PANIC: |FATAL: (?!.*the database system is)|terminated by signal|exited with exit code|No space left"
)

Settings = Mapping[str, Scalar]


def check_settings(binaries: Binaries, settings: Settings) -> dict[str, str]:
    """What the server itself makes of each setting, in its base units: `{name: value}`, to compare with later.

    The server's own parser is asked, on an empty temporary folder: no database is made. Raises PreflightError with the
    server's words for the first setting that it refuses.
    """
    for name in settings:
        if name.lower() in OWN:
            raise PreflightError(
                "storagelab sets it itself on a private server",
                key=f"target.settings.{name}",
                hint="leave it out, or attach to a server of your own with target.dsn",
            )
    asked = {name: settings_text(value) for name, value in settings.items()}
    expected = {name: _ask_parser(binaries, name, ((name, text),)) for name, text in asked.items()}
    if asked:
        _ask_parser(binaries, next(iter(asked)), tuple(asked.items()))
    return expected


@cache
def _ask_parser(binaries: Binaries, name: str, settings: tuple[tuple[str, str], ...]) -> str:
    with temporary.folder("check") as folder:
        files = [folder / "postgresql.conf", folder / "postgresql.auto.conf"]
        for file in files:
            file.touch()
        give_to_server(folder, *files)
        command = [binaries.program("postgres"), "-D", str(folder), "-C", name]
        for setting, text in settings:
            command += ["-c", f"{setting}={text}"]
        said = _said(binaries, command, folder)
    if said.returncode != 0:
        near = nearest_setting(binaries, name) if "unrecognized configuration parameter" in said.stderr else ""
        raise PreflightError(
            f"the server refuses it: {_own_words(said.stderr)}",
            key=f"target.settings.{name}" if len(settings) == 1 else "target.settings",
            hint=f"{near}PostgreSQL {binaries.version} from {binaries.origin} was asked",
        )
    return said.stdout.removesuffix("\n")  # a blank at the end may be the setting's own


def nearest_setting(binaries: Binaries, name: str) -> str:
    """ "Did you mean ...? " with the server's setting that is spelt most alike; empty if none is."""
    said = _said(binaries, [binaries.program("postgres"), "--describe-config"])
    known = [line.split("\t", maxsplit=1)[0] for line in said.stdout.splitlines()]
    close = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {close[0]}? " if close else ""


def _reach(binaries: Binaries) -> tuple[Path, ...]:
    return installation(Path(binaries.program("postgres")))


def _said(binaries: Binaries, command: Sequence[str], *reach: Path) -> subprocess.CompletedProcess[str]:
    in_child = as_server(*_reach(binaries), *reach)
    return run(command, in_child, timeout_s=30, environment=environment(connecting.VARIABLES))


def _own_words(log: str) -> str:
    """The messages in a server log, without time stamps."""
    lines = [line.split("] ", 1)[-1].strip() for line in log.splitlines() if line.strip()]
    wanted = [line for line in lines if not line.startswith("LOG:")]
    return " ".join(wanted or lines)


def _in_file(text: str) -> str:
    """A value as the server's configuration file wants it, where backslashes and quotes mean something."""
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"'{escaped}'"


class Server(PrivateServer):
    """One private server. `start` makes the database from nothing; `stop` leaves its folders to whoever made them."""

    trouble, telling_lines = _TROUBLE, 1

    def __init__(
        self,
        binaries: Binaries,
        *,
        data_folder: Path,
        log_folder: Path,
        settings: Settings,
        volumes: Sequence[Path] = (),
    ) -> None:
        """`data_folder` and `log_folder` (the write-ahead log's) must not exist yet; their parents must."""
        super().__init__(data_folder, log_folder, volumes)
        self.binaries, self.settings = binaries, settings

    @property
    def origin(self) -> str:
        return self.binaries.origin

    def _reach(self) -> tuple[Path, ...]:
        return _reach(self.binaries)

    @property
    def conninfo(self) -> str:
        """For `connecting.connect_private`."""
        return psycopg.conninfo.make_conninfo(
            host=str(self._socket_folder), port=str(self.settings.get("port", PORT)), user=USER, dbname="postgres",
            client_encoding="UTF8",
        )  # fmt: skip

    def start(self) -> None:
        """Raises StartFailed with the last lines of the server's log when it does not come up, else RunFailed."""
        make_folder(self.data_folder)
        make_folder(self.log_folder)
        self._make_socket_folder()
        self._init_database()
        self._write_settings()
        self._launch(
            [self.binaries.program("postgres"), "-D", str(self.data_folder)], environment(connecting.VARIABLES)
        )

    def _init_database(self) -> None:
        command = [
            self.binaries.program("initdb"), "--pgdata", str(self.data_folder),
            "--waldir", str(self.log_folder), "--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C",
            "--no-sync", "--no-instructions",
        ]  # fmt: skip
        said = run(command, self._in_child(), environment=environment(connecting.VARIABLES))
        if said.returncode != 0:
            raise RunFailed(f"initdb failed: {said.stderr.strip() or said.stdout.strip()}")

    def _write_settings(self) -> None:
        own: dict[str, Scalar] = {
            "listen_addresses": "",
            "port": PORT,
            "unix_socket_directories": str(self._socket_folder),
            "unix_socket_permissions": "0700",
            "cluster_name": "storagelab",
        }
        lines = [f"{name} = {_in_file(settings_text(value))}" for name, value in {**own, **self.settings}.items()]
        with (self.data_folder / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("\n# by storagelab\n" + "\n".join(lines) + "\n")

    def _refusal(self) -> Refusal | None:
        with connecting.without_variables():
            is_up = PGconn.ping(self.conninfo.encode()) == Ping.OK
        try:
            connecting.connect_private(self.conninfo).close()
        except psycopg.Error as error:
            return Refusal(str(error).strip(), by_server=is_up)
        return None

    def _own_words(self, log: str) -> str:
        return _own_words(log)

    def stop(self) -> None:
        """Stop at once: the data is about to be removed, so a clean shutdown would only cost time."""
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGQUIT)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _kill_sessions(self.data_folder)
        self._remove_socket_folder()


def stop_orphan(data_folder: Path) -> bool:
    """Stop a server that an earlier, killed storagelab left on `data_folder`. True if there was one."""
    try:
        pid = int((data_folder / "postmaster.pid").read_text(encoding="utf-8").split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError):
        return False
    if not runs_with(pid, str(data_folder)):
        return _kill_sessions(data_folder)
    os.kill(pid, signal.SIGQUIT)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while runs_with(pid, str(data_folder)) and time.monotonic() < deadline:
        time.sleep(0.02)
    _kill_sessions(data_folder)
    return True


def _kill_sessions(data_folder: Path) -> bool:
    """Kill the sessions of a server that was itself killed: they notice only when they next wait.

    They are known by their working folder, which is the server's data folder. True if there were any.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            is_server = (process / "comm").read_text(encoding="utf-8").strip() == "postgres"
            if is_server and os.readlink(process / "cwd") == str(data_folder):
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
