"""What a simulated run was made on: the server and drives of the scenario, and the simulator itself. Never this machine's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import storagelab
from storagelab.model import Config
from storagelab.targets.simulated.scenario import scale_of


def describe(content: Mapping[str, Any], config: Config) -> dict[str, object]:
    """`content` is the block's scenario. Costs are listed where the spec set them."""
    server = content["server"]
    set_here = {name: server["costs"][name]["value"] for name in (config.server.costs if config.server else ())}
    return {
        "storagelab": {"version": storagelab.__version__},
        "server": {
            "engine": "simulated server",
            "cores": server["cores"],
            "memory_bytes": server["memory_bytes"],
            "scale": scale_of(config),
            "switches": dict(server["switches"]),
            "costs": set_here,
        },
        "drives": {name: _drive(drive) for name, drive in content["drives"].items()},
        "volumes": {name: _volume(volume) for name, volume in content["volumes"].items()},
    }


def _volume(volume: Mapping[str, Any]) -> dict[str, object]:
    """Flat: `cache.bytes` is one name."""
    described: dict[str, object] = {"drives": ", ".join(volume["drives"])}
    for name, value in volume.items():
        if isinstance(value, Mapping):
            described.update({f"{name}.{inner}": figure for inner, figure in value.items()})
            described.setdefault(name, True)
        elif name == "lost":
            described.update({"lost": ", ".join(loss["drive"] for loss in value)} if value else {})
        elif name != "drives":
            described[name] = value
    return described


def _drive(drive: Mapping[str, Any]) -> dict[str, object]:
    profile = drive["profile"]
    if profile["kind"] == "disk":
        return {
            "title": profile["title"],
            "profile": profile["name"],
            "usable_bytes": profile["platters"]["usable_bytes"]["value"],
            "sector_bytes": profile["platters"]["sector_bytes"]["value"],
            "order": drive["order"] or profile["electronics"]["order"]["value"],
        }
    return {
        "title": profile["title"],
        "profile": profile["name"],
        "format": drive["format"],
        "usable_bytes": profile["formats"][drive["format"]]["value"],
        "driver": drive["driver"],
        "sector_bytes": drive["sector_bytes"],
        "trim": profile["trim"]["value"] if drive["trim"] is None else drive["trim"],
    }
