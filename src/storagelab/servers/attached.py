"""Servers that already run, on any engine: where their DSN comes from, the rights of a login, their processes, and what
they show of their layout. Also keeps passwords out of messages.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from storagelab.errors import PreflightError, refuse
from storagelab.machine.disks import HERE, read_text
from storagelab.machine.processes import stat_fields
from storagelab.model.config import TargetConfig
from storagelab.model.values import JsonValue, Scalar
from storagelab.spec.given_files import opened, text_of

# --- hides passwords in messages of drivers and servers ---------------------------------------------------------------
# If a message contains a part of a secret, all of it is hidden. In a DSN of a simple form, the secrets are the password
# and the secret options; user, host, database and paths may be shown. In a DSN of another form, or with an option that
# no driver knows, the password may be anywhere, so the whole DSN is secret:
#
#     postgresql://me:pass@word@host/     libpq takes "word@host" as the host, and names it if it can't find it
#     postgresql://me:password/           "password" is the port
#
# In me:pass@word/, the host may be a part of the password, too. So if a DSN has a password, its host is secret, unless
# it is an address.

HIDDEN = "(hidden: these words may show a part of the password)"
_SHORTEST_PIECE = 4
_PASSFILE_MOST = 1 << 16
PASSWORD_VARIABLES = ("PGPASSWORD", "MYSQL_PWD", "SQLCMDPASSWORD")

_NAME = r"[A-Za-z0-9_](?:[\w-]*\w)?"
_HOST = rf"(?:\[[0-9A-Fa-f:.]+\]|(?:{_NAME}(?:\.{_NAME})*)?)(?::\d{{1,5}})?"
_USER = r"(?:[^/?#@:%\s]|%[2-9A-Fa-f][0-9A-Fa-f])*"
_URI = re.compile(
    rf"\w+://(?:{_USER}(?::(?P<password>[^/?#@:]*))?@)?(?P<hosts>{_HOST}(?:,{_HOST})*)(?:/[^/?#@%]*)?"
    r"(?:\?(?P<options>[^#@]*))?", re.ASCII,
)  # fmt: skip
_SETTING = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|\S*)\s*")
_ADDRESS = re.compile(r"(?:localhost|\[[0-9A-Fa-f:.]+\]|\d{1,3}(?:\.\d{1,3}){3})?(?::\d{1,5})?", re.IGNORECASE)
_SHOWN_OPTIONS = frozenset({
    "application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname", "encrypt", "gssencmode",
    "hostaddr", "instance", "keepalives", "krbsrvname", "load_balance_hosts", "options", "passfile", "require_auth",
    "service", "ssl", "ssl_ca", "sslcert", "sslcrl", "sslkey", "sslmode", "sslrootcert", "target_session_attrs",
    "unix_socket", "user",
})  # fmt: skip
_SECRET_OPTIONS = frozenset({"oauth_client_secret", "passwd", "password", "sslpassword", "token"})


def hidden(words: str, target: TargetConfig) -> str:
    """Returns `words`. If they contain four or more successive characters of a secret of the DSN, returns a remark
    instead.
    """
    if not target.attached:
        return words
    text = target.dsn if target.dsn is not None else os.environ.get(target.dsn_env or "", "")
    secrets = [*secrets_of(text), *filter(None, map(os.environ.get, PASSWORD_VARIABLES))]
    small, length = _small(words), _SHORTEST_PIECE
    for form in {_small(form) for secret in secrets for form in _forms(secret)}:
        alone = 1 < len(form) < length and re.search(rf"(?<!\w){re.escape(form)}(?!\w)", small)
        if alone or any(form[i : i + length] in small for i in range(len(form) - length + 1)):
            return HIDDEN
    return words


def secrets_of(dsn: str) -> list[str]:
    """The texts that a message must not show: the secrets of a DSN of a simple form, or else the whole DSN."""
    found = _of_settings(dsn) if "://" not in dsn else _of_uri(dsn)
    return [dsn] if found is None else found


def _of_uri(dsn: str) -> list[str] | None:
    uri = _URI.fullmatch(dsn)
    if uri is None:
        return None
    # The values stay as written. `_forms` also decodes them, because a message may contain either form.
    options = [part.partition("=") for part in uri["options"].split("&")] if uri["options"] else []
    secrets = _of_options([(name, value) for name, equals, value in options if equals])
    if not all(equals for _, equals, _ in options):
        return None
    if secrets is None or not uri["password"]:
        return secrets
    names = [host for host in uri["hosts"].split(",") if not _ADDRESS.fullmatch(host)]
    return [*secrets, uri["password"], *names]


def _of_settings(dsn: str) -> list[str] | None:
    settings = [(found[1], found[2]) for found in _SETTING.finditer(dsn)]
    settings = [(name, value[1:-1] if value[:1] == "'" == value[-1:] else value) for name, value in settings]
    return None if _SETTING.sub("", dsn).strip() else _of_options(settings)


def _of_options(settings: Iterable[tuple[str, str]]) -> list[str] | None:
    """The secret values. Returns None if an option is unknown, or if a value has a form that no driver accepts."""
    secrets = []
    for name, value in settings:
        if name in _SECRET_OPTIONS:
            secrets.append(value)
        elif name == "passfile":
            secrets += _in_passfile(value)
        elif name == "host":
            if not (os.path.isabs(value) or re.fullmatch(_HOST, value, re.ASCII)):
                return None
        elif name == "port":
            if not re.fullmatch(r"[\d,]*", value):
                return None
        elif name not in _SHOWN_OPTIONS:
            return None
    return secrets


def _in_passfile(file: str) -> list[str]:
    """The passwords in libpq's password file, or [] if the file can't be read."""
    try:
        with opened(Path(file)) as passfile:
            lines = passfile.read(_PASSFILE_MOST).decode(errors="replace").splitlines()
    except (OSError, ValueError):
        return []
    return [re.sub(r"\\(.)", r"\1", re.split(r"(?<!\\):", line)[-1]) for line in lines if line[:1] != "#"]


def _forms(secret: str) -> Iterator[str]:
    """The forms in which a message may contain a secret: as written, decoded, and as Python quotes it."""
    for form in dict.fromkeys([secret, unquote(secret), secret.replace("\\", ""), re.sub(r"\\(.)", r"\1", secret)]):
        yield form
        yield repr(form)[1:-1]


def _small(text: str) -> str:
    """The text in lower case, because drivers write hosts so. Its length does not change."""
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)


# --- a server that runs already ---------------------------------------------------------------------------------------

SPARE_CONNECTIONS = 4
"""The number of connections that storagelab needs in addition to the workload's."""
OWNERSHIP = "made by storagelab, which removes it again"
"""The mark of everything that storagelab makes on a server. Without this mark, an object belongs to others, whatever
its name is.
"""

Decoys = tuple[TargetConfig, dict[str, JsonValue], Callable[[], object]]
"""A database that storagelab made on a server, the load, and a function that reads the load's tables. The default
schema of the database has tables with the names that the load's program uses.
"""
Need = tuple[bool, str, str]
"""A requirement: whether it is met, the problem if it is not, and the solution."""


def key_of(target: TargetConfig) -> str:
    """The key of the spec that names the server."""
    return "target.dsn" if target.dsn is not None else "target.dsn_env"


def dsn_of(target: TargetConfig, example: str) -> str:
    """The DSN. It is in the spec, or in the environment variable that the spec names. Raises PreflightError if that
    variable is not set. `example` is a DSN for the hint.
    """
    if target.dsn is not None:
        return target.dsn
    assert target.dsn_env is not None
    text = os.environ.get(target.dsn_env)
    if not text:
        raise PreflightError(
            f"the environment variable {target.dsn_env} is not set",
            key="target.dsn_env",
            hint=f"for example: export {target.dsn_env}={example}",
        )
    return text


def require(target: TargetConfig, needs: Iterable[Need]) -> None:
    """Checks what the server and the login must provide. Raises PreflightError with the problems of all unmet needs."""
    refuse([PreflightError(problem, key=key_of(target), hint=way_out) for met, problem, way_out in needs if not met])


def enough_connections(connections: int, free: int, setting: str) -> Need:
    """The need for as many free connections as the workload and storagelab use."""
    needed = connections + SPARE_CONNECTIONS
    problem = f"the server has room for {free} more connections, {needed} are needed"
    return free >= needed, problem, f"raise {setting}, or lower workload.connections"


def where(line: socket.socket, *, on_this_machine: bool) -> str:
    """Says in which machine the server runs, for a plan. `line` is the socket of a connection to the server."""
    if on_this_machine:
        return "on this machine"
    return f"{'perhaps on another machine (this is unknown)' if is_near(line) else 'remote'}: no resource/signal split"


def kept_by_load(names: Iterable[str]) -> list[str]:
    """A note about settings that only the load's sessions have, and storagelab's own sessions lack. It has no values,
    because they may be secret.
    """
    listed = ", ".join(dict.fromkeys(names))
    return [f"the server sets for this login, and the load keeps: {listed}"] if listed else []


def is_near(line: socket.socket) -> bool:
    """Whether a connection ends on this machine. A program that answers on this machine may be a proxy, so the server
    itself may run elsewhere.
    """
    return line.family == socket.AF_UNIX or ip_address(line.getpeername()[0].partition("%")[0]).is_loopback


def holds_other_end(process: Path, line: socket.socket) -> bool:
    """Whether the process with this folder in /proc has the other end of a connection. If this user may not see the
    process's files, returns whether the process and that end have the same owner.
    """
    if line.family == socket.AF_UNIX:
        pid, *_ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return process.name == str(pid)
    for owner, inode in _other_ends(line):
        try:
            return any(os.readlink(file) == f"socket:[{inode}]" for file in (process / "fd").iterdir())
        except OSError:
            return str((owner_of(process) or ("?",))[0]) == owner
    return False


_CREDENTIALS = struct.Struct("3i")
"""The kernel's struct ucred: the PID, the user ID and the group ID."""


def _other_ends(line: socket.socket) -> Iterator[tuple[str, str]]:
    """The owner and the inode of the other end of a TCP connection. Returns nothing if the other end is on another
    machine.
    """
    theirs, ours = (
        "".join(f"{word:08X}" for (word,) in struct.iter_unpack("=I", ip_address(address).packed)) + f":{port:04X}"
        for address, port, *_ in (line.getpeername(), line.getsockname())
    )
    for table in ("tcp", "tcp6"):  # an IPv6 address that contains an IPv4 address ends with it
        with contextlib.suppress(OSError):
            rows = map(str.split, Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines())
            yield from ((row[7], row[9]) for row in rows if row[1].endswith(theirs) and row[2].endswith(ours))


def process_age_s(process: Path, names: tuple[str, ...]) -> float | None:
    """How long the process with this folder in /proc has run, in seconds. Returns None if it has ended, or if its name
    is not one of `names`.
    """
    if read_text(process / "comm") not in names or not (fields := stat_fields(process)):
        return None
    machine_up_s = float(read_text(HERE.proc / "uptime").split()[0])
    return machine_up_s - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def pid_in(file: Path) -> str:
    """The number in a server's PID file, or "" without such a file. The text may not be a number, because the server's
    user can write the file.
    """
    with contextlib.suppress(OSError, ValueError):
        return text_of(file).partition("\n")[0]
    return ""


def owner_of(process: Path) -> tuple[int, int] | None:
    """The account (uid, gid) with which a process runs, or None if the process has ended."""
    with contextlib.suppress(OSError):
        return (status := process.stat()).st_uid, status.st_gid
    return None


@contextlib.contextmanager
def quoting(
    target: TargetConfig, errors: type[Exception] | tuple[type[Exception], ...], words: Callable[[BaseException], str],
    problem: str = "the server says", hint: str = "",
) -> Iterator[None]:  # fmt: skip
    """Turns an error of the server into a PreflightError that quotes the error, without secrets."""
    try:
        yield
    except errors as error:
        raise PreflightError(f"{problem}: {hidden(words(error), target)}", key=key_of(target), hint=hint) from error


def dropping_leftovers(
    target: TargetConfig, errors: type[Exception], words: Callable[[BaseException], str], thing: str
) -> contextlib.AbstractContextManager[None]:
    problem = "can't drop the remains of an earlier run on the server"
    return quoting(target, errors, words, problem, f"drop {thing} by hand, as its owner")


def foreign(what: str, key: str = "target.dsn") -> PreflightError:
    """The error if an object on the server has a name that storagelab needs, but was not made by storagelab."""
    return PreflightError(
        f"on the server, {what} has a name that storagelab needs, but storagelab did not make it",
        key=key,
        hint="rename or drop it: storagelab drops only what it made",
    )


# --- facts from which a spec is drafted -------------------------------------------------------------------------------


class RunningServer(NamedTuple):
    """A running server. `places` are the folders of its data, its log and its tablespaces. Their keys can be names of
    volumes.
    """

    title: str
    settings: dict[str, Scalar]
    """The settings that affect storage and whose values the server's operator changed."""
    places: dict[str, Path]
    here: bool
    """Whether the server runs on this machine."""
    data_bytes: int
    bin_dir: Path | None = None
    """The folder of the server's programs. The value is None if the server runs on another machine, or if the folder is
    hidden.
    """
    asked: frozenset[str] = frozenset()
    """The names of all settings that affect storage, changed or not."""
    left_out: tuple[str, ...] = ()
    """Lines about other settings that the operator changed, with reasons for leaving them out. They have no values,
    because some values are secret.
    """
    sessions: int = 0
    """The number of open sessions of clients."""
    working: int = 0
    """The number of sessions that are working now."""
    checkpoint_s: float | None = None
    """The longest time from one checkpoint to the next, in seconds, or None if no setting limits it."""


def volume_name(name: str) -> str:
    """A valid volume name for a spec, made from the name of a tablespace."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)[:31].lstrip("_-") or "tablespace"


def reasons(known: Mapping[tuple[str, ...], str], names: Sequence[str]) -> tuple[str, ...]:
    """Lines about settings that a draft leaves out, with reasons. `known` maps prefixes of names to reasons."""
    lines = []
    for begins, reason in known.items():
        if of := [name for name in names if name.startswith(begins)]:
            names = [name for name in names if name not in of]
            lines.append(f"{', '.join(of)}: {reason}")
    rest = f"these do not affect writes, as far as storagelab knows: {', '.join(names)}"
    return (*lines, *([rest] if names else ()))
