"""Settings that make a server do more than keep its database: run programs, load code, or use other folders.

A spec may come from anywhere, so such settings take effect only if the user allows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from storagelab.errors import PreflightError
from storagelab.model.config import Config
from storagelab.model.hints import shown
from storagelab.model.plan import Plan
from storagelab.model.values import Frozen, Scalar
from storagelab.targets.unprivileged import unprivileged

RUNS_PROGRAM = "makes the server run a program"
LOADS_CODE = "makes the server load code"
GOES_ELSEWHERE = "makes the server use files outside its own folders"
FLAG = "--allow-commands"

# An absolute path, or one that leaves its folder; also inside a list.
_ELSEWHERE = re.compile(r"(?:^|[\s:;,='\"])(?:[/~]|[A-Za-z]:\\)|(?:^|[\s:;,='\"/])\.\.(?:/|$)")

PrivilegeOf = Callable[[str, Scalar], str | None]
"""What a setting with this name and value makes its server do, as the engine knows it; None = nothing special."""


class Privilege(Frozen):
    """A key of the spec whose value does more than configure: `does` says what."""

    key: str
    value: Scalar
    does: str

    @property
    def text(self) -> str:
        return f"{self.key} = {shown(self.value)} {self.does}"


def by_value(value: Scalar) -> str | None:
    """What such a value does in any setting."""
    return GOES_ELSEWHERE if isinstance(value, str) and _ELSEWHERE.search(value) else None


def privileged_settings(plan: Plan, of_engine: Callable[[Config], PrivilegeOf]) -> tuple[Privilege, ...]:
    """The privileged settings of all cells, each once."""
    found: dict[Privilege, None] = {}
    for config in (cell.config for cell in plan.cells):
        for name, value in config.target.settings.items():
            does = of_engine(config)(name, value) if value != "" else None
            if does is not None:
                found[Privilege(key=f"target.settings.{name}", value=value, does=does)] = None
    return tuple(found)


def refuse(found: tuple[Privilege, ...]) -> None:
    """Refuses privileged settings. Raises a PreflightError that lists all of them."""
    if not found:
        return
    first, *others = found
    also = "".join(f"\n  and {other.text}" for other in others)
    raise PreflightError(
        f"{shown(first.value)} {first.does}{also}",
        key=first.key,
        hint=f"If you know who wrote this spec, and trust it: add {FLAG}. What its settings ask for is then done "
        f"{unprivileged().how}, or by the account of a server that runs already.",
    )
