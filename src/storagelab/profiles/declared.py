"""The simulator's parameters as its core declares them (crates/sim): what each figure means, its limits, and the
figures that are in no profile.
"""

from __future__ import annotations

import functools
import json
from typing import Any, Literal

from pydantic import Field

from storagelab import _sim
from storagelab.model.values import Frozen, Scalar

Label = Literal["published", "measured", "derived", "fitted", "assumed"]


class Declared(Frozen):
    """A figure of a profile: its path, with `*` for names that the profile chooses, its meaning, and its limits."""

    path: str
    meaning: str
    kind: Literal["number", "boolean", "words", "text"]
    least: int = 0
    most: int = 0
    words: tuple[str, ...] = ()
    optional: bool = False

    def wanted(self, value: Scalar) -> str:
        """What the figure must be, if `value` is not that; otherwise empty."""
        match self.kind:
            case "boolean":
                return "" if isinstance(value, bool) else "true or false"
            case "words":
                return "" if value in self.words else " or ".join(self.words)
            case "text":
                return "" if isinstance(value, str) else "a text"
            case _:
                whole = isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most
                return "" if whole else f"a whole number from {self.least} to {self.most}"


class Constant(Frozen):
    """A figure in the core: a default of `owner` (`is_default`), or a constant that no spec can set."""

    owner: str
    name: str
    value: int
    label: Label
    source: str
    bounds: tuple[int, int] | None = None
    fitted_on: tuple[str, ...] = Field(())
    is_default: bool


@functools.cache
def _all() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_sim.declared())
    return content


def kinds() -> tuple[str, ...]:
    """The kinds of drives: the two of the articles, then the others."""
    first = ("flash", "disk")
    return (*first, *(kind for kind in _all()["drives"] if kind not in first))


@functools.cache
def figures_of(kind: str) -> tuple[Declared, ...]:
    """The figures of a drive of this kind, in order; `server` is a kind, too."""
    groups = [("costs", _all()["costs"])] if kind == "server" else _all()["drives"][kind]
    return tuple(_declared(group, figure) for group, figures in groups for figure in figures)


def _declared(group: str, figure: dict[str, Any]) -> Declared:
    path = ".".join(part for part in (group, figure["name"], "*" if figure["table"] else "") if part)
    return Declared(path=path, meaning=figure["meaning"], optional=figure["optional"], **figure["wanted"])


@functools.cache
def constants() -> tuple[Constant, ...]:
    """All figures that are in no profile."""
    return tuple(Constant(**content) for content in _all()["constants"])


def default_of(owner: str, name: str) -> int:
    """The value of a key that a spec leaves out."""
    (value,) = (one.value for one in constants() if (one.owner, one.name, one.is_default) == (owner, name, True))
    return value
