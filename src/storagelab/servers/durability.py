"""Facts about engines that need no driver. The most important is which data survive a crash.

Engines can be compared fairly only if the same data survive with each of them. If they don't, a plan has a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TypeVar

from storagelab.model.config import Config, TargetConfig
from storagelab.model.durability import Durability
from storagelab.model.engines import ENGINES
from storagelab.model.plan import Plan
from storagelab.watching.wait_events import Knowledge

KNOWN: dict[str, Knowledge] = {
    name: import_module(f"storagelab.engines.{engine.folder}.meanings").KNOWN
    for name, engine in ENGINES.items() if engine.provenance == "measured"
}  # fmt: skip
BENIGN_LISTS = tuple(engine.benign for engine in KNOWN.values() if engine.benign is not None)
BENIGN_WAITS = frozenset[str]().union(*(one.wait_types for one in BENIGN_LISTS))


def judged(environment: Mapping[str, object]) -> Durability | None:
    """What the server in a run's environment promises after a crash, as its engine judges. Returns None if the
    environment has no settings.
    """
    server = environment.get("server")
    if not isinstance(server, Mapping):
        return None
    engine, settings = KNOWN.get(str(server.get("engine"))), server.get("settings")
    if engine is None or not isinstance(settings, Mapping) or not settings:
        return None
    return engine.judge(
        {str(name): str(value) for name, value in settings.items()}, str(server.get("version_text", ""))
    )


_C = TypeVar("_C")


def of_cell(
    config: Config, asked: Mapping[str, str], connect: Callable[[TargetConfig], AbstractContextManager[_C]],
    deciding: Callable[[_C], tuple[dict[str, str], str]], judge: Callable[[Mapping[str, str], str], Durability],
) -> Durability:  # fmt: skip
    """What the cell's server promises after a crash. This follows from the spec's settings. If the server already runs,
    `deciding` also reads its settings and its version.
    """
    if not config.target.attached:
        return judge(asked, "")
    with connect(config.target) as connection:
        shown, version = deciding(connection)
    return judge({**shown, **asked}, version)


def compared(
    plan: Plan, of_engine: Callable[[Config], Callable[[Config], Durability] | None]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A line for each promise of the compared engines, and a warning if the promises differ. The result is empty for
    one engine.
    """
    if len({cell.config.target.engine for cell in plan.cells}) < 2:
        return (), ()
    # Facts about a running server are read from the server. So each target is judged only once.
    targets = {cell.config.target.model_dump_json(): cell.config for cell in plan.cells}
    items = (judge(config) for config in targets.values() if (judge := of_engine(config)) is not None)
    found = list({item.text: item for item in items}.values())
    lines = tuple(one.text for one in found)
    if len({one.promise for one in found}) == 1:
        return lines, ()
    return lines, ("these engines do not promise the same after a crash, so their times can't be compared fairly",)
