"""Removes passwords from everything that leaves storagelab. Pure.

A spec may not contain one, so this usually finds nothing; it guards against a server that quotes one in a message.
"""

from __future__ import annotations

import re

MASK = "***"
_IN_URL = re.compile(r"(://[^:/?#\s@]*:)[^\s]*(?=@)")
_AS_SETTING = re.compile(
    r"""(password['"]?\s*[=:]\s*)('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s'"&,;]+)""", re.IGNORECASE
)


def masked(text: str) -> str:
    """`text` with passwords of URLs ("://user:...@") and settings ("password=...") replaced by ***."""
    if "@" in text:
        text = _IN_URL.sub(rf"\g<1>{MASK}", text)
    return _AS_SETTING.sub(rf"\g<1>{MASK}", text) if "assword" in text or "ASSWORD" in text else text
