"""A private PostgreSQL: made, started, stopped and removed by storagelab; reachable through a socket only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import psycopg

from storagelab.errors import PreflightError, RunFailed
from storagelab.targets.postgres.binaries import Binaries, unprivileged
from storagelab.values import Scalar

USER = "storagelab"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
_PR_SET_PDEATHSIG = 1
_SOCKET_PREFIX = "storagelab-socket-"

Settings = Mapping[str, Scalar]


def settings_text(value: Scalar) -> str:
    """A setting's value as PostgreSQL reads it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def check_settings(binaries: Binaries, settings: Settings) -> dict[str, str]:
    """What the server itself makes of each setting, in its base units: `{name: value}`, to compare with later.

    The server's own parser is asked, on an empty temporary folder: no database is made. Raises PreflightError with the
    server's words for the first setting that it refuses.
    """
    asked = {name: settings_text(value) for name, value in settings.items()}
    expected = {name: _ask_parser(binaries, name, ((name, text),)) for name, text in asked.items()}
    if asked:
        _ask_parser(binaries, next(iter(asked)), tuple(asked.items()))
    return expected


@cache
def _ask_parser(binaries: Binaries, name: str, settings: tuple[tuple[str, str], ...]) -> str:
    with tempfile.TemporaryDirectory(prefix="storagelab-check-") as folder_name:
        folder = Path(folder_name)
        (folder / "postgresql.conf").touch()
        (folder / "postgresql.auto.conf").touch()
        _give_to_server(folder)
        command = [*unprivileged().prefix, binaries.program("postgres"), "-D", folder_name, "-C", name]
        for setting, text in settings:
            command += ["-c", f"{setting}={text}"]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, env=_environment())
    if said.returncode != 0:
        raise PreflightError(
            f"the server refuses it: {_own_words(said.stderr)}",
            key=f"target.settings.{name}" if len(settings) == 1 else "target.settings",
            hint=f"PostgreSQL {binaries.version} from {binaries.origin} was asked",
        )
    return said.stdout.strip()


def _own_words(log: str) -> str:
    """The messages in a server log, without time stamps."""
    lines = [line.split("] ", 1)[-1].strip() for line in log.splitlines() if line.strip()]
    wanted = [line for line in lines if not line.startswith("LOG:")]
    return " ".join(wanted or lines)


def _environment() -> dict[str, str]:
    """The caller's environment without PG* variables, which would quietly change what is measured."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


def _give_to_server(folder: Path) -> None:
    owner = unprivileged().owner
    if owner is not None:
        os.chown(folder, *owner)


def make_folder(folder: Path, owner: tuple[int, int] | None = None) -> None:
    """An empty folder of the server's, mode 0700 as PostgreSQL demands; of `owner` (uid, gid) where one is named."""
    folder.mkdir(mode=0o700, parents=True)
    if owner is not None:
        os.chown(folder, *owner)
    else:
        _give_to_server(folder)


def _die_with_parent() -> None:
    """In the child: ask Linux to stop the server at once if storagelab is killed, so that nothing is left running."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


class Server:
    """One private server. `start` makes the database from nothing; `stop` leaves its folders to whoever made them."""

    def __init__(self, binaries: Binaries, *, data_folder: Path, log_folder: Path, settings: Settings) -> None:
        """`data_folder` and `log_folder` (the write-ahead log's) must not exist yet; their parents must."""
        self.binaries, self.data_folder, self.log_folder, self.settings = binaries, data_folder, log_folder, settings
        self.server_log = data_folder.with_name(data_folder.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_folder: Path | None = None

    @property
    def conninfo(self) -> str:
        return psycopg.conninfo.make_conninfo(host=str(self._socket_folder), user=USER, dbname="postgres")

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Raises RunFailed with the last lines of the server's log when it does not come up."""
        make_folder(self.data_folder)
        make_folder(self.log_folder)
        # A socket's path may hold 107 bytes only, so it can't stand in the experiment's folder, however deep that is.
        self._socket_folder = Path(tempfile.mkdtemp(prefix=_SOCKET_PREFIX))
        _give_to_server(self._socket_folder)
        _socket_note(self.data_folder).write_text(str(self._socket_folder), encoding="utf-8")
        self._init_database()
        self._write_settings()
        with self.server_log.open("ab") as log:
            self._process = subprocess.Popen(
                [*unprivileged().prefix, self.binaries.program("postgres"), "-D", str(self.data_folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
        self._await_ready()

    def _init_database(self) -> None:
        command = [
            *unprivileged().prefix, self.binaries.program("initdb"), "--pgdata", str(self.data_folder),
            "--waldir", str(self.log_folder), "--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C",
            "--no-sync", "--no-instructions",
        ]  # fmt: skip
        said = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
        if said.returncode != 0:
            raise RunFailed(f"initdb failed: {said.stderr.strip() or said.stdout.strip()}")

    def _write_settings(self) -> None:
        own: dict[str, Scalar] = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._socket_folder),
            "unix_socket_permissions": "0700",
            "cluster_name": "storagelab",
        }
        lines = [
            "{} = '{}'".format(name, settings_text(value).replace("'", "''"))
            for name, value in {**own, **self.settings}.items()
        ]
        with (self.data_folder / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("\n# by storagelab\n" + "\n".join(lines) + "\n")

    def _await_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.conninfo):
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.01)
        raise RunFailed(f"the server did not start; its log ends with:\n{self.log_tail()}")

    def log_tail(self, lines: int = 8) -> str:
        """The last lines of the server's log, or what can be said instead."""
        try:
            text = self.server_log.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return f"(no log: {error})"
        return "\n".join(text.splitlines()[-lines:]) or "(its log is empty)"

    def died(self) -> bool:
        return self._process is not None and self._process.poll() is not None

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
        if self._socket_folder is not None:
            shutil.rmtree(self._socket_folder, ignore_errors=True)
            self._socket_folder = None


def _socket_note(data_folder: Path) -> Path:
    """Where the place of a server's socket is written down, for whoever cleans up after a kill."""
    return data_folder.with_name(data_folder.name + ".socket")


def stop_orphan(data_folder: Path) -> bool:
    """Stop a server that an earlier, killed storagelab left on `data_folder`. True if there was one."""
    with contextlib.suppress(OSError):
        socket_folder = Path(_socket_note(data_folder).read_text(encoding="utf-8"))
        if socket_folder.name.startswith(_SOCKET_PREFIX):
            shutil.rmtree(socket_folder, ignore_errors=True)
    try:
        pid = int((data_folder / "postmaster.pid").read_text(encoding="utf-8").split(maxsplit=1)[0])
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, IndexError):
        return False
    # The number may have been given to another process since: only a server on this very folder is stopped.
    if os.fsencode(data_folder) not in command_line:
        return False
    os.kill(pid, signal.SIGQUIT)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return True
