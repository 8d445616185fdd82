"""Work for executors, in a module of its own, as each process that does it must load it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def tell_who(task: str, tell: Callable[[tuple[str, int]], None]) -> None:
    """A task is a name, and how long it takes: "a 0.5". It tells its process when it begins and at its end."""
    name, _, seconds = task.partition(" ")
    tell((f"{name} began", os.getpid()))
    time.sleep(float(seconds or 0))
    tell((name, os.getpid()))


def refuse(task: str, tell: object) -> None:
    raise LookupError(f"there is no {task}")
