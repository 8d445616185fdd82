"""Results that are written while runs are made: a store of another spec, and runs that are interrupted, in plain words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console

from storagelab.run.progress import RunProgress
from storagelab.run.store import Store
from storagelab.stopping import Interruptible


def tell_if_set_aside(store: Store, console: Console) -> None:
    if store.set_aside is not None:
        console.print(
            f"the spec has changed and no run of the old one succeeded: those are kept in {store.set_aside}",
            soft_wrap=True,
        )


@contextlib.contextmanager
def saying_what_is_stored(
    stopping: Interruptible, progress: RunProgress, before: int, most: str = ""
) -> Iterator[None]:
    """If the runs are interrupted, say how many are stored, those `before` included."""
    try:
        yield
    except BaseException as error:
        # Whatever goes wrong once it was asked to stop comes of stopping amid something.
        if not (stopping.asked or isinstance(error, KeyboardInterrupt)):
            raise
        of = f" of {most}{before + progress.total} runs"
        progress.say(f"interrupted: {before + progress.done}{of} are stored; run again to go on")
        raise KeyboardInterrupt from error
