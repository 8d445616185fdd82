"""Which processes hold a lock on a file, so that a message can say what to wait for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from storagelab.machine.disks import HERE, Kernel, read_text


def told(file: Path, kernel: Kernel = HERE) -> str:
    """The other processes that hold a lock on `file`, in words: "process 4711 (sqlite3)"; "" if none can be found.

    No words of their command lines, as these may hold passwords.
    """
    try:
        facts = file.stat()
    except OSError:
        return ""
    numbers = _that_lock(facts, kernel) or _that_have_open(facts, kernel)
    return " and ".join(f"process {number} ({_name_of(number, kernel)})" for number in numbers)


def _that_lock(facts: os.stat_result, kernel: Kernel) -> list[int]:
    """Those that the kernel names as holders and that still run: a lock outlives its first holder in the children."""
    found = []
    for line in read_text(kernel.proc / "locks").splitlines():
        match line.split():
            case [_, "FLOCK" | "POSIX", _, _, number, place, *_] if place.endswith(f":{facts.st_ino}"):
                found.append(number)
    return [
        int(number)
        for number in dict.fromkeys(found)
        if number.isdecimal() and int(number) != os.getpid() and _may_have_open(kernel.proc / number, facts)
    ]


def _that_have_open(facts: os.stat_result, kernel: Kernel) -> list[int]:
    numbers = [int(folder.name) for folder in kernel.proc.glob("[0-9]*")]
    others = [number for number in sorted(numbers) if number != os.getpid()]
    return [number for number in others if any(_opened(kernel.proc / str(number), facts))]


def _may_have_open(process: Path, facts: os.stat_result) -> bool:
    """Whether the process has the file open, or hides what it has open. The number of the file alone may be another's, on
    another device."""
    try:
        return any(_opened(process, facts, strict=True))
    except PermissionError:
        return True
    except OSError:
        return False


def _opened(process: Path, facts: os.stat_result, *, strict: bool = False) -> Iterator[bool]:
    """For each open file of the process, whether it is the one with these facts. `strict`: raises OSError if none can be
    seen."""
    try:
        links = list((process / "fd").iterdir())
    except OSError:
        if strict:
            raise
        return
    for link in links:
        try:
            yield os.path.samestat(link.stat(), facts)
        except OSError:
            continue  # closed meanwhile


def _name_of(number: int, kernel: Kernel) -> str:
    return read_text(kernel.proc / str(number) / "comm") or "its name is hidden"
