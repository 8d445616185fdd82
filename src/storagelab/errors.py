"""The errors that storagelab reports, and text that messages share.

StoragelabError            exits with 2, unless a class below sets another code
├── SpecError              the spec is wrong: names the file, the key path, and what is allowed
├── PreflightError         this machine or server can't run the spec: says what is missing, where, and how to solve it
├── StoreError             the results folder is in use, or its results are of another spec or of a newer version
└── RunFailed              one run failed; it is stored as `failed`, and the next runs are made
    └── DataRefused        the user's own data or names can't be used, so every run would fail: the campaign stops"""

from __future__ import annotations

import contextlib
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pydantic import ValidationError

_MOST_SHOWN = 12
"""The largest number of errors that are reported together."""


class StoragelabError(Exception):
    """An error that the user can solve. `str()` of the error is the whole message. It is printed once, never with a
    traceback.
    """

    exit_code = 2


class Placed(StoragelabError):
    """An error whose message is `FILE: KEY: PROBLEM`. The solution follows on its own line. `others` are further errors
    that were found at the same time.
    """

    def __init__(
        self, problem: str, *, file: Path | str | None = None, key: str | None = None, hint: str = "",
        others: Sequence[Placed] = (),
    ) -> None:  # fmt: skip
        self.problem, self.file, self.key, self.hint, self.others = problem, file, key, hint, tuple(others)
        where = "".join(f"{part}: " for part in (file, key) if part)
        super().__init__(where + problem + (f"\n  {hint}" if hint else ""))

    def __str__(self) -> str:
        shown, left = self.others[: _MOST_SHOWN - 1], len(self.others) - (_MOST_SHOWN - 1)
        return "\n".join([super().__str__(), *map(str, shown), *([f"and {left} more"] if left > 0 else [])])

    def at(self, file: Path | str, where: str = "") -> Self:
        """Returns the same errors with the spec's file. `where` is added to each problem."""
        others = [one.at(file, where) for one in self.others]
        return type(self)(self.problem + where, file=file, key=self.key, hint=self.hint, others=others)


class SpecError(Placed):
    """A spec that can't be used."""


class PreflightError(Placed):
    """The spec is correct but can't run here. This error is raised before anything is changed."""


@contextlib.contextmanager
def noting(errors: list[Any]) -> Iterator[None]:
    """If an error of the class Placed ends the context, adds the error to `errors` and continues."""
    try:
        yield
    except Placed as error:
        errors += [error, *error.others]


def refuse(errors: Sequence[Placed]) -> None:
    """Raises all these errors as one error, if there are any. For each key of a spec, only the first error is
    reported.
    """
    distinct = dict[object, Placed]()
    for error in errors:
        of_spec = isinstance(error, SpecError) and error.key
        distinct.setdefault(error.key if of_spec else (error.key, error.problem), error)
    alone = [type(one)(one.problem, file=one.file, key=one.key, hint=one.hint) for one in distinct.values()]
    if alone:
        alone[0].others = tuple(alone[1:])
        raise alone[0]


class StoreError(StoragelabError):
    """The results folder can't be used in the requested way."""


class RunFailed(StoragelabError):
    """One run could not be measured. `str()` is the reason, which is stored with the run."""

    exit_code = 1


class DataRefused(RunFailed):
    """The user's own data can't be made, or the data lack objects that the spec names. So no run could succeed."""

    exit_code = 2


# --- text that messages share: values in quotes, the key that a user probably meant, text that is safe to print -------

_SHOWN_CHARACTERS = 60
_FEWEST_LETTERS = 3
_MOST_LISTED, _CLOSEST = 30, 6


def shown(value: object) -> str:
    """Returns a value in the form in which messages quote it. A long value is shortened."""
    if isinstance(value, dict):
        return "a table"
    return cut(json.dumps(value, ensure_ascii=False, default=str))


def cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


_PYDANTIC = {
    "Input should be": "must be", "Field required": "is missing", "Extra inputs are not permitted": "is not known",
}  # fmt: skip


def first_problem(error: ValidationError, columns: Sequence[str] = ()) -> str:
    """Describes the first problem that pydantic found, in the words of other messages. Names its key, or the column of
    its row.
    """
    first = error.errors()[0]
    said = reduce(lambda text, words: text.replace(*words), _PYDANTIC.items(), first["msg"])
    key = ".".join(columns[part] if isinstance(part, int) and columns else str(part) for part in first["loc"])
    return f"{key}: {said}" if key else said


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word that the user probably meant. The first choice is a word with the same last part, then the
    most similar word, then a word with the same beginning. Returns None if no word is similar.
    """
    words = list(known)
    last = word.rpartition(".")[2]
    same_last = [one for one in words if one.rpartition(".")[2] == last]
    longer = [one for one in words if len(word) >= _FEWEST_LETTERS and one.startswith(word)]
    begun = longer + [one for one in words if len(one) >= _FEWEST_LETTERS and word.startswith(one)]
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if not near:
        tails = {one.rpartition(".")[2]: one for one in reversed(words)}
        near = [tails[tail] for tail in difflib.get_close_matches(last, tails, n=1, cutoff=0.7)]
    return next(iter(same_last + near + begun), None)


def choices(word: str, known: Iterable[str], allowed: str) -> str:
    """Makes a hint. It has the most similar known word, if there is one, then `allowed` and all known words. If there
    are many known words, only the most similar ones follow."""
    words = list(known)
    near = nearest(word, words)
    listed = ", ".join(words) or "none"
    if len(words) > _MOST_LISTED:
        closest = difflib.get_close_matches(word, words, n=_CLOSEST, cutoff=0.4) or words[:_CLOSEST]
        listed = f"{', '.join(closest)}, and {len(words) - len(closest)} more"
    return (f"Did you mean {near}? " if near else "") + f"{allowed}: {listed}."


# --- finds, names and escapes characters that must not reach a terminal or a chart ------------------------------------
#
# These characters are: control characters, which move a terminal's cursor or change its display; marks that reverse the
# direction of a line; invisible breaks; and code points that are not characters, which are lone surrogates and code
# points that XML can't contain.

_ODD = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters except tab, line feed and carriage return
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks
    r"\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
)
_NOT_AS_IT_IS = re.compile(rf"[{_ODD}]|\r(?!\n)")
_NOT_IN_A_LINE = re.compile(rf"[{_ODD}\t\n\r]")


def escaped(text: str) -> str:
    r"""Returns `text` with each such character as \uXXXX, as in JSON. Tabs and line ends stay."""
    return _NOT_AS_IT_IS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def code_point_of_odd(text: str, *, lines: bool = False) -> str:
    """Returns the first such character in the form "U+001B", or "" if there is none. Tabs and line ends also count,
    unless `lines` says that `text` may have several lines.
    """
    match = (_NOT_AS_IT_IS if lines else _NOT_IN_A_LINE).search(text)
    return f"U+{ord(match[0]):04X}" if match else ""
