"""Settings that make a server do more than keep its database: run programs, load code, or use other folders.

A spec may come from anywhere, so such settings take effect only if the user allows them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.machine.unprivileged import unprivileged
from storagelab.model.config import Config
from storagelab.model.hints import shown
from storagelab.model.plan import Plan
from storagelab.model.values import Frozen, Scalar

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
    """The privileged settings of all cells, each once, and folders of programs that others may have written."""
    found: dict[Privilege, None] = {}
    for config in (cell.config for cell in plan.cells):
        if (folder := config.target.bin_dir) and (why := _whose_programs(Path(folder).expanduser())):
            found[Privilege(key="target.bin_dir", value=folder, does=why)] = None
        for name, value in config.target.settings.items():
            does = of_engine(config)(name, value) if value != "" else None
            if does is not None:
                found[Privilege(key=f"target.settings.{name}", value=value, does=does)] = None
    return tuple(found)


def _whose_programs(folder: Path) -> str:
    """Why the programs of a folder may be somebody else's; "" if only root and the current user can have put them
    there.
    """
    if not folder.is_absolute():
        return "starts programs of a folder beside the spec"
    real = folder.resolve()
    for place in (*real.glob("*"), real, *real.parents):
        with suppress(OSError):
            facts = place.lstat()
            open_to_all = facts.st_mode & 0o002 and not (facts.st_mode & stat.S_ISVTX or stat.S_ISLNK(facts.st_mode))
            if open_to_all or facts.st_uid not in (0, os.geteuid()):
                return f"starts programs that others may change: see who may write {place}"
    return ""


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
