"""Hides whatever tells how to reach a server: a password may stand anywhere in a DSN, even where none belongs.

    postgresql://me:pass@word@host/     libpq takes "word@host" for the host, and names it if it can't find it
    postgresql://me:password/           "password" is the port

So in messages of drivers and servers, every piece of the DSN is hidden: of its authority as a rule, and of the whole DSN
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
# The drivers' own words. One of them in quotes, or beside a character of a DSN's syntax, was given by the user.
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
    """`words` without any piece, of four characters or more, of the text that tells how to reach the server."""
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
    """The forms of a text in messages: as written, as decoded, and as Python would quote it."""
    for form in dict.fromkeys([secret, unquote(secret), secret.replace("\\", "")]):
        yield form
        yield repr(form)[1:-1]


def _small(text: str) -> str:
    """The text in lower case, as drivers write hosts, and of the same length."""
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)


def _without(words: str, secrets: Iterable[str]) -> str:
    """Hides what is part of a secret, unless it lies within a word of the driver's own."""
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
    """The parts of a message that the driver would use whatever the DSN."""
    return [
        (begin, end) for begin, end in (found.span() for found in _WORD.finditer(small))
        if small[begin:end] in _DRIVERS_WORDS
        and small[begin - 1 : begin] not in tuple(_QUOTES) and small[end : end + 1] not in tuple(_QUOTES)
    ]  # fmt: skip
