"""A load only for tests: one statement per transaction, on a table of a set width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from storagelab.errors import SpecError
from storagelab.model.loads.base import Data, GeneratedLoad

if TYPE_CHECKING:
    from storagelab.model.config import Config

ROWS = 100


class Trickle(GeneratedLoad):
    """Reads single rows of a small table."""

    module, engines = "trickle", ("postgres",)
    kind: Literal["trickle"] = "trickle"
    width: int = Field(8, ge=1, le=1_000, description="Bytes of a row's text, an even number.")
    protocol: Literal["simple", "prepared"] = Field("simple", description="How queries reach the server.")
    latency_limit_s: float | None = None

    @property
    def rows_made(self) -> int:
        return ROWS

    @property
    def data(self) -> Data:
        return Data(ROWS * self.width, f"of width {self.width}")

    def _own_conflicts(self, config: Config) -> Iterator[SpecError]:
        if self.width % 2:
            yield SpecError(f"{self.width} is odd", key="workload.width", hint=f"Set {self.width + 1}.")
