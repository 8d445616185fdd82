"""The locks of places where programs are at work. Each program that storagelab starts holds them to its own end, so that what
it made is not undone before it has ended, even if storagelab was killed meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from storagelab.errors import RunFailed
from storagelab.machine.processes import holders_text, until

_LONGEST_S = 3600.0
"""As long as the slowest of the programs may take."""
_HELD = set[int]()


def inherited() -> tuple[int, ...]:
    """The descriptors that each program must inherit: a lock lasts until all copies of its descriptor are closed."""
    return tuple(_HELD)


@contextlib.contextmanager
def alone_at(place: Path) -> Iterator[None]:
    """Holds the lock of a file or a folder. First waits until the programs have ended that a killed storagelab left at work
    there, and says so. Raises RunFailed.
    """
    try:
        opened = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise RunFailed(f"{place} can't be opened: {error.strerror}") from error
    try:
        if not _is_locked(opened):
            _wait(opened, place)
        _HELD.add(opened)
        yield
    finally:
        _HELD.discard(opened)
        os.close(opened)


def _is_locked(opened: int) -> bool:
    """Whether this process has the lock now. Some network file systems have no locks of folders: then none is waited for."""
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _wait(opened: int, place: Path) -> None:
    left = holders_text(place) or "a process that can't be seen from here"
    # Without a log, Python writes warnings to stderr.
    logging.getLogger("storagelab").warning("waiting for %s, which a killed run left at work", left)
    if not until(lambda: _is_locked(opened), _LONGEST_S, pause_s=0.05):
        raise RunFailed(
            f"{left}, which a killed run left at work, has not ended after {_LONGEST_S:g} s; nothing is done\n"
            "  wait until it has ended, or kill it; then do this again"
        )
