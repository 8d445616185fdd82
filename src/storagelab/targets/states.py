"""Where a block keeps the state of its drives: in a file of this machine, or in memory, to be carried to another one.

A state travels packed: drives of which little was written shrink to a hundredth. Code that only passes a state on keeps it
packed, so a file may hold either form.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from storagelab.machine.outputs import write_whole

_PACKED = b"\x78\x01"
"""How zlib's fastest level begins, and no state does: states are JSON first."""
_MOST_BYTES = 2**32
"""Larger ones count as damaged: zlib can pack a thousand times as much, and the file may be somebody else's."""


class InFile(NamedTuple):
    """A state in a file. The caller removes it."""

    path: Path

    def read(self) -> bytes:
        """What is kept; nothing if there is no file, or none that can be read."""
        return _plain(self.kept())

    def kept(self) -> bytes:
        """The same, packed or not. Only a regular file is read: a FIFO may have no writer, and a device may never end."""
        try:
            with open(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                facts = os.fstat(file.fileno())
                return file.read() if stat.S_ISREG(facts.st_mode) and facts.st_size <= _MOST_BYTES else b""
        except OSError:
            return b""

    def write(self, parts: Sequence[bytes]) -> None:
        """A kill leaves the old or the new state. Raises OSError."""
        write_whole(self.path, parts, within=self.path.parents[1], synced=False)

    def __str__(self) -> str:
        return str(self.path)


class Carried:
    """A state in memory, packed or not."""

    def __init__(self, kept: bytes = b"") -> None:
        self._parts: Sequence[bytes] = (kept,)

    def read(self) -> bytes:
        return _plain(self.kept())

    def kept(self) -> bytes:
        """The same, packed if it has travelled."""
        return b"".join(self._parts)

    def write(self, parts: Sequence[bytes]) -> None:
        self._parts = tuple(parts)

    def packed(self) -> bytes:
        """As it travels."""
        kept = self.kept()
        return kept if not kept or is_packed(kept) else zlib.compress(kept, level=1)

    def __str__(self) -> str:
        return "memory"


Kept = InFile | Carried


def is_packed(kept: bytes) -> bool:
    return kept.startswith(_PACKED)


def _plain(kept: bytes) -> bytes:
    """Unpacked; nothing if it is damaged, or larger than any drives are."""
    if not is_packed(kept):
        return kept
    unpacking = zlib.decompressobj()
    try:
        plain = unpacking.decompress(kept, _MOST_BYTES)
    except zlib.error:
        return b""
    return plain if unpacking.eof else b""


def drives_lost(defect: str) -> str:
    """The reason for runs after a failure on drives that keep their state."""
    return f"its drives were lost in an earlier run of its block: {defect}"
