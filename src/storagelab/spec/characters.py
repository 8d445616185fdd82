"""Characters that no terminal and no chart may be given as they are: found, named, and written out. Pure.

They are what moves a terminal's cursor or changes what it says (control characters), what turns the order of a line around,
breaks that no one sees, and code points that are no characters: half a pair, or one that XML can't hold.
"""

from __future__ import annotations

import re

_ODD = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters, save tab, line feed and carriage return
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # of direction
    r"\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
)
_NOT_AS_IT_IS = re.compile(rf"[{_ODD}]|\r(?!\n)")
_NOT_IN_A_LINE = re.compile(rf"[{_ODD}\t\n\r]")


def escaped(text: str) -> str:
    r"""`text` with each such character as \uXXXX, as JSON has it; tabs and ends of lines stay."""
    return _NOT_AS_IT_IS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def code_point_of_odd(text: str, *, lines: bool = False) -> str:
    """The first such character as "U+001B", or nothing if there is none. Tabs and ends of lines are such, too, unless
    `text` may have several `lines`."""
    match = (_NOT_AS_IT_IS if lines else _NOT_IN_A_LINE).search(text)
    return f"U+{ord(match[0]):04X}" if match else ""
