"""Removes passwords from everything that leaves storagelab. Pure.

A spec may not contain a password, so usually none is found. This is a safeguard against servers that quote one.
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
"""A JSON string that may hold a password. Text between strings can't, so a match begins where a string begins."""


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
