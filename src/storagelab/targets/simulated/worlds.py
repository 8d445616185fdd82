"""The two kinds of simulated world: a server with a database on its drives, and drives alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from storagelab import _sim
from storagelab.model.config import Config
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell, PlannedBlock
from storagelab.profiles import Shelf
from storagelab.targets.simulated.measurement import measurement
from storagelab.targets.simulated.raw_io import raw_measurement, raw_scenario
from storagelab.targets.simulated.scenario import scenario


class World(NamedTuple):
    """A kind of world: `scenario` writes a block for the core, with its runs as a list called `runs`; `core` makes them, and
    `measurement` reads one."""

    scenario: Callable[[PlannedBlock, Shelf], dict[str, object]]
    core: type[_sim.Block] | type[_sim.RawBlock]
    measurement: Callable[[Mapping[str, Any], Cell, Mapping[str, object]], Measurement]
    runs: str


_SERVER = World(scenario, _sim.Block, measurement, "runs")
_DRIVES = World(raw_scenario, _sim.RawBlock, raw_measurement, "tests")


def world_of(config: Config) -> World:
    return _DRIVES if config.target.raw_io else _SERVER
