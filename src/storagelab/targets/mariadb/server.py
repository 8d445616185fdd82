"""A private MariaDB: made, started, stopped and removed by storagelab; reachable through a socket only."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pymysql

from storagelab.targets.mariadb.binaries import Binaries
from storagelab.targets.mariadb.connecting import Address, Connection, connect, words_of
from storagelab.targets.mariadb.settings import VARIABLES, Settings, observing, setting_name, settings_text
from storagelab.targets.private import PrivateServer, Refusal, StartFailed, runs_with
from storagelab.targets.programs import environment, installation, run
from storagelab.targets.unprivileged import make_folder

USER = "root"
STOP_TIMEOUT_S = 20.0
_PID_FILE = "storagelab.pid"
_WANTED_FROM_THE_START = re.compile(r"innodb_|lower_case_table_names$|aria_")
"""What a database is made with cannot be changed once it is there, so its maker is told, too."""
_UNSYNCED = "--debug-no-sync"
"""Its maker writes each system table to the disk at once, a thousand times: seconds, for what a crash may take as well. What
is measured runs without this option, and what was made is written out before (between_runs.checkpoint)."""
_TROUBLE = re.compile(r"\[ERROR\]|\[FATAL\]|got signal|No space left|Assertion failure|Aborting")

_CLIENTS_OWN = [(number,) for number in range(2000, 3000)]
"""Errors that the driver found by itself: the server has not said anything yet."""


class Server(PrivateServer):
    """One private server. `start` makes the database from nothing; `stop` leaves its folders to whoever made them."""

    trouble, telling_lines = _TROUBLE, 2

    def __init__(
        self,
        binaries: Binaries,
        *,
        data_folder: Path,
        log_folder: Path,
        settings: Settings,
        volumes: Sequence[Path] = (),
        waits: bool = True,
    ) -> None:
        """`data_folder` and `log_folder` (the redo log's) must not exist yet; their parents must."""
        super().__init__(data_folder, log_folder, volumes)
        self.binaries, self.settings, self.waits = binaries, settings, waits

    @property
    def origin(self) -> str:
        return self.binaries.origin

    def _reach(self) -> tuple[Path, ...]:
        programs = (*installation(self.binaries.server), *installation(self.binaries.installer))
        return (self._tmp_folder, *programs)

    @property
    def address(self) -> Address:
        assert self._socket_folder is not None, "the server is not started"
        return Address(user=USER, unix_socket=str(self._socket_folder / "s"))

    def connect(self) -> Connection:
        return connect(self.address)

    def start(self) -> None:
        """Raises StartFailed with the last lines of the server's log when it does not come up, else RunFailed."""
        make_folder(self.data_folder)
        make_folder(self.log_folder)
        make_folder(self._tmp_folder)
        self._make_socket_folder()
        self._make_database()
        self._launch([str(self.binaries.server), *self._options()], environment(*VARIABLES), self.data_folder)

    @property
    def _tmp_folder(self) -> Path:
        return self.data_folder.with_name(self.data_folder.name + ".tmp")

    def _places(self) -> list[str]:
        return [
            f"--datadir={self.data_folder}",
            f"--innodb-log-group-home-dir={self.log_folder}",
            f"--tmpdir={self._tmp_folder}",
        ]

    def _make_database(self) -> None:
        asked = {
            name: value for name, value in self.settings.items() if _WANTED_FROM_THE_START.match(setting_name(name))
        }
        command = [
            str(self.binaries.installer), "--no-defaults", *self._base(), *self._places(),
            "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", _UNSYNCED,
            *_as_options(asked),
        ]  # fmt: skip
        said = run(command, self._in_child(), environment=environment(*VARIABLES))
        if said.returncode != 0:
            words = _own_words(said.stderr) or _own_words(said.stdout) or said.stdout.strip()
            raise StartFailed(f"mariadb-install-db failed: {words}")

    def _base(self) -> list[str]:
        """A server unpacked somewhere brings its files along; one of the system knows where they are."""
        if self.binaries.origin != "target.bin_dir":
            return []
        return [f"--basedir={self.binaries.server.parent.parent}"]

    def _options(self) -> list[str]:
        return [
            "--no-defaults", *self._base(), *self._places(), *observing(self.waits),
            "--skip-networking", "--skip-ssl", "--skip-name-resolve", "--skip-log-bin", "--character-set-server=utf8mb4",
            f"--socket={self.address.unix_socket}", f"--pid-file={self.data_folder / _PID_FILE}",
            *_as_options(self.settings),
        ]  # fmt: skip

    def _refusal(self) -> Refusal | None:
        try:
            self.connect().close()
        except pymysql.MySQLError as error:
            return Refusal(words_of(error), by_server=error.args[:1] not in _CLIENTS_OWN)
        return None

    def _own_words(self, log: str) -> str:
        return _own_words(log)

    def stop(self) -> None:
        """Stop at once: the data is about to be removed, so a clean shutdown would only cost time."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        self._remove_socket_folder()


def _as_options(settings: Settings) -> list[str]:
    return [f"--{name.replace('_', '-')}={settings_text(value)}" for name, value in settings.items()]


def _own_words(log: str) -> str:
    """The messages in a server log, without time stamps."""
    lines = [line.split("] ", 1)[-1].strip() for line in log.splitlines() if _TROUBLE.search(line)]
    return " ".join(lines)


def stop_orphan(data_folder: Path) -> bool:
    """Stop a server that an earlier, killed storagelab left on `data_folder`. True if there was one."""
    try:
        pid = int((data_folder / _PID_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    started_with = f"--datadir={data_folder}"
    if not runs_with(pid, started_with):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while runs_with(pid, started_with) and time.monotonic() < deadline:
        time.sleep(0.02)
    return True
