"""Facts of this machine that a plan is printed with: `plan` and `run` find them before anything is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class VolumeFacts(NamedTuple):
    """One volume: where it is, what it is, and the bytes it needs and has. None = could not be told."""

    name: str
    path: str
    device: str
    needed_bytes: int | None
    free_bytes: int | None

    @property
    def lacks_space(self) -> bool:
        return self.needed_bytes is not None and self.free_bytes is not None and self.needed_bytes > self.free_bytes


@dataclass(frozen=True)
class PlanFacts:
    """`server`: the server that would be used, in words. `estimate_s`: time for the runs still to make, None = unknown;
    `estimate_basis`: what it was learned from. `runs_stored`: runs that will be skipped. `durability`: what survives a
    crash, a line for each engine that is compared."""

    server: str
    volumes: tuple[VolumeFacts, ...] = ()
    estimate_s: float | None = None
    estimate_basis: str = ""
    runs_stored: int = 0
    warnings: tuple[str, ...] = ()
    durability: tuple[str, ...] = ()
