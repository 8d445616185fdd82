"""Keeps the state of a block's drives: in a file on this machine, or in memory, to carry it to another machine.

A state travels packed: that of drives with little data shrinks to a hundredth. Code that only passes a state on keeps
it packed, so a file may hold either form.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from storagelab.machine.descriptors import write_whole

_PACKED = b"\x78\x01"
"""The first bytes of zlib's fastest level. No unpacked state begins with them: states begin as JSON."""
_MOST_BYTES = 2**32
"""A larger state counts as damaged: zlib can pack a thousand times as much, and somebody else may have made the
file.
"""


class InFile(NamedTuple):
    """A state in a file. The caller removes it."""

    path: Path

    def read(self) -> bytes:
        """The state that is kept; empty if there is no file, or none that can be read."""
        return _plain(self.kept())

    def kept(self) -> bytes:
        """The state, packed or not. Only a regular file is read: a FIFO may have no writer, and a device may never
        end.
        """
        try:
            with open(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                facts = os.fstat(file.fileno())
                return file.read() if stat.S_ISREG(facts.st_mode) and facts.st_size <= _MOST_BYTES else b""
        except OSError:
            return b""

    def write(self, parts: Sequence[bytes]) -> None:
        """After a kill, the old or the new state is there. Raises OSError."""
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
        """The state; packed if it has travelled."""
        return b"".join(self._parts)

    def write(self, parts: Sequence[bytes]) -> None:
        self._parts = tuple(parts)

    def __getstate__(self) -> dict[str, Sequence[bytes]]:
        """For another process: the state travels packed."""
        kept = self.kept()
        return {"_parts": (kept if not kept or is_packed(kept) else zlib.compress(kept, level=1),)}

    def __str__(self) -> str:
        return "memory"


Kept = InFile | Carried


def is_packed(kept: bytes) -> bool:
    return kept.startswith(_PACKED)


def _plain(kept: bytes) -> bytes:
    """The unpacked state; empty if it is damaged or too large to be a drive state."""
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
