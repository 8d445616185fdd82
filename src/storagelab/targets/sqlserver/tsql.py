"""Names and texts quoted for T-SQL, so that no user's text can end the quotes around it.

Texts are Unicode literals (N'...'): in others the server may turn characters that look like quotes into quotes.
"""

from __future__ import annotations

LONGEST_IDENTIFIER = 128
"""In UTF-16 code units, as the server counts (sysname)."""


def identifier(name: str) -> str:
    """Quotes `name` in brackets. Raises ValueError for an impossible name."""
    _refuse_unwritable(name)
    if not name or len(name.encode("utf-16-le")) // 2 > LONGEST_IDENTIFIER:
        raise ValueError(f"a name has 1 to {LONGEST_IDENTIFIER} characters")
    return "[" + name.replace("]", "]]") + "]"


def text(value: str) -> str:
    """Writes `value` as a literal. Raises ValueError for control characters: before a line break, T-SQL drops a backslash."""
    _refuse_unwritable(value)
    return "N'" + value.replace("'", "''") + "'"


def _refuse_unwritable(value: str) -> None:
    if any(ord(character) < 0x20 or character == "\x7f" for character in value):
        raise ValueError("holds a control character")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise ValueError("is not valid Unicode text")


def integers(numbers: list[int]) -> str:
    """A list of numbers for IN (...); without numbers it is -1, which is no session."""
    return ", ".join(str(int(number)) for number in numbers) or "-1"
