"""Work for executors, in a separate module, because each worker process loads it."""

import os
import time
from collections.abc import Callable


def tell_who(task: str, tell: Callable[[tuple[str, int]], None]) -> None:
    """A task is a name and a duration: "a 0.5". It reports its process when it begins and when it ends."""
    name, _, seconds = task.partition(" ")
    tell((f"{name} began", os.getpid()))
    time.sleep(float(seconds or 0))
    tell((name, os.getpid()))


def die_or_tell(task: str, tell: Callable[[tuple[str, int]], None]) -> None:
    if task == "die":
        os._exit(1)
    tell_who(task, tell)


def refuse(task: str, tell: object) -> None:
    raise LookupError(f"there is no {task}")
