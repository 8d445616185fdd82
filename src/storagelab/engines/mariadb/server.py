"""A private MariaDB that storagelab makes, starts, stops and removes; only a socket leads to it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pymysql

from storagelab.engines.mariadb.connecting import Address, Connection, connect_to, words_of
from storagelab.engines.mariadb.settings import (
    Binaries,
    accepts,
    check_settings,
    find_binaries,
    observing,
    private_settings,
    setting_name,
    settings_text,
)
from storagelab.servers.private import PrivateServer, Refusal, Settings, StartFailed, stop_process
from storagelab.servers.programs import installation
from storagelab.servers.starting import Starter

USER = "root"
_PID_FILE = "storagelab.pid"
_WANTED_FROM_THE_START = re.compile(r"innodb_|lower_case_table_names$|aria_")
"""Settings that are fixed when a database is made, so the program that makes it needs them, too."""
_UNSYNCED = "--debug-no-sync"
"""Without this option, making a database writes each system table to the disk at once. That takes a thousand writes
and some seconds, for data that a crash may lose anyway. Measured runs don't have the option, and the new database is
written out before them (between_runs.checkpoint).
"""
_TROUBLE = re.compile(r"\[ERROR\]|\[FATAL\]|got signal|No space left|Assertion failure|Aborting")

_CLIENTS_OWN = [(number,) for number in range(2000, 3000)]
"""Errors that the driver found itself, before any answer from the server."""


class Server(PrivateServer[Binaries]):
    """MariaDB as a `PrivateServer`."""

    trouble, telling_lines = _TROUBLE, 2
    stop_signal, shut_down_signal = signal.SIGKILL, signal.SIGTERM

    def _reach(self) -> tuple[Path, ...]:
        programs = (*installation(self.programs.server), *installation(self.programs.installer))
        return (self._tmp_folder, *programs)

    @property
    def address(self) -> Address:
        assert self._socket_folder is not None, "the server is not started"
        return Address(user=USER, unix_socket=str(self._socket_folder / "s"))

    def connect(self) -> Connection:
        return connect_to(self.address)

    def _folders(self) -> tuple[Path, ...]:
        return (*super()._folders(), self._tmp_folder)

    @property
    def _tmp_folder(self) -> Path:
        return self._temporary_folder or self.data_folder.with_name(self.data_folder.name + ".tmp")

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
        output = self._run([
            str(self.programs.installer), "--no-defaults", *self._base(), *self._places(),
            "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", _UNSYNCED,
            *_as_options(asked),
        ])  # fmt: skip
        if output.returncode != 0:
            words = _own_words(output.stderr) or _own_words(output.stdout) or output.stdout.strip()
            raise StartFailed(f"mariadb-install-db failed: {words}")

    def _base(self) -> list[str]:
        """An unpacked server needs the folder of its files; a system's server knows it."""
        if self.programs.origin != "target.bin_dir":
            return []
        return [f"--basedir={self.programs.server.parent.parent}"]

    def _command(self) -> list[str]:
        return [str(self.programs.server), *self._options()]

    def _options(self) -> list[str]:
        return [
            "--no-defaults", *self._base(), *self._places(), *observing(self.waits),
            "--skip-networking", "--skip-ssl", "--skip-name-resolve", "--skip-log-bin",
            "--character-set-server=utf8mb4",
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


def _as_options(settings: Settings) -> list[str]:
    return [f"--{name.replace('_', '-')}={settings_text(value)}" for name, value in settings.items()]


def _own_words(log: str) -> str:
    """The messages in a server log, without time stamps."""
    lines = [line.split("] ", 1)[-1].strip() for line in log.splitlines() if _TROUBLE.search(line)]
    return " ".join(lines)


STARTER = Starter("MariaDB", find_binaries, private_settings, settings_text, check_settings, accepts, Server)


def stop_orphan(data_folder: Path) -> bool:
    """Stop a server that an earlier, killed storagelab left on `data_folder`. True if there was one."""
    return stop_process(data_folder / _PID_FILE, f"--datadir={data_folder}", signal.SIGKILL)
