"""Hides everything that could reveal how to reach a server: a password may stand anywhere in a DSN, even in a
wrong place.

    postgresql://me:pass@word@host/     libpq takes "word@host" for the host, and names it if it can't find it
    postgresql://me:password/           "password" is the port

So in messages of drivers and servers, every piece of the DSN is hidden: usually of its authority, and of the whole DSN
where it is not of the plain form.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl, unquote

from storagelab.model.config import TargetConfig

MASK = "********"
_SHORTEST_PIECE = 4
PASSWORD_VARIABLES = ("PGPASSWORD", "MYSQL_PWD", "SQLCMDPASSWORD")

_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[\w.%-]*)(?::\d*)?"
_PLAIN_URI = re.compile(
    rf"\w+://(?P<authority>(?:[^/?#@:]*(?::[^/?#@:]*)?@)?{_HOST}(?:,{_HOST})*)(?:/[^/?#@]*)?(?:\?(?P<options>[^#@]*))?"
)
_SETTING = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|\S*)\s*")
_SHOWN_OPTIONS = ("application_name", "client_encoding", "connect_timeout", "dbname", "encrypt", "instance", "options",
                  "ssl", "ssl_ca", "sslmode", "target_session_attrs", "unix_socket")  # fmt: skip
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
    """`words` without any part of the DSN that has four or more characters."""
    if not target.attached:
        return words
    text = target.dsn if target.dsn is not None else os.environ.get(target.dsn_env or "", "")
    secrets = [*_secrets(text), *filter(None, map(os.environ.get, PASSWORD_VARIABLES))]
    return _without(words, {_small(form) for secret in secrets for form in _forms(secret)})


def _secrets(dsn: str) -> Iterator[str]:
    uri = _PLAIN_URI.fullmatch(dsn)
    if uri is not None:
        yield uri["authority"]
        settings = parse_qsl(uri["options"] or "", keep_blank_values=True)
    elif "://" not in dsn and _SETTING.sub("", dsn) == "":
        settings = [(found[1], found[2]) for found in _SETTING.finditer(dsn)]
    else:
        yield dsn
        return
    yield from (value for name, value in settings if not (name in _SHOWN_OPTIONS or _is_place(name, value)))


def _is_place(name: str, value: str) -> bool:
    """Whether it names the folder of a socket. Anything else in the place of a host may be a password."""
    return name == "host" and os.path.isabs(value) and os.path.isdir(value)


def _forms(secret: str) -> Iterator[str]:
    """The forms that a text may take in messages: as written, as decoded, and as Python quotes it."""
    for form in dict.fromkeys([secret, unquote(secret), secret.replace("\\", "")]):
        yield form
        yield repr(form)[1:-1]


def _small(text: str) -> str:
    """The text in lower case, as drivers write hosts, with its length unchanged."""
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)


def _without(words: str, secrets: Iterable[str]) -> str:
    """Hides each part of a secret, unless it lies within one of the driver's own words."""
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
    return words


def _drivers_words(small: str) -> list[tuple[int, int]]:
    """The parts of a message that the driver would write for any DSN."""
    return [
        (begin, end) for begin, end in (found.span() for found in _WORD.finditer(small))
        if small[begin:end] in _DRIVERS_WORDS
        and small[begin - 1 : begin] not in tuple(_QUOTES) and small[end : end + 1] not in tuple(_QUOTES)
    ]  # fmt: skip
