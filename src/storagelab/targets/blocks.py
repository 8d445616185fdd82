"""Blocks of independent runs, and the reason given for runs of a block that lost its drives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from storagelab.model.plan import PlannedBlock, PlannedRun
from storagelab.targets import Block, Site, State, Target, open_target


class Independent:
    """A block of independent runs: each has a server or a schema of its own."""

    def __init__(self, block: PlannedBlock, site: Site) -> None:
        self._block, self._site = block, site

    def needed(self, wanted: Collection[int]) -> Sequence[int]:
        return sorted(wanted)

    def open(self, planned: PlannedRun) -> AbstractContextManager[Target]:
        return open_target(self._block.cell_of(planned).config, self._site)


@contextmanager
def independent(block: PlannedBlock, site: Site, _state: State) -> Iterator[Block]:
    """Opens a block that prepares nothing and keeps nothing."""
    yield Independent(block, site)


def drives_lost(defect: str) -> str:
    """Why a run fails that follows a failed one on drives that remember."""
    return f"its drives were lost in an earlier run of its block: {defect}"
