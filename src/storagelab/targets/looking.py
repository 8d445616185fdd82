"""Tells whoever waits how far checks have come that look at one thing after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from typing import TypeVar

Tell = Callable[[str, int, int], None]
"""Is called before each step, as in ("checking settings", 34, 200): 34 of 200 are done."""

_T = TypeVar("_T")
_TELL: ContextVar[Tell | None] = ContextVar("tell", default=None)


@contextlib.contextmanager
def told_to(tell: Tell | None) -> Iterator[None]:
    """For as long as this lasts, steps are told to `tell`; None for nobody."""
    before = _TELL.set(tell)
    try:
        yield
    finally:
        _TELL.reset(before)


def step(what: str, done: int, of: int) -> None:
    tell = _TELL.get()
    if tell is not None:
        tell(what, done, of)


def each(items: Collection[_T], what: str) -> Iterator[_T]:
    """The items, telling before each how many are done."""
    for done, item in enumerate(items):
        step(what, done, len(items))
        yield item
