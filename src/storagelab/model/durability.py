"""Which data survive a crash of a server or its machine. Each engine derives this from its settings."""

from __future__ import annotations

from typing import Literal

from storagelab.model.values import Frozen

Commits = Literal[
    "each commit is on the disk", "the last second of commits may be lost", "nothing is forced to the disk"
]
Loss = Literal[
    "everything",
    "last commits",
    "last second of commits",
    "commits not in the log",
    "commits not in the binary log",
    "pages not in the log",
    "pages not written twice",
]
"""Safety that a setting gives up for speed."""
_OF_COMMITS = {"last commits", "last second of commits", "commits not in the log", "commits not in the binary log"}


class Deciding(Frozen):
    """A setting that affects which data survive, with the server's value."""

    name: str
    value: str
    loses: Loss | None = None


class Durability(Frozen):
    """The promise of one server. `whole_pages`: the server can repair a page whose write was interrupted."""

    engine: str
    settings: tuple[Deciding, ...]
    whole_pages: bool

    @property
    def commits(self) -> Commits:
        losses = {setting.loses for setting in self.settings}
        if "everything" in losses:
            return "nothing is forced to the disk"
        return "the last second of commits may be lost" if losses & _OF_COMMITS else "each commit is on the disk"

    @property
    def promise(self) -> str:
        pages = "half-written pages are mended" if self.whole_pages else "a half-written page stays corrupt"
        return f"{self.commits}, {pages}"

    @property
    def text(self) -> str:
        because = ", ".join(f"{setting.name} = {setting.value}" for setting in self.settings)
        return f"{self.engine}: {self.promise} ({because})"
