"""Words that errors about keys share: values in quotes, and the key that a user probably meant."""

from __future__ import annotations

import difflib
import json
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
    """A hint: the nearest known word, if any is near, then `allowed` and all known words, or of many the nearest."""
    words = list(known)
    near = nearest(word, words)
    listed = ", ".join(words) or "none"
    if len(words) > _MOST_LISTED:
        closest = difflib.get_close_matches(word, words, n=_CLOSEST, cutoff=0.4) or words[:_CLOSEST]
        listed = f"{', '.join(closest)}, and {len(words) - len(closest)} more"
    return (f"Did you mean {near}? " if near else "") + f"{allowed}: {listed}."
