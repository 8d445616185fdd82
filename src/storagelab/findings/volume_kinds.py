"""What volumes allow, and what a database reached of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from storagelab.model.values import Frozen


class Reached(Frozen):
    """What a database did on a volume in a second of its load, and what the volume takes by raw I/O. `share` = of the volume,
    reads and writes together; the other figures are those of the operation, and the unit, that used most of it."""

    volume: str
    engine: str
    operation: Literal["read", "write"]
    unit: Literal["bytes", "ios"]
    did_per_s: float
    takes_per_s: float
    share: float


LimitedRate = Literal["read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s"]


@dataclass(frozen=True)
class Bound:
    """A limit of a volume, and the seconds that each run's requests take at it, in the order of repetitions: no run can be
    shorter. Where `each_s` is known they are those of a connection's mean transaction. Runs that verdicts leave out are left
    out here too."""

    volume: str
    rate: LimitedRate
    limit: float
    by_run_s: tuple[float, ...]
