"""Where a block keeps the state of its drives: in a file of this machine, or in memory, to be carried to another one."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class InFile(NamedTuple):
    """A state in a file. The caller removes it."""

    path: Path

    def read(self) -> bytes:
        """What is kept; nothing if there is no file, or none that can be read."""
        try:
            return self.path.read_bytes()
        except OSError:
            return b""

    def write(self, parts: Sequence[bytes]) -> None:
        """Writes beside the file and then replaces it, so that a kill leaves the old or the new state. Raises OSError."""
        beside = self.path.with_suffix(f".{os.getpid()}.part")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.writelines(parts)
        beside.replace(self.path)

    def __str__(self) -> str:
        return str(self.path)


class Carried:
    """A state in memory. It is compressed while it travels: drives of which little was written shrink to a hundredth."""

    def __init__(self, content: bytes = b"") -> None:
        self._parts: Sequence[bytes] = (content,)

    def read(self) -> bytes:
        return b"".join(self._parts)

    def write(self, parts: Sequence[bytes]) -> None:
        self._parts = tuple(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpacked, (zlib.compress(self.read(), level=1),)

    def __str__(self) -> str:
        return "memory"


def _unpacked(packed: bytes) -> Carried:
    return Carried(zlib.decompress(packed))
