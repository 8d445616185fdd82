"""Hides passwords in messages of drivers and servers.

A DSN of a plain form says which part is the password: that and options with secrets are hidden, and user, host,
database and paths are shown. If it is not of such a form, or has an option that no driver knows, a password may stand
anywhere in it, so every piece of it is hidden:

    postgresql://me:pass@word@host/     libpq takes "word@host" for the host, and names it if it can't find it
    postgresql://me:password/           "password" is the port

In me:pass@word/ the host may be a part of the password, too: beside a password, a host is hidden unless it is an address.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from storagelab.model.config import TargetConfig

MASK = "********"
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
# Words of the drivers' own messages. A word in quotes, or next to a character of a DSN's syntax, came from the user.
_DRIVERS_WORDS = frozenset({
    "access", "adaptive", "address", "authentication", "available", "connect", "connection", "could", "database",
    "denied", "does", "error", "exist", "failed", "fatal", "file", "from", "host", "known", "login", "lost",
    "mariadb", "message", "mysql", "name", "named", "nobody", "open", "password", "port", "postgres", "postgresql",
    "query", "refused", "resolution", "role", "select", "server", "service", "socket", "temporary", "translate",
    "unable", "unknown", "user", "using",
})  # fmt: skip
_QUOTES = "'\"@`"
_WORD = re.compile(r"[^\W\d_]+")


def hidden(words: str, target: TargetConfig) -> str:
    """`words` without the DSN's secrets, and without any part of theirs that has four or more characters."""
    if not target.attached:
        return words
    text = target.dsn if target.dsn is not None else os.environ.get(target.dsn_env or "", "")
    secrets = [*secrets_of(text), *filter(None, map(os.environ.get, PASSWORD_VARIABLES))]
    return _without(words, {_small(form) for secret in secrets for form in _forms(secret)})


def secrets_of(dsn: str) -> list[str]:
    """What a message must not show: of a DSN of a plain form its secrets, else all of it."""
    found = _of_settings(dsn) if "://" not in dsn else _of_uri(dsn)
    return [dsn] if found is None else found


def _of_uri(dsn: str) -> list[str] | None:
    uri = _URI.fullmatch(dsn)
    if uri is None:
        return None
    # Values as they are written: a message may have them so, or decoded.
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
    """The secrets among settings; None if one is of no form that a driver knows."""
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
    """The passwords in libpq's file of them; none if it can't be read."""
    try:
        lines = Path(file).read_text(encoding="utf-8", errors="replace")[:_PASSFILE_MOST].splitlines()
    except (OSError, ValueError):
        return []
    return [re.sub(r"\\(.)", r"\1", re.split(r"(?<!\\):", line)[-1]) for line in lines if line[:1] != "#"]


def _forms(secret: str) -> Iterator[str]:
    """The forms that a text may take in messages: as written, as decoded, and as Python quotes it."""
    for form in dict.fromkeys([secret, unquote(secret), secret.replace("\\", ""), re.sub(r"\\(.)", r"\1", secret)]):
        yield form
        yield repr(form)[1:-1]


def _small(text: str) -> str:
    """The text in lower case, as drivers write hosts, with its length unchanged."""
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)


def _without(words: str, secrets: Collection[str]) -> str:
    """Hides each part of a secret, unless it lies within one of the driver's own words. A secret shorter than such a part is
    hidden where it stands alone.
    """
    small, length = _small(words), _SHORTEST_PIECE
    pieces = {secret[i : i + length] for secret in secrets for i in range(len(secret) - length + 1)}
    found = list[tuple[int, int]]()
    for begin in (i for i in range(len(small)) if small[i : i + length] in pieces):
        first = found.pop()[0] if found and begin <= found[-1][1] else begin
        found.append((first, begin + length))
    drivers = _drivers_words(small)
    for begin, end in reversed(found):
        if not any(first <= begin and end <= last for first, last in drivers):
            words = words[:begin] + MASK + words[end:]
    for short in sorted(secret for secret in secrets if 1 < len(secret) < length):
        words = re.sub(rf"(?<!\w){re.escape(short)}(?!\w)", MASK, words, flags=re.IGNORECASE)
    return words


def _drivers_words(small: str) -> list[tuple[int, int]]:
    """The parts of a message that the driver would write for any DSN."""
    return [
        (begin, end) for begin, end in (found.span() for found in _WORD.finditer(small))
        if small[begin:end] in _DRIVERS_WORDS
        and small[begin - 1 : begin] not in tuple(_QUOTES) and small[end : end + 1] not in tuple(_QUOTES)
    ]  # fmt: skip
