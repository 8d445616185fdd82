"""A private MariaDB server, which storagelab makes, starts, stops and removes. It accepts connections only by a Unix
socket.

This module also finds the server's programs, and reads the settings as the server's parser reads them.
"""

from __future__ import annotations

import re
import shutil
import signal
from functools import cache
from pathlib import Path

import pymysql

from storagelab.engines.mariadb.connect import Address, Connection, connect_to, setting_name, settings_text, words_of
from storagelab.errors import PreflightError
from storagelab.machine import temporary
from storagelab.machine.rights import LOADS_CODE, RUNS_PROGRAM, as_server, by_value, give_to_server
from storagelab.model.config import Config
from storagelab.model.values import Scalar
from storagelab.servers.private import PrivateServer, Refusal, Settings, StartFailed, stop_process
from storagelab.servers.programs import BIN_DIR, Programs, environment, installation, run, version_output
from storagelab.servers.starting import SPARE_CONNECTIONS, Pairs, Starter, did_you_mean

# --- binaries --------------------------------------------------------------------------------------------------------
#
# Finds the MariaDB server on this machine.


OLDEST = (10, 11)
"""The oldest release that storagelab measures. Older releases lack RANDOM_BYTES, and their catalogue lacks the paths of
data files. MariaDB no longer supports them.
"""
SERVERS = ("mariadbd", "mysqld")
_SYSTEM_FOLDERS = "/usr/sbin:/usr/libexec:/usr/local/sbin"
_FOLDER_HINT = "name the folder of a MariaDB installation that holds mariadbd"
_INSTALLERS = ("mariadb-install-db", "mysql_install_db")
_SAID = re.compile(r"Ver (\d+\.\d+\.\d+)(-MariaDB)?")


class Binaries(Programs):
    """The programs of one installation. `server` is mariadbd. `installer` is the script that makes a database."""

    server: Path
    installer: Path

    @property
    def release(self) -> tuple[int, int]:
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)


def find_binaries(bin_dir: str | None) -> Binaries:
    """The programs of the server to start, from `bin_dir`. If `bin_dir` is None, they are from the PATH.

    Raises PreflightError if there is no server, or if it is too old or is MySQL.
    """
    if bin_dir is not None:
        folder, origin = Path(bin_dir).expanduser(), BIN_DIR
        places = [str(folder / name) for name in SERVERS if (folder / name).is_file()]
        problem = f"{folder} holds no mariadbd"
        hint = f"{_FOLDER_HINT}, or leave bin_dir out to use the server on the PATH"
    else:
        found = ((shutil.which(name), shutil.which(name, path=_SYSTEM_FOLDERS)) for name in SERVERS)
        places, origin = [place for two in found for place in two if place], "this system"
        problem = "no MariaDB server found on this machine"
        hint = (
            "install it (Debian and Ubuntu: apt-get install mariadb-server-core), or name the folder of mariadbd "
            "in target.bin_dir, or attach to a running server with target.dsn"
        )
    if not places:
        raise PreflightError(problem, key=BIN_DIR, hint=hint)
    return _inspect(Path(places[0]), origin)


@cache
def _inspect(server: Path, origin: str) -> Binaries:
    output = version_output(server, "--no-defaults")
    match = _SAID.search(output)
    if match is None or not match[2]:
        mysql = "MySQL" in output
        hint = "storagelab starts MariaDB only; start MySQL yourself and attach to it with target.dsn"
        raise PreflightError(
            f"{server} is {'MySQL' if mysql else 'not MariaDB'}: it says {output.strip()!r}",
            key=BIN_DIR, hint=hint if mysql else _FOLDER_HINT,
        )  # fmt: skip
    if tuple(map(int, match[1].split("."))) < OLDEST:
        raise PreflightError(
            f"{server} is MariaDB {match[1]}, which is too old", key=BIN_DIR,
            hint=f"storagelab measures MariaDB {'.'.join(map(str, OLDEST))} and later",
        )  # fmt: skip
    return Binaries(server=server, installer=_installer(server, origin), version=match[1], origin=origin)


def _installer(server: Path, origin: str) -> Path:
    """The installer. It is searched beside the server, in the script folders of the installation, and on the PATH.

    Raises PreflightError if there is none.
    """
    near = [server.parent, server.parent.parent / "bin", server.parent.parent / "scripts"]
    places = [folder / name for folder in near for name in _INSTALLERS if (folder / name).is_file()]
    places += [Path(found) for found in map(shutil.which, _INSTALLERS) if found and origin == "this system"]
    if not places:
        raise PreflightError(
            f"{server.parent} holds mariadbd, but no mariadb-install-db is beside it", key=BIN_DIR,
            hint="install the rest of the server (Debian and Ubuntu: apt-get install mariadb-server-core)",
        )  # fmt: skip
    return places[0]


_OWN = frozenset({
    "datadir", "basedir", "socket", "pid_file", "port", "bind_address", "skip_networking", "user", "tmpdir",
    "innodb_log_group_home_dir", "innodb_data_home_dir", "log_error", "init_file", "plugin_dir", "plugin_load",
    "plugin_load_add", "skip_grant_tables", "performance_schema", "performance_schema_instrument",
})  # fmt: skip
"""Settings that storagelab sets itself. They keep a private server private and put its files into the layout's places.
They also make its sessions visible to storagelab.
"""
_READ_ONLY_AT_START = "Variables (--variable-name=value)"
_COMPLAINT = re.compile(
    r"\[ERROR\] (?P<error>.*)" r"|\[Warning\] (?:Buffered warning: )?(?P<adjusted>option '.*adjusted to .*)"
    r"|^\S*(?:mariadbd|mysqld): (?P<plain>.*)", re.MULTILINE,
)  # fmt: skip
_SAID_BY = re.compile(r"^.*?(?:mariadbd|mysqld): ")


def privilege(name: str, value: Scalar) -> str | None:
    """The effect that a setting has outside the database, or None.

    Settings that storagelab sets itself have None, because a spec can't set them. `loose-` before a name is ignored.
    """
    name = setting_name(name).removeprefix("loose_")
    if name in _OWN:
        return None
    if name.startswith("wsrep"):
        return None if settings_text(value).upper() in ("OFF", "0", "FALSE", "NONE") else RUNS_PROGRAM
    return LOADS_CODE if name.startswith("plugin") else by_value(value)


def private_settings(config: Config) -> dict[str, Scalar]:
    """The settings of a private server. If both the spec and storagelab set one, the spec's value is used."""
    needed: dict[str, Scalar] = {"max_connections": max(16, config.database_load.connections + SPARE_CONNECTIONS)}
    return {**needed, **{setting_name(name): value for name, value in config.target.settings.items()}}


def observing(waits: bool) -> list[str]:
    """The options that switch the server's wait counters on or off. A factor of a spec can switch them, so a campaign
    can measure their cost.

    Events of the handler and of metadata locks are off, because they contain other events, which would be counted
    twice. A session's own mutexes are off, too, because they have no contention and are taken several times per row.
    """
    options = ["--performance-schema=ON", "--performance-schema-instrument=stage/%=OFF"]
    options += [f"--performance-schema-instrument=wait/%={'ON' if waits else 'OFF'}"]
    if not waits:
        return options
    left_out = ("wait/io/table/%", "wait/lock/%", "wait/synch/mutex/sql/THD::%", "wait/io/socket/%")
    options += [f"--performance-schema-instrument={name}=OFF" for name in left_out]
    consumers = ("events-waits-current", "global-instrumentation", "thread-instrumentation")
    return [*options, *(f"--performance-schema-consumer-{name}=ON" for name in consumers)]


def _read_by_parser(binaries: Binaries, settings: Pairs) -> dict[str, str]:
    """The values of these settings as the server's own parser reads them.

    Raises PreflightError with the server's message if the server refuses a setting, does not have it, or would change
    its value without an error.
    """
    values, trouble = _ask_parser(binaries, settings)
    if not trouble and all(setting_name(name) in values for name, _ in settings):
        return {name: values[setting_name(name)] for name, _ in settings}
    name, known = settings[0][0], _ask_parser(binaries, ())[0]
    near = did_you_mean(setting_name(name), known) if setting_name(name) not in known else ""
    raise PreflightError(
        f"the server refuses it: {trouble or 'it has no setting of that name'}", key=f"target.settings.{name}",
        hint=f"{near}MariaDB {binaries.version} from {binaries.origin} was asked",
    )  # fmt: skip


@cache
def _ask_parser(binaries: Binaries, settings: Pairs) -> tuple[dict[str, str], str]:
    """Runs the server with these settings and `--help --verbose`.

    With these options, the server reads its settings as at a start, prints them and ends. Returns the values of all
    settings, and the parser's message about a problem, or "".
    """
    options = [f"--{name.replace('_', '-')}={text}" for name, text in settings]
    with temporary.folder("check") as folder:
        give_to_server(folder)
        command = [str(binaries.server), "--no-defaults", *options, "--verbose", "--help"]
        in_child = as_server(folder, *installation(binaries.server))
        output = run(command, in_child, timeout_s=30, environment=environment(), folder=folder)
    table = output.stdout.partition(_READ_ONLY_AT_START)[2].splitlines()[2:]
    values = {setting_name(name): value.strip() for name, _, value in (line.partition(" ") for line in table)}
    troubles = [next(filter(None, match.groups()), "") for match in _COMPLAINT.finditer(output.stderr + output.stdout)]
    return values, "; ".join(dict.fromkeys(_SAID_BY.sub("", trouble) for trouble in troubles))


USER = "root"
_PID_FILE = "storagelab.pid"
_WANTED_FROM_THE_START = re.compile(r"innodb_|lower_case_table_names$|aria_")
"""Settings that can't change after the database is made. So the program that makes the database also needs these
settings.
"""
_UNSYNCED = "--debug-no-sync"
"""With this option, the program that makes a database syncs nothing to the disk. Without it, the program needs a
thousand writes and some seconds, for data that need not survive a crash. The measured server does not have the option.
Before the measured runs, the new database is written out (between_runs.checkpoint).
"""
_TROUBLE = re.compile(r"\[ERROR\]|\[FATAL\]|got signal|No space left|Assertion failure|Aborting")
_CLIENTS_OWN = [(number,) for number in range(2000, 3000)]
"""The numbers of errors that the driver itself reports, without an answer from the server."""


class Server(PrivateServer[Binaries]):
    """A private MariaDB server."""

    trouble, telling_lines = _TROUBLE, 2
    stop_signal, shut_down_signal = signal.SIGKILL, signal.SIGTERM

    def _reach(self) -> tuple[Path, ...]:
        return (self._tmp_folder, *installation(self.programs.server), *installation(self.programs.installer))

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
        """The option that names the folder of the server's files. A server from `bin_dir` needs it, others don't."""
        return [f"--basedir={self.programs.server.parent.parent}"] if self.programs.origin == BIN_DIR else []

    def _command(self) -> list[str]:
        return [
            str(self.programs.server), "--no-defaults", *self._base(), *self._places(), *observing(self.waits),
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
    """The error messages in a server's log, without their time stamps."""
    return " ".join(line.split("] ", 1)[-1].strip() for line in log.splitlines() if _TROUBLE.search(line))


STARTER = Starter(
    "MariaDB", find_binaries, private_settings, settings_text, _read_by_parser,
    lambda name: setting_name(name).removeprefix("loose_") in _OWN, Server,
)  # fmt: skip


def stop_orphan(data_folder: Path) -> bool:
    """Stops a server on `data_folder` that an earlier, killed storagelab left. Returns whether there was one."""
    return stop_process(data_folder / _PID_FILE, f"--datadir={data_folder}", signal.SIGKILL)
