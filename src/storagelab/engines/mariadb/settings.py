"""The programs of a private server, its settings, and how the server itself reads each setting."""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from storagelab.errors import PreflightError
from storagelab.machine import temporary
from storagelab.machine.rights import LOADS_CODE, RUNS_PROGRAM, as_server, by_value, give_to_server
from storagelab.model.config import Config
from storagelab.model.values import Scalar
from storagelab.servers.private import Settings, changes, refuse_own
from storagelab.servers.programs import BIN_DIR, Programs, environment, installation, run, version_output
from storagelab.servers.starting import SPARE_CONNECTIONS
from storagelab.spec.units import parse_bytes

# --- binaries --------------------------------------------------------------------------------------------------------
#
# Finds the MariaDB server on this machine.


OLDEST = (10, 11)
"""Older releases lack RANDOM_BYTES and the path of each data file in the catalogue, and are no longer supported."""

_SERVERS = ("mariadbd", "mysqld")
_INSTALLERS = ("mariadb-install-db", "mysql_install_db")
_SAID = re.compile(r"Ver (\d+\.\d+\.\d+)(-MariaDB)?")


class Binaries(Programs):
    """The programs of one installation: `server` is mariadbd, `installer` the script that makes a database."""

    server: Path
    installer: Path

    @property
    def release(self) -> tuple[int, int]:
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)


def find_binaries(bin_dir: str | None) -> Binaries:
    """The server to start: in `bin_dir` if given, else on the PATH.

    Raises PreflightError if there is none, it is too old, or it is MySQL.
    """
    if bin_dir is not None:
        folder = Path(bin_dir).expanduser()
        server = next((folder / name for name in _SERVERS if (folder / name).is_file()), None)
        if server is None:
            raise PreflightError(
                f"{folder} holds no mariadbd",
                key=BIN_DIR,
                hint="name the folder of a MariaDB installation that holds mariadbd, "
                "or leave bin_dir out to use the one on the PATH",
            )
        return _inspect(server, BIN_DIR)
    for name in _SERVERS:
        found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/libexec:/usr/local/sbin")
        if found:
            return _inspect(Path(found), "this system")
    raise PreflightError(
        "no MariaDB server found on this machine",
        key=BIN_DIR,
        hint="install it (Debian and Ubuntu: apt-get install mariadb-server-core), or name the folder of mariadbd "
        "in target.bin_dir, or attach to a running server with target.dsn",
    )


@cache
def _inspect(server: Path, origin: str) -> Binaries:
    version = _version(server)
    if version < OLDEST:
        raise PreflightError(
            f"{server} is MariaDB {'.'.join(map(str, version))}, which is too old",
            key=BIN_DIR,
            hint=f"storagelab measures MariaDB {'.'.join(map(str, OLDEST))} and later",
        )
    return Binaries(
        server=server, installer=_installer(server, origin), version=".".join(map(str, version)), origin=origin
    )


def _version(server: Path) -> tuple[int, ...]:
    output = version_output(server, "--no-defaults")
    match = _SAID.search(output)
    if match is None or not match[2]:
        mysql = "MySQL" in output
        raise PreflightError(
            f"{server} is {'MySQL' if mysql else 'not MariaDB'}: it says {output.strip()!r}",
            key=BIN_DIR,
            hint="storagelab starts MariaDB only; start MySQL yourself and attach to it with target.dsn"
            if mysql
            else "name the folder of a MariaDB installation that holds mariadbd",
        )
    return tuple(map(int, match[1].split(".")))


def _installer(server: Path, origin: str) -> Path:
    """The installer: beside the server, or where the same installation keeps scripts, or on the PATH."""
    near = [server.parent, server.parent.parent / "bin", server.parent.parent / "scripts"]
    for folder in near:
        for name in _INSTALLERS:
            if (folder / name).is_file():
                return folder / name
    found = next(filter(None, map(shutil.which, _INSTALLERS)), None) if origin == "this system" else None
    if found is None:
        raise PreflightError(
            f"{server.parent} holds mariadbd, but no mariadb-install-db is near it",
            key=BIN_DIR,
            hint="install the rest of the server (Debian and Ubuntu: apt-get install mariadb-server-core)",
        )
    return Path(found)


_OWN = frozenset({
    "datadir", "basedir", "socket", "pid_file", "port", "bind_address", "skip_networking", "user", "tmpdir",
    "innodb_log_group_home_dir", "innodb_data_home_dir", "log_error", "init_file", "plugin_dir", "plugin_load",
    "plugin_load_add", "skip_grant_tables", "performance_schema", "performance_schema_instrument",
})  # fmt: skip
"""The settings that keep a private server private, its files where the layout says, and its sessions visible."""
_READ_ONLY_AT_START = "Variables (--variable-name=value)"
_TROUBLE = re.compile(
    r"\[ERROR\] (?P<error>.*)"
    r"|\[Warning\] (?:Buffered warning: )?(?P<adjusted>option '.*adjusted to .*)"
    r"|^\S*(?:mariadbd|mysqld): (?P<plain>.*)",
    re.MULTILINE,
)
_SAID_BY = re.compile(r"^.*?(?:mariadbd|mysqld): ")


def setting_name(name: str) -> str:
    """A setting's name as the server shows it: `innodb-page-size` and `innodb_page_size` are one."""
    return name.replace("-", "_").lower()


def privilege(name: str, value: Scalar) -> str | None:
    """What a setting makes the server do besides keeping a database. Settings that belong to storagelab are refused
    in any case.

    `loose-` before a name changes nothing.
    """
    name = setting_name(name).removeprefix("loose_")
    if name in _OWN:
        return None
    if name.startswith("wsrep"):
        return None if settings_text(value).upper() in ("OFF", "0", "FALSE", "NONE") else RUNS_PROGRAM
    return LOADS_CODE if name.startswith("plugin") else by_value(value)


def settings_text(value: Scalar) -> str:
    """A setting's value as MariaDB reads it."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value)


def private_settings(config: Config) -> dict[str, Scalar]:
    """Settings for a private server. The spec's take precedence over ours."""
    needed: dict[str, Scalar] = {"max_connections": max(16, config.database_load.connections + SPARE_CONNECTIONS)}
    return {**needed, **{setting_name(name): value for name, value in config.target.settings.items()}}


def observing(waits: bool) -> list[str]:
    """The options that switch the server's wait counters on or off, so that a spec can compare their cost by a
    factor.

    Events of the handler and of metadata locks are off: they contain others and would count twice. So are a session's
    own mutexes: they have no contention, and are taken several times per row.
    """
    options = ["--performance-schema=ON", "--performance-schema-instrument=stage/%=OFF"]
    options += [f"--performance-schema-instrument=wait/%={'ON' if waits else 'OFF'}"]
    if not waits:
        return options
    left_out = ("wait/io/table/%", "wait/lock/%", "wait/synch/mutex/sql/THD::%", "wait/io/socket/%")
    options += [f"--performance-schema-instrument={name}=OFF" for name in left_out]
    consumers = ("events-waits-current", "global-instrumentation", "thread-instrumentation")
    return [*options, *(f"--performance-schema-consumer-{name}=ON" for name in consumers)]


def check_settings(binaries: Binaries, settings: Settings) -> dict[str, str]:
    """How the server itself reads each setting, to compare with later: `{name: value}`.

    This asks the server's own parser; no database is made. Raises PreflightError with the server's words for the first
    setting that it refuses, does not know, or would quietly change.
    """
    _refuse_own(settings)
    asked = {name: settings_text(value) for name, value in settings.items()}
    for name, text in asked.items():
        output = _ask_parser(binaries, ((name, text),))
        _refuse(binaries, name, output)
    if not asked:
        return {}
    together = _ask_parser(binaries, tuple(asked.items()))
    _refuse(binaries, next(iter(asked)), together)
    return {name: together.values[setting_name(name)] for name in asked}


def accepts(binaries: Binaries, kinds: Sequence[Settings]) -> bool:
    """Whether the server's parser accepts the settings of all these kinds, one after the other, in one program."""
    for settings in kinds:
        _refuse_own(settings)
    given = tuple(changes(kinds, settings_text))
    output = _ask_parser(binaries, given)
    return not output.trouble and all(setting_name(name) in output.values for name, _ in given)


def _refuse_own(settings: Settings) -> None:
    refuse_own(settings, lambda name: setting_name(name).removeprefix("loose_") in _OWN)


class _ParserOutput(NamedTuple):
    """The parser's output: values of all settings, and its complaint, if any."""

    values: dict[str, str]
    trouble: str


def _refuse(binaries: Binaries, name: str, output: _ParserOutput) -> None:
    if not output.trouble and setting_name(name) in output.values:
        return
    unknown = setting_name(name) not in _ask_parser(binaries, ()).values
    near = nearest_setting(binaries, name) if unknown else ""
    raise PreflightError(
        f"the server refuses it: {output.trouble or 'it has no setting of that name'}",
        key=f"target.settings.{name}",
        hint=f"{near}MariaDB {binaries.version} from {binaries.origin} was asked",
    )


def nearest_setting(binaries: Binaries, name: str) -> str:
    """A question, "Did you mean ...? ", with the server's setting of the most similar spelling; empty if there is
    none.
    """
    close = difflib.get_close_matches(setting_name(name), _ask_parser(binaries, ()).values, 1)
    return f"Did you mean {close[0]}? " if close else ""


@cache
def _ask_parser(binaries: Binaries, settings: tuple[tuple[str, str], ...]) -> _ParserOutput:
    """Reads options with `--help --verbose`: the server reads them as at a start, prints the result, and starts
    nothing.
    """
    options = [f"--{name.replace('_', '-')}={text}" for name, text in settings]
    with temporary.folder("check") as folder:
        give_to_server(folder)
        command = [str(binaries.server), "--no-defaults", *options, "--verbose", "--help"]
        in_child = as_server(folder, *installation(binaries.server))
        output = run(command, in_child, timeout_s=30, environment=environment(), folder=folder)
    table = output.stdout.partition(_READ_ONLY_AT_START)[2].splitlines()[2:]
    values = {}
    for line in table:
        name, _, value = line.partition(" ")
        values[setting_name(name)] = value.strip()
    troubles = [next(filter(None, match.groups()), "") for match in _TROUBLE.finditer(output.stderr + output.stdout)]
    return _ParserOutput(values, "; ".join(dict.fromkeys(_SAID_BY.sub("", trouble) for trouble in troubles)))


def bytes_of(config: Config, name: str, default: int) -> int:
    """A size among the settings of a private server; the default if it can't be read here."""
    asked = private_settings(config).get(name, default)
    try:
        return parse_bytes(f"{asked}B" if isinstance(asked, str) and asked[-1:].isalpha() else str(asked))
    except ValueError:
        return default  # the server will decide; only the estimate is coarser


# --- sessions --------------------------------------------------------------------------------------------------------
#
# What our own sessions, and programs that make and restore tables, rely on: a server, a login or init_connect may set
# each of it to something else. The sessions of a load keep what is set for their login.


LOOKS_ON = "wait_timeout = 31536000, sql_select_limit = 18446744073709551615"
"""A session that looks on a load until its end is not ended meanwhile, and reads all that it asks for."""
_STRICT = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,{}NO_ENGINE_SUBSTITUTION"
_SESSION = {
    "autocommit": "1", "completion_type": "0", "foreign_key_checks": "1", "unique_checks": "1", "sql_safe_updates": "0",
    "max_join_size": "18446744073709551615", "sql_big_selects": "1",
    "sql_auto_is_null": "0", "sql_quote_show_create": "1", "innodb_lock_wait_timeout": "50", "net_read_timeout": "30",
    "net_write_timeout": "60", "default_storage_engine": "InnoDB", "time_zone": "'SYSTEM'",
}  # fmt: skip
_ON_MARIADB = {
    "sql_mode": f"'{_STRICT.format('NO_AUTO_CREATE_USER,')}'", "tx_isolation": "'REPEATABLE-READ'", "tx_read_only": "0",
    "max_statement_time": "0", "idle_transaction_timeout": "0", "idle_write_transaction_timeout": "0",
    "idle_readonly_transaction_timeout": "0", "lock_wait_timeout": "86400", "alter_algorithm": "'DEFAULT'",
    "check_constraint_checks": "1", "auto_increment_increment": "1", "auto_increment_offset": "1",
    "explicit_defaults_for_timestamp": "1", "innodb_strict_mode": "1",
}  # fmt: skip
_ON_MYSQL = {
    "sql_mode": f"'{_STRICT.format('')}'", "transaction_isolation": "'REPEATABLE-READ'", "transaction_read_only": "0",
    "max_execution_time": "0", "lock_wait_timeout": "31536000",
}  # fmt: skip
GUARDED = frozenset({*_SESSION, *_ON_MARIADB, *_ON_MYSQL})


def guarding(*but: str) -> str:
    """The statement that sets all of it, `but` some, on MariaDB or on MySQL, each of which skips what is the
    other's.
    """

    def listed(settings: dict[str, str]) -> str:
        return ", ".join(f"{name} = {text}" for name, text in settings.items() if name not in but)

    own = f"/*M!101100 {listed(_ON_MARIADB)}, */ /*!80000 {listed(_ON_MYSQL)}, */"
    names = "character_set_client = utf8mb4, character_set_connection = utf8mb4, character_set_results = utf8mb4"
    return f"SET SESSION {own} {listed(_SESSION)}, {names}, {LOOKS_ON}"


def setting(settings: Mapping[str, Scalar]) -> str:
    """The statement by which a client sets them for its session; "" for none."""
    parts = []
    for name, value in settings.items():
        text = settings_text(value)
        quoted = text.replace("\\", "\\\\").replace("'", "''")
        parts.append(
            f"`{setting_name(name).replace('`', '``')}` = " + (text if _NUMBER.fullmatch(text) else f"'{quoted}'")
        )
    return f"SET SESSION {', '.join(parts)}" if parts else ""


_NUMBER = re.compile(r"-?\d+(\.\d+)?")
