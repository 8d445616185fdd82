"""Removes passwords from all texts that storagelab writes. Pure.

A spec may not contain a password, so there is usually nothing to remove. But a server's message may quote a password.
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
"""Matches a JSON string that may contain a password. Only strings can contain one, so a match is one whole string."""


def masked(text: str) -> str:
    """Returns `text` with *** instead of the passwords in URLs ("://user:...@"), in settings ("password=...",
    "PWD=...") and in statements ("PASSWORD '...'", "IDENTIFIED BY '...'").
    """
    if "@" in text:
        text = _IN_URL.sub(rf"\g<1>{MASK}", text)
    return _AS_SETTING.sub(rf"\g<1>{MASK}", text) if _NAMED.search(text) else text


def masked_json(text: str) -> str:
    """Returns the JSON document `text` with `masked` applied to each of its strings."""
    small = text.lower()  # a search first, because a large export usually has none of these words
    if not any(word in small for word in _TELL):
        return text
    return _JSON_STRING.sub(lambda found: json.dumps(masked(json.loads(found[0])), ensure_ascii=False), text)
