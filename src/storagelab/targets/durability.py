"""What survives a crash: engines may only be compared where it is the same, and a plan says what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from storagelab.model.config import Config
from storagelab.model.plan import Plan
from storagelab.model.values import Frozen

Commit = Literal[
    "each commit is on the disk", "the last second of commits may be lost", "nothing is forced to the disk"
]


class Durability(Frozen):
    """Of one engine with its settings. `because` names these with their values; `whole_pages` = a page whose write was cut
    off can be mended."""

    engine: str
    commit: Commit
    whole_pages: bool
    because: str

    @property
    def promise(self) -> str:
        pages = "half-written pages are mended" if self.whole_pages else "a half-written page stays corrupt"
        return f"{self.commit}, {pages}"

    @property
    def text(self) -> str:
        return f"{self.engine}: {self.promise} ({self.because})"


def is_on(value: object) -> bool:
    return str(value).lower() in ("on", "true", "yes", "1")


def compared(
    plan: Plan, of_engine: Callable[[Config], Callable[[Config], Durability] | None]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a plan that compares engines promises, a line each, and a warning where the promises differ."""
    if len({cell.config.target.engine for cell in plan.cells}) < 2:
        return (), ()
    # A server that runs already is asked, so each target once.
    targets = {cell.config.target.model_dump_json(): cell.config for cell in plan.cells}
    found = _once(judge(config) for config in targets.values() if (judge := of_engine(config)) is not None)
    lines = tuple(one.text for one in found)
    if len({one.promise for one in found}) == 1:
        return lines, ()
    return lines, ("these engines do not promise the same after a crash, so their times can't be compared fairly",)


def _once(items: Iterable[Durability]) -> list[Durability]:
    return list({item.text: item for item in items}.values())
