"""Finds, names and escapes characters that must not reach a terminal or a chart unchanged. Pure.

These are control characters, which move a terminal's cursor or change what it shows; marks that reverse the direction
of a line; invisible breaks; and code points that are not characters: lone surrogates, and those that XML can't contain.
"""

from __future__ import annotations

import re

_ODD = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters except tab, line feed and carriage return
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks
    r"\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
)
_NOT_AS_IT_IS = re.compile(rf"[{_ODD}]|\r(?!\n)")
_NOT_IN_A_LINE = re.compile(rf"[{_ODD}\t\n\r]")


def escaped(text: str) -> str:
    r"""`text` with each such character as \uXXXX, as in JSON; tabs and line ends stay."""
    return _NOT_AS_IT_IS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def code_point_of_odd(text: str, *, lines: bool = False) -> str:
    """The first such character as "U+001B", or "" if there is none. Tabs and line ends count, too, unless `text` may
    have several `lines`.
    """
    match = (_NOT_AS_IT_IS if lines else _NOT_IN_A_LINE).search(text)
    return f"U+{ord(match[0]):04X}" if match else ""
