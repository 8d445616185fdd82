"""Settings of servers on any engine: how an engine's own programs read them, and what a server shows of them."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from storagelab.errors import PreflightError
from storagelab.model.measurement import Check
from storagelab.model.values import Scalar
from storagelab.servers.private import P, Settings, changes, refuse_own

Pairs = tuple[tuple[str, str], ...]
"""Settings with the text of their values, in order."""


@dataclass(frozen=True)
class Parser(Generic[P]):
    """How an engine's programs read settings; no database is made. `ask` makes them read these together, and returns
    how they read them, to compare with later; it raises PreflightError with their words. `text` is a value's text,
    `is_own` says which settings keep a private server private.
    """

    ask: Callable[[P, Pairs], Mapping[str, str]]
    text: Callable[[Scalar], str]
    is_own: Callable[[str], bool]

    def check(self, programs: P, settings: Settings) -> dict[str, str]:
        """How the programs read each setting, alone and all together: `{name: value}`. Raises PreflightError for the
        first that they refuse.
        """
        refuse_own(settings, self.is_own)
        asked = tuple((name, self.text(value)) for name, value in settings.items())
        found = dict[str, str]()
        for pairs in (*((pair,) for pair in asked), *([asked] if asked else [])):
            found |= self.ask(programs, pairs)
        return found

    def accepts(self, programs: P, kinds: Sequence[Settings]) -> bool:
        """Whether the programs take the settings of all these kinds, one after the other, at once."""
        for settings in kinds:
            refuse_own(settings, self.is_own)
        given = tuple(changes(kinds, self.text))
        with contextlib.suppress(PreflightError):
            return not given or bool(self.ask(programs, given))
        return False


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question, "Did you mean ...? ", with the known setting of the most similar spelling; empty if there is none."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"Did you mean {close[0]}? " if close else ""


def read_back(
    asked: Mapping[str, str], shown: Callable[[str, str], tuple[str, bool] | None], read_from: str
) -> list[Check]:
    """Compares each setting asked for with what the server shows of it: its value, and whether that is what was asked;
    None if it does not show it.
    """
    checks = []
    for name, text in sorted(asked.items()):
        got, ok = shown(name, text) or ("nothing: the server does not show it", None)
        checks.append(Check(name=f"target.settings.{name}", asked=text, got=got, ok=ok, read_from=read_from))
    return checks
