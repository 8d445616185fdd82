"""Settings by which a server does more than keep its database: it runs programs, loads code, or goes to other folders.

A spec may come from anywhere, so such settings take effect only where the user says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from storagelab.errors import PreflightError
from storagelab.model.config import Config
from storagelab.model.plan import Plan
from storagelab.model.values import Frozen, Scalar
from storagelab.spec.keys import shown
from storagelab.targets.unprivileged import unprivileged

RUNS_PROGRAM = "has the server run a program"
LOADS_CODE = "has the server load code"
GOES_ELSEWHERE = "has the server use files outside of its own folders"
FLAG = "--allow-commands"

# An absolute path, or one that climbs out; also as a part of a list.
_ELSEWHERE = re.compile(r"(?:^|[\s:;,='\"])(?:[/~]|[A-Za-z]:\\)|(?:^|[\s:;,='\"/])\.\.(?:/|$)")

PowerOf = Callable[[str, Scalar], str | None]
"""What a setting of this name and value has its server do, by the engine's own knowledge; None = nothing of the kind."""


class Power(Frozen):
    setting: str
    value: Scalar
    does: str

    @property
    def key(self) -> str:
        return f"target.settings.{self.setting}"

    @property
    def text(self) -> str:
        return f"{self.key} = {shown(self.value)} {self.does}"


def by_value(value: Scalar) -> str | None:
    """What any setting does with such a value."""
    return GOES_ELSEWHERE if isinstance(value, str) and _ELSEWHERE.search(value) else None


def powers(plan: Plan, of_engine: Callable[[Config], PowerOf]) -> tuple[Power, ...]:
    """Every such setting of any cell, once."""
    found: dict[Power, None] = {}
    for config in (cell.config for cell in plan.cells):
        for name, value in config.target.settings.items():
            does = of_engine(config)(name, value) if value != "" else None
            if does is not None:
                found[Power(setting=name, value=value, does=does)] = None
    return tuple(found)


def refuse(found: tuple[Power, ...]) -> None:
    """Raises PreflightError that lists all, if there is any."""
    if not found:
        return
    first, *others = found
    also = "".join(f"\n  and {other.text}" for other in others)
    raise PreflightError(
        f"{shown(first.value)} {first.does}{also}",
        key=first.key,
        hint=f"If you know who wrote this spec, and trust it: say {FLAG}. What it asks for is then done "
        f"{unprivileged().how}, or by the account of a server that runs already.",
    )
