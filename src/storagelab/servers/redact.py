"""Hides passwords in messages of drivers and servers.

A message that holds a piece of a secret is hidden as a whole. In a DSN of a simple form, the password and options with
secrets are secret; user, host, database and paths are not. If a DSN has another form, or an option that no driver
knows, a password may be anywhere in it, so all of it is secret:

    postgresql://me:pass@word@host/     libpq takes "word@host" for the host, and names it if it can't find it
    postgresql://me:password/           "password" is the port

In me:pass@word/ the host may be a part of the password, too: beside a password, a host is secret unless it is an
address.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from storagelab.model.config import TargetConfig
from storagelab.spec.given_files import opened

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
    """`words`, or a remark in their place if four characters or more of the DSN's secrets are among them."""
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
    """Texts that a message must not show: the secrets of a DSN of a simple form, or all of another DSN."""
    found = _of_settings(dsn) if "://" not in dsn else _of_uri(dsn)
    return [dsn] if found is None else found


def _of_uri(dsn: str) -> list[str] | None:
    uri = _URI.fullmatch(dsn)
    if uri is None:
        return None
    # Values as written: a message may contain them in this form, or decoded.
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
        with opened(Path(file)) as passfile:
            lines = passfile.read(_PASSFILE_MOST).decode(errors="replace").splitlines()
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
