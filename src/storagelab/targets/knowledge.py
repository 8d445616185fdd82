"""What an engine's room `known` says: what can be told without its driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from storagelab.model.durability import Durability
from storagelab.model.waits import BenignList


class Known(NamedTuple):
    """`judge` gives the verdict on durability, by the settings that a server shows and its version's text."""

    judge: Callable[[Mapping[str, str], str], Durability]
    benign: BenignList | None = None
    note_on_files: Callable[[int], str] | None = None
    """What to bear in mind where numbers of data files are compared, by the major version."""
