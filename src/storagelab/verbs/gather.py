"""`storagelab gather`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from storagelab import screen
from storagelab.errors import StoreError
from storagelab.run import gathering, stored
from storagelab.run.store import NothingStored, Store
from storagelab.spec import matrix
from storagelab.verbs.run import conclude


def gather(folders: Sequence[Path], results: Path) -> None:
    """Writes one campaign of several, and its report. Raises StoreError."""
    if len({folder.resolve() for folder in folders}) < 2:
        raise StoreError("give the folders of two or more campaigns, each with its results\n  such as db1/my db2/my")
    parts = [stored.read(folder.resolve().name, folder.resolve().parent, whole=True) for folder in folders]
    whole = gathering.gathered(parts)
    plan, folder = matrix.expand(whole.experiment), results / whole.experiment.name
    with contextlib.suppress(NothingStored), Store.reading(folder):
        raise StoreError(f"{folder} has results already\n  choose another folder with --results")
    with Store.writing(folder, whole.experiment) as store:
        store.append(*whole.runs)
    screen.say(f"{len(whole.runs)} runs of {len(parts)} campaigns are in {folder}")
    conclude(whole.experiment, plan, whole.runs, folder)
