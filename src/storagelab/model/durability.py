"""Which data survive a crash of a server or its machine. The code of each engine derives this from the server's
settings."""

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
"""Data that a crash may cost, because a setting gives up safety for speed."""
_OF_COMMITS = {"last commits", "last second of commits", "commits not in the log", "commits not in the binary log"}


class Deciding(Frozen):
    """A setting that affects which data survive a crash, with its value on the server."""

    name: str
    value: str
    loses: Loss | None = None


class Durability(Frozen):
    """What one server promises after a crash. `whole_pages` says whether the server can repair a page whose write was
    interrupted.
    """

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
