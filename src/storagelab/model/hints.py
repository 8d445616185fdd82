"""Common parts of messages: values in quotes, the key that a user probably meant, and text that is safe to print."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable

_SHOWN_CHARACTERS = 60
_FEWEST_LETTERS = 3
_MOST_LISTED, _CLOSEST = 30, 6


def shown(value: object) -> str:
    """A value as messages quote it, shortened if it is long."""
    if isinstance(value, dict):
        return "a table"
    return cut(json.dumps(value, ensure_ascii=False, default=str))


def cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that the user probably meant: one with the same last part, else the most similar; None if there
    is none.
    """
    words = list(known)
    last = word.rpartition(".")[2]
    same_last = [one for one in words if one.rpartition(".")[2] == last]
    begun = [one for one in words if len(word) >= _FEWEST_LETTERS and one.startswith(word)]
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if not near:
        tails = {one.rpartition(".")[2]: one for one in reversed(words)}
        near = [tails[tail] for tail in difflib.get_close_matches(last, tails, n=1, cutoff=0.7)]
    return next(iter(same_last + near + begun), None)


def choices(word: str, known: Iterable[str], allowed: str) -> str:
    """A hint: the most similar known word, if there is one, then `allowed` and all known words (only the most similar
    if there are many)."""
    words = list(known)
    near = nearest(word, words)
    listed = ", ".join(words) or "none"
    if len(words) > _MOST_LISTED:
        closest = difflib.get_close_matches(word, words, n=_CLOSEST, cutoff=0.4) or words[:_CLOSEST]
        listed = f"{', '.join(closest)}, and {len(words) - len(closest)} more"
    return (f"Did you mean {near}? " if near else "") + f"{allowed}: {listed}."


# --- finds, names and escapes characters that must not reach a terminal or a chart unchanged --------------------------
#
# These are control characters, which move a terminal's cursor or change its display; marks that reverse the direction
# of a line; invisible breaks; and code points that are not characters: lone surrogates, and those that XML can't
# contain.

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
