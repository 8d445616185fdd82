"""Removes passwords from everything that leaves storagelab. Pure.

A spec may not contain one, so this usually finds nothing; it guards against a server that quotes one in a message.
"""

from __future__ import annotations

import json
import re

MASK = "***"
_IN_URL = re.compile(r"(://[^:/?#\s@]*:)[^\s]*(?=@)")
_NAMED = re.compile("password|passwd|pwd|identified", re.IGNORECASE)
_AS_SETTING = re.compile(
    r"""((?:password|passwd|pwd)['"]?\s*[=:]\s*(?:password\s*\(\s*)?  # a setting, or SET PASSWORD = PASSWORD('...')
    |(?:password|identified\s+by|identified\s+(?:via|with)\s+\S+\s+(?:by|using|as))\s*\(?\s*(?=['"]))
    ('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|[^\s'"&,;]+)""", re.IGNORECASE | re.VERBOSE,
)  # fmt: skip
_TELL = ("@", "passw", "pwd", "identified")
_JSON_STRING = re.compile(
    r'"(?:[^"\\@pPiI]++|\\.|(?!TELLS)[pPiI])*+(?:TELLS)(?:[^"\\]++|\\.)*+"'.replace("TELLS", f"(?i:{'|'.join(_TELL)})"),
    re.DOTALL,
)
"""A string that may hold a password, in JSON. Nothing between strings does, so a match begins at a string's begin."""


def masked(text: str) -> str:
    """`text` with passwords of URLs ("://user:...@"), settings ("password=...", "PWD=...") and statements ("PASSWORD
    '...'", "IDENTIFIED BY '...'") replaced by ***.
    """
    if "@" in text:
        text = _IN_URL.sub(rf"\g<1>{MASK}", text)
    return _AS_SETTING.sub(rf"\g<1>{MASK}", text) if _NAMED.search(text) else text


def masked_json(text: str) -> str:
    """JSON with each of its strings `masked`."""
    small = text.lower()  # a large export has millions of characters, and usually none of these words
    if not any(word in small for word in _TELL):
        return text
    return _JSON_STRING.sub(lambda found: json.dumps(masked(json.loads(found[0])), ensure_ascii=False), text)
